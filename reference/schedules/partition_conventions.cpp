#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <ranges>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::schedules {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// ---- ColossalAI ----

using Sums = std::vector<std::int64_t>;  // inclusive: sums[i] is the weight of the first i+1 items

std::int64_t weight_of(const Sums& sums, const Interval& part) {
  return sums[static_cast<std::size_t>(part.end - 1)] -
         (part.begin > 0 ? sums[static_cast<std::size_t>(part.begin - 1)] : 0);
}

// Fills parts from the left, each up to `bottleneck`.
std::vector<Interval> filled_up_to(const Sums& sums, std::int64_t bottleneck) {
  std::vector<Interval> parts;
  const auto items = static_cast<int>(sums.size());
  int begin = 0;
  for (int i = 0; i < items; ++i)
    if (weight_of(sums, {begin, i + 1}) > bottleneck) {
      parts.push_back({begin, i});
      begin = i;
    }
  parts.push_back({begin, items});
  return parts;
}

// Where the two halves differ least; the first such place.
int middle_of(const Sums& sums, const Interval& part) {
  return *std::ranges::min_element(std::views::iota(part.begin + 1, part.end), {}, [&](int split) {
    return std::abs(weight_of(sums, {split, part.end}) - weight_of(sums, {part.begin, split}));
  });
}

Sums sums_of(std::span<const std::int64_t> weights) {
  Sums sums;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] < 0)
      throw InvalidArgument(fmt::format("partition_balanced: weight {} is {}; it must be at least 0", i, weights[i]));
    const std::int64_t before = sums.empty() ? 0 : sums.back(), weight = std::max<std::int64_t>(weights[i], 1);
    if (before > std::numeric_limits<std::int64_t>::max() - weight)
      throw OutOfRange(
          fmt::format("partition_balanced: weights 0 to {} sum up to {} + {}, more than 2^63 - 1", i, before, weight));
    sums.push_back(before + weight);
  }
  return sums;
}

// The least bottleneck with which no more than `parts` are filled.
std::int64_t bottleneck_of(const Sums& sums, std::int64_t least, std::size_t parts) {
  std::int64_t most = sums.back();
  while (least < most) {
    const std::int64_t middle = std::midpoint(least, most);
    if (filled_up_to(sums, middle).size() <= parts)
      most = middle;
    else
      least = middle + 1;
  }
  return most;
}

// Halves the heaviest part, the leftmost of equals, until there are `count`. Single items are not halved.
std::vector<Interval> halved_to(const Sums& sums, const std::vector<Interval>& parts, std::size_t count) {
  const auto lighter = [&](const Interval& a, const Interval& b) {
    return std::pair(weight_of(sums, a), -a.begin) < std::pair(weight_of(sums, b), -b.begin);
  };
  std::priority_queue<Interval, std::vector<Interval>, decltype(lighter)> divisible(lighter);
  std::vector<Interval> done;
  for (const Interval& part : parts) divisible.push(part);
  while (!divisible.empty()) {
    const Interval part = divisible.top();
    divisible.pop();
    if (done.size() + divisible.size() + 1 >= count || part.end - part.begin == 1) {
      done.push_back(part);
      continue;
    }
    const int middle = middle_of(sums, part);
    divisible.push({part.begin, middle});
    divisible.push({middle, part.end});
  }
  std::ranges::sort(done, {}, &Interval::begin);
  return done;
}

// Quotient and remainder of Python, whose remainder has the divisor's sign.
std::pair<std::int64_t, std::int64_t> floored(std::int64_t dividend, std::int64_t divisor) {
  const std::int64_t quotient = dividend / divisor, remainder = dividend % divisor;
  return remainder != 0 && (remainder < 0) != (divisor < 0) ? std::pair(quotient - 1, remainder + divisor)
                                                            : std::pair(quotient, remainder);
}

// ---- DeepSpeed ----

