#include "reference/bucketing/tuning.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/quantile.hpp"

namespace plumbline::bucketing {
namespace {

std::vector<int> backwards(std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.rbegin(), order.rend(), 0);
  return order;
}

constexpr double kTolerated = 1.1;

// What a device has begun is part of what is timed.
Timing timing_of(const TuningOptions& options) {
  if (options.timing) return options.timing;
  return [place = options.place](comm::Communicator& group, const std::function<void()>& body) {
    return seconds_of_slowest(group, [&] {
      body();
      if (place != nullptr) place->settle();
    });
  };
}

double timed_step(comm::Communicator& group, Reducer& reducer, std::span<const int> order, const Timing& timing) {
  const double seconds = timing(group, [&] {
    reducer.begin();
    for (const int gradient : order) reducer.ready(gradient);
    (void)reducer.finish();
  });
  reducer.clear();
  return seconds;
}

void reduce_each(comm::Communicator& group, const Reducer& reducer, std::span<const int> order) {
  for (const int gradient : order) {
    const comm::Buffer values = reducer.view(gradient);
    group.all_reduce(values, values, comm::ReduceOp::sum);
  }
}

std::string text_of(std::int64_t limit) {
  if (limit == kNoLimit) return "one bucket";
  return limit == 0 ? "a bucket each" : fmt::format("buckets of {} bytes", limit);
}

void require_right(const TuningOptions& options) {
  if (options.rounds < 1) throw InvalidArgument(fmt::format("{} rounds; there must be 1 or more", options.rounds));
  if (!(options.seconds >= 0))
    throw InvalidArgument(fmt::format("{} seconds; there must be 0 or more", options.seconds));
  for (const std::int64_t limit : options.limits)
    if (limit < 0) throw InvalidArgument(fmt::format("buckets of {} bytes; 0 or more are possible", limit));
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
    if (time.seconds <= std::min(fastest.high, kTolerated * fastest.seconds)) limit = std::min(limit, time.limit_bytes);
  return limit;
}

std::vector<std::int64_t> usual_limits() {
  constexpr std::int64_t mebi = 1 << 20;
  return {0, mebi, 4 * mebi, 10 * mebi, 25 * mebi, 100 * mebi, kNoLimit};
}

BucketTime time_of(std::int64_t limit_bytes, std::vector<double> samples) {
  if (samples.empty()) throw InvalidArgument(fmt::format("buckets of {} bytes: no times", limit_bytes));
  return {.limit_bytes = limit_bytes,
          .seconds = quantile(samples, 0.5),
          .low = quantile(samples, 0.25),
          .high = quantile(samples, 0.75),
          .samples = std::move(samples)};
}

Tuning fastest_limit(comm::Communicator& group, std::span<const Gradient> gradients, TuningOptions options) {
  require_right(options);
  std::vector<std::int64_t>& limits = options.limits;
  if (std::ranges::find(limits, 0) == limits.end()) limits.insert(limits.begin(), 0);
  const std::vector<int> order = backwards(gradients.size());
  const auto plan = [&](std::int64_t limit) { return buckets_in_order(gradients, order, std::array{limit}); };
  Reducer reducer({&group}, {gradients.begin(), gradients.end()}, plan(limits.front()),
                  {.names = options.names, .place = options.place, .average = false});
  const Timing timing = timing_of(options);
  // The last candidate is no size of buckets.
  std::vector<std::vector<double>> samples(limits.size() + (options.per_tensor ? 1 : 0));
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < options.rounds; ++round) {
    if (round >= kLeastRounds && is_over(group, begin, options.seconds)) break;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(round)) % samples.size();
      const bool is_first = options.before && round == 0;
      if (which == limits.size()) {
        if (is_first) options.before(reducer, "per tensor", [&] { reduce_each(group, reducer, order); });
        samples[which].push_back(timing(group, [&] { reduce_each(group, reducer, order); }));
        continue;
      }
      reducer.use(plan(limits[which]));
      const auto step = [&] { return timed_step(group, reducer, order, timing); };
      if (is_first) options.before(reducer, text_of(limits[which]), step);
      (void)step();  // ranks compare their plans in the first one
      samples[which].push_back(step());
    }
  }
  Tuning tuning;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    tuning.times.push_back(time_of(limits[i], samples[i]));
    tuning.times.back().launches = static_cast<std::int64_t>(plan(limits[i]).buckets.size());
  }
  if (options.per_tensor) {
    tuning.per_tensor = time_of(0, samples.back());
    tuning.per_tensor.launches = static_cast<std::int64_t>(gradients.size());
  }
  tuning.limit_bytes = chosen_limit(tuning.times);
  return tuning;
}

}  // namespace plumbline::bucketing
