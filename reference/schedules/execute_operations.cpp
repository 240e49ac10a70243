// schedules.execute: a schedule with messages, run over its ranks with stages that multiply.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/comm/local.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::adapter {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;

namespace {

constexpr int kMostExecutingRanks = 16;
constexpr std::size_t kMostExecutedElements = std::size_t{1} << 20;  // of all micro-batches and stages
constexpr double kLongestTimeout = 20;                               // seconds

struct Execution {
  Schedule schedule;
  std::vector<double> weights;              // of each stage
  std::vector<std::vector<double>> inputs;  // of each micro-batch, as long as the messages
  schedules::ExecutorOptions options;
  bool has_gradient_group = false;
};

void read_inputs(const Arguments& arguments, Execution& all) {
  all.inputs = arguments.get<std::vector<std::vector<double>>>("inputs");
  if (all.inputs.empty()) arguments.refuse("inputs is empty; it has a list for each micro-batch");
  const std::size_t given = all.inputs.front().size();
  std::size_t elements = given;
  if (arguments.has("elements"))
    elements =
        static_cast<std::size_t>(arguments.integer_in("elements", 0, static_cast<std::int64_t>(kMostExecutedElements)));
  if (elements * all.inputs.size() * all.weights.size() > kMostExecutedElements)
    arguments.refuse(fmt::format("{} elements x {} micro-batches x {} stages are more than {}", elements,
                                 all.inputs.size(), all.weights.size(), kMostExecutedElements));
  for (std::vector<double>& input : all.inputs) {
    if (input.size() != given || (given == 0 && elements > 0))
      arguments.refuse(
          fmt::format("inputs has a list of {} values; all have equally many, and at least one", input.size()));
    input.resize(elements);
    for (std::size_t i = given; i < elements; ++i) input[i] = input[i % given];
  }
}

Execution execution_in(const Arguments& arguments) {
  Execution all;
  Schedule& schedule = all.schedule;
  schedule.stage_to_rank = arguments.get<std::vector<int>>("stage_to_rank");
  for (const std::string& row : arguments.get<std::vector<std::string>>("ranks"))
    schedule.ranks.push_back(schedules::parse_row(row, static_cast<int>(schedule.ranks.size()) + 1));
  if (schedule.ranks.empty() || schedule.ranks.size() > static_cast<std::size_t>(kMostExecutingRanks))
    arguments.refuse(fmt::format("ranks has {} rows; they are 1 to {}", schedule.ranks.size(), kMostExecutingRanks));
  all.weights = arguments.get<std::vector<double>>("weights");
  schedule.stages = static_cast<int>(all.weights.size());
  read_inputs(arguments, all);
  schedule.micro_batches = static_cast<int>(all.inputs.size());
  for (const auto& row : schedule.ranks)
    for (const Action& action : row)
      if (schedules::is_metadata(action.kind))
        arguments.refuse(fmt::format("ranks has {}; messages here have one shape, which all know", to_string(action)));
      else if (action.kind != ActionKind::idle &&
               (action.stage >= schedule.stages || action.micro_batch >= schedule.micro_batches))
        arguments.refuse(fmt::format("ranks has {}, but there are {} stages and {} micro-batches", to_string(action),
                                     schedule.stages, schedule.micro_batches));
  all.options.most_bytes_a_call = arguments.find<std::int64_t>("most_bytes");
  all.has_gradient_group = arguments.get<bool>("gradient_group", false);
  if (const auto timeout = arguments.find<double>("timeout")) {
    if (!(*timeout > 0 && *timeout <= kLongestTimeout))
      arguments.refuse(fmt::format("timeout is {} s; it is above 0 and at most {}", *timeout, kLongestTimeout));
    all.options.timeout = std::chrono::nanoseconds(std::llround(*timeout * 1e9));
  }
  return all;
}

/// The stages of a rank: each multiplies its input by its weight. The loss is half the sum of the squares of all
/// outputs of the last stage, so that the gradient of an output is the output.
class MultiplyingStages {
 public:
  explicit MultiplyingStages(const Execution& all) : all_(all), sums_(all.weights.size()) {}