// The weight of the first i+1 items, for each i. The sources compare such sums: with one that is not finite, their
// answers depend on where it stands.
std::vector<double> finite_sums(std::span<const double> weights) {
  std::vector<double> sums(weights.size());
  std::partial_sum(weights.begin(), weights.end(), sums.begin());
  const auto bad = std::ranges::find_if_not(sums, [](double sum) { return std::isfinite(sum); });
  if (bad != sums.end())
    throw InvalidArgument(fmt::format("partition_balanced: the weights up to the one at {}, which is {}, sum up to {}",
                                      bad - sums.begin(), weights[static_cast<std::size_t>(bad - sums.begin())], *bad));
  return sums;
}

// The first items in a number of parts: the last part begins at `at`.
struct Split {
  double heaviest = kUnbounded, lightest = kUnbounded, cost = kUnbounded;
  int at = 0;
};
constexpr std::size_t kMostBalancingSteps = std::size_t{1} << 33;

// For the first i items in j parts, at i * (parts + 1) + j, the split of least cost, heaviest minus lightest; of equal
// ones the last.
std::vector<Split> best_splits(const std::vector<double>& sums, std::size_t parts) {
  const std::size_t items = sums.size() - 1;
  std::vector<Split> table(sums.size() * (parts + 1));
  table[0].heaviest = 0;
  for (std::size_t i = 1; i <= items; ++i)
    for (std::size_t j = 1; j <= std::min(i, parts); ++j)
      for (std::size_t k = 0; k < i; ++k) {
        const Split& before = table[k * (parts + 1) + j - 1];
        const double heaviest = std::max(before.heaviest, sums[i] - sums[k]);
        const double lightest = std::min(before.lightest, sums[i] - sums[k]);
        Split& best = table[i * (parts + 1) + j];
        if (best.cost >= heaviest - lightest) best = {heaviest, lightest, heaviest - lightest, static_cast<int>(k)};
      }
  return table;
}

// ---- DeepSpeed 0.6 ----

// The boundaries that a bottleneck gives, and whether all weight found a place.
std::pair<Boundaries, bool> probe(const std::vector<double>& sums, int parts, double bottleneck) {
  const auto items = static_cast<int>(sums.size());
  const auto sum = [&](int i) { return sums[static_cast<std::size_t>(i)]; };
  Boundaries boundaries(static_cast<std::size_t>(parts) + 1, items);
  boundaries[0] = 0;
  const int stride = items / parts;
  int step = stride;
  double target = bottleneck;
  for (int part = 1; part < parts; ++part) {
    while (step < items && sum(step) < target) step += stride;
    const auto from = sums.begin() + (step - stride),
               to = sums.begin() + std::max(step - stride, std::min(step, items));
    const auto end = static_cast<int>(std::lower_bound(from, to, target) - sums.begin());
    boundaries[static_cast<std::size_t>(part)] = end;
    // The source reads the sum before the first item as the last sum, and so do we.
    if (end == items) {
      const int begin = boundaries[static_cast<std::size_t>(part - 1)];
      return {boundaries, sum(items - 1) - sum(begin) < bottleneck};
    }
    target = sum(end > 0 ? end - 1 : items - 1) + bottleneck;
  }
  return {boundaries, target >= sum(items - 1)};
}

}  // namespace

ColossalaiPartition colossalai_uniform(int items, int stages, int chunks) {
  if (chunks == 0 || (stages == 0 && chunks > 0))
    throw InvalidArgument(
        fmt::format("partition_uniform: {} items cannot be dealt to {} stages x {} chunks", items, stages, chunks));
  if (std::int64_t{items} % chunks != 0)
    throw InvalidArgument(fmt::format(
        "partition_uniform: {} items are no multiple of {} chunks; balance them by weight instead", items, chunks));
  ColossalaiPartition partition{.ranks =
                                    std::vector<std::vector<Interval>>(static_cast<std::size_t>(std::max(stages, 0)))};
  if (chunks < 0) return partition;
  const auto [each, rest] = floored(items / chunks, stages);
  partition.warned = each == 0;
  int begin = 0;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int rank = 0; rank < stages; ++rank) {
      const int end = begin + static_cast<int>(each) + (rank >= stages - rest ? 1 : 0);
      partition.ranks[static_cast<std::size_t>(rank)].push_back({begin, end});
      begin = end;
    }
  return partition;
}

