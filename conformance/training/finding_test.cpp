#include "conformance/training/finding.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "conformance/training/bounds.hpp"
#include "conformance/training/compare.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Finding> bits(const std::vector<float>& got, const std::vector<float>& expected) {
  std::vector<Finding> findings;
  compare_bits(got, expected, {}, findings);
  return findings;
}

std::vector<Finding> within(const std::vector<float>& got, const std::vector<double>& expected, double bound,
                            Largest* largest = nullptr) {
  std::vector<Finding> findings;
  Largest unused;
  compare_within(
      got, expected, [bound](std::size_t) { return bound; }, {}, findings, largest == nullptr ? unused : *largest);
  return findings;
}

TEST(Finding, NamesRequirementPlaceValuesAndBound) {
  Finding finding{.requirement = "TRAIN-006", .step = 2, .rank = 1, .parameter = "0.weight", .what = "is off"};
  EXPECT_EQ(text_of(finding), "TRAIN-006: step 2, rank 1, 0.weight: is off");
  finding.index = 17;
  finding.expected = 0.25;
  finding.got = 0.5;
  finding.wrong = 3;
  finding.elements = 640;
  EXPECT_EQ(text_of(finding),
            "TRAIN-006: step 2, rank 1, 0.weight[17]: is off: expected 0.25, got 0.5, the bits must be equal "
            "(3 of 640 elements)");
  finding.bound = 1e-8;
  EXPECT_EQ(text_of(finding),
            "TRAIN-006: step 2, rank 1, 0.weight[17]: is off: expected 0.25, got 0.5, bound 1e-08 (3 of 640 "
            "elements)");
  EXPECT_EQ(text_of({.requirement = "TRAIN-001", .rank = 3, .what = "no such file"}),
            "TRAIN-001: rank 3: no such file");
}

TEST(Finding, NamesWhatMayHaveMadeItSo) {
  EXPECT_EQ(
      text_of({.requirement = "TRAIN-006",
               .what = "is off",
               .index = 0,
               .wrong = 1,
               .elements = 1,
               .is_first = true,
               .hypotheses = {"twice", "thrice"}}),
      "TRAIN-006: is off: expected 0, got 0, the bits must be equal (1 of 1 elements); the first wrong gradient of "
      "the run, in backward order; hypothesis: twice; hypothesis: thrice");
}

TEST(Finding, NamesWhatMayHaveMadeItSoOfWhatHasNoElements) {
  EXPECT_EQ(text_of({.requirement = "TRAIN-044", .step = 0, .what = "is off", .hypotheses = {"not sent"}}),
            "TRAIN-044: step 0: is off; hypothesis: not sent");
}

TEST(FirstWrongGradient, IsOfTheLastParameterOfTheFirstStep) {
  const job::RunSpec spec{.layers = {job::Linear{2, 2}, job::Relu{}, job::Linear{2, 2}}};
  const auto wrong = [](int step, const char* parameter, const char* requirement = "TRAIN-006") {
    return Finding{.requirement = requirement, .step = step, .parameter = parameter, .index = 0};
  };
  std::vector<Finding> findings{wrong(1, "0.weight"), wrong(0, "2.bias", "TRAIN-008"), wrong(2, "2.bias"),
                                wrong(1, "2.weight"), wrong(1, "0.bias")};
  mark_first_wrong_gradient(findings, spec);
  EXPECT_EQ(findings.size(), 5u);
  EXPECT_EQ(findings[0].parameter, "2.weight");
  EXPECT_EQ(findings[1].parameter, "0.weight") << "the others keep their order";
  for (std::size_t i = 0; i < findings.size(); ++i) EXPECT_EQ(findings[i].is_first, i == 0);
  findings = {wrong(0, "0.weight", "TRAIN-009")};
  mark_first_wrong_gradient(findings, spec);
  EXPECT_FALSE(findings[0].is_first);
}

Finding wrong_at(const char* requirement, int step, const char* place, std::int64_t index = 0) {
  return {.requirement = requirement, .step = step, .parameter = place, .index = index};
}

TEST(FirstWrongActivation, LeadsWhatFollowsFromIt) {
  std::vector<Finding> findings{wrong_at("TRAIN-006", 1, "2.bias"), wrong_at("TRAIN-030", 1, "activation/1/0"),
                                wrong_at("TRAIN-030", 1, "activation/2/0"), wrong_at("TRAIN-009", 0, "2.bias")};
  lead_with_activation(findings);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].parameter, "activation/1/0");
  EXPECT_EQ(findings[0].requirement, "TRAIN-006") << "what the check asks for";
  EXPECT_TRUE(findings[0].is_first);
  EXPECT_TRUE(text_of(findings[0]).ends_with("; the first wrong activation of the run")) << text_of(findings[0]);
  EXPECT_EQ(findings[1].parameter, "2.bias");
}

