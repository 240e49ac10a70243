#include "reference/topology/topology.hpp"

#include <algorithm>
#include <limits>
#include <random>
#include <set>
#include <span>

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
using Lists = std::vector<std::vector<int>>;

const Names kNames{"pipe", "data", "model"};

Topology small() { return Topology::row_major(kNames, Sizes{2, 3, 2}); }

// Every rank's coordinate by counting, the last of `order` fastest: what strides must say.
std::vector<Coordinate> counted(const Sizes& sizes, bool last_fastest) {
  std::vector<Coordinate> coordinates{Coordinate(sizes.size())};
  const auto axes = static_cast<int>(sizes.size());
  for (;;) {
    Coordinate next = coordinates.back();
    int at = last_fastest ? axes - 1 : 0;
    const auto on = [&] { return static_cast<std::size_t>(at); };
    for (; at >= 0 && at < axes && ++next[on()] == sizes[on()]; at += last_fastest ? -1 : 1) next[on()] = 0;
    if (at < 0 || at >= axes) return coordinates;
    coordinates.push_back(next);
  }
}

struct Shape {
  Names names;
  Sizes sizes;
  int offset = 0;
  bool last_fastest = true;
  [[nodiscard]] int rank_of(const Coordinate& at) const {
    NamedCoordinate named;
    for (std::size_t axis = 0; axis < at.size(); ++axis) named[names[axis]] = at[axis];
    return topology().rank(named);
  }
  [[nodiscard]] Topology topology() const {
    return last_fastest ? Topology::row_major(names, sizes, offset) : Topology::first_fastest(names, sizes, offset);
  }
};

Shape random_shape(std::mt19937& random) {
  const auto below = [&](unsigned limit) { return static_cast<int>(random() % limit); };
  Shape shape{.offset = below(2) * below(100), .last_fastest = below(2) == 0};
  const int axes = 1 + below(4);
  for (int i = 0; i < axes; ++i) {
    shape.names.push_back("axis" + std::to_string(i));
    shape.sizes.push_back(1 + below(4));
  }
  return shape;
}

template <class Check>
void for_random_shapes(Check check) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000 && !testing::Test::HasFailure(); ++round) {
    const Shape shape = random_shape(random);
    SCOPED_TRACE(testing::PrintToString(shape.sizes) + (shape.last_fastest ? "" : " first fastest") + " from " +
                 std::to_string(shape.offset));
    check(shape, counted(shape.sizes, shape.last_fastest));
  }
}

// The ranks whose coordinates satisfy `test`, by looking at each.
template <class Test>
std::vector<int> ranks_where(const Shape& shape, const std::vector<Coordinate>& coordinates, Test test) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < coordinates.size(); ++i)
    if (test(coordinates[i])) ranks.push_back(shape.offset + static_cast<int>(i));
  return ranks;
}

TEST(Topology, VisitsAllCoordinatesInOrder) {
  for_random_shapes([](const Shape& shape, const std::vector<Coordinate>& coordinates) {
    std::vector<Coordinate> visited;
    shape.topology().for_each_coordinate([&](int rank, std::span<const int> positions) {
      EXPECT_EQ(rank, shape.offset + static_cast<int>(visited.size()));
      visited.emplace_back(positions.begin(), positions.end());
    });
    EXPECT_EQ(visited, coordinates);
  });
}

TEST(Topology, CountsCoordinatesInOrder) {
  for_random_shapes([](const Shape& shape, const std::vector<Coordinate>& coordinates) {
    const Topology topology = shape.topology();
    ASSERT_EQ(topology.world_size(), static_cast<int>(coordinates.size()));
    for (int i = 0; i < topology.world_size(); ++i) {
      const Coordinate& wanted = coordinates[static_cast<std::size_t>(i)];
      const int rank = shape.offset + i;
      EXPECT_EQ(topology.coordinate(rank), wanted);
      for (std::size_t axis = 0; axis < wanted.size(); ++axis)
        EXPECT_EQ(topology.position(rank, shape.names[axis]), wanted[axis]);
      EXPECT_EQ(shape.rank_of(wanted), rank);
    }
  });
}

TEST(Topology, GroupsAreRanksThatDifferOnOneAxis) {
  for_random_shapes([](const Shape& shape, const std::vector<Coordinate>& coordinates) {
    const Topology topology = shape.topology();
    for (std::size_t axis = 0; axis < shape.names.size(); ++axis) {
      const GroupList groups = topology.groups(shape.names[axis]);
      std::vector<Coordinate> others;  // of each group, its own axis at 0
      for (const std::vector<int>& group : groups.lists()) {
        Coordinate common = topology.coordinate(group.front());
        EXPECT_EQ(group, ranks_where(shape, coordinates, [&](Coordinate it) {
                    it[axis] = common[axis];
                    return it == common;
                  }));
        EXPECT_EQ(common[axis], 0);
        for (const int rank : group) {
          EXPECT_EQ(topology.group_of(rank, shape.names[axis]), group);
          EXPECT_EQ(topology.group_index(rank, shape.names[axis]), static_cast<int>(others.size()));
        }
        others.push_back(common);
      }
      EXPECT_TRUE(std::ranges::is_sorted(others)) << "the first axis must be the slowest";
      EXPECT_EQ(static_cast<int>(others.size()) * groups.group_size(), topology.world_size());
    }
  });
}

