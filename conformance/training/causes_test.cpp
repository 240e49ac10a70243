#include "conformance/training/causes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::conformance {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Three data ranks' gradients, none a multiple of another.
const std::vector<std::vector<double>> kSlices{{1, 2, -3, 5}, {0.5, -1, 4, 2}, {-2, 3, 1, 1}};

std::vector<double> mean() {
  std::vector<double> sum(4);
  for (const auto& slice : kSlices)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += slice[i] / 3;
  return sum;
}

std::vector<std::string> hypotheses(const std::vector<double>& got) {
  const std::vector<double> expected = mean(), before{7, 1, 0, 2};
  const std::vector<float> narrow(got.begin(), got.end());
  return hypotheses_of(
      {.got = narrow,
       .expected = expected,
       .slices = {kSlices[0], kSlices[1], kSlices[2]},
       .of_step_before = before,
       .factors = {{"data ranks", 3}, {"micro-batches", 2}, {"accumulated batches", 2}, {"tensor ranks", 1}}});
}

std::vector<double> combined(double first, double second, double third) {
  std::vector<double> sum(4);
  for (std::size_t i = 0; i < sum.size(); ++i)
    sum[i] = first * kSlices[0][i] + second * kSlices[1][i] + third * kSlices[2][i];
  return sum;
}

TEST(Hypotheses, NameAFactor) {
  EXPECT_THAT(hypotheses(combined(1, 1, 1)),
              ElementsAre(HasSubstr("the expected gradient times 3 (data ranks): got / expected = 3.0000, residual ")));
  EXPECT_THAT(hypotheses(combined(1. / 6, 1. / 6, 1. / 6)),
              ElementsAre(HasSubstr(
                  "the expected gradient over 2 (micro-batches or accumulated batches): got / expected = 0.5000")));
}

TEST(Hypotheses, NameTheRankThatIsMissing) {
  EXPECT_THAT(hypotheses(combined(1. / 3, 0, 1. / 3)),
              ElementsAre(HasSubstr("data rank 1 missing from the sum over 3: residual ")));
}

TEST(Hypotheses, NameTheRanksOfAWrongGroup) {
  EXPECT_THAT(hypotheses(combined(0.5, 0.5, 0)), ElementsAre(HasSubstr("of data ranks 0, 1 alone: residual ")));
  EXPECT_THAT(hypotheses(combined(0, 0, 1)), ElementsAre(HasSubstr("of data rank 2 alone: residual ")));
}

TEST(Hypotheses, NameAStaleGradient) {
  EXPECT_THAT(hypotheses({7, 1, 0, 2}), ElementsAre(HasSubstr("the gradient of the step before: residual ")));
}

TEST(Hypotheses, NameAnotherRule) {
  const std::vector<double> expected = mean(), rule{1, -2, 0.5, 3}, other{2, 2, 2, 2}, shorter{1};
  const std::vector<float> got{1, -2, 0.5f, 3};
  EXPECT_THAT(hypotheses_of({.got = got,
                             .expected = expected,
                             .slices = {},
                             .of_step_before = {},
                             .factors = {},
                             .by_other_rules = {{"a mean of means", rule}, {"another", other}, {"short", shorter}}}),
              ElementsAre(HasSubstr("a mean of means: residual ")));
}

TEST(Hypotheses, AreNoneWhereTheExpectedGradientFitsAsWell) {
  const std::vector<double> expected = mean();
  std::vector<double> before = expected, slightly = expected;
  before[0] += 1e-4;
  slightly[1] += 1e-4;  // more than its bound, and less than what a step changes
  const std::vector<float> got(slightly.begin(), slightly.end());
  EXPECT_THAT(hypotheses_of({.got = got, .expected = expected, .slices = {}, .of_step_before = before, .factors = {}}),
              IsEmpty());
}

TEST(Hypotheses, AreNoneWhereNothingFits) {
  EXPECT_THAT(hypotheses({9, -9, 9, 9}), IsEmpty());
  EXPECT_THAT(hypotheses({0, 0, 0, 0}), IsEmpty());
  EXPECT_THAT(hypotheses({1, std::nan(""), 2, 3}), IsEmpty());
  std::vector<double> slightly = combined(1, 1, 1);
  for (double& value : slightly) value *= 1.01;  // another factor than any
  EXPECT_THAT(hypotheses(slightly), IsEmpty());
}

}  // namespace
}  // namespace plumbline::conformance
