// Mann and Whitney's test against counting by hand, published numbers and all choices.
#include "benchmarks/mann_whitney.hpp"

#include <bit>
#include <limits>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

using Numbers = std::vector<double>;

double twice_u(const Numbers& first, const Numbers& second) {
  double pairs = 0;
  for (const double one : first)
    for (const double other : second) pairs += one > other ? 2 : one == other ? 1 : 0;
  return pairs;
}

// By looking at every choice.
double looked_at(const Numbers& first, const Numbers& second) {
  Numbers all = first;
  all.insert(all.end(), second.begin(), second.end());
  double choices = 0, as_large = 0;
  for (unsigned chosen = 0; chosen < 1U << all.size(); ++chosen) {
    if (static_cast<std::size_t>(std::popcount(chosen)) != first.size()) continue;
    Numbers one, other;
    for (std::size_t i = 0; i < all.size(); ++i) ((chosen >> i & 1U) != 0 ? one : other).push_back(all[i]);
    ++choices;
    as_large += twice_u(one, other) >= twice_u(first, second) ? 1 : 0;
  }
  return as_large / choices;
}

Numbers from(double first, std::size_t count, double step = 1) {
  Numbers numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(first + step * static_cast<double>(i));
  return numbers;
}

TEST(UTest, CountsWhatIsSimplestByHand) {
  EXPECT_DOUBLE_EQ(chance_of_larger(Numbers{2}, Numbers{1}), 0.5);
  EXPECT_DOUBLE_EQ(chance_of_larger(Numbers{1}, Numbers{2}), 1);
  EXPECT_DOUBLE_EQ(chance_of_larger(from(10, 3), from(1, 3)), 1 / 20.0);
  EXPECT_DOUBLE_EQ(chance_of_larger(Numbers{1, 2, 2, 5}, Numbers{2, 3, 4}), 28 / 35.0);
  EXPECT_DOUBLE_EQ(chance_of_larger(Numbers{3, 3}, Numbers{3, 3, 3}), 1);
}

// Mann and Whitney's own table: of 5 and 5, U is at most 0, 1, 2, 3, 4 and 5 in 1, 2, 4, 7, 12 and 19 of 252 choices.
TEST(UTest, IsThatOfTheTable) {
  const Numbers low = from(0, 5);
  const std::vector<std::pair<Numbers, double>> rows{{{5, 6, 7, 8, 9}, 1},    {{3.5, 6, 7, 8, 9}, 2},
                                                     {{2.5, 6, 7, 8, 9}, 4},  {{1.5, 6, 7, 8, 9}, 7},
                                                     {{0.5, 6, 7, 8, 9}, 12}, {{-1, 6, 7, 8, 9}, 19}};
  for (const auto& [high, choices] : rows)
    EXPECT_DOUBLE_EQ(chance_of_larger(high, low), choices / 252) << "U " << twice_u(high, low) / 2;
}

TEST(UTest, CountsAsAllChoicesDo) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 100; ++trial) {
    Numbers first(1 + random() % 6), second(1 + random() % 6);
    for (Numbers* kind : {&first, &second})
      for (double& number : *kind) number = static_cast<double>(random() % (trial % 2 == 0 ? 4 : 1000));
    ASSERT_NEAR(chance_of_larger(first, second), looked_at(first, second), 1e-12) << "trial " << trial;
  }
}

// Where counting ends, both ways are near each other.
TEST(UTest, IsNormalBeyond) {
  const Numbers second = from(0, 30);
  for (const double shift : {-3.3, 0.5, 4.3, 8.7}) {
    const double exact = chance_of_larger(from(shift, 30), second);
    const double approximate = chance_of_larger(from(shift, 31, 30.0 / 31), second);
    EXPECT_NEAR(approximate, exact, 0.02) << shift;
  }
  EXPECT_LT(chance_of_larger(from(1000, 500), from(0, 500)), 1e-100);
  EXPECT_NEAR(chance_of_larger(from(0, 500), from(0, 500)), 0.5, 1e-3);
  EXPECT_EQ(chance_of_larger(Numbers(50, 1), Numbers(50, 1)), 1);
}

TEST(UTest, RefusesWhatHasNoOrder) {
  EXPECT_THROW((void)chance_of_larger({}, Numbers{1}), InvalidArgument);
  EXPECT_THROW((void)chance_of_larger(Numbers{1}, {}), InvalidArgument);
  EXPECT_THROW((void)chance_of_larger(Numbers{std::numeric_limits<double>::quiet_NaN()}, Numbers{1}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::cli
