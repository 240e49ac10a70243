#include "conformance/training/attention_faults.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::conformance {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

// Two tokens, two heads of one feature each: query, key and value of the one, then of the other.
const std::vector<double> kInput{1, 2, 3, 0, 1, 5,  //
                                 1, 0, 7, 2, 3, -1};

auto are(double a, double b, double c, double d) {
  const auto near = [](double value) { return DoubleNear(value, 1e-6); };
  return ElementsAre(near(a), near(b), near(c), near(d));
}
std::vector<double> output(const Attending& way) { return attention_of(kInput, {1, 2, 6}, 2, way); }

// Worked out by hand: with t = e^2 / (e^2 + 1) the second token's first head has 3 t + 7 (1 - t); its second one has
// 5 u - (1 - u) with u = 1 / (1 + e^4).
TEST(AttentionFaults, AreComputedByTheirFormulas) {
  EXPECT_THAT(output({}), are(3, 5, 3.476812, -0.892083));
  EXPECT_THAT(output({.is_causal = false}), are(3.476812, 2, 3.476812, -0.892083));  // equal scores: (5 - 1) / 2
  EXPECT_THAT(output({.is_split = false}), are(3, 5, 6.217719, 0.173422));           // u = 1 / (1 + e^(2 / sqrt 2))
  EXPECT_THAT(output({.is_transposed = false}), are(3, 3.476812, 5, -0.892083));
  // The second token's scores are 1 x 3 and 1 x 7, then 0 and 0.
  EXPECT_THAT(output({.is_interleaved = false}), are(1, 5, 2.964028, 2));
}

TEST(AttentionFaults, AreNamed) {
  std::vector<std::string> words;
  for (const auto& [one, values] : wrong_attentions(kInput, {1, 2, 6}, 2)) {
    words.push_back(one);
    EXPECT_EQ(values.size(), 4);
  }
  EXPECT_THAT(words, testing::IsSupersetOf({testing::HasSubstr("causal mask"), testing::HasSubstr("root of a head's"),
                                            testing::HasSubstr("heads not split")}));
  EXPECT_THAT(wrong_attentions(kInput, {2, 6}, 2), testing::IsEmpty());
}

}  // namespace
}  // namespace plumbline::conformance
