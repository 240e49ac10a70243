#include "reference/groups/conventions.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::groups {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Lists = std::vector<std::vector<int>>;

constexpr Sizes kTwoThreeTwo{.pipeline = 2, .data = 3, .tensor = 2};

TEST(Conventions, PutTheAxesInTheirOrder) {
  for (const char* convention : {"deepspeed", "megatron", "torch", "plumbline"}) {
    const Plan plan = convention_plan(convention, kTwoThreeTwo);
    EXPECT_EQ(plan.convention, convention);
    EXPECT_EQ(plan.world_size, 12);
    EXPECT_EQ(groups_of(plan, "data"), (Lists{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}})) << convention;
    EXPECT_EQ(groups_of(plan, "pipeline"), (Lists{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}})) << convention;
    EXPECT_EQ(groups_of(plan, "tensor"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}})) << convention;
    EXPECT_EQ(groups_of(plan, "model"), (Lists{{0, 1, 6, 7}, {2, 3, 8, 9}, {4, 5, 10, 11}})) << convention;
  }
  const Plan colossalai = convention_plan("colossalai", kTwoThreeTwo);
  EXPECT_EQ(groups_of(colossalai, "data"), (Lists{{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}}));
  EXPECT_EQ(groups_of(colossalai, "pipeline"), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}}));
  EXPECT_EQ(groups_of(colossalai, "model"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}}));
}

TEST(Conventions, CreateInTheirOwnOrder) {
  const auto order = [](const char* convention) { return modes_of(convention_plan(convention, kTwoThreeTwo)); };
  EXPECT_THAT(order("deepspeed"), ElementsAre("model", "data", "pipeline", "tensor"));
  EXPECT_THAT(order("megatron"), ElementsAre("data", "model", "tensor", "pipeline"));
  EXPECT_THAT(order("colossalai"), ElementsAre("data", "model", "pipeline", "tensor"));
  EXPECT_THAT(order("torch"), ElementsAre("pipeline", "data", "tensor", "model"));
  EXPECT_THAT(order("plumbline"), ElementsAre("data", "pipeline", "tensor", "model"));
}

TEST(Conventions, AComparisonShowsWhoDiffersAndHow) {
  const Comparison comparison = compare_conventions(kTwoThreeTwo);
  ASSERT_EQ(comparison.plans.size(), convention_names().size());
  ASSERT_EQ(comparison.modes.size(), 4U);
  EXPECT_EQ(comparison.modes[0].mode, "data");
  EXPECT_TRUE(comparison.modes[0].differs());
  EXPECT_THAT(comparison.modes[0].agreements[0].conventions,
              ElementsAre("deepspeed", "megatron", "torch", "plumbline"));
  EXPECT_THAT(comparison.modes[0].agreements[1].conventions, ElementsAre("colossalai"));
  EXPECT_EQ(comparison.modes[0].agreements[1].groups, (Lists{{0, 4, 8}, {1, 5, 9}, {2, 6, 10}, {3, 7, 11}}));
  EXPECT_FALSE(comparison.modes[2].differs()) << "tensor is fastest under all";
  EXPECT_FALSE(comparison.same_order);
}

TEST(Conventions, EqualListsInAnotherOrderOfCreationAreSaidToBe) {
  const std::vector<std::string_view> both{"deepspeed", "megatron"};
  const Comparison comparison = compare_conventions(kTwoThreeTwo, both);
  EXPECT_TRUE(std::ranges::none_of(comparison.modes, &ModeComparison::differs));
  EXPECT_FALSE(comparison.same_order);
  const std::vector<std::string_view> one{"torch"};
  EXPECT_TRUE(compare_conventions(kTwoThreeTwo, one).same_order);
}

TEST(Conventions, WithoutAPipelineColossalaiMakesNoGroupsForIt) {
  const Comparison comparison = compare_conventions({.data = 2, .tensor = 2});
  EXPECT_TRUE(comparison.modes[1].differs());
  EXPECT_EQ(comparison.modes[1].agreements[1], (Agreement{.conventions = {"colossalai"}, .groups = {}}));
}

TEST(Conventions, BadSizesShowTheArithmetic) {
  const auto refuses = [](const Sizes& sizes, const char* words) {
    for (const std::string_view convention : convention_names())
      EXPECT_THAT([&] { (void)convention_plan(convention, sizes); }, ThrowsMessage<InvalidArgument>(HasSubstr(words)));
  };
  refuses({.pipeline = 2, .data = 3, .tensor = 2, .world = 16},
          "pipeline 2 x data 3 x tensor 2 = 12 ranks, but the world has 16");
  refuses({.data = 0}, "axis 'data' must have a size of 1 or more, got 0");
  refuses({.pipeline = 1 << 30, .data = 1 << 30, .tensor = 1 << 30}, "has ranks that no int holds");
  EXPECT_EQ(convention_plan("torch", {.data = 3, .world = 3}).world_size, 3);
}

TEST(Conventions, AnUnknownOneIsUnsupported) {
  EXPECT_THAT([] { (void)convention_plan("alpa", kTwoThreeTwo); },
              ThrowsMessage<Unsupported>(AllOf(HasSubstr("'alpa'"), HasSubstr("deepspeed, megatron, colossalai"))));
}

}  // namespace
}  // namespace plumbline::groups
