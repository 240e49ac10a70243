// reference/schedules/partition.hpp: which layers each pipeline stage has.
//
// Model   A partition is a list of boundaries: part p has the items [boundaries[p], boundaries[p+1]). It starts at 0, ends at
//         the number of items and never falls, so every item has exactly one owner; is_partition() says so, whoever made it.
//         With several chunks (virtual stages), part c*stages + r is chunk c of rank r.
// Cost    Uniform: O(parts). Optimal: O(items x parts) time, O(items) memory.
// Sources DeepSpeed runtime/utils.py and ColossalAI builder/pipeline.py for what partitions are asked for; their own rules,
//         which differ, are in partition_conventions.hpp. Optimal: the linear partition problem, by dynamic programming.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace plumbline::schedules {

using Boundaries = std::vector<int>;

/// Parts that differ by at most one item, the larger ones first; with fewer items than parts the last ones are empty.
/// Throws InvalidArgument for parts < 1 or items < 0.
[[nodiscard]] Boundaries partition_uniform(int items, int parts);

/// What the first and the last part are to have, each on its own; nothing: as much as the others.
struct FixedEnds {
  std::optional<int> first = {};
  std::optional<int> last = {};
};
/// The same, with ends of given sizes: what is left is split evenly among the other parts. Throws InvalidArgument also for a
/// size below 0, for more items at the ends than there are, and where nobody is there to take the rest; with the
/// arithmetic. Source: Megatron-LM's num_layers_in_first_pipeline_stage and num_layers_in_last_pipeline_stage.
[[nodiscard]] Boundaries partition_uniform(int items, int parts, const FixedEnds& ends);

/// The partition whose heaviest part is as light as can be, and where no part is empty as long as there are as many items as
/// parts; of several, the one whose parts, from the first on, have the most items. Throws InvalidArgument for parts < 1, and
/// for a weight below 0 or not finite, with its position.
[[nodiscard]] Boundaries partition_optimal(std::span<const double> weights, int parts);
/// The weight of the heaviest part. Throws InvalidArgument unless it is a partition of the weights.
[[nodiscard]] double heaviest_part(std::span<const double> weights, const Boundaries& boundaries);

/// Whether every one of `items` has exactly one owner among `parts` parts.
[[nodiscard]] bool is_partition(const Boundaries& boundaries, int items, int parts);

/// Items [begin, end).
struct Interval {
  int begin = 0;
  int end = 0;
  bool operator==(const Interval&) const = default;
};
/// By rank, the intervals of its chunks, of which the first is chunk 0: part c*stages + r is chunk c of rank r. Throws
/// InvalidArgument unless the parts are `stages` times a whole number.
[[nodiscard]] std::vector<std::vector<Interval>> by_rank(const Boundaries& boundaries, int stages);

}  // namespace plumbline::schedules
