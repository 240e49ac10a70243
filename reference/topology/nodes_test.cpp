#include "reference/topology/nodes.hpp"

#include <algorithm>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Names = std::vector<std::string>;
using Sizes = std::vector<int>;

Topology world(const Names& names, const Sizes& sizes) { return Topology::row_major(names, sizes); }

Nodes random_nodes(std::mt19937& random, int world_size) {
  if (random() % 2 == 0) return Nodes::uniform(1 + static_cast<int>(random() % 9), world_size);
  Sizes sizes;
  for (int left = world_size; left > 0; left -= sizes.back())
    sizes.push_back(std::min(left, 1 + static_cast<int>(random() % 9)));
  return Nodes::uneven(sizes);
}

Sizes sizes_of(const Nodes& nodes) {
  Sizes sizes;
  if (const auto even = nodes.ranks_per_node())
    for (int left = nodes.world_size(); left > 0; left -= *even) sizes.push_back(std::min(left, *even));
  for (std::size_t i = 1; i < nodes.bounds().size(); ++i) sizes.push_back(nodes.bounds()[i] - nodes.bounds()[i - 1]);
  return sizes;
}

// The node of each rank.
std::vector<int> nodes_of_ranks(const Nodes& nodes) {
  std::vector<int> all;
  int node = 0;
  for (const int size : sizes_of(nodes)) all.insert(all.end(), static_cast<std::size_t>(size), node++);
  return all;
}

// Every message of every ring, one by one.
Placement counted_ranks(const Topology& topology, const Nodes& nodes, const Volume& bytes) {
  const std::vector<int> all = nodes_of_ranks(nodes);
  const auto node_of = [&](int rank) { return all.at(static_cast<std::size_t>(rank)); };
  Placement placement;
  for (const Axis& axis : topology.axes()) {
    int& groups = placement.crossing_groups[axis.name];
    std::int64_t& axis_bytes = placement.crossing_bytes[axis.name];
    for (const std::vector<int>& group : topology.groups(axis.name).lists()) {
      if (node_of(group.front()) != node_of(group.back())) ++groups;
      for (std::size_t i = 0; group.size() > 1 && i < group.size(); ++i)
        if (node_of(group[i]) != node_of(group[(i + 1) % group.size()])) axis_bytes += bytes.at(axis.name);
    }
    placement.total += axis_bytes;
  }
  return placement;
}

TEST(Placement, CountsEveryMessageOfEveryRing) {
  std::mt19937 random(3);
  const Names names{"a", "b", "c", "d"};
  for (int round = 0; round < 2000 && !testing::Test::HasFailure(); ++round) {
    const auto axes = static_cast<std::ptrdiff_t>(1 + random() % 4);
    const Names some(names.begin(), names.begin() + axes);
    Sizes sizes;
    Volume bytes;
    for (const std::string& name : some) {
      sizes.push_back(1 + static_cast<int>(random() % 4));
      bytes[name] = static_cast<std::int64_t>(random() % 100);
    }
    const Topology topology =
        random() % 2 == 0 ? Topology::row_major(some, sizes) : Topology::first_fastest(some, sizes);
    const Nodes nodes = random_nodes(random, topology.world_size());
    SCOPED_TRACE(topology.to_string() + ", nodes of " + testing::PrintToString(sizes_of(nodes)));
    const Placement wanted = counted_ranks(topology, nodes, bytes);
    const Placement scored = placement(topology, nodes, bytes);
    EXPECT_EQ(scored.crossing_groups, wanted.crossing_groups);
    EXPECT_EQ(scored.crossing_bytes, wanted.crossing_bytes);
    EXPECT_EQ(scored.total, wanted.total);
  }
}

TEST(Placement, OrdersAreScoredAsWorldsOfTheirOwn) {
  const Topology given = world({"pipe", "data", "model"}, {2, 3, 4});
  const Volume bytes{{"pipe", 10}, {"data", 1000}, {"model", 70}};
  const Nodes nodes = Nodes::uniform(4, 24);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  Names order{"data", "model", "pipe"};
  do {
    Sizes sizes;
    for (const std::string& name : order) sizes.push_back(given.dimension(name));
    least = std::min(least, counted_ranks(world(order, sizes), nodes, bytes).total);
  } while (std::ranges::next_permutation(order).found);
  const OrderScore best = best_order(given, nodes, bytes);
  EXPECT_EQ(best.total, least);
  EXPECT_EQ(best.axes.back(), "data");
}

TEST(Placement, PrefersTheGivenOrderThenNames) {
  const Topology given = world({"c", "a", "b"}, {2, 2, 2});
  EXPECT_THAT(best_order(given, Nodes::uniform(8, 8), {}).axes, ElementsAre("c", "a", "b"));
  EXPECT_THAT(best_order(given, Nodes::uniform(2, 8), {{"c", 1}}).axes, ElementsAre("a", "b", "c"));
  const Topology reversed = Topology::first_fastest(Names{"c", "a", "b"}, Sizes{2, 2, 2});
  EXPECT_THAT(best_order(reversed, Nodes::uniform(8, 8), {}).axes, ElementsAre("b", "a", "c"));
}

TEST(Placement, ScoresEveryOrderOfSevenAxes) {
  const Names names{"a", "b", "c", "d", "e", "f", "g"};
  const Topology given = world(names, {2, 4, 8, 2, 4, 8, 4});
  EXPECT_EQ(best_order(given, Nodes::uniform(64, given.world_size()), {{"c", 5}}).total, 0);
}

// The same nodes, one by one.
Nodes listed(const Nodes& nodes) { return Nodes::uneven(sizes_of(nodes)); }

