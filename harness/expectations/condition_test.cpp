// The language of `when`.
#include "harness/expectations/condition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::expectations {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::set<std::string> kNames{"world_size", "backend", "dtype", "version", "lr"};
const Facts kFacts{{"world_size", "8"}, {"backend", "plugin"}, {"version", "2.10.1"}, {"lr", "0.25"}};

bool holds(const std::string& text) { return Condition(text, kNames).holds(kFacts); }

// "AT: why".
std::string condition_refusal(const std::string& text) {
  try {
    Condition(text, kNames);
  } catch (const ConditionError& error) {
    return std::to_string(error.at()) + ": " + error.what();
  }
  return "it was taken";
}

TEST(Condition, ComparesNumbers) {
  EXPECT_TRUE(holds("world_size == 8"));
  EXPECT_TRUE(holds("world_size > 4 "));
  EXPECT_TRUE(holds("10 > world_size")) << "as numbers, not as texts";
  EXPECT_TRUE(holds("lr <= 2.5e-1"));
  EXPECT_FALSE(holds("world_size != 8"));
  EXPECT_FALSE(holds("world_size < 8"));
  EXPECT_FALSE(holds("lr > 1"));
  EXPECT_FALSE(holds("world_size == -8"));
}

TEST(Condition, ComparesTexts) {
  EXPECT_TRUE(holds(R"(backend == "plugin")"));
  EXPECT_TRUE(holds(R"("mpi" != backend)"));
  EXPECT_FALSE(holds(R"(backend == "plug")"));
  EXPECT_FALSE(holds("backend == 3")) << "a text is no number";
  EXPECT_FALSE(holds("backend != 3"));
}

TEST(Condition, ComparesVersions) {
  EXPECT_TRUE(holds(R"(version > "2.9")"));
  EXPECT_TRUE(holds(R"(version < "2.10.2" && version >= "2.10")"));
  EXPECT_TRUE(holds(R"(version == "2.10.1.0")"));
  EXPECT_FALSE(holds(R"(version < "2.2")"));
  EXPECT_FALSE(holds(R"(backend > "2")")) << "what is no version is in no order";
}

TEST(Condition, BindsNotThenAndThenOr) {
  EXPECT_TRUE(holds("world_size == 8 || world_size == 1 && world_size == 2"));
  EXPECT_FALSE(holds("(world_size == 8 || world_size == 1) && world_size == 2"));
  EXPECT_TRUE(holds("!world_size == 3 && !(world_size == 4)"));
  EXPECT_TRUE(holds("!!world_size==8"));
}

TEST(Condition, IsFalseForANameWithoutAValue) {
  EXPECT_FALSE(holds(R"(dtype == "bf16")"));
  EXPECT_FALSE(holds(R"(dtype != "bf16")"));
  EXPECT_TRUE(holds(R"(!(dtype == "bf16"))"));
}

TEST(Condition, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(condition_refusal(""), StartsWith("0: a name, a number or a \"text\" is missing"));
  EXPECT_THAT(condition_refusal("world_size > "), StartsWith("13: a name"));
  EXPECT_THAT(condition_refusal("world_size = 4"), StartsWith("11: one of == "));
  EXPECT_THAT(condition_refusal("(world_size > 4"), StartsWith("15: a ) is missing"));
  EXPECT_THAT(condition_refusal("world_size > 4)"), StartsWith("14: ')' is too much"));
  EXPECT_THAT(condition_refusal("world_size > 4 & lr < 1"), StartsWith("15: '& lr < 1' is too much"));
  EXPECT_THAT(condition_refusal("backend == \"plugin"), StartsWith("11: a text without its closing"));
  EXPECT_THAT(condition_refusal("backend == 'x'"), StartsWith("11: ''' begins no name"));
  EXPECT_THAT(condition_refusal("colour == 1"), StartsWith("0: unknown name 'colour'"));
  EXPECT_THAT(condition_refusal("dtype == bf16"),
              AllOf(StartsWith("9: unknown name 'bf16'"), HasSubstr("needs quotes")));
  EXPECT_THAT(condition_refusal("version > 2.4.1"), StartsWith("10: '2.4.1' is no number; a version"));
  EXPECT_THAT(condition_refusal("backend < \"mpi\""), StartsWith("10: < needs a number or a version"));
  EXPECT_THAT(condition_refusal("3 < 4"), StartsWith("0: a comparison needs a name"));
  EXPECT_THAT(condition_refusal(std::string(1000, '(')), HasSubstr("more than 100"));
}

}  // namespace
}  // namespace plumbline::expectations
