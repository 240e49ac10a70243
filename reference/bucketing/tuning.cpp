#include "reference/bucketing/tuning.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>

#include <fmt/format.h>

#include "reference/bucketing/in_order.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

std::vector<int> backwards(std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

// Seconds of a step, of the slowest rank.
double timed_step(comm::Communicator& group, Reducer& reducer, std::span<const int> order) {
  group.barrier();
  const auto begin = std::chrono::steady_clock::now();
  reducer.begin();
  for (const int gradient : order) reducer.ready(gradient);
  (void)reducer.finish();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  reducer.clear();
  group.all_reduce({&seconds, 1, comm::DType::f64}, {&seconds, 1, comm::DType::f64}, comm::ReduceOp::max);
  return seconds;
}

double quantile(std::vector<double> samples, double share) {
  std::ranges::sort(samples);
  return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1) + 0.5)];
}

}  // namespace

std::int64_t chosen_limit(std::span<const BucketTime> times) {
  if (times.empty()) throw InvalidArgument("no size of buckets to choose from");
  for (const BucketTime& time : times)
    if (!(time.low <= time.seconds && time.seconds <= time.high))
      throw InvalidArgument(fmt::format("buckets of {} bytes: {} seconds with quartiles {} and {}", time.limit_bytes,
                                        time.seconds, time.low, time.high));
  const BucketTime& fastest = *std::ranges::min_element(times, {}, &BucketTime::seconds);
  std::int64_t limit = fastest.limit_bytes;
  for (const BucketTime& time : times)
    if (time.seconds <= fastest.high) limit = std::min(limit, time.limit_bytes);
  return limit;
}

std::vector<std::int64_t> usual_limits() {
  constexpr std::int64_t mebi = 1 << 20;
  return {0, mebi, 4 * mebi, 10 * mebi, 25 * mebi, 100 * mebi, kNoLimit};
}

Tuning fastest_limit(comm::Communicator& group, std::span<const Gradient> gradients, std::vector<std::int64_t> limits,
                     int rounds) {
  if (rounds < 1) throw InvalidArgument(fmt::format("{} rounds; there must be 1 or more", rounds));
  for (const std::int64_t limit : limits)
    if (limit < 0) throw InvalidArgument(fmt::format("buckets of {} bytes; 0 or more are possible", limit));
  if (std::ranges::count(limits, 0) == 0) limits.insert(limits.begin(), 0);
  const std::vector<int> order = backwards(gradients.size());
  const auto plan = [&](std::int64_t limit) { return buckets_in_order(gradients, order, std::array{limit}); };
  Reducer reducer({&group}, {gradients.begin(), gradients.end()}, plan(limits.front()), {.average = false});
  std::vector<std::vector<double>> samples(limits.size());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(round)) % limits.size();
      reducer.use(plan(limits[which]));
      (void)timed_step(group, reducer, order);  // ranks compare their plans in the first one
      samples[which].push_back(timed_step(group, reducer, order));
    }
  Tuning tuning;
  for (std::size_t i = 0; i < limits.size(); ++i)
    tuning.times.push_back({.limit_bytes = limits[i],
                            .seconds = quantile(samples[i], 0.5),
                            .low = quantile(samples[i], 0.25),
                            .high = quantile(samples[i], 0.75)});
  tuning.limit_bytes = chosen_limit(tuning.times);
  return tuning;
}

}  // namespace plumbline::bucketing
