#include "reference/topology/deepspeed.hpp"

#include <array>
#include <functional>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

// Recorded answers of DeepSpeed are asked through the adapter door. Here: its corners, and what is refused.
namespace plumbline::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;
using Names = std::vector<std::string>;
using Lists = std::vector<std::vector<int>>;

Topology two(int pipe, int data) { return Topology::row_major(Names{"pipe", "data"}, std::array{pipe, data}); }
Topology three(int pipe, int data, int model) {
  return Topology::row_major(Names{"pipe", "data", "model"}, std::array{pipe, data, model});
}

const ProcessTopology kThree({"pipe", "data", "model"}, {2, 3, 4});

TEST(ProcessTopology, IsATopologyOnLegalInput) {
  const Topology plain = three(2, 3, 4);
  EXPECT_EQ(kThree.world_size(), 24);
  for (int rank = 0; rank < 24; ++rank) {
    EXPECT_EQ(kThree.get_coord(rank), plain.coordinate(rank));
    const Coordinate at = plain.coordinate(rank);
    EXPECT_EQ(kThree.get_rank({{"pipe", at[0]}, {"data", at[1]}, {"model", at[2]}}), rank);
    EXPECT_EQ(kThree.get_rank_repr(rank), rank_name(plain, rank));
  }
  for (const std::string& axis : kThree.get_axis_names()) {
    EXPECT_EQ(kThree.get_axis_comm_lists(axis), plain.groups(axis).lists());
    EXPECT_EQ(kThree.get_dim(axis), plain.dimension(axis));
    EXPECT_EQ(kThree.get_axis_list(axis, 1), plain.matching({{axis, 1}}));
  }
  EXPECT_EQ(kThree.filter_match({{"pipe", 1}, {"model", 3}}), plain.matching({{"pipe", 1}, {"model", 3}}));
}

TEST(ProcessTopology, IsLenientWithWhatItHasNot) {
  EXPECT_EQ(kThree.get_dim("x"), 0);
  EXPECT_THAT(kThree.get_axis_comm_lists("x"), IsEmpty());
  for (const int position : {-1, 3}) {
    EXPECT_THAT(kThree.get_axis_list("data", position), IsEmpty());
    EXPECT_THAT(kThree.filter_match({{"data", position}, {"pipe", 0}}), IsEmpty());
  }
  EXPECT_EQ(kThree.filter_match({}).size(), 24u);
  EXPECT_EQ(kThree.get_rank_repr(99, {.omit = {"pipe", "data", "model"}}), "");
}

TEST(ProcessTopology, RefusesAndNamesTheCoordinate) {
  const auto rank_at = [](const NamedCoordinate& at) { return [=] { (void)kThree.get_rank(at); }; };
  EXPECT_THAT(rank_at({{"pipe", 0}, {"data", 1}}), ThrowsMessage<InvalidArgument>(HasSubstr("missing: model")));
  EXPECT_THROW(rank_at({})(), InvalidArgument);
  EXPECT_THROW(rank_at({{"pipe", 0}, {"data", 0}, {"model", 0}, {"x", 0}})(), NotFound);
  EXPECT_THROW(rank_at({{"pipe", 0}, {"data", 0}, {"tensor", 0}})(), NotFound);
  for (const int position : {-1, 2})
    EXPECT_THAT(
        rank_at({{"pipe", position}, {"data", 0}, {"model", 0}}),
        ThrowsMessage<OutOfRange>("topology: position " + std::to_string(position) + " on axis 'pipe' of size 2"));
  for (const int rank : {-1, 24}) {
    const std::string message = "ProcessTopology: rank " + std::to_string(rank) +
                                " is not in [pipe, data, model] of sizes [2, 3, 4], a world of 24";
    EXPECT_THAT([&] { (void)kThree.get_coord(rank); }, ThrowsMessage<OutOfRange>(message));
    EXPECT_THAT([&] { (void)kThree.get_rank_repr(rank); }, ThrowsMessage<OutOfRange>(message));
  }
  EXPECT_THROW((void)kThree.get_axis_list("x", 0), NotFound);
  EXPECT_THROW((void)kThree.filter_match({{"x", 0}}), NotFound);
  for (const char* name : {"a", "x"}) {  // before and after the axes in the alphabet
    EXPECT_THROW((void)kThree.filter_match({{"data", 2}, {name, 0}}), NotFound);
    EXPECT_THAT(kThree.filter_match({{"data", 9}, {name, 0}}), IsEmpty()) << "the mismatch is found first";
    EXPECT_THROW((void)kThree.get_rank({{"data", 9}, {"pipe", 0}, {name, 0}}), NotFound);
  }
}