TEST(Topology, MergedGroupsComeByFirstRankAndAscend) {
  std::mt19937 random(11);
  for_random_shapes([&](const Shape& shape, const std::vector<Coordinate>& coordinates) {
    const Topology topology = shape.topology();
    Names chosen;
    for (const std::string& name : shape.names)
      if (random() % 2 == 0) chosen.push_back(name);
    std::ranges::shuffle(chosen, random);
    std::vector<int> firsts;
    std::set<int> seen;
    for (const std::vector<int>& group : topology.merged_groups(chosen).lists()) {
      const Coordinate common = topology.coordinate(group.front());
      EXPECT_EQ(group, ranks_where(shape, coordinates, [&](const Coordinate& it) {
                  for (std::size_t axis = 0; axis < it.size(); ++axis)
                    if (std::ranges::find(chosen, shape.names[axis]) == chosen.end() && it[axis] != common[axis])
                      return false;
                  return true;
                }));
      firsts.push_back(group.front());
      seen.insert(group.begin(), group.end());
      EXPECT_EQ(topology.merged_group_of(group.back(), chosen), group);
    }
    EXPECT_TRUE(std::ranges::is_sorted(firsts));
    EXPECT_EQ(static_cast<int>(seen.size()), topology.world_size());
  });
}

TEST(Topology, MatchesByBruteForce) {
  std::mt19937 random(13);
  for_random_shapes([&](const Shape& shape, const std::vector<Coordinate>& coordinates) {
    NamedCoordinate filter;
    for (std::size_t axis = 0; axis < shape.names.size(); ++axis)
      if (random() % 2 == 0)
        filter[shape.names[axis]] = static_cast<int>(random() % static_cast<unsigned>(shape.sizes[axis]));
    EXPECT_EQ(shape.topology().matching(filter), ranks_where(shape, coordinates, [&](const Coordinate& it) {
                for (std::size_t axis = 0; axis < it.size(); ++axis)
                  if (filter.contains(shape.names[axis]) && filter[shape.names[axis]] != it[axis]) return false;
                return true;
              }));
  });
}

TEST(GroupList, GivesTheSameGroupsInEveryForm) {
  for_random_shapes([](const Shape& shape, const std::vector<Coordinate>&) {
    for (const std::string& name : shape.names) {
      const GroupList groups = shape.topology().groups(name);
      const Lists lists = groups.lists();
      ASSERT_EQ(groups.size(), static_cast<int>(lists.size()));
      std::vector<int> joined;
      for (int i = 0; i < groups.size(); ++i) {
        const std::vector<int> group = groups[i];
        EXPECT_EQ(group, lists[static_cast<std::size_t>(i)]);
        joined.insert(joined.end(), group.begin(), group.end());
      }
      EXPECT_EQ(groups.flat(), joined);
    }
  });
}

TEST(GroupList, RefusesOtherIndicesAndRooms) {
  const GroupList groups = small().groups("data");
  std::vector<int> room(3);
  EXPECT_THAT([&] { (void)groups[4]; }, ThrowsMessage<OutOfRange>("topology: group 4 of 4"));
  EXPECT_THAT([&] { (void)groups[-1]; }, ThrowsMessage<OutOfRange>("topology: group -1 of 4"));
  EXPECT_THAT([&] { groups.write_all(room); },
              ThrowsMessage<InvalidArgument>("topology: room for 3 ranks, 4 groups have 3 each"));
}

TEST(GroupList, OutlivesItsTopology) {
  const GroupList groups = [] { return small().groups("model"); }();
  EXPECT_THAT(groups[5], ElementsAre(10, 11));
}

TEST(Topology, IsOneRankWithoutAxes) {
  const Topology none = Topology::without_axes();
  EXPECT_EQ(none.world_size(), 1);
  EXPECT_THAT(none.coordinate(0), IsEmpty());
  EXPECT_EQ(none.rank({}), 0);
  EXPECT_THAT(none.matching({}), ElementsAre(0));
  EXPECT_EQ(none.merged_groups({}).lists(), (Lists{{0}}));
  EXPECT_EQ(none.to_string(), "");
}

