#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/partition.hpp"

namespace plumbline::schedules {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<LayerDescription>& net() {
  static const std::vector<LayerDescription> layers{{"Embedding", 900}, {std::nullopt, 0}, {"Block", 10},
                                                    {"Block", 10},      {"Block", 10},     {"Block", 10},
                                                    {"Norm", 1},        {"Head", 939}};
  return layers;
}

template <class Call>
std::string kind_and_words(const Call& call) {
  try {
    (void)call();
  } catch (const Error& error) {
    return std::string(error.kind()) + ": " + error.what();
  }
  return "";
}

std::string method_refusal(std::string_view method) {
  return kind_and_words([&] { return deepspeed_by_method(net(), 2, method); });
}

TEST(DeepspeedMethods, GiveEachLayerItsWeight) {
  EXPECT_THAT(deepspeed_by_method(net(), 2, "uniform"), ElementsAre(0, 4, 8));
  EXPECT_THAT(deepspeed_by_method(net(), 2, "PARAMETERS"), ElementsAre(0, 6, 8));
  EXPECT_THAT(deepspeed_by_method(net(), 2, "type:block"), ElementsAre(0, 4, 8));
  EXPECT_THAT(deepspeed_by_method(net(), 2, "Type:Embedding|Head"), ElementsAre(0, 7, 8));
  EXPECT_THAT(types_with(net(), "^b|M$"), ElementsAre(false, false, true, true, true, true, true, false));
  EXPECT_THAT(types_with(net(), ""), ElementsAre(true, false, true, true, true, true, true, true)) << "nameless";
}

TEST(DeepspeedMethods, OfVersion06HaveItsRules) {
  EXPECT_THAT(deepspeed06_by_method(std::span(net()).first(7), 2, "uniform"), ElementsAre(0, 3, 7));
}

TEST(DeepspeedMethods, RefuseWhatIsNotThere) {
  EXPECT_THAT(method_refusal("profile"), HasSubstr("invalid_argument: partition method 'profile' is not there"));
  EXPECT_THAT(method_refusal("Parameter"),
              HasSubstr("'Parameter' is not there; DeepSpeed has uniform, parameters, type:"));
  EXPECT_THAT(method_refusal("type:conv"),
              HasSubstr("not_found: partition method: 'conv' is found in no type of the 8"));
  EXPECT_THAT(method_refusal("type:conv"), HasSubstr("Block, Embedding, Head, Norm"));
  EXPECT_THAT(method_refusal("type:("), HasSubstr("invalid_argument: partition method: '(' is no regular expression"));
  EXPECT_THAT(method_refusal("type:(?:a|b)"), HasSubstr("'(?' is no regular expression"));
}

TEST(DeepspeedMethods, RefuseExpressionsThatAreTooLarge) {
  EXPECT_THAT(method_refusal("type:" + std::string(257, 'a')), HasSubstr("of 257 characters"));
  for (const char* large : {"type:(a?){40}{40}", "type:(a{0,1001})", "type:a{99999999999999}", "type:a{1001,}"})
    EXPECT_THAT(method_refusal(large), HasSubstr("multiply to more than 1000")) << large;
  EXPECT_THAT(method_refusal("type:l{2,1000}k"), HasSubstr("not_found"));
}

TEST(DeepspeedMethods, MatchInPolynomialTime) {
  const std::vector<LayerDescription> layers{{std::string(4000, 'a'), 1}};
  EXPECT_THAT(kind_and_words([&] { return deepspeed_by_method(layers, 1, "type:(a*)*b"); }),
              HasSubstr("found in no type"));
}

TEST(ColossalaiMethods, AreLayerAndParameterAsWritten) {
  EXPECT_EQ(colossalai_by_method(net(), 2, 1, "layer"), colossalai_uniform(8, 2, 1));
  EXPECT_EQ(colossalai_by_method(net(), 2, 1, "parameter"),
            colossalai_balanced(std::vector<std::int64_t>{900, 0, 10, 10, 10, 10, 1, 939}, 2, 1));
  for (const char* other : {"Layer", "parameters", ""})
    EXPECT_THAT(kind_and_words([&] { return colossalai_by_method(net(), 2, 1, other); }),
                HasSubstr("is not there; ColossalAI has layer and parameter"));
}

}  // namespace
}  // namespace plumbline::schedules
