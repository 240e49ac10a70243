#include "reference/topology/nodes.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::topology {
namespace {

// How many of the numbers 0 … end-1 are below `below` modulo `period`.
std::int64_t count_below(std::int64_t end, std::int64_t below, std::int64_t period) {
  return end / period * below + std::min(end % period, below);
}

std::int64_t count_between(std::int64_t begin, std::int64_t end, std::int64_t below, std::int64_t period) {
  return end <= begin ? 0 : count_below(end, below, period) - count_below(begin, below, period);
}

// What of an axis stays inside nodes. A run of ranks along the axis is `stride` apart, and starts again every
// stride x size ranks.
struct Inside {
  std::int64_t groups = 0;  // whole ones
  std::int64_t edges = 0;   // of their rings, the one from the last rank to the first not included
};

// Looks at each node. `reach` is from a group's first rank to its last.
Inside inside_uneven(std::int64_t stride, std::int64_t reach, const Nodes& nodes) {
  const std::int64_t period = stride + reach;
  Inside inside;
  std::int64_t begin = 0;
  for (const int end : nodes.bounds()) {
    inside.groups += count_between(begin, end - reach, stride, period);
    inside.edges += count_between(begin, end - stride, reach, period);
    begin = end;
  }
  return inside;
}

// The first `below` of every `period` numbers.
struct Stretches {
  std::int64_t below = 0, period = 1;
};

// How many of the numbers 0 … end-1 are in stretches of both kinds; those of the longer period are looked at.
std::int64_t count_in_both_once(std::int64_t end, const Stretches& a, const Stretches& b) {
  const auto& [many, few] = a.period < b.period ? std::pair(a, b) : std::pair(b, a);
  std::int64_t count = 0;
  for (std::int64_t first = 0; first < end; first += few.period)
    count += count_between(first, std::min(first + few.below, end), many.below, many.period);
  return count;
}

// The same, where all repeats after the periods' least common multiple. With m and n as periods, m the longer, it looks
// at min(end / m, n) stretches, which is sqrt(end) at most.
std::int64_t count_in_both(std::int64_t end, const Stretches& a, const Stretches& b) {
  const std::int64_t repeat = std::lcm(a.period, b.period);
  const std::int64_t whole = end < repeat ? 0 : end / repeat * count_in_both_once(repeat, a, b);
  return whole + count_in_both_once(end % repeat, a, b);
}

// A rank and the one `distance` after it are in one node where the rank is among its node's first R - distance ones;
// of the last node, which may have fewer, the topology's end already keeps what reaches beyond.
Inside inside_uniform(std::int64_t stride, std::int64_t reach, std::int64_t ranks, std::int64_t size) {
  const auto count = [&](std::int64_t of_period, std::int64_t distance) {
    return count_in_both(ranks, {.below = of_period, .period = stride + reach},
                         {.below = std::max<std::int64_t>(size - distance, 0), .period = size});
  };
  return {.groups = count(stride, reach), .edges = count(reach, stride)};
}

Inside inside_nodes(const Axis& axis, const Nodes& nodes) {
  const std::int64_t stride = axis.stride, reach = stride * (axis.size - 1);
  const std::optional<int> even = nodes.ranks_per_node();
  return even ? inside_uniform(stride, reach, nodes.world_size(), *even) : inside_uneven(stride, reach, nodes);
}

struct Crossing {
  int groups = 0;
  std::int64_t edges = 0;
};

Crossing crossing_of(const Axis& axis, const Nodes& nodes) {
  const Inside inside = inside_nodes(axis, nodes);
  return {static_cast<int>(nodes.world_size() / axis.size - inside.groups),
          nodes.world_size() - inside.edges - inside.groups};  // of a whole group, the last edge is inside, too
}

void check_fit(const Topology& topology, const Nodes& nodes) {
  if (topology.world_size() != nodes.world_size() || topology.offset() != 0)
    throw InvalidArgument(fmt::format("placement: {} has {} ranks from {} on, the nodes have {} ranks from 0 on",
                                      topology.to_string(), topology.world_size(), topology.offset(),
                                      nodes.world_size()));
}

void check_volume(const Topology& topology, const Volume& bytes) {
  for (const auto& [axis, volume] : bytes) {
    (void)topology.dimension(axis);
    if (volume < 0)
      throw InvalidArgument(fmt::format("placement: bytes of axis '{}' must be 0 or more, got {}", axis, volume));
  }
}

std::int64_t volume_of(const Volume& bytes, const std::string& axis) {
  const auto found = bytes.find(axis);
  return found == bytes.end() ? 0 : found->second;
}

// Nothing where 63 bits do not hold it.
std::optional<std::int64_t> product_of_lengths(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}

std::optional<std::int64_t> sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}

