#include "reference/schedules/partition.hpp"

#include <algorithm>
#include <limits>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/schedule_samples_test.hpp"

namespace plumbline::schedules {
namespace {

using samples::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Uniform, GivesTheRemainderToTheFirstParts) {
  EXPECT_THAT(partition_uniform(10, 3), ElementsAre(0, 4, 7, 10));
  EXPECT_THAT(partition_uniform(38, 8), ElementsAre(0, 5, 10, 15, 20, 25, 30, 34, 38));
  EXPECT_THAT(partition_uniform(2, 4), ElementsAre(0, 1, 2, 2, 2));
  EXPECT_THAT(partition_uniform(0, 1), ElementsAre(0, 0));
}

TEST(Uniform, TakesEachEndAsGiven) {
  EXPECT_THAT(partition_uniform(30, 4, {.first = 6}), ElementsAre(0, 6, 14, 22, 30));
  EXPECT_THAT(partition_uniform(30, 4, {.last = 6}), ElementsAre(0, 8, 16, 24, 30));
  EXPECT_THAT(partition_uniform(30, 4, {.first = 3, .last = 7}), ElementsAre(0, 3, 13, 23, 30));
  EXPECT_THAT(partition_uniform(5, 2, {.first = 2, .last = 3}), ElementsAre(0, 2, 5));
}

TEST(Uniform, ShowsTheArithmeticOfEndsThatDoNotFit) {
  EXPECT_EQ(refusal([] { (void)partition_uniform(5, 3, {.first = 4, .last = 3}); }),
            "partition: 5 items - 4 in the first part - 3 in the last leaves -2 for 1 parts");
  EXPECT_THAT(refusal([] { (void)partition_uniform(5, 2, {.first = 2, .last = 2}); }),
              HasSubstr("leaves 1 for 0 parts"));
  EXPECT_THAT(refusal([] { (void)partition_uniform(5, 1, {.first = 2, .last = 3}); }), HasSubstr("for -1 parts"));
  EXPECT_THAT(refusal([] { (void)partition_uniform(5, 0); }), HasSubstr("got 0"));
  EXPECT_THAT(refusal([] { (void)partition_uniform(-1, 2); }), HasSubstr("got -1"));
  EXPECT_THAT(refusal([] { (void)partition_uniform(5, 2, {.first = -1}); }), HasSubstr("-1"));
  EXPECT_THAT(refusal([] { (void)partition_uniform(5, 3, {.first = 2147483647, .last = 2147483647}); }),
              HasSubstr("leaves -4294967289 for 1 parts"));
}

// The least bottleneck over all ways to place the boundaries.
double brute_force(const std::vector<double>& weights, int parts, std::size_t from = 0) {
  if (parts == 1) {
    double sum = 0;
    for (std::size_t i = from; i < weights.size(); ++i) sum += weights[i];
    return sum;
  }
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (std::size_t end = from; end <= weights.size(); ++end) {
    best = std::min(best, std::max(sum, brute_force(weights, parts - 1, end)));
    if (end < weights.size()) sum += weights[end];
  }
  return best;
}

TEST(Optimal, IsAsLightAsAnyPartitionAndLeavesNoPartEmpty) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const int items = std::uniform_int_distribution(1, 9)(random), parts = std::uniform_int_distribution(1, 5)(random);
    std::vector<double> weights;
    for (int i = 0; i < items; ++i) weights.push_back(std::uniform_int_distribution(0, 6)(random));
    const Boundaries found = partition_optimal(weights, parts);
    ASSERT_TRUE(is_partition(found, items, parts));
    ASSERT_EQ(heaviest_part(weights, found), brute_force(weights, parts)) << testing::PrintToString(weights) << parts;
    if (items < parts) continue;
    for (std::size_t part = 1; part < found.size(); ++part) ASSERT_LT(found[part - 1], found[part]);
  }
}

