// benchmarks/fusion_report.hpp: whether fusing pays, and from which size on.
//
// Model   Two questions. Of whole steps, which were timed for several sizes of buckets: which size is the best, and how
//         sure is that; from which size on are buckets faster than a bucket a gradient? And of single gradients: up to
//         which size is it faster to copy several of them to one buffer, reduce that and copy it back, than to reduce
//         each where it lies? And a guideline, which no count of calls shows: reductions beside a backward are not
//         slower than after it.
// Choice  By medians of rounds. Intervals are percentiles 2.5 and 97.5 of the answers that 2000 resamples of the rounds
//         give, the same in every run.
// Source  Efron, Tibshirani, *An Introduction to the Bootstrap*, 1993. Träff, Gropp, Thakur, *Self-Consistent MPI
//         Performance Guidelines*, 2010 (which need no baseline).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "benchmarks/fusion_times.hpp"
#include "reference/bucketing/tuning.hpp"

namespace plumbline::cli {

using bench::FusionTime;
using bench::OverlapTimes;

struct BestLimit {
  std::int64_t limit_bytes = 0;
  std::int64_t low = 0, high = 0;  // of the interval of 95 %
};
/// Throws InvalidArgument where there is none, and where candidates have other numbers of rounds.
[[nodiscard]] BestLimit best_limit(std::span<const bucketing::BucketTime> times);

/// The smallest size from which on, up to the best one, all candidates are faster than a bucket a gradient in more than
/// half of the rounds; nothing where there is none. Throws as best_limit(), and without a candidate of 0.
[[nodiscard]] std::optional<std::int64_t> pays_from(std::span<const bucketing::BucketTime> times);

struct Crossover {
  std::optional<std::int64_t> bytes;      // nothing: it pays at none
  std::optional<std::int64_t> low, high;  // of the interval of 95 %
};
/// The largest size up to which, at all sizes, fusing takes less time than reducing separately, by medians. Throws
/// InvalidArgument where there are no sizes, or rounds in unequal numbers.
[[nodiscard]] Crossover pays_up_to(std::span<const FusionTime> times);

/// Overlapping breaks the guideline where it takes a tenth longer, the least effect that counts, and chance hardly does
/// that.
struct Overlap {
  double hidden = 0;  // of what could be, the shorter of backward and reductions: the median of the rounds
  std::size_t rounds = 0;
  std::size_t slower = 0;  // rounds in which overlapping took a tenth longer than one after the other, or more
  double chance = 1;  // of being that much above, if steps of both kinds, these less a tenth, were the same (U test)
  [[nodiscard]] bool keeps_guideline() const { return chance > 0.01; }
};
/// Throws InvalidArgument for no rounds, unequal numbers of them, and times that are not above 0.
[[nodiscard]] Overlap overlap_of(const OverlapTimes& times);

}  // namespace plumbline::cli
