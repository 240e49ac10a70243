// reference/slowmo/slowmo_steps.hpp: what decides the numbers of SlowMo, as functions.
//
// Model   A value made without arguments has the right ones; SlowMo with another one in place of one of them is wrong in one
//         known way, which is how the checks are tested.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <vector>

#include "reference/gossip/push_sum_steps.hpp"
#include "reference/gossip/tensor_lists.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/model_averager.hpp"
#include "reference/slowmo/slow_step.hpp"
#include "reference/slowmo/step_plan.hpp"

namespace plumbline::slowmo {

struct Checkpoint;

/// What values are divided by when they are averaged.
enum class Mean : std::uint8_t { gradients_of_node, parameters_of_nodes, parameters_of_all };
/// The ranks of a node, the nodes, all ranks.
[[nodiscard]] int divisor_of(const Setting& setting, Mean what);
/// Of each half and its master, to -= from before communication, to += from after it.
void keep_errors_of(const device::Place& place, std::span<const gossip::TensorPair> halves);
void add_errors_of(const device::Place& place, std::span<const gossip::TensorPair> halves);

struct SlowMoSteps {
  std::function<Setting(const Options& options, int rank, int world)> settle = slowmo::settle;
  std::function<StepPlan(const Setting& setting, std::int64_t step)> plan = plan_of;
  /// A variable of the environment, or nullptr, and what is said to the one that blocks waits.
  std::function<const char*(const char* name)> environment = [](const char* name) { return std::getenv(name); };
  std::function<void(const char* value)> look_at_blocking_wait = refuse_blocking_wait;
  /// The groups that are used, given those that the caller made.
  std::function<Groups(const Groups& given)> groups = [](const Groups& given) { return given; };
  /// Whether what is on a device is communicated by way of the host, as it is asked for.
  std::function<bool(bool asked)> stages = [](bool asked) { return asked; };
  /// Whether a phase is timed and told.
  std::function<bool(Phase phase)> tells = [](Phase) { return true; };
  std::function<int(const Setting& setting, Mean what)> divisor = divisor_of;
  std::function<Range(std::int64_t elements, int shards, int index)> shard = shard_range;
  std::function<void(const device::Place& place, const SlowRule& rule, std::span<const SlowTensor> tensors)> slow =
      slow_steps;
  /// Whether buffers are broadcast, as the option has it; and so many steps have been made.
  std::function<bool(bool option, std::int64_t step)> broadcasts_buffers = [](bool option, std::int64_t) {
    return option;
  };
  /// Bytes with which a bucket of buffers is full.
  std::function<std::int64_t()> bucket_bytes = [] { return kBroadcastBucketBytes; };
  /// Whether mixing is lazy, where it can be, given how many steps gossip lags behind: what the optimizer adds meanwhile must
  /// not be multiplied by a share.
  std::function<bool(bool can_be, int lag)> lazy = [](bool can_be, int lag) { return can_be && lag == 0; };
  /// Whether a step gossips, in training or in evaluation.
  std::function<bool(bool training)> gossips = [](bool training) { return training; };
  std::function<void(const device::Place& place, std::span<const gossip::TensorPair> halves)> error_before =
      keep_errors_of;
  std::function<void(const device::Place& place, std::span<const gossip::TensorPair> halves)> error_after =
      add_errors_of;
  /// The weight that parameters are divided by for the forward, and multiplied by after the backward.
  std::function<double(double weight)> debias = [](double weight) { return weight; };
  std::function<double(double weight)> bias = [](double weight) { return weight; };
  /// The weight after an exact average, given the weight before.
  std::function<double(const Setting& setting, double weight)> weight_after_average =
      [](const Setting& setting, double weight) { return setting.convention == Convention::fairscale ? weight : 1; };
  /// The mean of a node's gradients, in place.
  std::function<void(comm::Communicator& node, std::span<const comm::Buffer> gradients, int divisor,
                     Convention convention, Workspace& workspace)>
      reduce_gradients = all_reduce_mean;
  /// What an average is of, given the parameters and the gradients that the backward before it made.
  std::function<std::vector<comm::Buffer>(std::span<const comm::Buffer> parameters,
                                          std::span<const comm::Buffer> gradients)>
      averaged = [](std::span<const comm::Buffer> parameters, std::span<const comm::Buffer>) {
        return std::vector<comm::Buffer>(parameters.begin(), parameters.end());
      };
  /// Whether the master's parameters are handed to the ranks of its node.
  std::function<bool()> shares_in_node = [] { return true; };
  /// The number of steps after one more, given the optimizer's groups.
  std::function<std::int64_t(std::int64_t steps, std::size_t groups)> next_step = [](std::int64_t steps, std::size_t) {
    return steps + 1;
  };
  /// Whether rank 0's parameters are broadcast at the start.
  std::function<bool(const Setting& setting)> shares_start = [](const Setting& setting) {
    return setting.convention == Convention::plumbline;
  };
  /// Whether rank 0's buffers are broadcast at the start, as the option has it.
  std::function<bool(bool option)> shares_buffers = [](bool option) { return option; };
  /// Whether the optimizer's tensors, and its learning rates, are looked at before anything is communicated.
  std::function<bool(const Setting& setting)> looks_at_groups_first = [](const Setting& setting) {
    return setting.convention == Convention::plumbline;
  };
  std::function<bool(const Setting& setting)> looks_at_rates_first = [](const Setting& setting) {
    return setting.convention == Convention::plumbline;
  };
  /// Whether gossip that overlaps is collected behind a backward, given how many steps ago it was handed over.
  std::function<bool(int behind, int lag)> collects = [](int behind, int lag) { return behind >= lag; };
  /// Whether what is under way is added before anything that needs all of it.
  std::function<bool()> drains = [] { return true; };
  /// Whether slow buffers begin with the parameters before the first step.
  std::function<bool(const Setting& setting)> begins_early = [](const Setting& setting) {
    return setting.convention == Convention::plumbline;
  };
  /// Whether halves are set to their masters at the end of a step that changed them.
  std::function<bool()> copies_back = [] { return true; };
  /// What of a checkpoint is kept.
  std::function<void(Checkpoint& checkpoint)> saved = [](Checkpoint&) {};
  /// Of a model averager: the level that averages.
  std::function<int(const AveragingSchedule& schedule, std::int64_t call)> level = level_due;
  gossip::PushSumSteps push_sum{};
};

}  // namespace plumbline::slowmo