TEST(Optimal, TakesFractionsAndManyItems) {
  std::mt19937 random(3);
  std::vector<double> weights(20'000);
  for (double& weight : weights) weight = std::uniform_real_distribution(0.1, 3.0)(random);
  const Boundaries found = partition_optimal(weights, 64);
  const double mean = heaviest_part(weights, {0, 20'000}) / 64;
  EXPECT_GE(heaviest_part(weights, found), mean);
  EXPECT_LE(heaviest_part(weights, found), mean + 3.0);
}

TEST(Optimal, RefusesWeightsThatAreNone) {
  EXPECT_THAT(refusal([] { (void)partition_optimal(std::vector{1.0, -2.0}, 1); }), HasSubstr("weight 1 is -2"));
  EXPECT_THAT(refusal([] { (void)partition_optimal(std::vector{std::nan("")}, 1); }), HasSubstr("weight 0 is nan"));
}

TEST(Optimal, TakesWeightsWhoseSumNoDoubleHolds) {
  EXPECT_THAT(partition_optimal(std::vector{1e308, 1e308, 1.0}, 2), ElementsAre(0, 1, 3));
  EXPECT_EQ(heaviest_part(std::vector{1e308, 1e308, 1.0}, {0, 1, 3}), 1e308);
}

TEST(ByRank, DealsPartsToRanksInTurn) {
  using Intervals = std::vector<Interval>;
  EXPECT_THAT(by_rank({0, 1, 3, 4, 6}, 2), ElementsAre(Intervals{{0, 1}, {3, 4}}, Intervals{{1, 3}, {4, 6}}));
  EXPECT_THAT(refusal([] { (void)by_rank({0, 1, 3, 4}, 2); }), HasSubstr("3 parts"));
}

TEST(IsPartition, WantsEveryItemOnce) {
  EXPECT_TRUE(is_partition({0, 2, 2, 5}, 5, 3));
  EXPECT_FALSE(is_partition({0, 2, 5}, 5, 3));
  EXPECT_FALSE(is_partition({1, 2, 5}, 5, 2));
  EXPECT_FALSE(is_partition({0, 3, 2, 5}, 5, 3));
  EXPECT_FALSE(is_partition({0, 2, 4}, 5, 2));
  EXPECT_FALSE(is_partition({0}, 0, 0));
}

// Answers of the systems themselves, one for each of their rules; the rest are vectors of the checks.
TEST(Conventions, PlaceTheRemainderEachInTheirOwnWay) {
  EXPECT_THAT(colossalai_uniform(11, 4, 1).ranks.back(), ElementsAre(Interval{8, 11}));
  EXPECT_THAT(deepspeed_uniform(11, 4), ElementsAre(0, 3, 6, 9, 11));
  EXPECT_THAT(deepspeed06_uniform(11, 4), ElementsAre(0, 2, 4, 6, 11));
}

TEST(Conventions, BalanceEachByTheirOwnMeasure) {
  const std::vector<double> zeros(4);
  EXPECT_THAT(deepspeed_balanced(zeros, 2), ElementsAre(0, 3, 4));
  const std::vector<double> weights{12, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_THAT(deepspeed_balanced(weights, 2), ElementsAre(0, 7, 8));
  EXPECT_THAT(deepspeed06_balanced(weights, 2), ElementsAre(0, 0, 8));
}

TEST(Conventions, TakeEmptyAndNegativeNumbersAsTheirSystemsDo) {
  EXPECT_THAT(deepspeed_uniform(0, 0), ElementsAre(0));
  EXPECT_THAT(deepspeed_uniform(-2, 3), ElementsAre(-2, -2, -2, -2));
  EXPECT_THAT(deepspeed_uniform(4, -1), testing::IsEmpty());
  EXPECT_THAT(deepspeed_balanced(std::vector<double>{1, 2, 3}, 0), ElementsAre(3));
  EXPECT_THAT(deepspeed06_balanced(std::vector<double>{1, 2, 3}, -1), testing::IsEmpty());
}

TEST(Conventions, RefuseWhatTheirSystemsRefuse) {
  EXPECT_THAT(refusal([] { (void)colossalai_uniform(7, 2, 2); }), HasSubstr("7 items are no multiple of 2 chunks"));
  EXPECT_THROW((void)colossalai_uniform(4, 0, 1), InvalidArgument);
  EXPECT_THROW((void)deepspeed_uniform(4, 0), InvalidArgument);
  EXPECT_THROW((void)deepspeed06_uniform(4, -1), InvalidArgument);
  EXPECT_THROW((void)deepspeed_balanced(std::vector<double>{1, 2, 3}, -1), InvalidArgument);
  EXPECT_THROW((void)deepspeed06_balanced(std::vector<double>{1, 2, 3}, 0), InvalidArgument);
}

TEST(Conventions, DividePythonsWay) {
  EXPECT_THAT(colossalai_uniform(-4, 2, 1).ranks,
              ElementsAre(ElementsAre(Interval{0, -2}), ElementsAre(Interval{-2, -4})));
  EXPECT_THAT(colossalai_uniform(-3, 2, 1).ranks,
              ElementsAre(ElementsAre(Interval{0, -2}), ElementsAre(Interval{-2, -3})));
  EXPECT_THAT(colossalai_uniform(4, -2, 1).ranks, testing::IsEmpty());
  EXPECT_THAT(colossalai_uniform(4, 1, -2).ranks, ElementsAre(testing::IsEmpty()));
  EXPECT_THROW((void)deepspeed_uniform(0, -1), InvalidArgument);
  EXPECT_THROW((void)deepspeed_uniform(-1, -3), InvalidArgument);
  EXPECT_THAT(deepspeed_uniform(-2, -1), testing::IsEmpty());
  EXPECT_THROW((void)colossalai_balanced(std::vector<std::int64_t>{1, 2}, 2, -1), InvalidArgument);
}

TEST(Conventions, EndWhereNumbersAreFartherApartThanThePrecision) {
  const Boundaries found = deepspeed06_balanced(std::vector<double>{1e15, 3, 1e15, 7}, 2);
  EXPECT_TRUE(is_partition(found, 4, 2));
}

TEST(Conventions, RefuseWeightsThatFindNoPlaceOrHaveNoSum) {
  EXPECT_THAT(refusal([] { (void)deepspeed06_balanced(std::vector<double>{-3, 0, 0, 5, 0, 0}, 2); }),
              HasSubstr("have no place for all of 6 items"));
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& weights : {std::vector{1.0, inf, 1.0}, std::vector{1e308, 1e308, 1.0}}) {
    EXPECT_THAT(refusal([&] { (void)deepspeed06_balanced(weights, 2); }), HasSubstr("the weights up to the one at 1"));
    EXPECT_THAT(refusal([&] { (void)deepspeed_balanced(weights, 2); }), HasSubstr("the weights up to the one at 1"));
  }
}

TEST(Conventions, RefuseSumsAndTablesThatAreTooLarge) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW((void)colossalai_balanced(std::vector<std::int64_t>{most, most, most}, 2, 1), OutOfRange);
  EXPECT_THAT(colossalai_balanced(std::vector<std::int64_t>{most - 2, 1, 1}, 2, 1).ranks,
              ElementsAre(ElementsAre(Interval{0, 1}), ElementsAre(Interval{1, 3})));
  EXPECT_THAT(refusal([] { (void)deepspeed_balanced(std::vector<double>(100'000, 1.0), 50'000); }),
              HasSubstr("100000 items x 100000 items x 50000 parts"));
}

}  // namespace
}  // namespace plumbline::schedules
