// reference/schedules/partition_conventions.hpp: the partitions of ColossalAI and DeepSpeed, where they differ from ours.
//
// Model   Whoever compares layer placements, or loads another system's checkpoint, needs that system's answer and not the
//         best one. Each function gives the recorded answers of its system, corners included.
// Quirks  ColossalAI: the remainder goes to the last parts, a part at a time; balanced takes a weight of 0 for 1, and falls
//         back to uniform when there are no more items than parts. DeepSpeed from 0.7 on minimises the heaviest minus the
//         lightest part, which is not the smallest heaviest part; of equal choices the last split wins. DeepSpeed 0.6 leaves
//         all of the remainder to the last part, and its bisection (to 1e-3) may leave parts empty.
// Sources ColossalAI builder/pipeline.py at #94; DeepSpeed runtime/utils.py 0.19.8 and 0.6.3.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/schedules/partition.hpp"

namespace plumbline::schedules {

struct ColossalaiPartition {
  std::vector<std::vector<Interval>> ranks;  // by rank, an interval a chunk
  bool warned = false;                       // a stage is left without layers ("no requests")
  bool operator==(const ColossalaiPartition&) const = default;
};
/// As the source, also for numbers below 0. Throws InvalidArgument where the source divides by 0, and for items that
/// the chunks do not divide.
[[nodiscard]] ColossalaiPartition colossalai_uniform(int items, int stages, int chunks);
/// Throws also for a weight below 0, for more items than there are places where stages or chunks are below 0, and
/// OutOfRange for weights that sum up to more than 2^63 - 1.
[[nodiscard]] ColossalaiPartition colossalai_balanced(std::span<const std::int64_t> weights, int stages, int chunks);

/// As the source: fewer than no items give that number throughout, fewer than no parts no boundaries. Throws
/// InvalidArgument for items that nobody takes (parts = 0), and for more items than parts where both are below 1.
[[nodiscard]] Boundaries deepspeed_uniform(int items, int parts);
/// O(items^2 x parts). Without weights or parts, as the source: the number of items alone. Throws InvalidArgument for
/// parts < 0, for sums of weights that are not finite, and for items^2 x parts above 2^33.
[[nodiscard]] Boundaries deepspeed_balanced(std::span<const double> weights, int parts);
/// The same, but throws InvalidArgument for fewer than no parts unless there are fewer items still.
[[nodiscard]] Boundaries deepspeed06_uniform(int items, int parts);
/// As the source, no boundaries for fewer than no parts. Throws InvalidArgument for items that nobody takes (parts =
/// 0), for fewer than no parts without items, for sums of weights that are not finite, and where the bisection ends at a
/// bottleneck that leaves weight without a place (weights below 0). Where neighbouring numbers of the weights' size lie
/// farther apart than 1e-3 the source may never end; the bisection ends when no bound moves any more.
[[nodiscard]] Boundaries deepspeed06_balanced(std::span<const double> weights, int parts);

}  // namespace plumbline::schedules