TEST(ProcessTopology, HasAnEmptyWorldForSizesBelowOne) {
  for (const int size : {0, -1}) {
    const ProcessTopology empty({"a", "b"}, {2, size});
    EXPECT_EQ(empty.world_size(), 0);
    EXPECT_EQ(empty.get_dim("a"), 2);
    EXPECT_EQ(empty.get_dim("b"), size);
    EXPECT_THAT(empty.get_axis_comm_lists("a"), IsEmpty());
    EXPECT_EQ(empty.get_axis_comm_lists("b"), (Lists{{}, {}}));
    EXPECT_THAT(empty.get_axis_list("a", 0), IsEmpty());
    EXPECT_THAT(empty.filter_match({{"x", 0}}), IsEmpty());
    EXPECT_EQ(empty.to_string(), "{}");
    EXPECT_THROW((void)empty.get_axis_list("x", 0), NotFound);
    EXPECT_THROW((void)empty.get_coord(0), OutOfRange);
    EXPECT_THROW((void)empty.get_rank({{"a", 0}, {"b", 0}}), OutOfRange);
    EXPECT_THROW((void)empty.get_rank_repr(0), OutOfRange);
    EXPECT_EQ(empty.get_rank_repr(0, {.omit = {"a", "b"}}), "");
  }
  const ProcessTopology emptied({"a"}, {2, 0});
  EXPECT_EQ(emptied.world_size(), 0);
  EXPECT_THROW((void)emptied.get_axis_comm_lists("a"), OutOfRange);
  EXPECT_THROW((void)ProcessTopology({}, {0}).get_rank({}), OutOfRange);
}

TEST(ProcessTopology, MayHaveFewerSizesThanAxesInAnEmptyWorld) {
  const ProcessTopology empty({"a", "b"}, {0});
  EXPECT_EQ(empty.world_size(), 0);
  EXPECT_EQ(empty.get_dim("a"), 0);
  EXPECT_THAT(empty.filter_match({{"b", 0}}), IsEmpty());
  EXPECT_THAT(empty.get_axis_list("b", 0), IsEmpty());
  EXPECT_EQ(empty.to_string(), "{}");
  EXPECT_THAT([&] { (void)empty.get_dim("b"); },
              ThrowsMessage<OutOfRange>("ProcessTopology: axis 'b' of [a, b] is beyond the sizes [0]"));
  EXPECT_THROW((void)empty.get_axis_comm_lists("a"), OutOfRange);
  EXPECT_THROW((void)empty.get_rank({{"a", 0}, {"b", 0}}), OutOfRange);
  EXPECT_THROW(ProcessTopology({"a"}, {}), InvalidArgument);
}

TEST(ProcessTopology, CountsGroupsBeforeTheyAreMade) {
  EXPECT_EQ(ProcessTopology({"a", "b"}, {2000000000, 0}).count_axis_comm_lists("b"), 2000000000);
  EXPECT_EQ(ProcessTopology({"a", "b"}, {2000000000, 0}).count_axis_comm_lists("a"), 0);
  EXPECT_EQ(ProcessTopology({"a", "b", "c"}, {-1, 5, 0}).count_axis_comm_lists("b"), 0);
  EXPECT_EQ(ProcessTopology({"a", "b"}, {-1, 2}).count_axis_comm_lists("a"), 2);
  EXPECT_THROW((void)ProcessTopology({"a"}, {2, 0}).count_axis_comm_lists("a"), OutOfRange);
  EXPECT_EQ(kThree.count_axis_comm_lists("data"), 8);
  EXPECT_EQ(kThree.count_axis_comm_lists("x"), 0);
}