TEST(FirstWrongActivation, IsLeftOutWhereNothingFollowsFromIt) {
  const auto left = [](std::vector<Finding> findings) {
    lead_with_activation(findings);
    return findings.size();
  };
  EXPECT_EQ(left({wrong_at("TRAIN-030", 0, "activation/1/0")}), 0u) << "recorded at a wrong place";
  EXPECT_EQ(left({wrong_at("TRAIN-030", 0, "activation/1/0"), wrong_at("TRAIN-009", 0, "0.bias")}), 1u) << "an update";
  EXPECT_EQ(left({wrong_at("TRAIN-006", 0, "0.bias"), wrong_at("TRAIN-030", 1, "activation/1/0")}), 1u)
      << "the gradient was wrong before";
  EXPECT_EQ(left({wrong_at("TRAIN-030", 0, "activation/1/0"), wrong_at("TRAIN-006", 3, "0.bias")}), 1u)
      << "the later step did not start from it";
  EXPECT_EQ(left({wrong_at("TRAIN-006", 0, "0.bias"), wrong_at("TRAIN-030", 0, "activation/1/0", -1)}), 1u)
      << "its shape is wrong";
}

TEST(Finding, IsReportedWithItsValuesAsFields) {
  const suite::Finding values =
      reported({.requirement = "TRAIN-006", .rank = 1, .what = "is off", .index = 3, .expected = 0.25, .got = kNan});
  EXPECT_EQ(
      values.text,
      text_of({.requirement = "TRAIN-006", .rank = 1, .what = "is off", .index = 3, .expected = 0.25, .got = kNan}));
  EXPECT_EQ(values.requirement, "TRAIN-006");
  EXPECT_EQ(values.expected, "0.25");
  EXPECT_EQ(values.got, "nan");
  EXPECT_EQ(values.bound, "0") << "the bits must be equal";
  EXPECT_EQ(values.rank, 1);
  const suite::Finding other = reported({.requirement = "TRAIN-001", .what = "no such file"});
  EXPECT_EQ(other.expected + other.got + other.bound, "") << "it is not about values";
  EXPECT_EQ(other.rank, -1);
}

TEST(CompareBits, TellsZeroesApartAndTakesEqualNan) {
  EXPECT_TRUE(bits({1, kNan, 0.0f}, {1, kNan, 0.0f}).empty());
  const auto findings = bits({1, -0.0f, 3}, {1, 0.0f, 4});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].index, 1);
  EXPECT_EQ(findings[0].wrong, 2);
  EXPECT_EQ(findings[0].elements, 3);
}

TEST(CompareWithin, NamesTheElementFarthestBeyondItsBound) {
  const auto findings = within({1, 2.5f, 9, 4}, {1, 2, 3, 4.25}, 0.25);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].index, 2);
  EXPECT_EQ(findings[0].expected, 3);
  EXPECT_EQ(findings[0].got, 9);
  EXPECT_EQ(findings[0].bound, 0.25);
  EXPECT_EQ(findings[0].wrong, 2);
}

TEST(CompareWithin, FindsNanAndInfinityUnlessTheyAreExpected) {
  EXPECT_EQ(within({kNan}, {1}, 1e30).size(), 1u);
  EXPECT_EQ(within({kInfinity}, {1}, 1e30).size(), 1u);
  EXPECT_EQ(within({1}, {std::numeric_limits<double>::infinity()}, 1e30).size(), 1u);
  EXPECT_TRUE(within({kInfinity}, {std::numeric_limits<double>::infinity()}, 0).empty());
}

TEST(CompareWithin, RemembersTheLargestDifference) {
  Largest largest;
  EXPECT_TRUE(within({1, 2}, {1, 2.125}, 0.5, &largest).empty());
  EXPECT_TRUE(within({1}, {1.0625}, 0.25, &largest).empty());
  EXPECT_EQ(largest.difference, 0.125);
  EXPECT_EQ(largest.bound, 0.5);
  (void)within({kNan}, {1}, 1, &largest);
  EXPECT_TRUE(std::isinf(largest.difference));
}

TEST(Bounds, OfAMeanFollowFromItsAdditionsAndItsDivision) {
  const double u = 0x1p-24;
  EXPECT_EQ(unit_roundoff(comm::DType::f32), u);
  EXPECT_EQ(unit_roundoff(comm::DType::bf16), 0x1p-8);
  EXPECT_THROW((void)unit_roundoff(comm::DType::i32), Unsupported);
  EXPECT_NEAR(mean_error(1, comm::DType::f32, 3), 3 * u, 1e-13 * u);
  EXPECT_NEAR(mean_error(4, comm::DType::f32, 8), (3 * u * 8 + u * 8) / 4, 1e-5 * u);
  EXPECT_LT(mean_error(4, comm::DType::f64, 8), 1.01 * (u * 8) / 4);
}

// The bound must hold for any order, and not by much more than needed.
TEST(Bounds, OfAMeanHoldForFloatAdditions) {
  const std::vector<float> values{1.0f, 0x1p-24f, 0x1p-24f, 0x1p-24f};  // the small ones are lost one by one
  float sum = 0;
  double exact = 0, magnitudes = 0;
  for (const float value : values) {
    sum += value;
    exact += static_cast<double>(value);
    magnitudes += std::fabs(static_cast<double>(value));
  }
  const double error = std::fabs(static_cast<double>(sum / 4) - exact / 4);
  EXPECT_GT(error, 0);
  EXPECT_LE(error, mean_error(4, comm::DType::f32, magnitudes));
  EXPECT_GE(3 * error, mean_error(4, comm::DType::f32, magnitudes) / 2);
}

}  // namespace
}  // namespace plumbline::conformance
