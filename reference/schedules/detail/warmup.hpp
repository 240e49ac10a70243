// reference/schedules/detail/warmup.hpp: in which order a rank runs its forwards, and how many come before its first
// backward.
//
// Model   v stages (chunks) on each of p ranks. A group of micro-batches goes through all chunks before the next one;
//         the last group may be smaller. The warm-up of a rank is the forwards that no backward follows at once.
// Source  Megatron-core 0.19.2, pipeline_parallel/schedules.py: get_schedule_table, get_pp_rank_microbatches.
#pragma once

#include <vector>

#include "reference/schedules/detail/generate_rows.hpp"

namespace plumbline::schedules {

struct WarmupOptions {
  int group = 1;              // micro-batches of a group
  bool forward_only = false;  // no backwards: all forwards are warm-up
  /// A forward and a backward run at once, and each hides the exchange of the other's tokens. So that neither waits for
  /// the other, interleaved ranks warm up by one forward more.
  bool overlaps_expert_exchange = false;
};

/// The forwards of a rank in their order. The number of ranks does not matter. Throws InvalidArgument for sizes below
/// 1, and for what generate() rejects as too large.
[[nodiscard]] std::vector<detail::Virtual> schedule_table(const Shape& shape, int group);
/// The number of forwards in each rank's warm-up. Throws as schedule_table().
[[nodiscard]] std::vector<int> warmup_counts(const Shape& shape, const WarmupOptions& options);

}  // namespace plumbline::schedules