TEST(ProcessTopology, IsATopologyUnlessInACorner) {
  EXPECT_EQ(kThree.topology(), three(2, 3, 4));
  EXPECT_EQ(ProcessTopology({"a"}, {2, 1, 1}).topology(), ProcessTopology({"a"}, {2}).topology());
  EXPECT_THAT([] { (void)ProcessTopology({"a"}, {2, 3}).topology(); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the ranks of [a] of sizes [2, 3], a world of 2, are not")));
  EXPECT_THROW((void)ProcessTopology({"a"}, {0}).topology(), InvalidArgument);
}

TEST(ProcessTopology, IsOneRankWithoutAxes) {
  const ProcessTopology none({}, {});
  EXPECT_EQ(none.world_size(), 1);
  EXPECT_THAT(none.get_coord(0), IsEmpty());
  EXPECT_EQ(none.get_rank({}), 0);
  EXPECT_EQ(none.to_string(), "{ProcessCoord(): 0}");
}

TEST(ProcessTopology, ForgetsSurplusSizes) {
  const ProcessTopology wide({"a", "b"}, {2, 2, 3});
  EXPECT_EQ(wide.world_size(), 4);
  EXPECT_THAT(wide.ranks(), ElementsAre(2, 5, 8, 11));
  EXPECT_EQ(wide.get_rank({{"a", 1}, {"b", 0}}), 8);
  EXPECT_THAT(wide.get_coord(11), ElementsAre(1, 1));
  EXPECT_THROW((void)wide.get_coord(10), OutOfRange);
  EXPECT_THROW((void)wide.get_coord(14), OutOfRange);
  EXPECT_EQ(wide.get_axis_comm_lists("a"), (Lists{{2, 8}, {5, 11}}));
  EXPECT_THAT(wide.get_axis_list("b", 1), ElementsAre(5, 11));
  EXPECT_EQ(wide.get_rank_repr(8), "a_01-b_00");
}

TEST(ProcessTopology, PrintsAsPythonDoes) {
  EXPECT_EQ(ProcessTopology({"pipe", "data"}, {1, 2}).to_string(),
            "{ProcessCoord(pipe=0, data=0): 0, ProcessCoord(pipe=0, data=1): 1}");
}

TEST(ProcessTopology, RefusesNamesThatAreNoFields) {
  for (const char* name : {"", "1x", "a b", "a-b", "class", "None", "_a"})
    EXPECT_THAT([&] { ProcessTopology({name}, {2}); },
                ThrowsMessage<InvalidArgument>(HasSubstr("must be an identifier")))
        << name;
  for (const char* name : {"a_", "A1", "klass", "\xc3\xa4"}) EXPECT_EQ(ProcessTopology({name}, {2}).world_size(), 2);
  EXPECT_THAT([] { ProcessTopology({"a", "a"}, {2, 0}); }, ThrowsMessage<InvalidArgument>(HasSubstr("'a' is twice")));
  EXPECT_THAT([] { ProcessTopology({"a", "b"}, {2}); },
              ThrowsMessage<InvalidArgument>("ProcessTopology: 2 axes [a, b] but 1 sizes [2]"));
}

TEST(ProcessTopology, RefusesWorldsThatNoIntCounts) {
  const int many = 1 << 20;
  EXPECT_THROW(ProcessTopology({"a", "b"}, {many, many}), InvalidArgument);
  EXPECT_THROW(ProcessTopology({"a"}, {many, many}), InvalidArgument);
  EXPECT_THROW(ProcessTopology({}, {many, many, many, many}), InvalidArgument);
  EXPECT_THROW((void)ProcessTopology({"a", "b", "c"}, {many, many, 0}).get_axis_comm_lists("c"), InvalidArgument);
}

TEST(PrimeFactors, MultiplyAndAscend) {
  EXPECT_THAT(prime_factors(1), IsEmpty());
  EXPECT_THAT(prime_factors(2147483647), ElementsAre(2147483647));
  EXPECT_THAT(prime_factors(2147117569), ElementsAre(46337, 46337));
  for (int n = 2; n < 3000; ++n) {
    const std::vector<int> factors = prime_factors(n);
    EXPECT_TRUE(std::ranges::is_sorted(factors));
    EXPECT_EQ(std::accumulate(factors.begin(), factors.end(), 1, std::multiplies<>()), n);
    for (const int factor : factors)
      for (int divisor = 2; divisor * divisor <= factor; ++divisor) ASSERT_NE(factor % divisor, 0) << n;
  }
  for (const int n : {0, -3})
    EXPECT_THAT([&] { (void)prime_factors(n); },
                ThrowsMessage<InvalidArgument>("prime_factors: n must be at least 1, got " + std::to_string(n)));
}

TEST(DefaultGrid, DealsFactorsInTurn) {
  EXPECT_EQ(default_grid(1), two(1, 1));
  EXPECT_EQ(default_grid(8), two(4, 2));
  EXPECT_EQ(default_grid(12), two(6, 2));
  EXPECT_EQ(default_grid(30), two(10, 3));
  EXPECT_THROW((void)default_grid(0), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::topology
