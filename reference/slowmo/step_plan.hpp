// reference/slowmo/step_plan.hpp: what happens in which step, and who keeps which part of the slow momentum buffers.
//
// Model   Steps count from 0; something that happens every f steps happens in step f - 1, 2 f - 1, …
//         plumbline: a slow step averages over all ranks itself, and then nothing else averages or gossips in that
//         step; but SGP without sgp_average_params and memory_efficient gossips, and applies slow momentum to each
//         node's estimate (SlowMo without the exact average).
//         fairscale: only memory-efficient slow steps average, over all ranks; LocalSGD and SGP skip those steps. The
//         average of sgp_average_params is not skipped. Without memory_efficient the slow step takes the parameters as
//         they are.
// Shards  K shards of L = ceil(E / K) of the E elements, in the order of the optimizer's groups: shard r has
//         [r L, min((r + 1) L, E)). The last ones may be short, or empty.
#pragma once

#include <cstdint>

#include "reference/slowmo/options.hpp"

namespace plumbline::slowmo {

struct StepPlan {
  bool slow = false;            // slow momentum is applied
  bool local_sgd = false;       // LocalSGD is due
  bool average = false;         // parameters are averaged over the nodes
  bool skip_averaging = false;  // the slow step's own average stands for what was due
  bool gossip = false;          // and
  bool slow_average = false;    // the slow step averages over all ranks
  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

/// Whether something that happens every `frequency` steps happens in this one.
[[nodiscard]] constexpr bool is_due(std::int64_t step, int frequency) { return (step + 1) % frequency == 0; }
[[nodiscard]] StepPlan plan_of(const Setting& setting, std::int64_t step);

/// Elements [begin, end) of the slow momentum buffers. begin may lie after end: then the shard is empty.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] std::int64_t size() const { return end > begin ? end - begin : 0; }
  friend bool operator==(const Range&, const Range&) = default;
};
/// Shard `index` of `shards`. Throws OutOfRange for a shard that does not exist.
[[nodiscard]] Range shard_range(std::int64_t elements, int shards, int index);

}  // namespace plumbline::slowmo
