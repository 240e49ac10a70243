// Optimizers with 16-bit parameters on the ranks of a live group: who skips, what is left alone, by what is clipped.
#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/scaler/oracles/injection.hpp"
#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/claimed_type.hpp"
#include "conformance/support/element.hpp"
#include "conformance/support/recording.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/scaler/fp16_optimizer.hpp"

namespace plumbline::conformance {

using comm::DType;
using scaler::Deciding;
using scaler::Fp16Optimizer;
using scaler::Fp16Options;
using scaler::StepOutcome;
using suite::Context;

namespace {

// tensor x pipeline x data ranks, tensor fastest.
struct Place {
  int tensor = 1, pipeline = 1, data = 1;
  int rank = 0;
  [[nodiscard]] int column() const { return rank % tensor; }
  [[nodiscard]] int stage() const { return rank / tensor % pipeline; }
  [[nodiscard]] int replica() const { return rank / (tensor * pipeline); }
  [[nodiscard]] Place of(int other) const { return {tensor, pipeline, data, other}; }
  [[nodiscard]] int world() const { return tensor * pipeline * data; }
};

// "2x3x1".
Place place_of(Context& context) {
  const std::string& grid = context.parameters().text("grid");
  Place place{.tensor = grid[0] - '0', .pipeline = grid[2] - '0', .data = grid[4] - '0'};
  place.rank = context.rank();
  return place;
}

// The groups of a rank, each watched.
class Groups {
 public:
  Groups(comm::Communicator& world, const Place& place) {
    const scaler::ModelGroups lists = scaler::model_groups(place.tensor, place.pipeline, place.data);
    view.tensor = mine(world, lists.tensor);
    view.pipeline = mine(world, lists.pipeline);
    view.model = mine(world, lists.model);
    view.data = mine(world, lists.data);
  }
  scaler::ScalerGroups view;
  // Collectives of all groups, "operation count dtype".
  [[nodiscard]] std::vector<std::string> calls() const {
    std::vector<std::string> all;
    for (const auto& group : made_)
      for (const RecordedCall& call : group->calls)
        all.push_back(fmt::format("{} {} {} in {}", comm::name_of(call.operation), call.elements,
                                  comm::name_of(call.dtype), group->size()));
    return all;
  }

 private:
  comm::Communicator* mine(comm::Communicator& world, const scaler::RankLists& lists) {
    for (const std::vector<int>& ranks : lists)
      if (std::ranges::find(ranks, world.rank()) != ranks.end())
        return made_.emplace_back(std::make_unique<RecordingCommunicator>(world.create_group(ranks))).get();
    return nullptr;
  }
  std::vector<std::unique_ptr<RecordingCommunicator>> made_;
};

// Memory of one parameter or gradient.
struct Memory {
  DType dtype = DType::f16;
  std::vector<float> wide;
  std::vector<std::uint16_t> narrow;

