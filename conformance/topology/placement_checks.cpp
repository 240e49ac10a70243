// Nodes: which groups cross them, how many bytes do, and which order of axes has the fewest.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "conformance/topology/shapes.hpp"
#include "conformance/topology/topology_checks.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

using Nodes = std::vector<int>;                     // the node of each rank
using Bytes = std::map<std::string, std::int64_t>;  // that each rank sends to the next of its group

std::vector<Ranks> groups_along(const Shape& shape, std::size_t axis) {
  return lists_along(shape, positions_in(shape, Fastest::last), {static_cast<int>(axis)});
}

int node_of(const Nodes& nodes, int rank) { return nodes.at(static_cast<std::size_t>(rank)); }

std::int64_t crossing_groups(const Shape& shape, std::size_t axis, const Nodes& nodes) {
  return std::ranges::count_if(groups_along(shape, axis), [&](const Ranks& group) {
    return std::ranges::any_of(group, [&](int rank) { return node_of(nodes, rank) != node_of(nodes, group.front()); });
  });
}

// Rank by rank: what it sends to the next, the last to the first.
std::int64_t crossing_bytes(const Shape& shape, std::size_t axis, const Nodes& nodes, const Bytes& bytes) {
  std::int64_t crossing = 0;
  for (const Ranks& group : groups_along(shape, axis))
    for (std::size_t i = 0; i < group.size(); ++i)
      if (node_of(nodes, group[i]) != node_of(nodes, group[(i + 1) % group.size()]) && bytes.contains(shape.axes[axis]))
        crossing += bytes.at(shape.axes[axis]);
  return crossing;
}

std::int64_t total_bytes(const Shape& shape, const Nodes& nodes, const Bytes& bytes) {
  std::int64_t total = 0;
  for (std::size_t axis = 0; axis < shape.axes.size(); ++axis) total += crossing_bytes(shape, axis, nodes, bytes);
  return total;
}

// The same axes in another order.
Shape reordered(const Shape& shape, const std::vector<std::string>& order) {
  Shape other{.axes = order, .dims = {}};
  for (const std::string& axis : order)
    other.dims.push_back(shape.dims.at(static_cast<std::size_t>(number_of(shape, axis))));
  return other;
}

// The fewest bytes of any order.
std::int64_t fewest_bytes(const Shape& shape, const Nodes& nodes, const Bytes& bytes) {
  std::vector<std::string> order = shape.axes;
  std::ranges::sort(order);
  std::int64_t fewest = total_bytes(shape, nodes, bytes);
  do fewest = std::min(fewest, total_bytes(reordered(shape, order), nodes, bytes));
  while (std::ranges::next_permutation(order).found);
  return fewest;
}

// Different for each axis, the most for the first, which is the slowest.
Bytes bytes_of(const Shape& shape) {
  Bytes bytes;
  std::int64_t sent = 3'000'000'000'000;  // no number of 32 bits, nor a float's
  for (auto axis = shape.axes.rbegin(); axis != shape.axes.rend(); ++axis, sent *= 5) bytes[*axis] = sent;
  return bytes;
}

// As many as an order by bytes alone or by sizes alone does not serve; an axis in four has none.
Bytes drawn_bytes(const Shape& shape, Random& random) {
  Bytes bytes;
  for (const std::string& axis : shape.axes)
    if (random.between(0, 3) > 0) bytes[axis] = random.between(0, 1000);
  return bytes;
}

// As many nodes as ranks_per_node fills, the last perhaps in part.
Nodes even_nodes(int ranks, int ranks_per_node) {
  Nodes nodes;
  for (int rank = 0; rank < ranks; ++rank) nodes.push_back(rank / ranks_per_node);
  return nodes;
}

// Sizes that add up to `ranks`, and the node of each rank.
std::pair<std::vector<int>, Nodes> uneven_nodes(int ranks, Random& random) {
  std::vector<int> sizes;
  Nodes nodes;
  while (static_cast<int>(nodes.size()) < ranks) {
    sizes.push_back(random.between(1, std::min(5, ranks - static_cast<int>(nodes.size()))));
    nodes.insert(nodes.end(), static_cast<std::size_t>(sizes.back()), static_cast<int>(sizes.size()) - 1);
  }
  return {sizes, nodes};
}

using JudgePlacement = std::function<std::string(const Shape&, const Nodes&, const Bytes&, const json& result)>;

std::string problem_of_placement(Context& context, const Shape& shape, const json& ranks_per_node, const Nodes& nodes,
                                 const Bytes& bytes, const JudgePlacement& judge) {
  const json args{{"axes", shape.axes}, {"dims", shape.dims}, {"ranks_per_node", ranks_per_node}, {"bytes", bytes}};
  const std::string words = problem_of(context.adapter(), "topology.placement", args,
                                       [&](const json& result) { return judge(shape, nodes, bytes, result); });
  return words.empty()
             ? words
             : fmt::format("{} ranks per node, bytes {}: {}", ranks_per_node.dump(), args["bytes"].dump(), words);
}

