#include "reference/groups/colossalai.hpp"

#include <algorithm>
#include <functional>

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

ParallelConfiguration with(int pipeline, int tensor, TensorMode mode = TensorMode::none,
                           std::optional<int> depth = {}) {
  return {.pipeline = pipeline, .tensor = tensor, .mode = mode, .depth = depth};
}

// Lists by counting: `outer` loops, the first slowest, each `inner` ranks, of a formula for the rank.
Lists counted(const std::vector<int>& outer, const std::vector<int>& inner,
              const std::function<int(const std::vector<int>& at)>& rank) {
  std::vector<int> bounds = outer;
  bounds.insert(bounds.end(), inner.begin(), inner.end());
  std::vector<int> at(bounds.size());
  Lists lists;
  const auto first_inner = static_cast<std::ptrdiff_t>(outer.size());
  for (;;) {
    if (std::all_of(at.begin() + first_inner, at.end(), [](int i) { return i == 0; })) lists.emplace_back();
    lists.back().push_back(rank(at));
    std::size_t digit = at.size();
    while (digit > 0 && ++at[digit - 1] == bounds[digit - 1]) at[--digit] = 0;
    if (digit == 0) return lists;
  }
}

TEST(ColossalaiGroups, DataModelPipelineAndTensorComeInThisOrder) {
  const Plan plan = colossalai_plan(12, with(3, 2));
  EXPECT_THAT(modes_of(plan), ElementsAre("DATA", "MODEL", "PIPELINE", "TENSOR"));
  EXPECT_EQ(groups_of(plan, "DATA"), (Lists{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(groups_of(plan, "MODEL"), (Lists{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(groups_of(plan, "PIPELINE"), (Lists{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(groups_of(plan, "TENSOR"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
}

TEST(ColossalaiGroups, OneStageHasNoPipelineModeButAModelMode) {
  EXPECT_THAT(modes_of(colossalai_plan(4, with(1, 1))), ElementsAre("DATA", "MODEL", "TENSOR"));
  EXPECT_EQ(groups_of(colossalai_plan(2, with(1, 1)), "MODEL"), (Lists{{0}, {1}}));
}

TEST(ColossalaiGroups, OneDimensionAndSequenceRepeatTheTensorGroupsUnderTheirName) {
  const Plan plan = colossalai_plan(12, with(2, 3, TensorMode::one_dimensional));
  EXPECT_EQ(groups_of(plan, "PARALLEL_1D"), groups_of(plan, "TENSOR"));
  const Plan sequence = colossalai_plan(12, with(2, 3, TensorMode::sequence));
  EXPECT_EQ(groups_of(sequence, "SEQUENCE"), groups_of(sequence, "TENSOR"));
  EXPECT_EQ(modes_of(sequence).back(), "SEQUENCE");
}

TEST(ColossalaiGroups, TwoDimensionsGroupTheSquaresRowsThenItsColumns) {
  for (const int edge : {1, 2, 3, 4}) {
    const int size = edge * edge;
    const Plan plan = colossalai_plan(2 * 3 * size, with(3, size, TensorMode::two_dimensional));
    EXPECT_THAT(modes_of(plan),
                ElementsAre("DATA", "MODEL", "PIPELINE", "TENSOR", "PARALLEL_2D_ROW", "PARALLEL_2D_COL"));
    EXPECT_EQ(groups_of(plan, "PARALLEL_2D_ROW"),
              counted({6, edge}, {edge}, [&](auto& at) { return at[0] * size + at[1] * edge + at[2]; }));
    EXPECT_EQ(groups_of(plan, "PARALLEL_2D_COL"),
              counted({6, edge}, {edge}, [&](auto& at) { return at[0] * size + at[1] + at[2] * edge; }));
  }
}

TEST(ColossalaiGroups, TwoAndAHalfDimensionsAreMadeInTheRecordedOrder) {
  const Plan plan = colossalai_plan(8, with(1, 8, TensorMode::two_and_a_half_dimensional, 2));
  EXPECT_THAT(modes_of(plan), ElementsAre("DATA", "MODEL", "TENSOR", "PARALLEL_2P5D_COL", "PARALLEL_2P5D_ROW",
                                          "PARALLEL_2P5D_DEP", "PARALLEL_2P5D_XZ"));
  EXPECT_EQ(groups_of(plan, "PARALLEL_2P5D_COL"), (Lists{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
  EXPECT_EQ(groups_of(plan, "PARALLEL_2P5D_ROW"), (Lists{{0, 1}, {4, 5}, {2, 3}, {6, 7}}));
  EXPECT_EQ(groups_of(plan, "PARALLEL_2P5D_DEP"), (Lists{{0, 4}, {2, 6}, {1, 5}, {3, 7}}));
  EXPECT_EQ(groups_of(plan, "PARALLEL_2P5D_XZ"), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
}

TEST(ColossalaiGroups, TwoAndAHalfDimensionsFollowTheFormulaAtOtherDepthsAndReplicas) {
  for (const auto& [edge, depth] : {std::pair{2, 3}, {3, 2}, {2, 1}, {1, 4}}) {
    const int size = edge * edge * depth;
    const Plan plan = colossalai_plan(2 * size, with(1, size, TensorMode::two_and_a_half_dimensional, depth));
    const auto at = [&, edge = edge](int h, int i, int j, int k) { return h * size + i + edge * (j + edge * k); };
    EXPECT_EQ(groups_of(plan, "PARALLEL_2P5D_COL"),
              counted({2, edge, depth}, {edge}, [&](auto& n) { return at(n[0], n[1], n[3], n[2]); }));
    EXPECT_EQ(groups_of(plan, "PARALLEL_2P5D_ROW"),
              counted({2, edge, depth}, {edge}, [&](auto& n) { return at(n[0], n[3], n[1], n[2]); }));
    EXPECT_EQ(groups_of(plan, "PARALLEL_2P5D_DEP"),
              counted({2, edge, edge}, {depth}, [&](auto& n) { return at(n[0], n[1], n[2], n[3]); }));
    EXPECT_EQ(groups_of(plan, "PARALLEL_2P5D_XZ"),
              counted({2, edge}, {depth, edge}, [&](auto& n) { return at(n[0], n[1], n[3], n[2]); }));
  }
}

TEST(ColossalaiGroups, ThreeDimensionsGroupTheCubeAlongItsEdges) {
  for (const int edge : {1, 2, 3}) {
    const int size = edge * edge * edge;
    const Plan plan = colossalai_plan(2 * size, with(2, size, TensorMode::three_dimensional));
    const auto at = [&](int h, int i, int j, int k) { return h * size + i + edge * (j + edge * k); };
    EXPECT_EQ(groups_of(plan, "PARALLEL_3D_INPUT"),
              counted({2, edge, edge}, {edge}, [&](auto& n) { return at(n[0], n[1], n[3], n[2]); }));
    EXPECT_EQ(groups_of(plan, "PARALLEL_3D_WEIGHT"),
              counted({2, edge, edge}, {edge}, [&](auto& n) { return at(n[0], n[3], n[2], n[1]); }));
    EXPECT_EQ(groups_of(plan, "PARALLEL_3D_OUTPUT"),
              counted({2, edge, edge}, {edge}, [&](auto& n) { return at(n[0], n[1], n[2], n[3]); }));
  }
}

TEST(ColossalaiGroups, SizesThatDoNotMultiplyToTheWorldShowTheArithmetic) {
  EXPECT_THAT(
      [] { (void)colossalai_plan(8, with(3, 1)); },
      ThrowsMessage<InvalidArgument>(HasSubstr("data 2 x pipeline 3 x tensor 1 = 6 ranks, but the world has 8")));
  EXPECT_THAT([] { (void)colossalai_plan(4, with(1, 16)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("data 0 x pipeline 1 x tensor 16 = 0 ranks")));
  EXPECT_THAT([] { (void)colossalai_plan(4, with(1 << 16, 1 << 16)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("data 0 x pipeline 65536")));
  EXPECT_THROW((void)colossalai_plan(0, with(1, 1)), InvalidArgument);
  EXPECT_THROW((void)colossalai_plan(4, with(0, 1)), InvalidArgument);
  EXPECT_THROW((void)colossalai_plan(4, with(1, -2)), InvalidArgument);
}

TEST(ColossalaiGroups, ATensorSizeThatTheModeCannotLayOutIsRefusedWithTheReason) {
  const auto refuses = [](const ParallelConfiguration& configuration, const char* words) {
    EXPECT_THAT([&] { (void)colossalai_plan(configuration.tensor, configuration); },
                ThrowsMessage<InvalidArgument>(HasSubstr(words)));
  };
  refuses(with(1, 8, TensorMode::two_dimensional), "mode 2d needs a square of tensor ranks; 8 is not one");
  refuses(with(1, 4, TensorMode::three_dimensional), "mode 3d needs a cube of tensor ranks; 4 is not one");
  refuses(with(1, 8, TensorMode::two_and_a_half_dimensional, 1), "8 with depth 1 has no such edge");
  refuses(with(1, 8, TensorMode::two_and_a_half_dimensional, 16), "8 with depth 16 has no such edge");
  refuses(with(1, 8, TensorMode::two_and_a_half_dimensional), "mode 2.5d needs a depth");
  refuses(with(1, 8, TensorMode::two_and_a_half_dimensional, 0), "depth must be 1 or more, got 0");
  refuses(with(1, 8, TensorMode::one_dimensional, 2), "mode 1d has depth 2");
}

TEST(ColossalaiGroups, EveryModeOfEveryGeometryPartitionsTheWorldOrIsRefused) {
  int plans = 0;
  for (const TensorMode mode :
       {TensorMode::none, TensorMode::one_dimensional, TensorMode::two_dimensional,
        TensorMode::two_and_a_half_dimensional, TensorMode::three_dimensional, TensorMode::sequence})
    for (int pipeline = 1; pipeline <= 4; ++pipeline)
      for (int tensor = 1; tensor <= 18; ++tensor)
        for (int world = 1; world <= 72; ++world) {
          const bool deep = mode == TensorMode::two_and_a_half_dimensional;
          Plan plan;
          try {
            plan = colossalai_plan(world, with(pipeline, tensor, mode, deep ? std::optional(2) : std::nullopt));
          } catch (const InvalidArgument&) {
            continue;
          }
          ++plans;
          ASSERT_NO_THROW(validate(plan));
          for (const std::string& name : modes_of(plan)) {
            std::vector<int> members;
            for (const auto& ranks : groups_of(plan, name)) members.insert(members.end(), ranks.begin(), ranks.end());
            std::ranges::sort(members);
            ASSERT_EQ(members.size(), static_cast<std::size_t>(world)) << name;
            for (int rank = 0; rank < world; ++rank) ASSERT_EQ(members[static_cast<std::size_t>(rank)], rank) << name;
          }
        }
  EXPECT_GT(plans, 1000);
}

TEST(ColossalaiGroups, ModeNamesAreReadAndWritten) {
  for (const char* name : {"none", "1d", "2d", "2.5d", "3d", "sequence"})
    EXPECT_EQ(name_of(parse_tensor_mode(name)), name);
  EXPECT_THAT([] { (void)parse_tensor_mode("4d"); },
              ThrowsMessage<NotFound>(AllOf(HasSubstr("'4d'"), HasSubstr("2.5d, 3d, sequence"))));
}

TEST(SharedModule, HasAGroupForEachDataAndTensorCoordinateInTheOrderOfTheStages) {
  EXPECT_EQ(groups_of(shared_module_plan(8, with(4, 2), std::vector{0, 3}), "SHARED_MODULE"), (Lists{{0, 6}, {1, 7}}));
  EXPECT_EQ(groups_of(shared_module_plan(8, with(4, 1), std::vector{3, 0}), "SHARED_MODULE"), (Lists{{3, 0}, {7, 4}}));
  EXPECT_EQ(groups_of(shared_module_plan(16, with(4, 2), std::vector{0, 1, 3}), "SHARED_MODULE"),
            (Lists{{0, 2, 6}, {1, 3, 7}, {8, 10, 14}, {9, 11, 15}}));
}

TEST(SharedModule, StagesMustBeTwoOrMoreDifferentAndThere) {
  const auto plan = [](std::vector<int> stages) { return shared_module_plan(8, with(4, 1), stages); };
  EXPECT_THAT([&] { (void)plan({0}); }, ThrowsMessage<InvalidArgument>(HasSubstr("two stages or more, got 1 [0]")));
  EXPECT_THAT([&] { (void)plan({0, 4}); }, ThrowsMessage<OutOfRange>(HasSubstr("stage 4; there are 4 stages")));
  EXPECT_THAT([&] { (void)plan({0, -1}); }, ThrowsMessage<OutOfRange>(HasSubstr("stage -1")));
  EXPECT_THAT([&] { (void)plan({1, 1}); }, ThrowsMessage<InvalidArgument>(HasSubstr("stage 1 twice in [1 1]")));
}

TEST(SharedModule, StartsFromItsFirstMember) {
  EXPECT_EQ(broadcast_source(std::vector{5, 7}, std::vector{1, 3}, BroadcastSource::first_member), 5);
  EXPECT_EQ(broadcast_source(std::vector{7, 4}, std::vector{3, 0}, BroadcastSource::first_member), 7);
}

TEST(SharedModule, UnderTheSourcesRuleAStageIsTakenForAPosition) {
  const auto source = [](std::vector<int> members, std::vector<int> stages) {
    return broadcast_source(members, stages, BroadcastSource::stage_as_index);
  };
  EXPECT_EQ(source({0, 6}, {0, 3}), 0) << "right by chance";
  EXPECT_EQ(source({5, 7}, {1, 3}), 7) << "the wrong member";
  EXPECT_THAT([&] { (void)source({2, 3}, {2, 3}); },
              ThrowsMessage<OutOfRange>(HasSubstr("stage 2 as an index into the group [2 3], which has 2 members")));
  EXPECT_THROW((void)source({}, {}), InvalidArgument);
}

TEST(SharedModules, AreOfAConfigurationThatTheTensorModeCanLayOut) {
  const std::vector<int> stages{0, 1};
  const auto refused = [&](const ParallelConfiguration& configuration) {
    EXPECT_THROW((void)colossalai_plan(16, configuration), InvalidArgument);
    EXPECT_THROW((void)shared_module_plan(16, configuration, stages), InvalidArgument);
  };
  refused({.pipeline = 2, .tensor = 8, .mode = TensorMode::two_dimensional});
  refused({.pipeline = 2, .tensor = 4, .mode = TensorMode::three_dimensional});
  refused({.pipeline = 2, .tensor = 8, .mode = TensorMode::two_and_a_half_dimensional, .depth = 4});
  refused({.pipeline = 2, .tensor = 8, .mode = TensorMode::one_dimensional, .depth = 2});
  refused({.pipeline = 2, .tensor = 8, .depth = 2});
}

}  // namespace
}  // namespace plumbline::groups
