// What a canary's figures come to.
#include "harness/cli/canary_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::cli {
namespace {

using testing::HasSubstr;

constexpr CanaryLimits kLimits{.slower = 0.05};

TEST(CanaryRow, IsSlowerOnlyWhereEveryPairOfLaunchesSaysSo) {
  const auto verdict = [](std::vector<double> ratios) { return verdict_of({.ratios = std::move(ratios)}, kLimits); };
  EXPECT_EQ(verdict({}), "same");
  EXPECT_EQ(verdict({1.2, 1.06, 1.3}), "slower");
  EXPECT_EQ(verdict({1.2, 1.04, 1.3}), "same") << "one is within the limit";
  EXPECT_EQ(verdict({0.9, 0.5, 0.8}), "faster");
  EXPECT_EQ(verdict({1.9, 1.5}), "same, time not judged (under 3 launches)");
  EXPECT_EQ(verdict({0.9, 0.8, 0.96}), "same");
  EXPECT_EQ(verdict_of({.ratios = {0.9, 0.8, 0.9}}, {.slower = 0}), "faster");
  EXPECT_EQ(verdict_of({.ratios = {1.1, 1.2, 1.3}}, {.slower = 0}), "slower");
  EXPECT_TRUE(is_bad({.ratios = {1.2, 1.2, 1.2}}, kLimits));
  EXPECT_FALSE(is_bad({.ratios = {0.5, 0.5, 0.5}}, kLimits));
}

TEST(CanaryRow, IsNotTheSameWhereRatiosAreTooFarApart) {
  const auto verdict = [](std::vector<double> ratios) { return verdict_of({.ratios = std::move(ratios)}, kLimits); };
  EXPECT_EQ(verdict({0, 1335, 2670}), "time too noisy to judge");
  EXPECT_EQ(verdict({0.9, 1, 1.9}), "time too noisy to judge");
  EXPECT_EQ(verdict({0.9, 1, 1.8}), "same");
  EXPECT_EQ(verdict({1.1, 4, 9}), "slower") << "by how much is unsure, and that it is slower is not";
  EXPECT_EQ(verdict({0.01, 0.5, 0.2}), "faster");
  EXPECT_EQ(verdict({0.1, 9}), "same, time not judged (under 3 launches)");
  const CanaryRow differing{.difference = {.elements = 8, .differing = 2}, .ratios = {0.2, 1, 3}};
  EXPECT_EQ(verdict_of(differing, kLimits), "bits differ, time too noisy to judge");
  EXPECT_FALSE(is_bad(differing, kLimits));
}

TEST(CanaryRow, IsCountedAsNoisyWhereItsVerdictSaysSo) {
  const CanaryRow noisy{.ratios = {0.2, 1, 3}}, quiet{.ratios = {1, 1, 1}}, untimed{};
  const CanaryRow wrong{.b = {.answer = {.wrong = "rank 1"}}, .ratios = {0.2, 1, 3}};
  const CanaryRow unclaimed{.is_unclaimed = true, .ratios = {0.2, 1, 3}};
  EXPECT_EQ(noise_text({quiet, untimed}, kLimits), "");
  EXPECT_EQ(noise_text({noisy, quiet, wrong, unclaimed}, kLimits), "; time too noisy to judge in 1");
  EXPECT_EQ(noise_text({noisy, noisy, untimed, wrong}, kLimits), "; time was not judged: too noisy in each of 2");
  EXPECT_EQ(noise_text({quiet, wrong, unclaimed}, kLimits), "");
}

TEST(CanaryRow, DifferentBitsAreBadOnlyWhereTheyMustBeTheSame) {
  const CanaryRow row{.difference = {.elements = 8, .differing = 2, .largest = 1}};
  EXPECT_EQ(verdict_of(row, kLimits), "bits differ");
  EXPECT_FALSE(is_bad(row, kLimits));
  EXPECT_TRUE(is_bad(row, {.slower = 0.05, .same_bits = true}));
  EXPECT_THAT(table_of({row}, kLimits), HasSubstr("2 of 8 differ, <= 1 ulp"));
}

TEST(CanaryRow, HasASpaceAfterAFieldThatFillsItsColumn) {
  EXPECT_THAT(table_of({{.ratios = {948.42}}}, kLimits), HasSubstr("948.42 (948.42 to 948.42) same, time not judged"));
}

// har.other_side_is_right: an answer is right where both sides have the same bits.
bool other_side_is_right(const CanaryRow& row) { return row.difference.differing == 0; }

// HARNESS-062@c30c
TEST(CanaryRow, IsWrongByTheExactSumAndNotByTheOtherSide) {
  const CanarySide wrong{.answer = {.error = 40, .wrong = "rank 1, element 3: 2, and the sum is 3"}};
  const CanaryRow both{.a = wrong, .b = wrong};
  EXPECT_TRUE(other_side_is_right(both)) << "har.other_side_is_right is found";
  EXPECT_EQ(verdict_of(both, kLimits), "wrong: B: rank 1, element 3: 2, and the sum is 3");
  EXPECT_TRUE(is_bad(both, kLimits));
  EXPECT_THAT(verdict_of({.a = wrong}, kLimits), HasSubstr("wrong: A: rank 1"));
  EXPECT_FALSE(is_bad({.a = wrong}, kLimits)) << "B mends it";
  EXPECT_EQ(verdict_of({.is_unclaimed = true, .b = wrong}, kLimits), "not claimed by both");
  EXPECT_EQ(verdict_of({.b = {.problem = "hang: it took 120 s"}}, kLimits), "wrong: B: hang: it took 120 s");
  EXPECT_EQ(verdict_of({.b = {.answer = {.ranks_are_equal = false}}}, kLimits),
            "wrong: B: its ranks have different bits");
}

TEST(CanaryOrder, IsNamedAndShownWhereItIsShort) {
  const std::string text =
      orders_text({{.ranks = 3, .elements = 1, .a = {"(0+1)+2"}, .b = {"(0+1)+2", "(1+2)+0", "(0+2)+1"}},
                   {.ranks = 3, .elements = 2, .a = {}, .b = {"(1+2)+0"}, .b_changes = true}});
  EXPECT_EQ(text,
            "order of all_reduce, 3 ranks, 4 bytes: A sequential, (0+1)+2; B ring, 3 different parts\n"
            "order of all_reduce, 3 ranks, 8 bytes: A no answer; B ring, (1+2)+0, which changes from call to call\n");
}

}  // namespace
}  // namespace plumbline::cli