void judge_placements(Context& context, const JudgePlacement& judge, const ShapeLimits& limits = {.ranks = 40}) {
  const std::string& asked = context.parameters().text("ranks_per_node");
  judge_shapes(
      context,
      [&](const Shape& shape) {
        Random random(context.seed() + static_cast<unsigned>(ranks_in(shape)));
        json ranks_per_node;
        Nodes nodes;
        if (asked == "uneven") {
          const auto [sizes, places] = uneven_nodes(ranks_in(shape), random);
          ranks_per_node = sizes;
          nodes = places;
        } else {
          ranks_per_node = std::stoi(asked);
          nodes = even_nodes(ranks_in(shape), std::stoi(asked));
        }
        for (const Bytes& bytes : {bytes_of(shape), drawn_bytes(shape, random)})
          if (auto words = problem_of_placement(context, shape, ranks_per_node, nodes, bytes, judge); !words.empty())
            return words;
        return std::string();
      },
      limits, 100);
}

void groups(Context& context) {
  judge_placements(context, [](const Shape& shape, const Nodes& nodes, const Bytes&, const json& result) {
    json expected = json::object();
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
      expected[shape.axes[axis]] = crossing_groups(shape, axis, nodes);
    return first_difference(expected, result.at("crossing_groups"), "crossing_groups");
  });
}

void bytes(Context& context) {
  judge_placements(context, [](const Shape& shape, const Nodes& nodes, const Bytes& sent, const json& result) {
    json expected{{"total", total_bytes(shape, nodes, sent)}};
    for (std::size_t axis = 0; axis < shape.axes.size(); ++axis)
      expected["crossing_bytes"][shape.axes[axis]] = crossing_bytes(shape, axis, nodes, sent);
    return first_difference(expected, result);
  });
}

void best_order(Context& context) {
  const auto judge = [](const Shape& shape, const Nodes& nodes, const Bytes& sent, const json& result) -> std::string {
    const std::int64_t fewest = fewest_bytes(shape, nodes, sent);
    const auto order = result.at("best_order").get<std::vector<std::string>>();
    if (!std::ranges::is_permutation(order, shape.axes))
      return fmt::format("the best order [{}] is none of these axes", fmt::join(order, ","));
    if (const auto words = first_difference(fewest, result.at("best_total"), "best_total"); !words.empty())
      return words;
    const std::int64_t its = total_bytes(reordered(shape, order), nodes, sent);
    if (its != fewest)
      return fmt::format("the order [{}] has {} bytes across nodes, another has {}", fmt::join(order, ","), its,
                         fewest);
    if (order != shape.axes && total_bytes(shape, nodes, sent) == fewest)
      return fmt::format("the order given is as good as [{}]", fmt::join(order, ","));
    return {};
  };
  judge_placements(context, judge, {.axes = 4, .ranks = 24});
}

// On four nodes of one rank each, an axis of two ranks sends four messages, two along each ring.
void bounds(Context& context) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const auto question = [](const Bytes& sent, int ranks_per_node) -> json {
    return {{"axes", {"a", "b"}}, {"dims", {2, 2}}, {"ranks_per_node", ranks_per_node}, {"bytes", sent}};
  };
  const auto answered = [&](const Bytes& sent, int ranks_per_node, const json& expected) {
    report_words(problem_of(context.adapter(), "topology.placement", question(sent, ranks_per_node),
                            [&](const json& result) { return first_difference(expected, result); }));
  };
  const auto refused = [&](const Bytes& sent) {
    report_words(problem_of_refusal_beside_answers(context.adapter(), "topology.placement", question(sent, 1)));
  };
  answered({{"a", kMost / 4}}, 1, {{"total", kMost / 4 * 4}, {"crossing_bytes", {{"a", kMost / 4 * 4}, {"b", 0}}}});
  answered({{"a", kMost / 8}, {"b", kMost / 8}}, 1, {{"total", kMost / 8 * 8}});
  refused({{"a", kMost / 4 + 1}});
  refused({{"b", kMost}});
  refused({{"a", kMost / 4}, {"b", 1}});
  refused({{"a", kMost / 8 + 1}, {"b", kMost / 8 + 1}});
  // With b the slowest, its bytes would cross.
  answered({{"b", kMost}}, 2, {{"total", 0}, {"best_order", {"a", "b"}}, {"best_total", 0}});
  answered({{"a", 1}, {"b", kMost}}, 2, {{"total", 4}, {"best_order", {"a", "b"}}, {"best_total", 4}});
}

suite::Check placement_check(std::string id, std::string verifies, std::function<void(Context&)> body) {
  return {.id = std::move(id),
          .verifies = {std::move(verifies)},
          .door = suite::Door::adapter,
          .axes = {shapes({"5", "3x2", "2x3x1", "2x3x4", "random"}),
                   {"ranks_per_node", {"1", "2", "3", "8", "100", "uneven"}}},
          .operations = {"topology.placement"},
          .body = std::move(body)};
}

}  // namespace

void add_placement_checks(suite::Suite& suite) {
  suite.add(placement_check("topology.nodes.crossing_groups", "TOPO-042@d3a8", groups));
  suite.add(placement_check("topology.nodes.crossing_bytes", "TOPO-043@9acb", bytes));
  suite.add(placement_check("topology.nodes.best_order", "TOPO-044@1d4d", best_order));
  suite::Check most = placement_check("topology.nodes.bounds", "TOPO-065@01e3", bounds);
  most.axes = {};
  suite.add(std::move(most));
}

}  // namespace plumbline::conformance
