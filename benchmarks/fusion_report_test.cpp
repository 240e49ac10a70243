#include "benchmarks/fusion_report.hpp"

#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using bucketing::BucketTime;

BucketTime timed(std::int64_t limit, std::vector<double> samples) {
  return bucketing::time_of(limit, std::move(samples));
}

TEST(Crossover, TheBestSizeIsTheFastestByMediansAndItsIntervalWhatTheRoundsDoNotTellApart) {
  const std::vector<BucketTime> clear{timed(0, {9, 9, 9}), timed(10, {1, 2, 1}), timed(20, {5, 6, 7})};
  EXPECT_EQ(best_limit(clear).limit_bytes, 10);
  EXPECT_EQ(best_limit(clear).low, 10);
  EXPECT_EQ(best_limit(clear).high, 10);
  const std::vector<BucketTime> close{timed(0, {9, 9, 9, 9, 9}), timed(10, {1, 2, 5, 2, 1}),
                                      timed(20, {3, 1, 3, 1, 5})};
  EXPECT_EQ(best_limit(close).limit_bytes, 10);
  EXPECT_EQ(best_limit(close).low, 10);
  EXPECT_EQ(best_limit(close).high, 20);
  EXPECT_THROW((void)best_limit({}), InvalidArgument);
  EXPECT_THROW((void)best_limit(std::vector{timed(0, {1}), timed(10, {1, 2})}), InvalidArgument);
}

TEST(Crossover, BucketsPayFromTheSizeFromWhichAllUpToTheBestAreFasterInMoreThanHalfOfTheRounds) {
  const BucketTime each = timed(0, {5, 5, 5, 5});
  EXPECT_EQ(pays_from(std::vector{each, timed(10, {6, 6, 4, 6}), timed(20, {4, 4, 4, 6}), timed(30, {1, 1, 1, 1})}),
            20);
  EXPECT_EQ(pays_from(std::vector{each, timed(10, {1, 1, 1, 1}), timed(20, {6, 6, 6, 6})}), 10) << "20 is too much";
  EXPECT_EQ(pays_from(std::vector{each, timed(10, {4, 4, 6, 6}), timed(20, {1, 1, 1, 1})}), 20)
      << "half of the rounds are no more than half";
  EXPECT_EQ(pays_from(std::vector{each}), std::nullopt);
  EXPECT_THROW((void)pays_from(std::vector{timed(10, {1})}), InvalidArgument);
}

TEST(Crossover, CopiesPayUpToTheSizeFromWhichTheyCostMoreThanTheOperation) {
  const auto at = [](std::int64_t bytes, std::vector<double> separate, std::vector<double> fused) {
    return FusionTime{.bytes = bytes, .separate = std::move(separate), .fused = std::move(fused)};
  };
  const FusionTime small = at(4, {5, 5, 5}, {1, 1, 1}), doubtful = at(16, {5, 5, 5}, {4, 4, 6});
  const FusionTime large = at(64, {5, 5, 5}, {9, 9, 9}), odd = at(256, {5, 5, 5}, {1, 1, 1});
  const Crossover found = pays_up_to(std::vector{large, small, doubtful, odd});
  EXPECT_EQ(found.bytes, 16) << "what comes after a size at which it does not pay does not count";
  EXPECT_EQ(found.low, 4);
  EXPECT_EQ(found.high, 16);
  EXPECT_EQ(pays_up_to(std::vector{large}).bytes, std::nullopt);
  EXPECT_THROW((void)pays_up_to({}), InvalidArgument);
  EXPECT_THROW((void)pays_up_to(std::vector{small, at(16, {1}, {1})}), InvalidArgument);
}

TEST(Overlap, IsHeldAgainstOneAfterTheOther) {
  const auto of = [](double serial, double overlapped, std::size_t rounds) {
    const auto all = [&](double seconds) { return std::vector<double>(rounds, seconds); };
    return overlap_of({.backward = all(6), .reductions = all(4), .serial = all(serial), .overlapped = all(overlapped)});
  };
  EXPECT_DOUBLE_EQ(of(10, 7, 5).hidden, 0.75);
  EXPECT_TRUE(of(10, 7, 5).keeps_guideline());
  EXPECT_EQ(of(10, 10.5, 15).slower, 0U) << "not by a tenth";
  EXPECT_EQ(of(10, 11.5, 15).slower, 15U);
  EXPECT_FALSE(of(10, 11.5, 15).keeps_guideline());
  EXPECT_NEAR(of(10, 11.5, 3).chance, 0.05, 1e-12);
  for (const std::size_t rounds : {29, 1020, 10000}) {  // more ways than a double holds, up to as many as there may be
    EXPECT_NEAR(of(10, 7, rounds).chance, 1, 1e-6) << rounds;
    EXPECT_TRUE(of(10, 7, rounds).keeps_guideline()) << rounds;
    EXPECT_FALSE(of(10, 11.5, rounds).keeps_guideline()) << rounds;
  }
  EXPECT_TRUE(of(10, 11.5, 3).keeps_guideline()) << "three rounds say too little";
  OverlapTimes mixed{.backward = std::vector<double>(9, 6),
                     .reductions = std::vector<double>(9, 4),
                     .serial = std::vector<double>(9, 10),
                     .overlapped = {12, 12, 12, 12, 12, 12, 12, 9, 9}};
  EXPECT_NEAR(overlap_of(mixed).chance, 643 / 48620.0, 1e-12) << "7 of 9 are slower by more than a tenth";
  EXPECT_DOUBLE_EQ(overlap_of(mixed).hidden, -0.5);
  mixed.serial.pop_back();
  EXPECT_THROW((void)overlap_of(mixed), InvalidArgument);
  EXPECT_THROW((void)overlap_of({}), InvalidArgument);
  EXPECT_THROW((void)of(0, 1, 3), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::cli
