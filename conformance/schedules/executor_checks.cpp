// Schedules that run: stages that compute with whole numbers have the sums of one device, and nobody waits for ever.
#include <algorithm>
#include <chrono>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::conformance {

using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Context;

namespace {

using Word = std::uint64_t;  // sums that wrap have no order
constexpr std::size_t kWords = 16;
using Values = std::vector<Word>;

// Every place, stage and micro-batch counts differently.
Values input_of(int micro_batch) {
  Values values(kWords);
  for (std::size_t i = 0; i < kWords; ++i) values[i] = (i + 1) * 1'000'003 + static_cast<Word>(micro_batch) * 77'777;
  return values;
}
Values scaled(const Values& values, int stage, Word added) {
  Values result(values);
  for (Word& value : result) value = value * (2 * static_cast<Word>(stage) + 3) + added;
  return result;
}
Values forward_of(int stage, const Values& input) { return scaled(input, stage, static_cast<Word>(stage) + 1); }
Values loss_gradient_of(const Values& output) { return scaled(output, 0, 1); }
Word product(const Values& input, const Values& gradient) {
  Word sum = 0;
  for (std::size_t i = 0; i < kWords; ++i) sum += (i + 1) * input[i] * gradient[i];
  return sum;
}

// The weight gradient of each stage, on one device.
Values trained_alone(int stages, int micro_batches) {
  Values sums(static_cast<std::size_t>(stages));
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    std::vector<Values> inputs{input_of(micro_batch)};
    for (int stage = 0; stage < stages; ++stage) inputs.push_back(forward_of(stage, inputs.back()));
    Values gradient = loss_gradient_of(inputs.back());
    for (int stage = stages; stage-- > 0; gradient = scaled(gradient, stage, 0))
      sums[static_cast<std::size_t>(stage)] += product(inputs[static_cast<std::size_t>(stage)], gradient);
  }
  return sums;
}

// The stages of a rank. Memory that is not filled yet, or is given back, has a value of its own.
class Model {
 public:
  explicit Model(const Schedule& schedule) : schedule_(schedule), sums_(static_cast<std::size_t>(schedule.stages)) {}

  schedules::StageCallbacks callbacks() {
    schedules::StageCallbacks callbacks;
    callbacks.forward = [this](int stage, int micro_batch) {
      peak_ = std::max(peak_, ++live_);
      Values& input = memory(inputs_, stage, micro_batch);
      if (stage == 0) input = input_of(micro_batch);
      Values& output = memory(outputs_, stage, micro_batch) = forward_of(stage, input);
      if (stage + 1 == schedule_.stages) memory(gradients_, stage, micro_batch) = loss_gradient_of(output);
    };
    callbacks.input_gradient = [this](int stage, int micro_batch) {
      memory(results_, stage, micro_batch) = scaled(memory(gradients_, stage, micro_batch), stage, 0);
    };
    callbacks.weight_gradient = [this](int stage, int micro_batch) {
      --live_;
      sums_[static_cast<std::size_t>(stage)] +=
          product(memory(inputs_, stage, micro_batch), memory(gradients_, stage, micro_batch));
    };
    callbacks.backward = [callbacks](int stage, int micro_batch) {
      callbacks.input_gradient(stage, micro_batch);
      callbacks.weight_gradient(stage, micro_batch);
    };
    callbacks.buffer = [this](const Action& message) {
      Values& values = memory_of(message);
      return comm::Buffer{values.data(), static_cast<std::int64_t>(values.size()), comm::DType::i64};
    };
    callbacks.release = [this](const Action& message) {
      if (is_send(message.kind)) std::ranges::fill(memory_of(message), 0xbad);
    };
    callbacks.hand_over = [this](const Action& send) {
      const bool up = send.kind == ActionKind::send_forward;
      const int to = send.stage + (up ? 1 : -1);
      EXPECT_TRUE(to >= 0 && to < schedule_.stages) << "SCHED-050: " << to_string(send) << " goes to no stage";
      memory(up ? inputs_ : gradients_, to, send.micro_batch) = memory_of(send);
    };
    return callbacks;
  }
  [[nodiscard]] Word sum_of(int stage) const { return sums_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] int peak() const { return peak_; }

 private:
  using Memory = std::map<std::pair<int, int>, Values>;
  static Values& memory(Memory& of, int stage, int micro_batch) {
    return of.try_emplace({stage, micro_batch}, Values(kWords, 0xdead)).first->second;
  }
  Values& memory_of(const Action& message) {
    const auto at = [&](Memory& of) -> Values& { return memory(of, message.stage, message.micro_batch); };
    if (message.kind == ActionKind::send_forward) return at(outputs_);
    if (message.kind == ActionKind::recv_forward) return at(inputs_);
    return at(message.kind == ActionKind::send_backward ? results_ : gradients_);
  }

