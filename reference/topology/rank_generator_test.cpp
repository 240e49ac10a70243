#include "reference/topology/rank_generator.hpp"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

// Recorded answers of Megatron-LM are asked through the adapter door. Here: the rules, and what is refused.
namespace plumbline::topology {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Names = std::vector<std::string>;
using Sizes = std::vector<int>;
using SizeMap = std::map<std::string, int>;
using Lists = std::vector<std::vector<int>>;

TEST(RankGenerator, LetsTheFirstNameVaryFastest) {
  const RankGenerator generator({{"tp", 2}, {"dp", 3}, {"pp", 2}}, "tp-dp-pp");
  EXPECT_EQ(generator.order(), "tp-dp-pp-ep-cp-gtp_remat");
  EXPECT_THAT(generator.ordered_size(), ElementsAre(2, 3, 2, 1, 1, 1));
  EXPECT_EQ(generator.world_size(), 12);
  EXPECT_EQ(generator.groups("tp").lists(), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
  EXPECT_EQ(generator.groups("dp").lists(), (Lists{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(generator.groups("pp").lists(), (Lists{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(generator.groups("dp-pp").lists(), (Lists{{0, 2, 4, 6, 8, 10}, {1, 3, 5, 7, 9, 11}}));
  EXPECT_EQ(generator.groups("pp-dp").lists(), generator.groups("dp-pp").lists());
  EXPECT_EQ(generator.groups("tp-tp").lists(), generator.groups("tp").lists());
}

TEST(RankGenerator, TakesCapitalsAndOffsets) {
  const RankGenerator generator({{"tp", 2}, {"dp", 2}}, "DP-Tp", 8);
  EXPECT_EQ(generator.order(), "dp-tp-pp-ep-cp-gtp_remat");
  EXPECT_EQ(generator.groups("tp").lists(), (Lists{{8, 10}, {9, 11}}));
  EXPECT_EQ(RankGenerator({}, "").world_size(), 1);
}

TEST(RankGenerator, FindsTpInGtpRematAsMegatronDoes) {
  const SizeMap sizes{{"dp", 2}, {"gtp_remat", 2}};
  const RankGenerator theirs(sizes, "gtp_remat-dp", 0, OrderRule::megatron);
  EXPECT_EQ(theirs.order(), "gtp_remat-dp-pp-ep-cp");
  EXPECT_THROW((void)theirs.groups("tp"), NotFound);
  EXPECT_EQ(theirs.size("tp"), 1);
  const RankGenerator ours(sizes, "gtp_remat-dp");
  EXPECT_EQ(ours.order(), "gtp_remat-dp-tp-pp-ep-cp");
  EXPECT_EQ(ours.groups("tp").lists(), (Lists{{0}, {1}, {2}, {3}}));
  for (const OrderRule rule : {OrderRule::plumbline, OrderRule::megatron})
    EXPECT_THAT(
        [&] { RankGenerator({{"tp", 2}, {"gtp_remat", 2}}, "gtp_remat-dp", 0, rule); },
        ThrowsMessage<InvalidArgument>("RankGenerator: tp is 2, but the order 'gtp_remat-dp' does not name it"));
}

TEST(RankGenerator, ReadsEmptyOrdersAndOffsetsAsMegatronDoes) {
  EXPECT_THAT([] { RankGenerator({}, "", 0, OrderRule::megatron); },
              ThrowsMessage<NotFound>(HasSubstr("no parallelism ''")));
  EXPECT_THAT(RankGenerator({{"tp", 2}}, "tp", -3, OrderRule::megatron).groups("tp")[0], ElementsAre(0, 1));
  EXPECT_THAT(RankGenerator({{"tp", 2}}, "tp", 3, OrderRule::megatron).groups("tp")[0], ElementsAre(3, 4));
}

TEST(WithWeightAxis, PutsItBesideANeighbour) {
  EXPECT_EQ(with_weight_axis("tp-cp-ep-dp-pp", "tp"), "tp-gtp_remat-cp-ep-dp-pp");
  EXPECT_EQ(with_weight_axis("tp-cp-ep-dp-pp", "ep"), "tp-cp-ep-gtp_remat-dp-pp");
  EXPECT_EQ(with_weight_axis("dp-tp", "ep"), "dp-tp-gtp_remat");
  EXPECT_EQ(with_weight_axis("dp-pp", "ep"), "gtp_remat-dp-pp");
  EXPECT_EQ(with_weight_axis("tp-dp-gtp_remat", "tp"), "tp-dp-gtp_remat");
}

TEST(WithWeightAxis, TakesLettersAsTheyAre) {
  EXPECT_EQ(with_weight_axis("TP-DP", "tp"), "gtp_remat-TP-DP");
  EXPECT_THAT([] { RankGenerator({}, with_weight_axis("tp-GTP_REMAT", "tp")); },
              ThrowsMessage<InvalidArgument>(HasSubstr("'gtp_remat' is twice")));
}

TEST(RankGenerator, RefusesOrdersAndSizes) {
  const auto make = [](const SizeMap& sizes, const std::string& order) { return [=] { RankGenerator(sizes, order); }; };
  EXPECT_THAT(make({{"tp", 2}, {"dp", 2}}, "dp-pp"),
              ThrowsMessage<InvalidArgument>("RankGenerator: tp is 2, but the order 'dp-pp' does not name it"));
  EXPECT_THAT(make({{"tp", 2}}, ""), ThrowsMessage<InvalidArgument>(HasSubstr("the order ''")));
  EXPECT_THAT(make({{"dp", 2}}, "dp-xx"),
              ThrowsMessage<NotFound>(
                  "RankGenerator: no parallelism 'xx', in the order 'dp-xx'; there are tp, pp, dp, ep, cp, gtp_remat"));
  EXPECT_THAT(make({{"dp", 2}}, "dp--pp"), ThrowsMessage<NotFound>(HasSubstr("no parallelism ''")));
  EXPECT_THAT(make({{"sp", 2}}, "dp"), ThrowsMessage<NotFound>(HasSubstr("no parallelism 'sp', in the sizes")));
  EXPECT_THAT(make({{"ep", 2}, {"cp", 2}}, "ep-cp"), ThrowsMessage<InvalidArgument>(HasSubstr("ep 2 and cp 2")));
  EXPECT_THAT(make({{"dp", 0}}, "dp"),
              ThrowsMessage<InvalidArgument>("topology: axis 'dp' must have a size of 1 or more, got 0"));
  EXPECT_THAT(make({{"dp", 2}}, "dp-dp"), ThrowsMessage<InvalidArgument>(HasSubstr("'dp' is twice")));
  EXPECT_THROW((void)RankGenerator({{"dp", 2}}, "dp").groups("dp-xx"), NotFound);
  EXPECT_THROW(RankGenerator({{"dp", 2}}, "dp", -1), InvalidArgument);
}

TEST(ExpertGenerator, SharesThePipelinesOfTheDenseOne) {
  const RankGenerator dense({{"tp", 2}, {"cp", 2}, {"dp", 2}, {"pp", 2}}, "tp-cp-ep-dp-pp", 4);
  const RankGenerator experts = expert_generator(dense, 1, 4);
  EXPECT_EQ(experts.order(), dense.order());
  EXPECT_EQ(experts.world_size(), 16);
  EXPECT_EQ(experts.size("dp"), 2);
  EXPECT_EQ(experts.size("cp"), 1);
  EXPECT_EQ(experts.groups("ep").lists(), (Lists{{4, 5, 6, 7}, {8, 9, 10, 11}, {12, 13, 14, 15}, {16, 17, 18, 19}}));
  EXPECT_EQ(experts.groups("pp").lists(), dense.groups("pp").lists());
}

TEST(ExpertGenerator, MayHaveAnOrderOfItsOwn) {
  const RankGenerator dense({{"tp", 2}, {"dp", 4}}, with_weight_axis("tp-ep-dp-pp", "tp"));
  const RankGenerator experts = expert_generator(dense, 1, 2, 2, with_weight_axis("tp-ep-dp-pp", "ep"));
  EXPECT_EQ(dense.order(), "tp-gtp_remat-ep-dp-pp-cp");
  EXPECT_EQ(experts.order(), "tp-ep-gtp_remat-dp-pp-cp");
  EXPECT_EQ(experts.groups("gtp_remat").lists(), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_THAT([&] { (void)expert_generator(dense, 1, 2, 1, "tp-xp"); },
              ThrowsMessage<NotFound>(HasSubstr("no parallelism 'xp'")));
}

TEST(ExpertGenerator, GoesByTheOrderThatWasGiven) {
  const RankGenerator dense({{"tp", 2}, {"dp", 2}}, "tp-dp");
  EXPECT_THAT([&] { (void)expert_generator(dense, 1, 2); },
              ThrowsMessage<InvalidArgument>("RankGenerator: ep is 2, but the order 'tp-dp' does not name it"));
  EXPECT_EQ(expert_generator(dense, 1, 1, 1, "dp-tp").order(), "dp-tp-pp-ep-cp-gtp_remat");
}

TEST(ExpertGenerator, FindsALastPpInSmallLettersAlone) {
  EXPECT_THAT([&] { (void)expert_generator(RankGenerator({{"dp", 4}, {"pp", 2}}, "tp-EP-dp-PP"), 1, 2); },
              ThrowsMessage<InvalidArgument>(HasSubstr("only where pp is last in the order, which is tp-EP-dp-PP")));
}

TEST(ExpertGenerator, RefusesWhatDoesNotFit) {
  const RankGenerator dense({{"tp", 2}, {"dp", 2}, {"pp", 2}}, "tp-ep-dp-pp");
  EXPECT_THAT([&] { (void)expert_generator(dense, 2, 3); },
              ThrowsMessage<InvalidArgument>(
                  "expert_generator: tp 2 x ep 3 x pp 2 x gtp_remat 1 does not divide the world of 8 ranks"));
  EXPECT_THROW((void)expert_generator(dense, 1 << 30, 1 << 30, 1 << 30), InvalidArgument);
  EXPECT_THROW((void)expert_generator(dense, 0, 1), InvalidArgument);
  const RankGenerator inner({{"tp", 2}, {"dp", 2}, {"pp", 2}}, "tp-ep-pp-dp");
  EXPECT_THAT([&] { (void)expert_generator(inner, 2, 2); },
              ThrowsMessage<InvalidArgument>(HasSubstr("the experts' dp is 1 and the dense one 2")));
  const RankGenerator experts = expert_generator(inner, 1, 2);  // dp is 2 in both
  EXPECT_EQ(experts.size("dp"), 2);
}

HyperCommGrid hyper_grid(const Names& names, const Sizes& shape, int world_size = 64, int offset = 0) {
  return {names, shape, world_size, offset};
}

TEST(HyperCommGrid, EnumeratesByFirstRanks) {
  const HyperCommGrid grid = hyper_grid({"tp", "cp", "pp"}, {2, 3, 4});
  EXPECT_EQ(grid.groups(Names{"pp"}).lists(),
            (Lists{{0, 6, 12, 18}, {1, 7, 13, 19}, {2, 8, 14, 20}, {3, 9, 15, 21}, {4, 10, 16, 22}, {5, 11, 17, 23}}));
  EXPECT_EQ(grid.groups(Names{"pp", "tp"})[0], (std::vector<int>{0, 1, 6, 7, 12, 13, 18, 19}));
  EXPECT_EQ(hyper_grid({"tp", "dp"}, {4, 2}, 16, 8).groups(Names{"dp"})[3], (std::vector<int>{11, 15}));
}

TEST(HyperCommGrid, RefusesGridsBeyondTheWorld) {
  EXPECT_THAT(
      [] { hyper_grid({"tp", "dp"}, {4, 4}, 8); },
      ThrowsMessage<InvalidArgument>("HyperCommGrid: tp=4 dp=4 has 16 ranks from rank 0 on, the world has 8 ranks"));
  EXPECT_THROW(hyper_grid({"tp", "dp"}, {4, 2}, 15, 8), InvalidArgument);
  EXPECT_THROW(hyper_grid({"tp", "dp", "pp"}, {2, 2}), InvalidArgument);
  EXPECT_THROW(hyper_grid({"tp"}, {2}, 4, -1), InvalidArgument);
  EXPECT_THROW(hyper_grid({"tp", "tp"}, {2, 2}), InvalidArgument);
  constexpr int kLeast = std::numeric_limits<int>::min();
  EXPECT_THROW(hyper_grid({"tp"}, {2}, kLeast), InvalidArgument);
  EXPECT_THROW(hyper_grid({"tp"}, {2}, kLeast, 1), InvalidArgument);
  EXPECT_THROW(hyper_grid({"tp"}, {0}), InvalidArgument);
}

TEST(HyperCommGrid, SharesGroupsBetweenViews) {
  HyperCommGrid grid = hyper_grid({"tp", "dp", "pp"}, {2, 4, 2}, 24, 8);
  grid.register_view("experts", Names{"etp", "ep", "edp", "pp"}, Sizes{1, 4, 2, 2}, {"pp"});
  EXPECT_EQ(grid.groups(Names{"ep"}, "experts").lists()[1], (std::vector<int>{12, 13, 14, 15}));
  EXPECT_EQ(grid.owner(Names{"pp"}, "experts"), "base");
  EXPECT_EQ(grid.owner(Names{"pp", "ep"}, "experts"), "experts");
  EXPECT_EQ(grid.owner(Names{"tp"}), "base");
  EXPECT_THAT([&] { (void)grid.groups(Names{"tp"}, "other"); },
              ThrowsMessage<NotFound>("HyperCommGrid: no view 'other'; there are [base, experts]"));
  EXPECT_THROW((void)grid.groups(Names{"tp"}, "experts"), NotFound);
  EXPECT_THROW((void)grid.owner(Names{"tp"}, "other"), NotFound);
}

TEST(HyperCommGrid, RefusesViewsThatShareOtherGroups) {
  HyperCommGrid grid = hyper_grid({"tp", "dp", "pp"}, {2, 4, 2});
  const auto view = [&](const std::string& name, const Names& names, const Sizes& shape, const Names& shared) {
    return [=, &grid] { grid.register_view(name, names, shape, shared); };
  };
  EXPECT_THAT(view("base", {"a"}, {16}, {}),
              ThrowsMessage<InvalidArgument>("HyperCommGrid: view 'base' exists already"));
  EXPECT_THAT(view("v", {"a"}, {8}, {}), ThrowsMessage<InvalidArgument>(HasSubstr("has 8 ranks, the base")));
  EXPECT_THAT(view("v", {"ep", "tp", "pp"}, {4, 2, 2}, {"tp"}),
              ThrowsMessage<InvalidArgument>("HyperCommGrid: shared [tp] are other groups in view 'v' (ep=4 tp=2 pp=2) "
                                             "than in the base (tp=2 dp=4 pp=2)"));
  EXPECT_THAT(view("v", {"pp", "ep"}, {4, 4}, {"pp"}), ThrowsMessage<InvalidArgument>(HasSubstr("shared [pp]")));
  EXPECT_THAT(view("v", {"a", "b"}, {4, 4}, {"tp"}), ThrowsMessage<NotFound>(HasSubstr("there are [a, b]")));
  EXPECT_THAT(view("v", {"a", "pp"}, {8, 2}, {"a"}), ThrowsMessage<NotFound>(HasSubstr("there are [tp, dp, pp]")));
  EXPECT_THAT(view("v", {"a", "pp"}, {8, 2}, {"pp", "pp"}), ThrowsMessage<InvalidArgument>(HasSubstr("'pp' is twice")));
  EXPECT_THAT(view("v", {"a", "a"}, {4, 4}, {}), ThrowsMessage<InvalidArgument>(HasSubstr("'a' is twice")));
  EXPECT_THROW((void)grid.topology("v"), NotFound);
}

}  // namespace
}  // namespace plumbline::topology
