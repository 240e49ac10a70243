#include "benchmarks/mann_whitney.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

// Twice the place of a number among all, from 1; equal ones share the mean of theirs.
struct Ranked {
  std::int64_t twice_rank = 0;
  bool is_first = false;  // of the first kind
};

struct Ranking {
  std::vector<Ranked> all;
  double ties = 0;  // the sum of t^3 - t over groups of t equal numbers
};

Ranking ranked(std::span<const double> first, std::span<const double> second) {
  std::vector<std::pair<double, bool>> sorted;
  for (const double value : first) sorted.emplace_back(value, true);
  for (const double value : second) sorted.emplace_back(value, false);
  std::ranges::sort(sorted);
  Ranking ranking;
  for (std::size_t begin = 0; begin < sorted.size();) {
    std::size_t end = begin;
    while (end < sorted.size() && sorted[end].first == sorted[begin].first) ++end;
    for (std::size_t i = begin; i < end; ++i)
      ranking.all.push_back({static_cast<std::int64_t>(begin + 1 + end), sorted[i].second});
    const auto equal = static_cast<double>(end - begin);
    ranking.ties += equal * equal * equal - equal;
    begin = end;
  }
  return ranking;
}

// The share of the choices of `count` of all places whose sum is `least` or more.
double counted(const std::vector<Ranked>& all, std::size_t count, std::int64_t least) {
  std::int64_t sum = 0;
  for (const Ranked& one : all) sum += one.twice_rank;
  const auto width = static_cast<std::size_t>(sum) + 1;
  std::vector<double> ways((count + 1) * width);  // by how many are chosen, and their sum
  ways[0] = 1;
  std::size_t before = 0, reached = 0;  // places, and their sum
  for (const Ranked& one : all) {
    const auto step = static_cast<std::size_t>(one.twice_rank);
    for (std::size_t chosen = std::min(count, before + 1); chosen-- > 0;)
      for (std::size_t at = 0; at <= reached; ++at) ways[(chosen + 1) * width + at + step] += ways[chosen * width + at];
    ++before;
    reached += step;
  }
  double all_ways = 0, as_large = 0;
  for (std::size_t at = 0; at < width; ++at) {
    all_ways += ways[count * width + at];
    if (static_cast<std::int64_t>(at) >= least) as_large += ways[count * width + at];
  }
  return as_large / all_ways;
}

double by_normal(double twice_u, double first, double second, double ties) {
  const double numbers = first + second;
  const double variance = first * second / 12 * (numbers + 1 - ties / (numbers * (numbers - 1)));
  if (variance <= 0) return 1;  // all are equal
  const double above = (twice_u - 1 - first * second) / 2;
  return std::erfc(above / std::sqrt(2 * variance)) / 2;
}

}  // namespace

double chance_of_larger(std::span<const double> first, std::span<const double> second) {
  if (first.empty() || second.empty())
    throw InvalidArgument(
        fmt::format("U test of {} and {} numbers; 1 or more of each are needed", first.size(), second.size()));
  for (const auto& kind : {first, second})
    if (std::ranges::any_of(kind, [](double value) { return std::isnan(value); }))
      throw InvalidArgument("U test of numbers one of which is none");
  const Ranking ranking = ranked(first, second);
  std::int64_t twice_sum = 0;
  for (const Ranked& one : ranking.all) twice_sum += one.is_first ? one.twice_rank : 0;
  if (ranking.all.size() <= kMostCounted) return counted(ranking.all, first.size(), twice_sum);
  const auto count = static_cast<double>(first.size());
  return by_normal(static_cast<double>(twice_sum) - count * (count + 1), count, static_cast<double>(second.size()),
                   ranking.ties);
}

}  // namespace plumbline::cli