TEST(Placement, CountsUniformNodesAsIfTheyWereListed) {
  std::mt19937 random(5);
  const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
  for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
    const Topology topology = world({"a", "b", "c"}, {1 + below(40), 1 + below(60), 1 + below(40)});
    const Nodes nodes = Nodes::uniform(1 + below(3000), topology.world_size());
    SCOPED_TRACE(topology.to_string() + ", nodes of " + std::to_string(*nodes.ranks_per_node()));
    const Volume bytes{{"a", 3}, {"b", 50}, {"c", 700}};
    EXPECT_EQ(placement(topology, nodes, bytes).crossing_groups,
              placement(topology, listed(nodes), bytes).crossing_groups);
    EXPECT_EQ(placement(topology, nodes, bytes).crossing_bytes,
              placement(topology, listed(nodes), bytes).crossing_bytes);
  }
}

// Where each node would be looked at, these would take minutes.
TEST(Placement, TakesTheLargestWorlds) {
  const int half = 1 << 29;
  const Topology wide = world({"a", "b"}, {2, half});
  const Placement alone = placement(wide, Nodes::uniform(1, wide.world_size()), {{"a", 1}, {"b", 1}});
  EXPECT_EQ(alone.crossing_groups, (std::map<std::string, int>{{"a", half}, {"b", 2}}));
  EXPECT_EQ(alone.total, std::int64_t{4} * half);
  const Placement pairs = placement(wide, Nodes::uniform(2, wide.world_size()), {{"a", 1}, {"b", 1}});
  EXPECT_EQ(pairs.crossing_bytes, (std::map<std::string, std::int64_t>{{"a", 2LL * half}, {"b", half}}));
  // Nodes and groups without a common divisor: 46341 stretches are looked at.
  const Topology odd = world({"a", "b"}, {46337, 46337});
  const Placement placed = placement(odd, Nodes::uniform(46338, odd.world_size()), {{"a", 1}, {"b", 1}});
  EXPECT_EQ(placed.crossing_groups.at("a"), 46337);
  EXPECT_EQ(placed.crossing_bytes.at("a"), std::int64_t{46337} * 46337 - 46336);
}

TEST(Placement, LeavesOutOrdersWhoseBytesAreTooMany) {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Topology given = world({"a", "b"}, {2, 2});
  const Nodes nodes = Nodes::uniform(2, 4);
  EXPECT_EQ(best_order(given, nodes, {{"b", most}}), (OrderScore{{"a", "b"}, 0}));
  EXPECT_THROW((void)best_order(given, nodes, {{"a", most}}), OutOfRange);
}

TEST(Nodes, KnowTheirRanks) {
  const Nodes even = Nodes::uniform(4, 10);
  EXPECT_EQ(even.world_size(), 10);
  EXPECT_EQ(even.ranks_per_node(), 4);
  EXPECT_THAT(even.bounds(), IsEmpty());
  const Nodes uneven = Nodes::uneven(Sizes{1, 3, 2});
  EXPECT_EQ(uneven.world_size(), 6);
  EXPECT_EQ(uneven.ranks_per_node(), std::nullopt);
  EXPECT_THAT(uneven.bounds(), ElementsAre(0, 1, 4, 6));
}

TEST(Nodes, Refuse) {
  EXPECT_THAT([] { (void)Nodes::uniform(0, 4); },
              ThrowsMessage<InvalidArgument>("nodes: ranks per node must be 1 or more, got 0"));
  EXPECT_THAT([] { (void)Nodes::uneven(Sizes{2, 0}); },
              ThrowsMessage<InvalidArgument>("nodes: a node must have 1 rank or more, got 0 in [2, 0]"));
  EXPECT_THROW((void)Nodes::uneven(Sizes{2147483647, 1}), InvalidArgument);
}

TEST(Placement, Refuses) {
  const Topology four = world({"a", "b"}, {2, 2});
  const Nodes nodes = Nodes::uniform(2, 4);
  EXPECT_THAT(
      [&] { (void)placement(four, Nodes::uniform(2, 3), {}); },
      ThrowsMessage<InvalidArgument>("placement: a=2 b=2 has 4 ranks from 0 on, the nodes have 3 ranks from 0 on"));
  EXPECT_THROW((void)placement(four, Nodes::uniform(2, 6), {}), InvalidArgument);
  EXPECT_THROW((void)placement(four, Nodes::uneven({}), {}), InvalidArgument);
  EXPECT_THROW((void)placement(Topology::row_major(Names{"a"}, Sizes{4}, 2), nodes, {}), InvalidArgument);
  EXPECT_THAT([&] { (void)placement(four, nodes, {{"a", -1}}); },
              ThrowsMessage<InvalidArgument>("placement: bytes of axis 'a' must be 0 or more, got -1"));
  EXPECT_THROW((void)placement(four, nodes, {{"x", 1}}), NotFound);
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THAT([&] { (void)placement(four, nodes, {{"a", most}}); }, ThrowsMessage<OutOfRange>(HasSubstr("63 bits")));
  const Topology apart = world({"a", "b"}, {2, 2});
  EXPECT_THROW((void)placement(apart, Nodes::uniform(1, 4), {{"a", most / 4}, {"b", most / 4}}), OutOfRange);
  EXPECT_THROW(
      (void)best_order(world({"a", "b", "c", "d", "e", "f", "g", "h", "i"}, Sizes(9, 1)), Nodes::uniform(1, 1), {}),
      InvalidArgument);
  EXPECT_THROW((void)best_order(four, nodes, {{"x", 1}}), NotFound);
}

}  // namespace
}  // namespace plumbline::topology
