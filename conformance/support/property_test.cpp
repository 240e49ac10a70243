// The search for counterexamples: finds what there is, makes it small, and says how to find it again.
#include "conformance/support/property.hpp"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::conformance {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Numbers below 1000; what is smaller is half of it and one less.
Property<int> of_numbers(std::function<bool(int)> holds) {
  return {.draw = [](Random& random) { return random.between(0, 999); },
          .problem = [=](const int& n) { return holds(n) ? "" : "does not hold"; },
          .smaller =
              [](const int& n) {
                std::vector<int> list;
                if (n > 0) list = {n / 2, n - 1};
                return list;
              },
          .words = [](const int& n) { return std::to_string(n); }};
}

TEST(Property, ThatHoldsHasNoCounterexample) {
  int asked = 0;
  EXPECT_THAT(search(of_numbers([&](int) { return ++asked > 0; }), 1, 500), IsEmpty());
  EXPECT_EQ(asked, 500);
}

TEST(Property, IsReportedWithItsSmallestCounterexampleAndTheSeed) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const std::string found = search(of_numbers([](int n) { return n < 37; }), seed, 100);
    EXPECT_THAT(found, testing::StartsWith("37: does not hold (the smallest after "));
    EXPECT_THAT(found, HasSubstr("seed " + std::to_string(seed)));
  }
}

TEST(Property, IsNotMadeSmallerThanItFails) {
  EXPECT_THAT(search(of_numbers([](int n) { return n != 0; }), 1, 100000),
              testing::StartsWith("0: does not hold (trial "));
}

TEST(Property, IsMadeSmallInAsManyStepsAtMost) {
  Property<int> endless = of_numbers([](int) { return false; });
  endless.smaller = [](const int& n) { return std::vector{n}; };
  EXPECT_THAT(search(endless, 1, 1), HasSubstr("after 200 steps"));
}

TEST(Property, GivesTheSameWordsForTheSameSeed) {
  const auto property = of_numbers([](int n) { return n % 7 != 3; });
  EXPECT_EQ(search(property, 5, 100), search(property, 5, 100));
  EXPECT_NE(search(property, 5, 100), search(property, 6, 100));
}

TEST(Random, ReachesAllOfARangeAndNothingElse) {
  Random random(1);
  std::set<int> seen;
  for (int i = 0; i < 200; ++i) seen.insert(random.between(-2, 3));
  EXPECT_THAT(seen, testing::ElementsAre(-2, -1, 0, 1, 2, 3));
}

TEST(Random, ShufflesWithoutLoss) {
  Random random(1);
  std::set<std::vector<int>> orders;
  for (int i = 0; i < 200; ++i) orders.insert(random.shuffled(std::vector{1, 2, 3}));
  EXPECT_EQ(orders.size(), 6u);
  for (const auto& order : orders) EXPECT_THAT(order, testing::UnorderedElementsAre(1, 2, 3));
}

TEST(Random, DrawsTheSameEverywhere) {
  Random random(1);
  std::vector<int> drawn;
  for (int i = 0; i < 4; ++i) drawn.push_back(random.between(0, 99));
  EXPECT_EQ(drawn, (std::vector<int>{28, 62, 30, 46}));
}

}  // namespace
}  // namespace plumbline::conformance