  const Schedule& schedule_;
  Memory inputs_, outputs_, gradients_, results_;
  Values sums_;
  int live_ = 0, peak_ = 0;
};

Schedule schedule_of_case(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  const schedules::ScheduleKind schedule_kind = schedules::schedule_kind_of(parameters.text("schedule"));
  const bool one_chunk =
      schedule_kind != schedules::ScheduleKind::interleaved && schedule_kind != schedules::ScheduleKind::zbv;
  return schedules::generate(schedule_kind,
                             {.ranks = context.size(),
                              .micro_batches = micro_batches_named(parameters.text("micro_batches"), context.size()),
                              .stages_per_rank = one_chunk ? 1 : 2});
}

void run_and_judge(Context& context, const std::function<void(const Schedule&, const Model&)>& judge) {
  const Schedule schedule = schedules::lower(schedule_of_case(context));
  Model model(schedule);
  (void)schedules::run_rank(context.world(), schedule, model.callbacks());
  judge(schedule, model);
}

void sums_of_one_device(Context& context) {
  run_and_judge(context, [&](const Schedule& schedule, const Model& model) {
    const Values expected = trained_alone(schedule.stages, schedule.micro_batches);
    for (int stage = 0; stage < schedule.stages; ++stage)
      if (schedule.stage_to_rank[static_cast<std::size_t>(stage)] == context.rank()) {
        EXPECT_EQ(model.sum_of(stage), expected[static_cast<std::size_t>(stage)]) << "gradient of stage " << stage;
      }
  });
}
void comes_to_its_end(Context& context) {
  run_and_judge(context, [](const Schedule&, const Model&) {});
}
void keeps_no_more(Context& context) {
  run_and_judge(context, [&](const Schedule& schedule, const Model& model) {
    EXPECT_EQ(model.peak(), peaks_of(schedule)[static_cast<std::size_t>(context.rank())]) << "activations at once";
  });
}

// Two stages on each of p ranks, two micro-batches, forwards alone. The ranks after the first take the second
// micro-batch when they are through with the first one in both of their stages. Until then rank 0's send of it is not
// over; and the first one, which rank 0 has to compute for that, comes beside that send.
Schedule one_through_before_the_other(int ranks, bool together) {
  Schedule schedule{.stages = 2 * ranks, .micro_batches = 2, .stage_to_rank = {}, .ranks = {}};
  for (int stage = 0; stage < 2 * ranks; ++stage) schedule.stage_to_rank.push_back(stage % ranks);
  schedule.ranks.push_back(schedules::parse_row(fmt::format(
      fmt::runtime(together ? "0F0,0SEND_F0,0F1,(0SEND_F1;{0}RECV_F0)P2P,{0}F0,{0}SEND_F0,{0}RECV_F1,{0}F1,{0}SEND_F1"
                            : "0F0,0SEND_F0,0F1,0SEND_F1,{0}RECV_F0,{0}F0,{0}SEND_F0,{0}RECV_F1,{0}F1,{0}SEND_F1"),
      ranks)));
  for (int rank = 1; rank < ranks; ++rank) {
    std::string row;
    for (const int micro_batch : {0, 1})
      for (const int stage : {rank, ranks + rank}) {
        row += fmt::format("{0}RECV_F{1},{0}F{1},", stage, micro_batch);
        if (stage + 1 < 2 * ranks) row += fmt::format("{}SEND_F{},", stage, micro_batch);
      }
    row.pop_back();
    schedule.ranks.push_back(schedules::parse_row(row));
  }
  return schedule;
}

void waits_for_its_input_alone(Context& context) {
  const Schedule schedule =
      one_through_before_the_other(context.size(), context.parameters().text("posted") == "together");
  Model model(schedule);
  (void)schedules::run_rank(context.world(), schedule, model.callbacks());
  EXPECT_EQ(model.peak(), 4) << "computations";
}

// ---- devices that compute nothing ----

constexpr double kEmulatedUnit = 0.0002;  // seconds

// Of which no two stages are alike.
schedules::SimulationOptions emulated_options(const Schedule& schedule, const std::string& given) {
  schedules::SimulationOptions options;
  const auto all = static_cast<std::size_t>(given == "each" ? schedule.stages : 1);
  options.stages.assign(all, {.forward = 1, .input_gradient = 2, .weight_gradient = 3});
  options.message_bytes.assign(given == "each" ? all - 1 : 1, 24);
  for (std::size_t i = 0; i < all; ++i) options.stages[i].forward += static_cast<double>(i);
  for (std::size_t i = 0; i < options.message_bytes.size(); ++i) options.message_bytes[i] += 8 * static_cast<double>(i);
  if (given == "small") options.message_bytes = {5};  // no room for the moment at which they are sent
  if (given == "slow")
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      options.rank_slowdown.push_back(1 + static_cast<double>(rank));
  return options;
}

