// reference/bucketing/tuning.hpp: which size of buckets is the fastest over a communicator, by trying.
//
// Model   A reducer's gradients live in their buckets, which each candidate lays out anew. Rounds go through all candidates,
//         each in another order, so that what disturbs the machine disturbs all alike; of a round the slowest rank counts.
//         A candidate's time is the median of its rounds.
// Cost    Twice as many steps as rounds a candidate, and once the gradients' memory.
// Choice  One bucket a gradient is a candidate always: what is chosen is never slower than it was there. Of candidates whose
//         times the rounds do not tell apart, the one with the smallest buckets, whose reductions begin earliest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/bucketing/plan.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

struct BucketTime {
  std::int64_t limit_bytes = 0;  // 0: each gradient has a bucket
  double seconds = 0;            // of a step, the median of the rounds
  double low = 0, high = 0;      // the quartiles
};

struct Tuning {
  std::int64_t limit_bytes = 0;   // the choice
  std::vector<BucketTime> times;  // of all candidates, as they were given
};

/// 0, 1, 4, 10, 25 and 100 MiB, and all in one.
[[nodiscard]] std::vector<std::int64_t> usual_limits();

/// Collective: all ranks get the same. Throws InvalidArgument for fewer than one round or limits below 0.
[[nodiscard]] Tuning fastest_limit(comm::Communicator& group, std::span<const Gradient> gradients,
                                   std::vector<std::int64_t> limits = usual_limits(), int rounds = 7);

}  // namespace plumbline::bucketing
