#include "benchmarks/fusion_report.hpp"

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "benchmarks/mann_whitney.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/quantile.hpp"

namespace plumbline::cli {
namespace {

using bucketing::BucketTime;
using DrawnRounds = std::span<const std::size_t>;

double median_of_rounds(const std::vector<double>& samples, DrawnRounds rounds) {
  std::vector<double> drawn;
  for (const std::size_t round : rounds) drawn.push_back(samples[round]);
  return median(std::move(drawn));
}

std::vector<std::size_t> one_by_one(std::size_t rounds) {
  std::vector<std::size_t> list(rounds);
  for (std::size_t i = 0; i < rounds; ++i) list[i] = i;
  return list;
}

// The answers of 2000 resamples, those at 2.5 and 97.5 percent of their order.
template <class Answer>
auto interval_of_resamples(std::size_t rounds, const Answer& answer) {
  constexpr std::size_t resamples = 2000;
  std::mt19937_64 random(1);
  std::vector<std::size_t> drawn(rounds);
  std::vector<decltype(answer(DrawnRounds(drawn)))> answers;
  for (std::size_t i = 0; i < resamples; ++i) {
    for (std::size_t& round : drawn) round = random() % rounds;
    answers.push_back(answer(DrawnRounds(drawn)));
  }
  std::ranges::sort(answers);
  return std::pair{answers[resamples / 40], answers[resamples - 1 - resamples / 40]};
}

std::size_t rounds_of_limits(std::span<const BucketTime> times) {
  if (times.empty()) throw InvalidArgument("no size of buckets to choose from");
  const std::size_t rounds = times.front().samples.size();
  for (const BucketTime& time : times)
    if (rounds == 0 || time.samples.size() != rounds)
      throw InvalidArgument(fmt::format("buckets of {} bytes: {} rounds, where the first size has {}", time.limit_bytes,
                                        time.samples.size(), rounds));
  return rounds;
}

std::int64_t fastest_of(std::span<const BucketTime> times, DrawnRounds rounds) {
  const auto key = [&](const BucketTime& time) {
    return std::pair(median_of_rounds(time.samples, rounds), time.limit_bytes);
  };
  return std::ranges::min_element(times, {}, key)->limit_bytes;
}

// Sizes in their order.
std::optional<std::int64_t> largest_that_pays(std::span<const FusionTime> times, DrawnRounds rounds) {
  std::optional<std::int64_t> largest;
  for (const FusionTime& time : times) {
    if (median_of_rounds(time.fused, rounds) >= median_of_rounds(time.separate, rounds)) break;
    largest = time.bytes;
  }
  return largest;
}

}  // namespace

BestLimit best_limit(std::span<const BucketTime> times) {
  const std::size_t rounds = rounds_of_limits(times);
  const auto [low, high] = interval_of_resamples(rounds, [&](DrawnRounds drawn) { return fastest_of(times, drawn); });
  return {.limit_bytes = fastest_of(times, one_by_one(rounds)), .low = low, .high = high};
}

std::optional<std::int64_t> pays_from(std::span<const BucketTime> times) {
  const std::size_t rounds = rounds_of_limits(times);
  const auto unfused = std::ranges::find(times, 0, &BucketTime::limit_bytes);
  if (unfused == times.end()) throw InvalidArgument("no times of a bucket a gradient, which others are held against");
  const std::int64_t best = fastest_of(times, one_by_one(rounds));
  std::vector<const BucketTime*> sizes;
  for (const BucketTime& time : times)
    if (time.limit_bytes > 0 && time.limit_bytes <= best) sizes.push_back(&time);
  std::ranges::sort(sizes, std::greater(), &BucketTime::limit_bytes);
  std::optional<std::int64_t> smallest;
  for (const BucketTime* time : sizes) {
    std::size_t faster = 0;
    for (std::size_t i = 0; i < rounds; ++i) faster += time->samples[i] < unfused->samples[i] ? 1 : 0;
    if (2 * faster <= rounds) break;
    smallest = time->limit_bytes;
  }
  return smallest;
}

Crossover pays_up_to(std::span<const FusionTime> times) {
  if (times.empty()) throw InvalidArgument("no sizes of gradients to compare");
  const std::size_t rounds = times.front().fused.size();
  for (const FusionTime& time : times)
    if (rounds == 0 || time.fused.size() != rounds || time.separate.size() != rounds)
      throw InvalidArgument(fmt::format("gradients of {} bytes: {} rounds fused and {} separate, where there are {}",
                                        time.bytes, time.fused.size(), time.separate.size(), rounds));
  std::vector<FusionTime> sorted(times.begin(), times.end());
  std::ranges::sort(sorted, {}, &FusionTime::bytes);
  const auto [low, high] =
      interval_of_resamples(rounds, [&](DrawnRounds drawn) { return largest_that_pays(sorted, drawn); });
  return {.bytes = largest_that_pays(sorted, one_by_one(rounds)), .low = low, .high = high};
}

Overlap overlap_of(const OverlapTimes& times) {
  const std::size_t rounds = times.serial.size();
  constexpr double least_effect = 1.1;
  std::vector<double> hidden, less_a_tenth;
  Overlap found{.rounds = rounds};
  for (const auto* samples : {&times.backward, &times.reductions, &times.serial, &times.overlapped}) {
    if (rounds == 0 || samples->size() != rounds)
      throw InvalidArgument(fmt::format("{} rounds of one kind of step and {} of another", samples->size(), rounds));
    for (const double seconds : *samples)
      if (!(seconds > 0)) throw InvalidArgument(fmt::format("a step of {} seconds", seconds));
  }
  for (std::size_t i = 0; i < rounds; ++i) {
    hidden.push_back((times.serial[i] - times.overlapped[i]) / std::min(times.backward[i], times.reductions[i]));
    found.slower += times.overlapped[i] >= least_effect * times.serial[i] ? 1 : 0;
    less_a_tenth.push_back(times.overlapped[i] / least_effect);
  }
  found.hidden = median_of_rounds(hidden, one_by_one(rounds));
  found.chance = chance_of_larger(less_a_tenth, times.serial);
  return found;
}

}  // namespace plumbline::cli
