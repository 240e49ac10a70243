#include "reference/schedules/partition.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

void require_parts(int parts) {
  if (parts < 1) throw InvalidArgument(fmt::format("partition: parts must be at least 1, got {}", parts));
}

void require_weights(std::span<const double> weights) {
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!(weights[i] >= 0) || !std::isfinite(weights[i]))
      throw InvalidArgument(
          fmt::format("partition: weight {} is {}; weights are finite and at least 0", i, weights[i]));
}

// sums[i] is the weight of the first i items.
std::vector<double> prefix_sums(std::span<const double> weights, double scale = 1) {
  std::vector<double> sums{0};
  for (const double weight : weights) sums.push_back(sums.back() + weight * scale);
  if (std::isfinite(sums.back())) return sums;
  // In a smaller unit, a power of two, no sum is beyond what a double holds, and what is lost is nothing beside it.
  return prefix_sums(weights, std::ldexp(1.0, -static_cast<int>(std::bit_width(weights.size()))));
}

// The least largest sum of `parts` parts, none of them empty. least[i], for the first i items and one part more than in
// the round before, is the least over k of max(least[k], sums[i] - sums[k]): the first grows with k and the second
// falls, so the best k is where they cross, and moves to the right with i.
double least_bottleneck(const std::vector<double>& sums, int parts) {
  const std::size_t items = sums.size() - 1;
  std::vector<double> least(sums), next(sums.size());
  for (std::size_t part = 2; part <= static_cast<std::size_t>(parts); ++part) {
    std::size_t k = part - 1;
    for (std::size_t i = part; i <= items; ++i) {
      const auto largest = [&](std::size_t split) { return std::max(least[split], sums[i] - sums[split]); };
      while (k + 1 < i && largest(k + 1) <= largest(k)) ++k;
      next[i] = largest(k);
    }
    std::swap(least, next);
  }
  return least[items];
}

}  // namespace

Boundaries partition_uniform(int items, int parts) { return partition_uniform(items, parts, FixedEnds{}); }

Boundaries partition_uniform(int items, int parts, const FixedEnds& ends) {
  require_parts(parts);
  if (items < 0) throw InvalidArgument(fmt::format("partition: items must be at least 0, got {}", items));
  const int first = ends.first.value_or(0), last = ends.last.value_or(0);
  if (first < 0 || last < 0)
    throw InvalidArgument(fmt::format("partition: the first part is to have {} items, the last {}", first, last));
  const int fixed = (ends.first ? 1 : 0) + (ends.last ? 1 : 0);
  const int others = parts - fixed;
  const std::int64_t left = std::int64_t{items} - first - last;
  if (others < 0 || left < 0 || (others == 0 && left > 0))
    throw InvalidArgument(
        fmt::format("partition: {} items - {} in the first part - {} in the last leaves {} for {} parts", items, first,
                    last, left, others));
  Boundaries boundaries{0};
  if (ends.first) boundaries.push_back(first);
  for (int part = 0; part < others; ++part)
    boundaries.push_back(boundaries.back() + static_cast<int>(left / others) + (part < left % others ? 1 : 0));
  if (ends.last) boundaries.push_back(items);
  return boundaries;
}

Boundaries partition_optimal(std::span<const double> weights, int parts) {
  require_parts(parts);
  require_weights(weights);
  const std::vector<double> sums = prefix_sums(weights);
  const int items = static_cast<int>(weights.size());
  if (items <= parts) return partition_uniform(items, parts);
  const double bottleneck = least_bottleneck(sums, parts);
  Boundaries boundaries{0};
  for (int part = 1; part < parts; ++part) {
    const int begin = boundaries.back();
    const int latest = items - (parts - part);  // one for each part to come
    int end = begin;
    const auto sum_to = [&](int i) {
      return sums[static_cast<std::size_t>(i)] - sums[static_cast<std::size_t>(begin)];
    };
    do ++end;
    while (end < latest && sum_to(end + 1) <= bottleneck);
    boundaries.push_back(end);
  }
  boundaries.push_back(items);
  return boundaries;
}

double heaviest_part(std::span<const double> weights, const Boundaries& boundaries) {
  const auto parts = static_cast<int>(boundaries.size()) - 1;
  if (!is_partition(boundaries, static_cast<int>(weights.size()), parts))
    throw InvalidArgument(fmt::format("partition: the boundaries are not those of {} items", weights.size()));
  require_weights(weights);
  double heaviest = 0;
  for (std::size_t part = 0; part + 1 < boundaries.size(); ++part)
    heaviest = std::max(
        heaviest, std::accumulate(weights.begin() + boundaries[part], weights.begin() + boundaries[part + 1], 0.0));
  return heaviest;
}

bool is_partition(const Boundaries& boundaries, int items, int parts) {
  return parts >= 1 && boundaries.size() == static_cast<std::size_t>(parts) + 1 && boundaries.front() == 0 &&
         boundaries.back() == items && std::ranges::is_sorted(boundaries);
}

std::vector<std::vector<Interval>> by_rank(const Boundaries& boundaries, int stages) {
  const auto parts = static_cast<int>(boundaries.size()) - 1;
  if (stages < 1 || parts < 1 || parts % stages != 0)
    throw InvalidArgument(
        fmt::format("partition: {} parts are no whole number of chunks for {} stages", parts, stages));
  std::vector<std::vector<Interval>> ranks(static_cast<std::size_t>(stages));
  for (std::size_t part = 0; part + 1 < boundaries.size(); ++part)
    ranks[part % ranks.size()].push_back({boundaries[part], boundaries[part + 1]});
  return ranks;
}

}  // namespace plumbline::schedules