  Memory(DType type, const std::vector<double>& values) : dtype(type) {
    for (const double value : values) {
      if (dtype == DType::f32)
        wide.push_back(static_cast<float>(value));
      else
        narrow.push_back(static_cast<std::uint16_t>(nearest_bits(dtype, value)));
    }
  }
  [[nodiscard]] comm::Buffer buffer() {
    void* const data = dtype == DType::f32 ? static_cast<void*>(wide.data()) : static_cast<void*>(narrow.data());
    return {data, static_cast<std::int64_t>(dtype == DType::f32 ? wide.size() : narrow.size()), dtype};
  }
  friend bool operator==(const Memory&, const Memory&) = default;
};

// What a rank holds: its part of a matrix, what every tensor rank has, what first and last stage have both, an expert.
enum class Part { cut, replicated, tied, expert };
constexpr std::array kParts{Part::cut, Part::replicated, Part::tied, Part::expert};

// Numbers that f16 has exactly, different for every owner, step and element; some are 0.
double number(const Place& place, Part part, int step, int element) {
  const int column = part == Part::cut || part == Part::expert ? place.column() : 0;
  const int stage = part == Part::tied ? 0 : place.stage();
  const int mixed = 7 * column + 11 * stage + 5 * step + 3 * element + 13 * static_cast<int>(part);
  return (mixed % 17 - 8) / 8.0;
}

int length_of(const Place& place, Part part) {
  if (part == Part::cut) return 4 + place.stage();
  return part == Part::replicated ? 3 : 2;
}

std::vector<double> numbers(const Place& place, Part part, int step) {
  std::vector<double> list;
  for (int i = 0; i < length_of(place, part); ++i) list.push_back(number(place, part, step, i));
  return list;
}

struct Training {
  DType dtype = DType::f16;
  bool last_stage_is_empty = false;
  double first_scale = 64;
  std::int64_t hysteresis = 1;
  Fp16Options options{};
  scaler::SgdOptions sgd{.lr = 0.25, .momentum = 0.5};
};

// One rank's parameters and its optimizer.
class Trainer {
 public:
  Trainer(Context& context, const Training& training)
      : place(place_of(context)), groups(context.world(), place), training_(training) {
    for (const Part part : kParts) {
      if (!has(part)) continue;
      parts.push_back(part);
      parameters.emplace_back(training.dtype, numbers(place, part, 100));
    }
    std::vector<scaler::ModelParameter> model;
    for (std::size_t i = 0; i < parts.size(); ++i)
      model.push_back({.name = parts[i] == Part::expert ? "expert" : "weight",
                       .values = parameters[i].buffer(),
                       .replicated = parts[i] == Part::replicated || parts[i] == Part::tied,
                       .tied_copy = parts[i] == Part::tied && place.stage() > 0});
    Fp16Options options = training.options;
    options.scale = scaler::HysteresisScale{
        .rule = {.initial_scale = training.first_scale, .growth_interval = 3, .hysteresis = training.hysteresis}};
    optimizer = std::make_unique<Fp16Optimizer>(model, scaler::sgd(training.sgd), options, groups.view);
  }

  // Gradients of a step, scaled. `bad` replaces an element of this rank's.
  [[nodiscard]] std::vector<Memory> gradients(int step, bool is_bad = false, double bad = HUGE_VAL,
                                              std::size_t of = 0) {
    std::vector<Memory> list;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<double> values = numbers(place, parts[i], step);
      for (double& value : values) value *= optimizer->scale();
      if (is_bad && i == of) values.back() = bad;
      list.emplace_back(training_.dtype, values);
    }
    return list;
  }
  StepOutcome step(std::vector<Memory> gradients) {
    std::vector<comm::Buffer> buffers;
    for (Memory& gradient : gradients) buffers.push_back(gradient.buffer());
    return optimizer->step(buffers);
  }
  [[nodiscard]] std::vector<std::vector<float>> master_weights() const { return optimizer->state().master_weights; }

  Place place;
  Groups groups;
  std::vector<Part> parts;
  std::vector<Memory> parameters;
  std::unique_ptr<Fp16Optimizer> optimizer;

