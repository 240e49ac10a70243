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
using testing::ThrowsMessage;
using Names = std::vector<std::string>;
using Sizes = std::vector<int>;

Topology world(const Names& names, const Sizes& sizes, int offset = 0) {
  return Topology::row_major(names, sizes, offset);
}

Nodes random_nodes(std::mt19937& random, int world_size) {
  if (random() % 2 == 0) return Nodes::uniform(1 + static_cast<int>(random() % 9), world_size);
  Sizes sizes;
  for (int left = world_size; left > 0; left -= sizes.back())
    sizes.push_back(std::min(left, 1 + static_cast<int>(random() % 9)));
  return Nodes::uneven(sizes);
}

Sizes sizes_of(const Nodes& nodes) {
  Sizes sizes;
  for (int node = 0; node < nodes.count(); ++node) sizes.push_back(nodes.size(node));
  return sizes;
}

// Every message of every ring, one by one.
Placement counted_ranks(const Topology& topology, const Nodes& nodes, const Volume& bytes) {
  Placement placement;
  for (const Axis& axis : topology.axes()) {
    int& groups = placement.crossing_groups[axis.name];
    std::int64_t& axis_bytes = placement.crossing_bytes[axis.name];
    for (const std::vector<int>& group : topology.groups(axis.name).lists()) {
      if (crosses_nodes(group, nodes)) ++groups;
      for (std::size_t i = 0; group.size() > 1 && i < group.size(); ++i)
        if (nodes.node_of(group[i]) != nodes.node_of(group[(i + 1) % group.size()])) axis_bytes += bytes.at(axis.name);
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
    const int offset = random() % 2 == 0 ? 0 : static_cast<int>(random() % 12);
    const Topology topology =
        random() % 2 == 0 ? Topology::row_major(some, sizes, offset) : Topology::first_fastest(some, sizes, offset);
    const Nodes nodes = random_nodes(random, topology.world_size() + offset + static_cast<int>(random() % 4));
    SCOPED_TRACE(topology.to_string() + " from " + std::to_string(offset) + ", nodes at " +
                 testing::PrintToString(sizes_of(nodes)));
    const Placement wanted = counted_ranks(topology, nodes, bytes);
    const Placement scored = placement(topology, nodes, bytes);
    EXPECT_EQ(scored.crossing_groups, wanted.crossing_groups);
    EXPECT_EQ(scored.crossing_bytes, wanted.crossing_bytes);
    EXPECT_EQ(scored.total, wanted.total);
    for (const std::string& name : some)
      EXPECT_EQ(crossing_groups(topology, name, nodes), wanted.crossing_groups.at(name));
  }
}

TEST(Placement, OrdersAreScoredAsWorldsOfTheirOwn) {
  const Topology given = world({"pipe", "data", "model"}, {2, 3, 4});
  const Volume bytes{{"pipe", 10}, {"data", 1000}, {"model", 70}};
  const Nodes nodes = Nodes::uniform(4, 24);
  const std::vector<OrderScore> scores = order_scores(given, nodes, bytes);
  ASSERT_EQ(scores.size(), 6u);
  for (const OrderScore& score : scores) {
    Sizes sizes;
    for (const std::string& name : score.axes) sizes.push_back(given.dimension(name));
    EXPECT_EQ(score.total, counted_ranks(world(score.axes, sizes), nodes, bytes).total)
        << testing::PrintToString(score.axes);
  }
  EXPECT_TRUE(std::ranges::is_sorted(scores, {}, &OrderScore::total));
  EXPECT_EQ(best_order(given, nodes, bytes), scores.front());
  EXPECT_EQ(scores.front().axes.back(), "data");
}

TEST(Placement, PrefersTheGivenOrderThenNames) {
  const Topology given = world({"c", "a", "b"}, {2, 2, 2});
  const std::vector<OrderScore> scores = order_scores(given, Nodes::uniform(8, 8), {});
  std::vector<Names> orders;
  for (const OrderScore& score : scores) orders.push_back(score.axes);
  EXPECT_THAT(orders, ElementsAre(Names{"c", "a", "b"}, Names{"a", "b", "c"}, Names{"a", "c", "b"},
                                  Names{"b", "a", "c"}, Names{"b", "c", "a"}, Names{"c", "b", "a"}));
  const Topology reversed = Topology::first_fastest(Names{"c", "a", "b"}, Sizes{2, 2, 2});
  EXPECT_THAT(best_order(reversed, Nodes::uniform(8, 8), {}).axes, ElementsAre("b", "a", "c"));
}

TEST(Placement, ScoresEveryOrderOfSevenAxes) {
  const Names names{"a", "b", "c", "d", "e", "f", "g"};
  const Topology given = world(names, {2, 4, 8, 2, 4, 8, 4});
  const Nodes nodes = Nodes::uniform(64, given.world_size());
  EXPECT_EQ(order_scores(given, nodes, {{"c", 5}}).size(), 5040u);
  EXPECT_EQ(best_order(given, nodes, {{"c", 5}}).total, 0);
}

// The same nodes, one by one.
Nodes listed(const Nodes& nodes) { return Nodes::uneven(sizes_of(nodes)); }

TEST(Placement, CountsUniformNodesAsIfTheyWereListed) {
  std::mt19937 random(5);
  const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
  for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
    const Topology topology = world({"a", "b", "c"}, {1 + below(40), 1 + below(60), 1 + below(40)}, below(99));
    const Nodes nodes = Nodes::uniform(1 + below(3000), topology.offset() + topology.world_size() + below(9));
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
  EXPECT_EQ(order_scores(given, nodes, {{"b", most}}), (std::vector<OrderScore>{{{"a", "b"}, 0}}));
  EXPECT_THROW((void)order_scores(given, nodes, {{"a", most}}), OutOfRange);
}

TEST(Nodes, KnowTheirRanks) {
  const Nodes even = Nodes::uniform(4, 10);
  EXPECT_EQ(even.count(), 3);
  EXPECT_THAT(sizes_of(even), ElementsAre(4, 4, 2));
  EXPECT_EQ(even.first_rank(2), 8);
  EXPECT_EQ(even.node_of(9), 2);
  EXPECT_EQ(even.ranks_per_node(), 4);
  const Nodes uneven = Nodes::uneven(Sizes{1, 3, 2});
  EXPECT_EQ(uneven.world_size(), 6);
  EXPECT_THAT(sizes_of(uneven), ElementsAre(1, 3, 2));
  EXPECT_EQ(uneven.ranks_per_node(), std::nullopt);
  std::vector<int> nodes;
  for (int rank = 0; rank < 6; ++rank) nodes.push_back(uneven.node_of(rank));
  EXPECT_THAT(nodes, ElementsAre(0, 1, 1, 1, 2, 2));
  EXPECT_TRUE(crosses_nodes(Sizes{0, 1}, uneven));
  EXPECT_FALSE(crosses_nodes(Sizes{1, 3}, uneven));
  EXPECT_FALSE(crosses_nodes({}, uneven));
}

TEST(Nodes, Refuse) {
  EXPECT_THAT([] { (void)Nodes::uniform(0, 4); },
              ThrowsMessage<InvalidArgument>("nodes: ranks per node and world size must be 1 or more, got 0 and 4"));
  EXPECT_THAT([] { (void)Nodes::uneven(Sizes{2, 0}); },
              ThrowsMessage<InvalidArgument>("nodes: a node must have 1 rank or more, got 0 in [2, 0]"));
  EXPECT_THROW((void)Nodes::uneven({}), InvalidArgument);
  EXPECT_THROW((void)Nodes::uneven(Sizes{2147483647, 1}), InvalidArgument);
  const Nodes nodes = Nodes::uniform(2, 4);
  EXPECT_THAT([&] { (void)nodes.node_of(4); }, ThrowsMessage<OutOfRange>("nodes: rank 4 is not in a world of 4"));
  EXPECT_THROW((void)nodes.node_of(-1), OutOfRange);
  EXPECT_THROW((void)nodes.first_rank(-1), OutOfRange);
  EXPECT_THAT([&] { (void)nodes.size(2); }, ThrowsMessage<OutOfRange>("nodes: node 2 of 2"));
}

TEST(Placement, Refuses) {
  const Topology four = world({"a", "b"}, {2, 2});
  const Nodes nodes = Nodes::uniform(2, 4);
  EXPECT_THAT([&] { (void)placement(four, Nodes::uniform(2, 3), {}); },
              ThrowsMessage<InvalidArgument>("placement: a=2 b=2 has ranks 0 to 3, the 2 nodes have 3 ranks"));
  EXPECT_EQ(placement(four, Nodes::uniform(2, 6), {}).crossing_groups, placement(four, nodes, {}).crossing_groups);
  EXPECT_THROW((void)placement(world({"a"}, {4}, 2), Nodes::uniform(2, 5), {}), InvalidArgument);
  EXPECT_THROW((void)crossing_groups(four, "a", Nodes::uniform(2, 3)), InvalidArgument);
  EXPECT_THROW((void)crossing_groups(four, "x", nodes), NotFound);
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