ColossalaiPartition colossalai_balanced(std::span<const std::int64_t> weights, int stages, int chunks) {
  const auto items = static_cast<int>(weights.size());
  if (items <= std::int64_t{stages} * chunks || stages == 0 || chunks == 0)
    return colossalai_uniform(items, stages, chunks);
  if (stages < 0 || chunks < 0)
    throw InvalidArgument(
        fmt::format("partition_balanced: {} items cannot be dealt to {} stages x {} chunks", items, stages, chunks));
  const Sums sums = sums_of(weights);
  const auto parts = static_cast<std::size_t>(stages) * static_cast<std::size_t>(chunks);
  const std::int64_t bottleneck = bottleneck_of(sums, *std::ranges::max_element(weights), parts);
  const std::vector<Interval> intervals = halved_to(sums, filled_up_to(sums, bottleneck), parts);
  ColossalaiPartition partition{.ranks = std::vector<std::vector<Interval>>(static_cast<std::size_t>(stages))};
  for (std::size_t i = 0; i < intervals.size(); ++i)
    partition.ranks[i % partition.ranks.size()].push_back(intervals[i]);
  return partition;
}

Boundaries deepspeed_uniform(int items, int parts) {
  if (parts < 0 && items > parts && items <= 0)  // parts of no items: the source's steps are of no length
    throw InvalidArgument(fmt::format("partition_uniform: {} items cannot be dealt to {} parts", items, parts));
  if (parts < 0) return {};
  if (items <= 0) return Boundaries(static_cast<std::size_t>(parts) + 1, items);
  return partition_uniform(items, parts);
}

Boundaries deepspeed_balanced(std::span<const double> weights, int parts) {
  const auto items = static_cast<int>(weights.size());
  if (parts < 0) throw InvalidArgument(fmt::format("partition_balanced: parts must be at least 0, got {}", parts));
  if (parts == 0) return {items};
  if (items <= parts) return deepspeed_uniform(items, parts);
  const auto n = static_cast<std::size_t>(items), m = static_cast<std::size_t>(parts);
  if (n * n > kMostBalancingSteps / m)
    throw InvalidArgument(fmt::format("partition_balanced: {} items x {} items x {} parts are more than {} steps", n, n,
                                      m, kMostBalancingSteps));
  std::vector<double> sums = finite_sums(weights);
  sums.insert(sums.begin(), 0);
  const std::vector<Split> table = best_splits(sums, m);
  Boundaries boundaries{items};
  for (std::size_t j = m; j > 0; --j)
    boundaries.push_back(table[static_cast<std::size_t>(boundaries.back()) * (m + 1) + j].at);
  std::ranges::reverse(boundaries);
  return boundaries;
}

Boundaries deepspeed06_uniform(int items, int parts) {
  if (items <= parts) return deepspeed_uniform(items, parts);
  if (parts < 1) throw InvalidArgument(fmt::format("partition_uniform: parts must be at least 1, got {}", parts));
  Boundaries boundaries;
  for (int part = 0; part < parts; ++part) boundaries.push_back(items / parts * part);
  boundaries.push_back(items);
  return boundaries;
}

Boundaries deepspeed06_balanced(std::span<const double> weights, int parts) {
  const auto items = static_cast<int>(weights.size());
  if (items <= parts) return deepspeed06_uniform(items, parts);
  if (parts == 0 || items == 0)
    throw InvalidArgument(fmt::format("partition_balanced: {} items cannot be given to {} parts", items, parts));
  if (parts < 0) return {};
  const std::vector<double> sums = finite_sums(weights);
  constexpr double kPrecision = 1e-3;
  double least = sums.back() / parts, most = sums.back();
  while (most > least + kPrecision) {
    const double middle = least + (most - least) / 2;
    double& bound = probe(sums, parts, middle).second ? most : least;
    const double moved = &bound == &most ? middle : middle + kPrecision;
    if (moved == bound) break;  // neighbouring numbers are farther apart than the precision: the source does not end
    bound = moved;
  }
  auto [boundaries, all_placed] = probe(sums, parts, most);
  if (!all_placed)
    throw InvalidArgument(fmt::format("partition_balanced: {} parts of at most {} have no place for all of {} items",
                                      parts, most, items));
  return boundaries;
}

}  // namespace plumbline::schedules