 private:
  [[nodiscard]] bool has(Part part) const {
    const bool is_last = place.stage() + 1 == place.pipeline;
    if (training_.last_stage_is_empty && is_last) return false;
    return part != Part::tied || place.stage() == 0 || is_last;
  }
  Training training_;
};

// ---- who skips ----

std::vector<int> found_on(const std::string& found, const Place& place, int trial) {
  const int world = place.world();
  if (found == "nobody") return {};
  if (found == "everybody") {
    std::vector<int> all(static_cast<std::size_t>(world));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  if (found == "two") return {trial % world, (trial + 1) % world};
  return {trial % world};
}

bool meets(const Place& place, const std::vector<int>& bad, Deciding deciding) {
  return std::ranges::any_of(bad, [&](int rank) {
    const Place other = place.of(rank);
    if (deciding == Deciding::local) return other.rank == place.rank;
    if (deciding == Deciding::tensor) return other.replica() == place.replica() && other.stage() == place.stage();
    return deciding == Deciding::model_and_data || other.replica() == place.replica();
  });
}

void who_skips(Context& context, Deciding deciding, const char* requirement) {
  const std::string found = context.parameters().text("found");
  Trainer trainer(context, {.options = {.deciding = deciding}});
  scaler::HysteresisScale expected = std::get<scaler::HysteresisScale>(trainer.optimizer->loss_scale());
  for (int trial = 0; trial < trainer.place.world() + 2; ++trial) {
    const std::vector<int> bad = found_on(found, trainer.place, trial);
    const bool is_bad = std::ranges::count(bad, trainer.place.rank) > 0;
    const bool skips = meets(trainer.place, bad, deciding);
    const StepOutcome outcome = trainer.step(trainer.gradients(trial, is_bad));
    ASSERT_EQ(outcome.stepped, !skips) << requirement << ": trial " << trial << ", infinity on "
                                       << testing::PrintToString(bad);
    update(expected, skips);
    ASSERT_EQ(trainer.optimizer->scale(), static_cast<double>(expected.scale)) << requirement << ": trial " << trial;
  }
}

void optimizer_skips_by_model_group(Context& context) { who_skips(context, Deciding::model, "SCALER-060"); }
void two_reductions_decide_alike(Context& context) { who_skips(context, Deciding::tensor_then_pipeline, "SCALER-061"); }
void replicas_skip_together(Context& context) { who_skips(context, Deciding::model_and_data, "SCALER-062"); }
void smaller_groups_decide(Context& context) {
  const bool is_tensor = context.parameters().text("deciding") == "tensor";
  who_skips(context, is_tensor ? Deciding::tensor : Deciding::local, "SCALER-042");
}

// Seven elements cut into equal parts, the last ones shorter or empty, against an optimizer that has them all.
void shards_are_one(Context& context) {
  constexpr int length = 7;
  const bool is_found = context.parameters().text("found") == "one";
  const double p = context.parameters().text("p") == "inf" ? HUGE_VAL : 2;
  const int ranks = context.world().size();
  const int part = (length + ranks - 1) / ranks;
  const int begin = std::min(length, part * context.rank()), end = std::min(length, begin + part);
  const auto memory = [&](int step, double scale, int first, int last) {
    std::vector<double> values;
    for (int i = first; i < last; ++i)
      values.push_back(is_found && step == 1 && i == 1 ? HUGE_VAL : number({}, Part::cut, step, i) * scale);
    return Memory(DType::f16, values);
  };
  Memory all = memory(100, 1, 0, length), own = memory(100, 1, begin, end);
  const Fp16Options options{.scale = scaler::HysteresisScale{.rule = {.initial_scale = 64, .hysteresis = 1}},
                            .clip_norm = 0.5,
                            .norm_type = p,
                            .count_zeros = true};
  const scaler::SgdOptions rule{.lr = 0.25, .momentum = 0.5};
  Fp16Optimizer whole({{.name = "weight", .values = all.buffer()}}, scaler::sgd(rule), options);
  Fp16Optimizer shard({{.name = "weight", .values = own.buffer()}}, scaler::sgd(rule), options,
                      {.model = &context.world()});
  for (int step = 0; step < 4; ++step) {
    Memory all_gradients = memory(step, whole.scale(), 0, length),
           own_gradients = memory(step, shard.scale(), begin, end);
    const std::array of_whole{all_gradients.buffer()}, of_shard{own_gradients.buffer()};
    const StepOutcome expected = whole.step(of_whole), got = shard.step(of_shard);
    ASSERT_EQ(got.stepped, expected.stepped) << "SCALER-112: step " << step;
    ASSERT_EQ(shard.scale(), whole.scale()) << "SCALER-112: step " << step;
    ASSERT_EQ(got.zeros, expected.zeros) << "SCALER-112: step " << step;
    ASSERT_EQ(got.norm.has_value(), expected.norm.has_value()) << "SCALER-112: step " << step;
    if (got.norm) ASSERT_NEAR(*got.norm, *expected.norm, 1e-6 * *expected.norm) << "SCALER-112: step " << step;
    for (int i = begin; i < end; ++i)
      ASSERT_NEAR(shard.master(0)[static_cast<std::size_t>(i - begin)], whole.master(0)[static_cast<std::size_t>(i)],
                  1e-6)
          << "SCALER-112: step " << step << ", element " << i;
  }
}

// A step that found something is followed by one that did not: nothing of the flag is left.
void flags_begin_anew(Context& context) {
  const bool is_found = context.parameters().text("found") == "one";
  Trainer trainer(context, {});
  (void)trainer.step(trainer.gradients(0, is_found && trainer.place.rank == 0));
  const StepOutcome next = trainer.step(trainer.gradients(1));
  EXPECT_TRUE(next.stepped) << "SCALER-063: a clean step is skipped";
  EXPECT_FALSE(next.found_inf) << "SCALER-063";
}

void empty_ranks_take_part(Context& context) {
  const bool has_empty = context.parameters().text("empty") == "last_stage";
  for (const double p : {2.0, HUGE_VAL}) {
    Trainer trainer(context, {.last_stage_is_empty = has_empty,
                              .options = {.clip_norm = 1e6, .norm_type = p, .count_zeros = true}});
    for (int step = 0; step < 3; ++step) {
      // Rank 0 has parameters in every layout but that of one stage, where nobody has.
      const bool is_bad = step == 1 && trainer.place.rank == 0 && !trainer.parts.empty();
      const StepOutcome outcome = trainer.step(trainer.gradients(step, is_bad));
      const bool skips = step == 1 && trainer.place.replica() == 0 && !(has_empty && trainer.place.pipeline == 1);
      ASSERT_EQ(outcome.stepped, !skips) << "SCALER-064: step " << step;
      ASSERT_TRUE(skips || (outcome.norm && std::isfinite(*outcome.norm))) << "SCALER-064: the norm of step " << step;
    }
    EXPECT_EQ(trainer.optimizer->scale(),
              trainer.place.replica() == 0 && !(has_empty && trainer.place.pipeline == 1) ? 32 : 128)
        << "SCALER-064";
  }
}

// Replica 0 has an overflow, the others not: each does the same calls in all steps, of as many elements in as large a
// group.
void same_calls_of(Context& context, double p, bool clips, bool counts) {
  Trainer trainer(context, {.options = {.clip_norm = clips ? 1.0 : 0.0, .norm_type = p, .count_zeros = counts}});
  std::vector<std::vector<std::string>> of_step;
  for (int step = 0; step < 3; ++step) {
    const std::size_t before = trainer.groups.calls().size();
    const bool is_bad = step == 1 && trainer.place.rank == 0;
    (void)trainer.step(trainer.gradients(step, is_bad));
    std::vector<std::string> calls = trainer.groups.calls();
    calls.erase(calls.begin(), calls.begin() + static_cast<std::ptrdiff_t>(before));
    of_step.push_back(std::move(calls));
  }
  EXPECT_EQ(of_step[0], of_step[1]) << "SCALER-065: collectives of a clean step, and of one with an overflow";
  EXPECT_EQ(of_step[0], of_step[2]) << "SCALER-065";
  const int size = trainer.place.tensor * trainer.place.pipeline;
  const std::size_t of_norm = !clips && !counts ? 0 : clips && counts && std::isinf(p) ? 2 : 1;
  EXPECT_EQ(of_step[0].size(), size == 1 ? 0 : 1 + of_norm)
      << "SCALER-065: one of the decision; clips: " << clips << ", counts zeros: " << counts;
  EXPECT_THAT(of_step[0], testing::Each(testing::AllOf(testing::StartsWith("all_reduce"),
                                                       testing::EndsWith(fmt::format("in {}", size)))))
      << "SCALER-065";
}

void same_calls_in_every_step(Context& context) {
  const std::string& norm = context.parameters().text("norm");
  if (norm == "none") {
    same_calls_of(context, 2, false, false);
    same_calls_of(context, 2, false, true);
  } else {
    same_calls_of(context, norm == "inf" ? HUGE_VAL : 2, true, false);
    same_calls_of(context, norm == "inf" ? HUGE_VAL : 2, true, true);
  }
}

// ---- what is found ----

void found_in_every_place(Context& context) {
  const std::string value = context.parameters().text("value");
  const double bad = value == "nan" ? std::nan("") : value == "-inf" ? -HUGE_VAL : HUGE_VAL;
  Trainer trainer(context, {.dtype = context.parameters().dtype()});
  for (std::size_t of = 0; of < kParts.size(); ++of) {
    const bool is_bad = value != "nothing" && trainer.place.rank == trainer.place.world() - 1;
    const std::size_t last = of % trainer.parts.size();
    const StepOutcome outcome = trainer.step(trainer.gradients(static_cast<int>(of), is_bad, bad, last));
    const bool skips = value != "nothing" && trainer.place.replica() == trainer.place.data - 1;
    ASSERT_EQ(outcome.found_inf, skips) << "SCALER-066: " << value << " in parameter " << last;
  }
}

// Each replica's gradients are finite; their sum is not.
void sum_over_replicas_overflows(Context& context) {
  require_claimed(context, DType::f16);
  const bool is_large = context.parameters().text("values") == "large";
  const Place place = place_of(context);
  const Groups groups(context.world(), place);
  Fp16Options options;
  options.reduce = [&](std::span<const comm::Buffer> gradients) {
    for (const comm::Buffer& gradient : gradients)
      groups.view.data->all_reduce(gradient, gradient, comm::ReduceOp::sum, {});
  };
  options.scale = scaler::HysteresisScale{.rule = {.initial_scale = 64, .hysteresis = 1}};
  Memory parameter(DType::f16, {1, 2, 3});
  Fp16Optimizer optimizer({{.name = "weight", .values = parameter.buffer()}}, scaler::sgd({}), options, groups.view);
  Memory gradient(DType::f16, {1, is_large ? 40000.0 : 4.0, 2});
  const std::array gradients{gradient.buffer()};
  const bool skips = is_large && place.data > 1;
  EXPECT_EQ(optimizer.step(gradients).found_inf, skips) << "SCALER-067";
  EXPECT_EQ(optimizer.scale(), skips ? 32 : 64) << "SCALER-067";
}

// ---- injections ----

// The masters of the rank that holds the same part in replica 0.
std::vector<float> of_first_replica(comm::Communicator* replicas, const std::vector<float>& master_weights) {
  std::vector<float> first = master_weights;
  if (replicas->size() > 1) replicas->broadcast({first.data(), static_cast<std::int64_t>(first.size()), DType::f32}, 0);
  return first;
}

void injected_anywhere(Context& context) {
  const std::string name = context.parameters().text("moment");
  const auto moment = name == "before_reduction"  ? scaler::Moment::before_reduction
                      : name == "in_tied_module"  ? scaler::Moment::in_tied_module
                      : name == "after_reduction" ? scaler::Moment::after_reduction
                                                  : scaler::Moment::never_reduced;
  const bool is_reduced = moment == scaler::Moment::before_reduction || moment == scaler::Moment::in_tied_module;
  const Place place = place_of(context);
  if (place.pipeline * place.data > 1) require_claimed(context, DType::f16);
  const scaler::InjectionGroups groups(context.world(), {place.tensor, place.pipeline, place.data});
  for (int rank = 0; rank < place.world(); ++rank) {
    const int stage = place.of(rank).stage();
    if (moment == scaler::Moment::in_tied_module && stage > 0 && stage + 1 < place.pipeline) continue;
    const scaler::InjectedRank did =
        inject_on_rank(groups, {.moment = moment,
                                .deciding = is_reduced ? Deciding::model : Deciding::model_and_data,
                                .rank = rank,
                                .value = context.parameters().text("value") == "nan" ? std::nan("") : HUGE_VAL});
    ASSERT_TRUE(did.skipped) << "SCALER-082: it is on rank " << rank;
    ASSERT_FALSE(did.touched) << "SCALER-082: masters, with it on rank " << rank;
    ASSERT_EQ(did.scale, scaler::kInjectionScale / 2) << "SCALER-082: it is on rank " << rank;
    ASSERT_FALSE(did.skipped_next) << "SCALER-082: the clean step, after it was on rank " << rank;
    ASSERT_THAT(did.master_weights, testing::Each(testing::Truly([](float value) { return std::isfinite(value); })))
        << "SCALER-082: it was on rank " << rank;
    ASSERT_EQ(did.master_weights, of_first_replica(groups.of_optimizer.data, did.master_weights))
        << "SCALER-082: replicas, after it was on rank " << rank;
  }
}

// ---- what a step does ----

// Steps `bad` overflow in one run, and are not there in the other.
void skipped_steps_leave_no_trace(Context& context) {
  const bool has_bad = context.parameters().text("overflows") != "none";
  Trainer with(context, {.hysteresis = 9, .options = {.clip_norm = 1}});
  Trainer without(context, {.hysteresis = 9, .options = {.clip_norm = 1}});
  for (int step = 0; step < 6; ++step) {
    if (has_bad && (step == 1 || step == 4)) {
      const auto master_weights = with.master_weights();
      const auto parameters = with.parameters;
      const auto buffers = with.optimizer->state().inner;
      (void)with.step(with.gradients(step, true));
      EXPECT_EQ(with.master_weights(), master_weights) << "SCALER-068: masters after a skipped step";
      EXPECT_EQ(with.parameters, parameters) << "SCALER-068: parameters";
      EXPECT_EQ(with.optimizer->state().inner, buffers) << "SCALER-068: what the optimizer keeps";
    }
    (void)with.step(with.gradients(step));
    (void)without.step(without.gradients(step));
  }
  EXPECT_EQ(with.master_weights(), without.master_weights()) << "SCALER-068: runs with and without the skipped steps";
  EXPECT_EQ(with.parameters, without.parameters) << "SCALER-068";
}

// Scales that are powers of two cancel: masters are those of plain f32 training, and parameters are them, rounded.
// Counting zeros changes nothing.
void masters_are_stepped_in_f32(Context& context) {
  const DType dtype = context.parameters().dtype();
  constexpr int steps = 5;
  const float momentum = std::stof(context.parameters().text("momentum"));
  Training training{.dtype = dtype,
                    .options = {.count_zeros = dtype != DType::f16},
                    .sgd = {.lr = 0.001, .momentum = static_cast<double>(momentum)}};
  Trainer trainer(context, training);
  std::vector<std::vector<float>> values, buffers;
  for (const Part part : trainer.parts) {
    const auto first = numbers(trainer.place, part, 100);
    values.emplace_back(first.begin(), first.end());
    buffers.emplace_back(first.size());
  }
  for (int step = 0; step < steps; ++step) {
    EXPECT_FALSE(trainer.step(trainer.gradients(step)).norm) << "SCALER-069: nothing is clipped";
    for (std::size_t i = 0; i < values.size(); ++i)
      for (std::size_t k = 0; k < values[i].size(); ++k) {
        const auto gradient = static_cast<float>(numbers(trainer.place, trainer.parts[i], step)[k]);
        const float kept = buffers[i][k] * momentum;
        buffers[i][k] = step == 0 ? gradient : kept + gradient;
        const float change = -0.001F * buffers[i][k];
        values[i][k] += change;
      }
  }
  EXPECT_EQ(trainer.master_weights(), values) << "SCALER-069";
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(trainer.parameters[i], Memory(dtype, std::vector<double>(values[i].begin(), values[i].end())))
        << "SCALER-069: parameter " << i << " is not its master, rounded";
}

// ---- norms ----

// Over the whole model, as a single process has it: every owner once.
double norm_of_model(const Place& place, int step, double p) {
  double sum = 0;
  const auto add = [&](const Place& owner, Part part) {
    for (const double value : numbers(owner, part, step))
      sum = std::isinf(p) ? std::max(sum, std::abs(value)) : sum + std::pow(std::abs(value), p);
  };
  for (int stage = 0; stage < place.pipeline; ++stage) {
    for (int column = 0; column < place.tensor; ++column) {
      add(place.of(stage * place.tensor + column), Part::cut);
      add(place.of(stage * place.tensor + column), Part::expert);
    }
    add(place.of(stage * place.tensor), Part::replicated);
  }
  add(place.of(0), Part::tied);
  return std::isinf(p) ? sum : std::pow(sum, 1 / p);
}

void optimizer_norm_is_the_model_groups(Context& context) {
  const std::string name = context.parameters().text("p");
  const double p = name == "inf" ? HUGE_VAL : std::stod(name);
  Trainer trainer(context, {.options = {.clip_norm = 1e6, .norm_type = p}});
  for (int step = 0; step < 3; ++step) {
    const double expected = norm_of_model(trainer.place, step, p);
    const StepOutcome outcome = trainer.step(trainer.gradients(step));
    ASSERT_TRUE(outcome.norm) << "SCALER-070";
    EXPECT_NEAR(*outcome.norm, expected, 1e-6 * expected) << "SCALER-070: step " << step;
  }
}

void clipped_as_they_are_now(Context& context) {
  const double most = std::stod(context.parameters().text("max_norm"));
  Trainer trainer(context, {.options = {.clip_norm = most}});
  for (int step = 0; step < 3; ++step) {
    const double by = std::min(1.0, most / (norm_of_model(trainer.place, step, 2) + 1e-6));
    (void)trainer.step(trainer.gradients(step));
    for (std::size_t i = 0; i < trainer.parts.size(); ++i) {
      const auto values = numbers(trainer.place, trainer.parts[i], step);
      const auto got = trainer.optimizer->master_gradient(i);
      for (std::size_t k = 0; k < values.size(); ++k)
        ASSERT_NEAR(static_cast<double>(got[k]), values[k] * by, 1e-6 * std::abs(values[k] * by))
            << "SCALER-071: step " << step << ", gradient " << i << ", element " << k;
    }
  }
}

void zeros_are_counted_once(Context& context) {
  Trainer trainer(context, {.options = {.count_zeros = true}});
  const Place& place = trainer.place;
  for (int step = 0; step < 13; ++step) {
    std::int64_t expected = 0;
    const auto add = [&](const Place& owner, Part part) {
      const auto values = numbers(owner, part, step);
      expected += std::ranges::count(values, 0.0);
    };
    for (int stage = 0; stage < place.pipeline; ++stage) {
      for (int column = 0; column < place.tensor; ++column) {
        add(place.of(stage * place.tensor + column), Part::cut);
        add(place.of(stage * place.tensor + column), Part::expert);
      }
      add(place.of(stage * place.tensor), Part::replicated);
    }
    add(place.of(0), Part::tied);
    const StepOutcome outcome = trainer.step(trainer.gradients(step));
    EXPECT_EQ(outcome.zeros, expected) << "SCALER-072: step " << step;
  }
}

// ---- states ----

void resumes_bit_for_bit(Context& context) {
  const bool resumes = context.parameters().text("resumed") == "yes";
  Trainer straight(context, {.options = {.clip_norm = 1}});
  constexpr int saved = 4;  // in the middle of an interval
  for (int step = 0; step < saved; ++step) (void)straight.step(straight.gradients(step));
  Trainer other(context, {.first_scale = 8, .options = {.clip_norm = 1}});
  Trainer& resumed = resumes ? other : straight;
  const auto state = straight.optimizer->state();
  if (resumes) other.optimizer->load(state);
  Trainer expected(context, {.options = {.clip_norm = 1}});
  for (int step = 0; step < saved + 3; ++step) {
    (void)expected.step(expected.gradients(step));
    if (step >= saved) (void)resumed.step(resumed.gradients(step));
  }
  EXPECT_EQ(resumed.master_weights(), expected.master_weights()) << "SCALER-073";
  EXPECT_EQ(resumed.parameters, expected.parameters) << "SCALER-073";
  EXPECT_EQ(resumed.optimizer->loss_scale(), expected.optimizer->loss_scale()) << "SCALER-073";
  scaler::Fp16State wrong = state;
  wrong.scale = scaler::TorchScale();
  EXPECT_THROW(resumed.optimizer->load(wrong), InvalidArgument) << "SCALER-073: a state of another kind";
}

bool fits(const suite::Parameters& parameters) {
  if (parameters.has("moment") && parameters.text("moment") == "in_tied_module" && parameters.text("grid")[2] == '1')
    return false;
  const std::string& grid = parameters.text("grid");
  return (grid[0] - '0') * (grid[2] - '0') * (grid[4] - '0') == parameters.world();
}

}  // namespace

void add_optimizer_checks(suite::Suite& suite) {
  const suite::Axis grids{"grid", {"1x1x1", "2x1x1", "1x2x1", "1x1x2", "1x3x1", "3x1x1", "2x2x1", "2x1x2", "2x3x1"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<std::string> list = {}) {
    axes.push_back(list.empty() ? grids : suite::Axis{"grid", std::move(list)});
    axes.push_back(suite::worlds({1, 2, 3, 4, 6}));
    suite.add({.id = std::string("scaler.optimizer.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .applies = fits,
               .needs = {comm::Capability::groups},
               .body = body});
  };
  const suite::Axis found{"found", {"nobody", "one", "two", "everybody"}};
  add("model_group_skips", "SCALER-060@db49", {found}, optimizer_skips_by_model_group);
  add("two_reductions_decide_alike", "SCALER-061@908f", {found}, two_reductions_decide_alike);
  add("replicas_skip_together", "SCALER-062@16b2", {found}, replicas_skip_together);
  add("smaller_groups_decide", "SCALER-042@75a0", {{"deciding", {"local", "tensor"}}, {"found", {"one", "two"}}},
      smaller_groups_decide, {"1x1x1", "2x1x1", "1x2x1", "2x2x1", "2x3x1"});
  add("shards_are_one", "SCALER-112@6e2a", {{"found", {"nobody", "one"}}, {"p", {"2", "inf"}}}, shards_are_one,
      {"1x1x1", "1x1x2", "1x1x3", "2x1x2", "2x3x1"});
  add("flags_begin_anew", "SCALER-063@1a1b", {{"found", {"nobody", "one"}}}, flags_begin_anew,
      {"1x1x1", "2x1x1", "1x3x1"});
  add("empty_ranks_take_part", "SCALER-064@5807", {{"empty", {"nobody", "last_stage"}}}, empty_ranks_take_part,
      {"1x2x1", "2x2x1", "1x3x1"});
  add("same_calls_in_every_step", "SCALER-065@d816", {{"norm", {"none", "2", "inf"}}}, same_calls_in_every_step);
  add("found_in_every_place", "SCALER-066@0e2e",
      {{"value", {"nothing", "inf", "-inf", "nan"}}, {"dtype", {"f16", "bf16", "f32"}}}, found_in_every_place,
      {"1x1x1", "2x1x1", "1x3x1"});
  add("sum_over_replicas_overflows", "SCALER-067@80e2", {{"values", {"usual", "large"}}}, sum_over_replicas_overflows,
      {"1x1x1", "1x1x2", "2x1x2", "1x1x3"});
  add("skipped_steps_leave_no_trace", "SCALER-068@ddb0", {{"overflows", {"none", "two"}}}, skipped_steps_leave_no_trace,
      {"1x1x1", "2x1x1", "1x3x1", "2x2x1"});
  add("masters_are_stepped_in_f32", "SCALER-069@2589",
      {{"dtype", {"f16", "bf16", "f32"}}, {"momentum", {"0", "0.5", "1"}}}, masters_are_stepped_in_f32,
      {"1x1x1", "1x3x1"});
  add("norm_is_the_models", "SCALER-070@cf1f", {{"p", {"1", "2", "3", "inf"}}}, optimizer_norm_is_the_model_groups);
  add("clipped_as_they_are_now", "SCALER-071@6e94", {{"max_norm", {"0.5", "1e6"}}}, clipped_as_they_are_now);
  add("zeros_are_counted_once", "SCALER-072@577f", {}, zeros_are_counted_once);
  add("resumes_bit_for_bit", "SCALER-073@0e06", {{"resumed", {"no", "yes"}}}, resumes_bit_for_bit,
      {"1x1x1", "2x1x1", "1x3x1"});
  add("injected_anywhere", "SCALER-082@2cda",
      {{"moment", {"before_reduction", "in_tied_module", "after_reduction", "never_reduced"}},
       {"value", {"inf", "nan"}}},
      injected_anywhere, {"1x1x1", "2x1x1", "1x2x1", "1x1x2", "1x3x1", "2x2x1", "2x1x2", "1x2x2", "1x3x2"});
}

}  // namespace plumbline::conformance
