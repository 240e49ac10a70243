#include "reference/topology/device_mesh.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

// Recorded answers of torch are asked through the adapter door. Here: slices by brute force, and what is refused.
namespace plumbline::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Names = std::vector<std::string>;
using Sizes = std::vector<int>;

const DeviceMesh kMesh(Sizes{2, 3, 2}, Names{"pp", "dp", "tp"});

TEST(DeviceMesh, IsRowMajor) {
  EXPECT_THAT(kMesh.mesh().ranks, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(kMesh.mesh().shape, ElementsAre(2, 3, 2));
  EXPECT_THAT(kMesh.coordinate(9), ElementsAre(1, 1, 1));
  EXPECT_EQ(kMesh.local_rank(9, "dp"), 1);
  EXPECT_THAT(kMesh.group_of(9, "dp"), ElementsAre(7, 9, 11));
  EXPECT_EQ(kMesh.groups("tp").lists()[2], (std::vector<int>{4, 5}));
}

TEST(DeviceMesh, SlicesWhereTheRankIs) {
  for (int rank = 0; rank < 12; ++rank)
    for (const Names& names :
         {Names{"pp"}, Names{"dp"}, Names{"pp", "tp"}, Names{"dp", "tp"}, Names{"pp", "dp", "tp"}, Names{}}) {
      const SubMesh slice = kMesh.slice(rank, names);
      std::vector<int> wanted;
      for (int other = 0; other < 12; ++other) {
        bool is_in = true;
        for (const std::string& name : kMesh.topology().axis_names())
          if (std::ranges::find(names, name) == names.end())
            is_in = is_in && kMesh.local_rank(other, name) == kMesh.local_rank(rank, name);
        if (is_in) wanted.push_back(other);
      }
      EXPECT_EQ(slice.ranks, wanted);
      EXPECT_EQ(kMesh.flatten(rank, names), wanted);
      EXPECT_EQ(slice.names, names);
    }
  EXPECT_THAT(kMesh.slice(9, Names{"pp", "tp"}).shape, ElementsAre(2, 2));
  EXPECT_THAT(kMesh.slice(9, Names{}).shape, IsEmpty());
}

TEST(DeviceMesh, MayBeSmallerThanTheWorld) {
  const DeviceMesh line(Sizes{4}, Names{"dp"}, 6);
  EXPECT_EQ(line.local_rank(2, "dp"), 2);
  EXPECT_THROW((void)line.coordinate(4), OutOfRange);
}

TEST(DeviceMesh, Refuses) {
  EXPECT_THAT([] { DeviceMesh(Sizes{2, 4}, Names{"a", "b"}, 4); },
              ThrowsMessage<InvalidArgument>("DeviceMesh: a=2 b=4 has 8 ranks, the world has 4"));
  EXPECT_THROW(DeviceMesh(Sizes{2, 2}, Names{"a", "a"}), InvalidArgument);
  EXPECT_THROW(DeviceMesh(Sizes{2, 2}, Names{"a"}), InvalidArgument);
  EXPECT_THAT([] { (void)kMesh.slice(0, Names{"c"}); },
              ThrowsMessage<NotFound>(HasSubstr("no axis 'c'; there are [pp, dp, tp]")));
  for (const Names& names : {Names{"tp", "pp"}, Names{"dp", "dp"}})
    EXPECT_THAT([&] { (void)kMesh.slice(0, names); },
                ThrowsMessage<InvalidArgument>("DeviceMesh: slice [" + names[0] + ", " + names[1] +
                                               "] must have its names in the order of [pp, dp, tp], each once"));
  EXPECT_THROW((void)kMesh.slice(12, Names{"pp"}), OutOfRange);
  EXPECT_THROW((void)kMesh.group_of(0, "x"), NotFound);
}

TEST(RankMesh, HasTheRanksThatItIsGiven) {
  const RankMesh mesh(Sizes{2, 2}, Names{"a", "b"}, Sizes{3, 1, 0, 4}, 6);
  EXPECT_THAT(mesh.mesh().ranks, ElementsAre(3, 1, 0, 4));
  EXPECT_THAT(mesh.coordinate(4).value(), ElementsAre(1, 1));
  EXPECT_FALSE(mesh.coordinate(2));
  EXPECT_THAT(mesh.group_of(3, "a"), ElementsAre(0, 3));
  EXPECT_EQ(mesh.local_rank(3, "a"), 1) << "its coordinate is 0";
  EXPECT_THAT(mesh.groups("b"), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 3)));
  EXPECT_THAT(mesh.slice(3, Names{"a"}).ranks, ElementsAre(3, 0));
  EXPECT_THAT(mesh.flatten(3, Names{"a", "b"}), ElementsAre(3, 1, 0, 4));
}

TEST(RankMesh, Refuses) {
  EXPECT_THAT([] { RankMesh(Sizes{2}, Names{"a"}, Sizes{1}, 4); },
              ThrowsMessage<InvalidArgument>("RankMesh: a=2 has 2 positions, 1 ranks are given"));
  EXPECT_THAT([] { RankMesh(Sizes{2}, Names{"a"}, Sizes{1, 1}, 4); },
              ThrowsMessage<InvalidArgument>("RankMesh: rank 1 is given twice; a mesh has each rank once"));
  EXPECT_THAT([] { RankMesh(Sizes{2}, Names{"a"}, Sizes{1, 4}, 4); },
              ThrowsMessage<OutOfRange>("RankMesh: rank 4 is outside of a world of 4 ranks"));
  const RankMesh mesh(Sizes{2}, Names{"a"}, Sizes{3, 0}, 4);
  EXPECT_THROW((void)mesh.group_of(1, "a"), NotFound);
  EXPECT_THROW((void)mesh.slice(2, Names{"a"}), NotFound);
}

}  // namespace
}  // namespace plumbline::topology