// The names of the axes, the slowest first.
std::vector<std::string> given_order(const Topology& topology) {
  std::vector<Axis> axes = topology.axes();
  std::ranges::stable_sort(axes, std::greater{}, &Axis::stride);
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  return names;
}

// Scores orders of the axes of one world, looking at each axis at each stride once.
class Scorer {
 public:
  Scorer(const Topology& topology, const Nodes& nodes, const Volume& bytes)
      : topology_(topology), nodes_(nodes), bytes_(bytes) {}

  // Nothing where 63 bits do not count it.
  std::optional<std::int64_t> total(const std::vector<std::string>& slowest_first) {
    std::int64_t total = 0;
    int stride = 1;
    for (const std::string& name : slowest_first | std::views::reverse) {
      const int size = topology_.dimension(name);
      const auto bytes = product_of_lengths(crossing_edges(size, stride), volume_of(bytes_, name));
      const auto sum = bytes ? sum_of(total, *bytes) : std::nullopt;
      if (!sum) return std::nullopt;
      total = *sum;
      stride *= size;
    }
    return total;
  }

 private:
  std::int64_t crossing_edges(int size, int stride) {
    const auto [known, is_new] = edges_.try_emplace({size, stride});
    if (is_new) known->second = crossing_of({.name = {}, .size = size, .stride = stride}, nodes_).edges;
    return known->second;
  }

  const Topology& topology_;
  const Nodes& nodes_;
  const Volume& bytes_;
  std::map<std::pair<int, int>, std::int64_t> edges_;  // crossing ones, by size and stride
};

}  // namespace

Nodes Nodes::uniform(int ranks_per_node, int world_size) {
  if (ranks_per_node < 1)
    throw InvalidArgument(fmt::format("nodes: ranks per node must be 1 or more, got {}", ranks_per_node));
  return {{}, ranks_per_node, world_size};
}

Nodes Nodes::uneven(std::span<const int> sizes) {
  std::vector<int> bounds{0};
  for (const int size : sizes) {
    if (size < 1)
      throw InvalidArgument(
          fmt::format("nodes: a node must have 1 rank or more, got {} in [{}]", size, fmt::join(sizes, ", ")));
    if (size > std::numeric_limits<int>::max() - bounds.back())
      throw InvalidArgument(
          fmt::format("nodes: {} ranks and a node of {} more are more ranks than an int holds", bounds.back(), size));
    bounds.push_back(bounds.back() + size);
  }
  const int ranks = bounds.back();
  return {std::move(bounds), std::nullopt, ranks};
}

Placement placement(const Topology& topology, const Nodes& nodes, const Volume& bytes) {
  check_fit(topology, nodes);
  check_volume(topology, bytes);
  Placement placement;
  for (const Axis& axis : topology.axes()) {
    const Crossing crossing = crossing_of(axis, nodes);
    const std::int64_t volume = volume_of(bytes, axis.name);
    const auto crossing_bytes = product_of_lengths(crossing.edges, volume);
    if (!crossing_bytes)
      throw OutOfRange(fmt::format("placement: {} messages of {} bytes along axis '{}' are more than 63 bits count",
                                   crossing.edges, volume, axis.name));
    const auto total = sum_of(placement.total, *crossing_bytes);
    if (!total)
      throw OutOfRange(
          fmt::format("placement: {} + {} bytes are more than 63 bits count", placement.total, *crossing_bytes));
    placement.crossing_groups[axis.name] = crossing.groups;
    placement.crossing_bytes[axis.name] = *crossing_bytes;
    placement.total = *total;
  }
  return placement;
}

OrderScore best_order(const Topology& topology, const Nodes& nodes, const Volume& bytes) {
  std::vector<std::string> order = given_order(topology);
  if (order.size() > kMostOrderedAxes)
    throw InvalidArgument(fmt::format("placement: {} axes have too many orders to score; {} axes at most", order.size(),
                                      kMostOrderedAxes));
  OrderScore best{order, placement(topology, nodes, bytes).total};
  Scorer scorer(topology, nodes, bytes);
  std::ranges::sort(order);
  do {
    if (const auto total = scorer.total(order); total && *total < best.total) best = {order, *total};
  } while (std::ranges::next_permutation(order).found);
  return best;
}

}  // namespace plumbline::topology