// A rank's computations take their time, which waits may be added to; never less.
void emulated_devices(Context& context) {
  const Schedule schedule = schedules::lower(schedule_of_case(context));
  const auto options = emulated_options(schedule, context.parameters().text("given"));
  const auto rank = static_cast<std::size_t>(context.rank());
  double least = 0;
  for (const Action& action : schedule.ranks[rank])
    least += options.stages[options.stages.size() == 1 ? 0 : static_cast<std::size_t>(action.stage)].of(action.kind);
  if (!options.rank_slowdown.empty()) least *= options.rank_slowdown[rank];
  schedules::EmulatedDevice device(schedule, context.rank(), options, kEmulatedUnit);
  const schedules::StageCallbacks callbacks = device.callbacks();
  const auto begin = std::chrono::steady_clock::now();
  (void)schedules::run_rank(context.world(), schedule, callbacks);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(took, least * kEmulatedUnit) << "SCHED-121: seconds of all computations";
  EXPECT_EQ(device.peak_activations(), peaks_of(schedule)[rank]) << "SCHED-121: activations at once";
  for (const ActionKind kind : {ActionKind::send_forward, ActionKind::recv_backward}) {
    const Action message{.kind = kind, .stage = 0, .micro_batch = 0};
    const comm::Buffer memory = callbacks.buffer(message);
    EXPECT_EQ(static_cast<double>(memory.bytes()), options.message_bytes.front()) << "SCHED-121: bytes of a message";
    callbacks.release(message);
  }
  const Action last{.kind = ActionKind::send_backward, .stage = schedule.stages - 1, .micro_batch = 0};
  EXPECT_EQ(static_cast<double>(callbacks.buffer(last).bytes()), options.message_bytes.back())
      << "SCHED-121: bytes of a message";
}

void emulated_devices_refused(Context& context) {
  const Schedule schedule = schedules::lower(
      schedules::generate(schedules::ScheduleKind::gpipe, {.ranks = 2, .micro_batches = 2, .stages_per_rank = 1}));
  const std::string& fault = context.parameters().text("fault");
  schedules::SimulationOptions options;
  double seconds = 0;
  if (fault == "seconds") seconds = -1;
  if (fault == "seconds_no_number") seconds = std::numeric_limits<double>::quiet_NaN();
  if (fault == "stages") options.stages.resize(3);
  if (fault == "straggling") options.rank_slowdown = {1};
  if (fault == "bytes") options.message_bytes = {-1};
  const std::string said =
      refusal<InvalidArgument>([&] { const schedules::EmulatedDevice device(schedule, 1, options, seconds); });
  EXPECT_EQ(said == kNotRefused, fault == "nothing") << "SCHED-121: " << said;
  EXPECT_EQ(said.find("another error"), std::string::npos) << "SCHED-121: " << said;
}

}  // namespace

void add_executor_checks(suite::Suite& suite) {
  const suite::Axis schedules{"schedule", {"gpipe", "1f1b", "interleaved", "zb-h2", "zbv"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> micro_batches,
                       void (*body)(Context&)) {
    const bool is_end = std::string(name) == "comes_to_its_end";
    suite.add({.id = std::string("schedules.executor.") + name,
               .verifies = {requirement},
               .axes = {schedules,
                        {"micro_batches", std::move(micro_batches)},
                        suite::worlds(is_end ? std::vector{2, 3, 4, 6} : std::vector{2, 3, 4})},
               .deadlock_prone = is_end,
               .body = body});
  };
  add("sums_of_one_device", "SCHED-050@793c", {"1", "p", "2p"}, sums_of_one_device);
  add("comes_to_its_end", "SCHED-051@c08c", {"1", "2p"}, comes_to_its_end);
  add("keeps_no_more", "SCHED-052@5c4a", {"2p"}, keeps_no_more);
  suite.add({.id = "schedules.executor.waits_for_its_input_alone",
             .verifies = {"SCHED-112@eb70"},
             .axes = {{"posted", {"together", "apart"}}, suite::worlds({2, 3})},
             .deadlock_prone = true,
             .body = waits_for_its_input_alone});
  suite.add({.id = "schedules.executor.emulated_devices",
             .verifies = {"SCHED-121@9a17"},
             .axes = {{"schedule", {"1f1b", "zb-h2", "zbv"}},
                      {"given", {"all", "each", "small", "slow"}},
                      {"micro_batches", {"2p"}},
                      suite::worlds({2, 3})},
             .body = emulated_devices});
  suite.add({.id = "schedules.executor.emulated_devices_refused",
             .verifies = {"SCHED-121@9a17"},
             .axes = {{"fault", {"nothing", "seconds", "seconds_no_number", "stages", "straggling", "bytes"}},
                      suite::worlds({1})},
             .body = emulated_devices_refused});
}

}  // namespace plumbline::conformance