  schedules::StageCallbacks callbacks() {
    schedules::StageCallbacks callbacks;
    callbacks.forward = [this](int stage, int micro_batch) {
      peak_ = std::max(peak_, ++live_);
      Values& input = memory(inputs_, stage, micro_batch);
      if (stage == 0) input = all_.inputs[static_cast<std::size_t>(micro_batch)];
      Values& output = memory(outputs_, stage, micro_batch) = times_weight(stage, input);
      if (stage + 1 == all_.schedule.stages) memory(gradients_, stage, micro_batch) = output;
    };
    callbacks.input_gradient = [this](int stage, int micro_batch) {
      memory(results_, stage, micro_batch) = times_weight(stage, memory(gradients_, stage, micro_batch));
    };
    callbacks.weight_gradient = [this](int stage, int micro_batch) {
      --live_;
      const Values &input = memory(inputs_, stage, micro_batch), &gradient = memory(gradients_, stage, micro_batch);
      for (std::size_t i = 0; i < input.size(); ++i) sums_[static_cast<std::size_t>(stage)] += input[i] * gradient[i];
    };
    callbacks.backward = [callbacks](int stage, int micro_batch) {
      callbacks.input_gradient(stage, micro_batch);
      callbacks.weight_gradient(stage, micro_batch);
    };
    callbacks.buffer = [this](const Action& message) { return comm::Buffer::of(memory_of(message)); };
    callbacks.hand_over = [this](const Action& send) {
      const bool up = send.kind == ActionKind::send_forward;
      memory(up ? inputs_ : gradients_, send.stage + (up ? 1 : -1), send.micro_batch) = memory_of(send);
    };
    return callbacks;
  }
  [[nodiscard]] double sum_of(int stage) const { return sums_[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] int peak() const { return peak_; }

 private:
  using Values = std::vector<double>;
  using Memory = std::map<std::pair<int, int>, Values>;

  Values& memory(Memory& of, int stage, int micro_batch) const {
    return of.try_emplace({stage, micro_batch}, all_.inputs.front().size()).first->second;
  }
  [[nodiscard]] Values times_weight(int stage, Values values) const {
    for (double& value : values) value *= all_.weights[static_cast<std::size_t>(stage)];
    return values;
  }
  Values& memory_of(const Action& message) {
    const auto at = [&](Memory& of) -> Values& { return memory(of, message.stage, message.micro_batch); };
    if (message.kind == ActionKind::send_forward) return at(outputs_);
    if (message.kind == ActionKind::recv_forward) return at(inputs_);
    return at(message.kind == ActionKind::send_backward ? results_ : gradients_);
  }

  const Execution& all_;
  Memory inputs_, outputs_, gradients_, results_;
  Values sums_;
  int live_ = 0, peak_ = 0;
};

// Whether an action calls the stage.
bool is_called(const Action& action) {
  return action.kind != ActionKind::idle && !schedules::is_message(action.kind) &&
         !schedules::is_send_wait(action.kind);
}

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// A rank's part, and what it has of each computation.
json executed(const Execution& all, comm::Communicator& world, MultiplyingStages& stages) {
  const auto gradients = all.has_gradient_group ? world.duplicate() : nullptr;
  schedules::ExecutorOptions options = all.options;
  options.gradients = gradients.get();
  json computations = json::array(), call_seconds = json::array(), periods = json::array();
  options.around = [&](const Action& action, const std::function<void()>& compute) {
    const auto begin = std::chrono::steady_clock::now();
    compute();
    if (!is_called(action)) return;
    computations.push_back(
        to_string(Action{.kind = action.kind, .stage = action.stage, .micro_batch = action.micro_batch}));
    call_seconds.push_back(seconds_between(begin, std::chrono::steady_clock::now()));
  };
  const std::vector<schedules::Period> measured = schedules::run_rank(world, all.schedule, stages.callbacks(), options);
  const auto& row = all.schedule.ranks[static_cast<std::size_t>(world.rank())];
  for (std::size_t i = 0; i < row.size(); ++i)
    if (is_called(row[i])) periods.push_back({measured[i].start, measured[i].end});
  world.barrier();  // memory lives until all has arrived
  return {{"computations", std::move(computations)},
          {"periods", std::move(periods)},
          {"call_seconds", std::move(call_seconds)},
          {"peak_activations", stages.peak()}};
}

json execute(const Arguments& arguments) {
  const Execution all = execution_in(arguments);
  arguments.expect_no_others();
  std::vector<json> ranks(all.schedule.ranks.size());
  std::vector<MultiplyingStages> stages(ranks.size(), MultiplyingStages(all));
  comm::run_ranks(static_cast<int>(ranks.size()), [&](comm::Communicator& world) {
    const auto me = static_cast<std::size_t>(world.rank());
    ranks[me] = executed(all, world, stages[me]);
  });
  json gradients = json::array();
  for (int stage = 0; stage < all.schedule.stages; ++stage)
    gradients.push_back(
        stages[static_cast<std::size_t>(all.schedule.stage_to_rank[static_cast<std::size_t>(stage)])].sum_of(stage));
  return {{"weight_gradients", std::move(gradients)}, {"ranks", std::move(ranks)}};
}

}  // namespace

void add_execute_operations(AdapterService& service) {
  service.add(
      {"schedules.execute",
       "executes a schedule with messages over its ranks; each stage multiplies its input by its weight, and the loss "
       "is half the sum of the squares of the last stage's outputs",
       {"plumbline"},
       {{"ranks", "list of text [ranks]", "CSV row of each rank, with sends and receives; 16 ranks at most"},
        {"stage_to_rank", "list of integer [num_stages]", "rank of each stage"},
        {"weights", "list of number [num_stages]", "weight of each stage"},
        {"inputs", "list of list of number [microbatches][values]", "input of the first stage for each micro-batch"},
        {"elements", "integer",
         "elements of each message, for which the values of inputs repeat; times stages and micro-batches at most "
         "2^20; null: the number of inputs",
         kOptional},
        where_named({"most_bytes", "long integer",
                     "bytes of one call, at least 1: longer messages are sent in pieces; null: any number", kOptional}),
        where_named({"gradient_group", "boolean", "gradients are sent on a process group of their own", "false"}),
        where_named(
            {"timeout", "number [s]", "of each wait for a message, at most 20; null: the system's", kOptional})},
       {{"weight_gradients", "list of number [num_stages]", "gradient of each weight, summed over the micro-batches"},
        {"ranks",
         "list of object [ranks]",
         "what each rank did",
         {{"computations", "list of text",
           "cells, other than messages, in the order in which their stages were called"},
          {"periods", "list of list of number [s] [computations][2]",
           "start and end of each as the executor measured them, in row order, from the start of the execution"},
          {"call_seconds", "list of number [s] [computations]", "how long the stage's own call took"},
          {"peak_activations", "integer",
           "most pairs of stage and micro-batch at a time that were forwarded, and whose weight gradient was not "
           "computed yet"}}}},
       R"({"ranks": ["0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"], "stage_to_rank": [0, 1],
           "weights": [2, 3], "inputs": [[1, 2]]})",
       {{"invalid_argument",
         "a row is malformed or names a stage or micro-batch that there is not, stage_to_rank does not place the "
         "stages "
         "on the ranks, lists have other lengths, most_bytes is below 1, or timeout is not above 0 and at most 20"},
        {"state", "a computation needs a message that is not received before it; the message names both"},
        {"failed", "a message does not arrive within the timeout; the message names rank, position, action and peer"}}},
      execute);
}

}  // namespace plumbline::adapter