TEST(Topology, MovesRanksAlongOneAxis) {
  for_random_shapes([](const Shape& shape, const std::vector<Coordinate>& coordinates) {
    const Topology topology = shape.topology();
    for (std::size_t i = 0; i < coordinates.size(); ++i)
      for (std::size_t axis = 0; axis < shape.names.size(); ++axis)
        for (int to = 0; to < shape.sizes[axis]; ++to) {
          Coordinate wanted = coordinates[i];
          wanted[axis] = to;
          EXPECT_EQ(topology.moved(shape.offset + static_cast<int>(i), shape.names[axis], to), shape.rank_of(wanted));
        }
  });
  EXPECT_THROW((void)small().moved(0, "data", 3), OutOfRange);
  EXPECT_THROW((void)small().moved(12, "data", 0), OutOfRange);
  EXPECT_THROW((void)small().moved(0, "x", 0), NotFound);
}

TEST(Topology, TakesThousandsOfAxes) {
  Names names;
  for (int i = 0; i < 20'000; ++i) names.push_back("axis" + std::to_string(i));
  const Topology many = Topology::row_major(names, Sizes(names.size(), 1));
  EXPECT_EQ(many.merged_groups(Names{"axis7", "axis19999"}).lists(), (Lists{{0}}));
  names.push_back("axis7");
  EXPECT_THROW((void)Topology::row_major(names, Sizes(names.size(), 1)), InvalidArgument);
}

TEST(Topology, TellsItsAxes) {
  const Topology topology = small();
  EXPECT_EQ(topology.axis_names(), kNames);
  EXPECT_EQ(topology.dimension("data"), 3);
  EXPECT_TRUE(topology.has_axis("pipe"));
  EXPECT_FALSE(topology.has_axis("pip"));
  EXPECT_EQ(topology.to_string(), "pipe=2 data=3 model=2");
  EXPECT_EQ(topology, small());
  EXPECT_NE(topology, Topology::first_fastest(kNames, Sizes{2, 3, 2}));
}

TEST(Topology, RefusesWhatIsNoWorld) {
  const auto make = [](const Names& names, const Sizes& sizes, int offset = 0) {
    return [=] { (void)Topology::row_major(names, sizes, offset); };
  };
  EXPECT_THAT(make({"a", "b"}, {2}), ThrowsMessage<InvalidArgument>("topology: 2 axes [a, b] but 1 sizes [2]"));
  EXPECT_THAT(make({"a"}, {2, 3}), ThrowsMessage<InvalidArgument>("topology: 1 axes [a] but 2 sizes [2, 3]"));
  EXPECT_THAT(make({"a", ""}, {2, 3}), ThrowsMessage<InvalidArgument>("topology: axis 1 of [a, ] has an empty name"));
  EXPECT_THAT(make({}, {}), ThrowsMessage<InvalidArgument>("topology: no axes in []; there must be one at least"));
  EXPECT_THROW((void)Topology::first_fastest({}, {}), InvalidArgument);
  EXPECT_THAT(make({"a", "b"}, {65536, 32768}), ThrowsMessage<InvalidArgument>(HasSubstr("no int holds")));
  EXPECT_THAT(make({"a", "b", "a"}, {1, 1, 1}),
              ThrowsMessage<InvalidArgument>("topology: axis 'a' is twice in [a, b, a]"));
  for (const int size : {0, -1})
    EXPECT_THAT(make({"a", "b"}, {2, size}),
                ThrowsMessage<InvalidArgument>("topology: axis 'b' must have a size of 1 or more, got " +
                                               std::to_string(size)));
  EXPECT_THAT(make({"a"}, {2}, -1), ThrowsMessage<InvalidArgument>("topology: the offset must be 0 or more, got -1"));
  EXPECT_THAT(make({"a", "b"}, {1 << 16, 1 << 16}),
              ThrowsMessage<InvalidArgument>("topology: a=65536 b=65536 from rank 0 has ranks that no int holds"));
  EXPECT_THAT(make({"a", "b", "c", "d"}, {1 << 30, 1 << 30, 1 << 30, 1 << 30}),
              ThrowsMessage<InvalidArgument>(HasSubstr("no int holds")));
  constexpr int kMost = std::numeric_limits<int>::max();
  EXPECT_THAT(make({"a"}, {2}, kMost), ThrowsMessage<InvalidArgument>(HasSubstr("a=2 from rank 2147483647")));
  EXPECT_NO_THROW(make({"a"}, {1}, kMost)());
  EXPECT_EQ(Topology::row_major(Names{"a"}, Sizes{kMost}).coordinate(kMost - 1), Coordinate{kMost - 1});
}

TEST(Topology, RefusesPlacesThatItDoesNotHave) {
  const Topology topology = Topology::row_major(kNames, Sizes{2, 3, 2}, 4);
  const auto rank_at = [&](const NamedCoordinate& at) { return [=] { (void)topology.rank(at); }; };
  EXPECT_THAT(rank_at({{"data", 1}}),
              ThrowsMessage<InvalidArgument>(
                  "topology: a rank needs a position on every axis of pipe=2 data=3 model=2; missing: pipe, model"));
  EXPECT_THAT(rank_at({{"pipe", 0}, {"data", 0}, {"tensor", 0}}),
              ThrowsMessage<NotFound>("topology: no axis 'tensor'; there are [pipe, data, model]"));
  EXPECT_THROW(rank_at({{"data", 9}, {"tensor", 0}})(), NotFound) << "whichever name comes first in the alphabet";
  EXPECT_THROW(rank_at({{"data", 9}, {"a", 0}})(), NotFound);
  const Topology last = Topology::row_major(Names{"a"}, Sizes{2}, std::numeric_limits<int>::max() - 1);
  EXPECT_THAT([&] { (void)last.coordinate(5); },
              ThrowsMessage<OutOfRange>("topology: rank 5 is not in a=2 (ranks 2147483646 to 2147483647)"));
  EXPECT_THAT(rank_at({{"pipe", 0}, {"data", 3}, {"model", 0}}),
              ThrowsMessage<OutOfRange>("topology: position 3 on axis 'data' of size 3"));
  EXPECT_THAT(rank_at({{"pipe", 0}, {"data", 0}, {"model", -1}}),
              ThrowsMessage<OutOfRange>("topology: position -1 on axis 'model' of size 2"));
  for (const int rank : {-1, 3, 16}) {
    const std::string message =
        "topology: rank " + std::to_string(rank) + " is not in pipe=2 data=3 model=2 (ranks 4 to 15)";
    EXPECT_THAT([&] { (void)topology.coordinate(rank); }, ThrowsMessage<OutOfRange>(message));
    EXPECT_THAT([&] { (void)topology.position(rank, "data"); }, ThrowsMessage<OutOfRange>(message));
    EXPECT_THAT([&] { (void)topology.group_of(rank, "data"); }, ThrowsMessage<OutOfRange>(message));
    EXPECT_THAT([&] { (void)topology.group_index(rank, "data"); }, ThrowsMessage<OutOfRange>(message));
    EXPECT_THAT([&] { (void)topology.merged_group_of(rank, {}); }, ThrowsMessage<OutOfRange>(message));
    EXPECT_THAT([&] { (void)rank_name(topology, rank); }, ThrowsMessage<OutOfRange>(message));
  }
  std::vector<int> room(2);
  EXPECT_THAT([&] { topology.coordinate(4, room); },
              ThrowsMessage<InvalidArgument>("topology: room for 2 positions, pipe=2 data=3 model=2 has 3 axes"));
  EXPECT_THROW((void)topology.dimension("x"), NotFound);
  EXPECT_THROW((void)topology.position(4, "x"), NotFound);
  EXPECT_THROW((void)topology.groups("x"), NotFound);
  EXPECT_THROW((void)topology.merged_groups(Names{"x"}), NotFound);
  EXPECT_THROW((void)topology.group_of(4, "x"), NotFound);
  EXPECT_THROW((void)topology.group_index(4, "x"), NotFound);
  EXPECT_THROW((void)topology.matching({{"x", 0}}), NotFound);
  EXPECT_THROW((void)topology.matching({{"data", 3}}), OutOfRange);
  const Names twice{"data", "pipe", "data"};
  EXPECT_THAT([&] { (void)topology.merged_groups(twice); },
              ThrowsMessage<InvalidArgument>("topology: axis 'data' is twice in [data, pipe, data]"));
  EXPECT_THROW((void)topology.merged_group_of(4, twice), InvalidArgument);
}

TEST(SplitNames, KeepsEmptyOnes) {
  EXPECT_THAT(split_names("tp-dp"), ElementsAre("tp", "dp"));
  EXPECT_THAT(split_names("tp-"), ElementsAre("tp", ""));
  EXPECT_THAT(split_names(""), ElementsAre(""));
}

TEST(RankName, IsWhatCheckpointsAreCalled) {
  EXPECT_EQ(rank_name(small(), 11), "model_01");
  EXPECT_EQ(rank_name(small(), 11, {.omit = {}}), "pipe_01-data_02-model_01");
  EXPECT_EQ(rank_name(small(), 11, {.omit = {"pipe", "other"}, .inner = "=", .outer = "/"}), "data=02/model=01");
  EXPECT_EQ(rank_name(small(), 0, {.omit = kNames}), "");
  EXPECT_EQ(rank_name(Topology::row_major(Names{"a"}, Sizes{101}), 100), "a_100");
}

}  // namespace
}  // namespace plumbline::topology
