// reference/bucketing/exposed.hpp: how much of the communication a backward does not hide, by the latency-bandwidth
// model.
//
// Model   Buckets are reduced one after the other, in the order of the plan, each as soon as all its gradients are
//         there: end_j = max(ready_j, end_(j-1)) + c_j. A ring's all-reduce of b bytes over n ranks takes
//         c = 2 (n-1) alpha + 2 ((n-1)/n) b beta. What ends after the backward is exposed.
// Units   Seconds and bytes.
// Cost    Linear.
// Source  Thakur, Rabenseifner, Gropp (2005) for c.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

struct Link {
  int ranks = 2;
  double latency = 0;    // seconds a message: alpha
  double bandwidth = 0;  // bytes a second: 1 / beta; 0 takes no time for bytes
};

struct PredictedReduction {
  double ready = 0, start = 0, end = 0;
  friend bool operator==(const PredictedReduction&, const PredictedReduction&) = default;
};

struct Exposure {
  std::vector<PredictedReduction> launches;  // of each bucket
  double communication = 0;                  // of all buckets together
  double exposed = 0;                        // after the end of the backward pass
  /// The part that is hidden: 1 - exposed / communication; 1 where nothing is communicated.
  [[nodiscard]] double overlap_ratio() const { return communication > 0 ? 1 - exposed / communication : 1; }
};

/// Throws InvalidArgument for fewer than one rank, or times below 0 or not finite.
[[nodiscard]] double all_reduce_seconds(std::int64_t bytes, const Link& link);

/// When each gradient is ready in a backward of `seconds` that makes bytes at one rate, in the order given (empty: from
/// the last registered to the first). Throws as require_gradients(), and InvalidArgument for another order or time.
[[nodiscard]] std::vector<double> ready_evenly(std::span<const Gradient> gradients, double seconds,
                                               std::span<const int> order = {});

/// `ready` has a time for each gradient of the list that the plan was made of. Throws InvalidArgument for a plan with a
/// gradient that has none, and for times below 0 or not finite.
[[nodiscard]] Exposure exposed_communication(const Plan& plan, std::span<const double> ready, double backward_seconds,
                                             const Link& link);

/// The same in closed form for `buckets` equal buckets of gradients that become ready at one rate.
[[nodiscard]] double exposed_of_equal_buckets(double backward_seconds, double bytes, int buckets, const Link& link);

/// The number of equal buckets that leaves least exposed where communication takes longer than the backward: sqrt(T /
/// (2 (n-1) alpha)), not rounded. Infinite without latency or with one rank.
[[nodiscard]] double best_bucket_count(double backward_seconds, const Link& link);

}  // namespace plumbline::bucketing
