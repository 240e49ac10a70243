#include "reference/groups/megatron.hpp"

#include <algorithm>
#include <set>

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

TEST(MegatronGroups, KindsComeInTheRecordedOrder) {
  EXPECT_THAT(modes_of(megatron_plan(4, {})),
              ElementsAre("GTP_WEIGHT_REMAT_GROUP", "DATA_PARALLEL_GROUP_WITH_CP", "DATA_PARALLEL_GROUP",
                          "CONTEXT_PARALLEL_GROUP", "MODEL_PARALLEL_GROUP", "TENSOR_MODEL_PARALLEL_GROUP",
                          "PIPELINE_MODEL_PARALLEL_GROUP", "EMBEDDING_GROUP", "POSITION_EMBEDDING_GROUP",
                          "TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP", "TENSOR_AND_DATA_PARALLEL_GROUP",
                          "TENSOR_AND_CONTEXT_PARALLEL_GROUP", "EXPERT_GTP_WEIGHT_REMAT_GROUP",
                          "EXPERT_MODEL_PARALLEL_GROUP", "EXPERT_TENSOR_PARALLEL_GROUP",
                          "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP", "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
                          "EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP_WITH_EGTP", "EXPERT_DATA_PARALLEL_GROUP",
                          "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP"));
}

TEST(MegatronGroups, TensorIsFastestThenDataThenPipeline) {
  const Plan plan = megatron_plan(12, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2});
  EXPECT_EQ(plan.convention, "megatron");
  EXPECT_EQ(groups_of(plan, "TENSOR_MODEL_PARALLEL_GROUP"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}}));
  EXPECT_EQ(groups_of(plan, "DATA_PARALLEL_GROUP"), (Lists{{0, 2, 4}, {1, 3, 5}, {6, 8, 10}, {7, 9, 11}}));
  EXPECT_EQ(groups_of(plan, "PIPELINE_MODEL_PARALLEL_GROUP"),
            (Lists{{0, 6}, {1, 7}, {2, 8}, {3, 9}, {4, 10}, {5, 11}}));
  EXPECT_EQ(groups_of(plan, "MODEL_PARALLEL_GROUP"), (Lists{{0, 1, 6, 7}, {2, 3, 8, 9}, {4, 5, 10, 11}}));
}

TEST(MegatronGroups, AnotherOrderPutsPipelineBeforeData) {
  const Plan plan =
      megatron_plan(8, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2, .order = "tp-pp-dp"});
  EXPECT_EQ(groups_of(plan, "PIPELINE_MODEL_PARALLEL_GROUP"), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups_of(plan, "DATA_PARALLEL_GROUP"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(MegatronGroups, EachPipelineIsFollowedByItsEnds) {
  const Plan plan = megatron_plan(6, {.pipeline_model_parallel_size = 3});
  const auto first = std::ranges::find(plan.creations, "PIPELINE_MODEL_PARALLEL_GROUP", &Creation::mode);
  EXPECT_THAT(
      std::vector(first, first + 6),
      ElementsAre(Creation{"PIPELINE_MODEL_PARALLEL_GROUP", {0, 2, 4}}, Creation{"EMBEDDING_GROUP", {0, 4}},
                  Creation{"POSITION_EMBEDDING_GROUP", {0}}, Creation{"PIPELINE_MODEL_PARALLEL_GROUP", {1, 3, 5}},
                  Creation{"EMBEDDING_GROUP", {1, 5}}, Creation{"POSITION_EMBEDDING_GROUP", {1}}));
}

TEST(MegatronGroups, TheOptimizerInstanceStringsModelGroupsTogetherUnsorted) {
  const MegatronArguments arguments{.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 2};
  EXPECT_EQ(groups_of(megatron_plan(8, arguments), "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP"),
            (Lists{{0, 1, 4, 5, 2, 3, 6, 7}}));
}

TEST(MegatronGroups, OptimizerInstancesCutDataGroupsAndExpertDataGroups) {
  MegatronArguments arguments;
  arguments.tensor_model_parallel_size = 2;
  arguments.num_distributed_optimizer_instances = 2;
  const Plan plan = megatron_plan(8, arguments);
  EXPECT_EQ(groups_of(plan, "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP"), (Lists{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
  EXPECT_EQ(groups_of(plan, "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0"), (Lists{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
  EXPECT_EQ(groups_of(plan, "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1"), (Lists{{0, 4}, {2, 6}, {1, 5}, {3, 7}}));
  EXPECT_EQ(groups_of(plan, "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(MegatronGroups, ExpertsHaveAGridOfTheirOwn) {
  MegatronArguments arguments;
  arguments.tensor_model_parallel_size = 2;
  arguments.expert_model_parallel_size = 4;
  arguments.expert_tensor_parallel_size = 1;
  const Plan plan = megatron_plan(8, arguments);
  EXPECT_EQ(groups_of(plan, "EXPERT_MODEL_PARALLEL_GROUP"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups_of(plan, "EXPERT_TENSOR_PARALLEL_GROUP").size(), 8U);
  EXPECT_EQ(groups_of(plan, "EXPERT_DATA_PARALLEL_GROUP"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(MegatronGroups, HierarchyOfContextCutsEachContextGroupLevelByLevel) {
  MegatronArguments arguments;
  arguments.context_parallel_size = 16;
  arguments.hierarchical_context_parallel_sizes = {2, 2, 4};
  const Plan plan = megatron_plan(16, arguments);
  EXPECT_EQ(groups_of(plan, "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L0"),
            (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}}));
  EXPECT_EQ(groups_of(plan, "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L1"),
            (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups_of(plan, "HIERARCHICAL_CONTEXT_PARALLEL_GROUP_L2"),
            (Lists{{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}}));
}

TEST(MegatronGroups, HybridContextMakesPowersOfTwoBelowTheWholeGroup) {
  MegatronArguments arguments;
  arguments.hybrid_context_parallel = true;
  const Plan plan = megatron_plan(8, arguments);
  EXPECT_EQ(groups_of(plan, "HYBRID_DP_CP_GROUP_2"), (Lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups_of(plan, "HYBRID_DP_CP_GROUP_4"), (Lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_THROW((void)groups_of(plan, "HYBRID_DP_CP_GROUP_8"), NotFound);
  EXPECT_EQ(groups_of(megatron_plan(6, arguments), "HYBRID_DP_CP_GROUP_2"), (Lists{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_THAT([&] { (void)megatron_plan(3, arguments); }, ThrowsMessage<InvalidArgument>(HasSubstr("even number")));
}

TEST(MegatronGroups, GlooGroupsFollowTheirTwins) {
  MegatronArguments arguments;
  arguments.create_gloo_process_groups = true;
  const Plan plan = megatron_plan(2, arguments);
  EXPECT_EQ(plan.creations[2], (Creation{"DATA_PARALLEL_GROUP_WITH_CP", {0, 1}}));
  EXPECT_EQ(plan.creations[3], (Creation{"DATA_PARALLEL_GROUP_WITH_CP_GLOO", {0, 1}}));
  EXPECT_EQ(groups_of(plan, "EXPERT_DATA_PARALLEL_GROUP_GLOO"), (Lists{{0, 1}}));
}

TEST(MegatronGroups, AWeightAxisLiesBesideTensorAndJoinsTheDataGroups) {
  MegatronArguments arguments;
  arguments.tensor_model_parallel_size = 2;
  arguments.gtp_remat_size = 2;
  const Plan plan = megatron_plan(8, arguments);
  EXPECT_EQ(groups_of(plan, "GTP_WEIGHT_REMAT_GROUP"), (Lists{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups_of(plan, "DATA_PARALLEL_GROUP"), (Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups_of(plan, "DATA_PARALLEL_GROUP_WITH_GTP_REMAT"), (Lists{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(groups_of(plan, "INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP"), (Lists{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(megatron_ranks(plan)[3].data_size, 4);
  EXPECT_EQ(megatron_ranks(plan)[3].data_rank, 1);
  EXPECT_EQ(megatron_ranks(plan)[6].data_source, 2);
}

TEST(MegatronGroups, ARankOffsetMovesAllRanks) {
  MegatronArguments arguments;
  arguments.tensor_model_parallel_size = 2;
  arguments.rank_offset = 10;
  const Plan plan = megatron_plan(4, arguments);
  EXPECT_EQ(plan.world_size, 14);
  EXPECT_EQ(groups_of(plan, "DATA_PARALLEL_GROUP"), (Lists{{10, 12}, {11, 13}}));
  EXPECT_EQ(megatron_ranks(plan).front().rank, 10);
  EXPECT_EQ(megatron_ranks(plan).size(), 4U);
}

TEST(MegatronGroups, KindsThatAreToCoverTheWorldPartitionIt) {
  int plans = 0;
  for (const int tensor : {1, 2, 3})
    for (const int pipeline : {1, 2, 3})
      for (const int context : {1, 2})
        for (const int expert : {1, 2, 4})
          for (const char* order : {"tp-cp-ep-dp-pp", "tp-cp-pp-ep-dp", "dp-tp-ep-cp-pp"}) {
            MegatronArguments arguments{.tensor_model_parallel_size = tensor,
                                        .pipeline_model_parallel_size = pipeline,
                                        .context_parallel_size = context,
                                        .expert_model_parallel_size = expert,
                                        .order = order};
            Plan plan;
            try {
              plan = megatron_plan(24, arguments);
            } catch (const InvalidArgument&) {
              continue;
            }
            ++plans;
            ASSERT_NO_THROW(validate(plan));
            for (const std::string& mode : modes_of(plan)) {
              std::multiset<int> members;
              for (const auto& ranks : groups_of(plan, mode)) members.insert(ranks.begin(), ranks.end());
              const bool ends = mode.find("EMBEDDING") != std::string::npos;
              ASSERT_EQ(std::set(members.begin(), members.end()).size(), members.size()) << mode;
              ASSERT_TRUE(ends || members.size() == 24U) << mode;
            }
          }
  EXPECT_GT(plans, 50);
}

TEST(MegatronGroups, WhatMegatronRefusesIsRefusedWithTheValues) {
  const auto refuses = [](int world_size, const MegatronArguments& arguments, const char* words) {
    EXPECT_THAT([&] { (void)megatron_plan(world_size, arguments); }, ThrowsMessage<InvalidArgument>(HasSubstr(words)));
  };
  refuses(6, {.tensor_model_parallel_size = 4}, "world_size 6 is not divisible by tensor_model_parallel_size 4 x");
  refuses(6, {.tensor_model_parallel_size = 1 << 30, .pipeline_model_parallel_size = 1 << 30}, "world_size 6");
  refuses(8, {.virtual_pipeline_model_parallel_size = 2}, "virtual_pipeline_model_parallel_size 2 needs");
  refuses(8, {.tensor_model_parallel_size = 2, .expert_model_parallel_size = 3},
          "expert_generator: tp 2 x ep 3 x pp 1 x gtp_remat 1 does not divide");
  refuses(4, {.tensor_model_parallel_size = 0}, "tensor_model_parallel_size must be 1 or more, got 0");
  refuses(0, {}, "world_size must be 1 or more, got 0");
  refuses(4, {.context_parallel_size = 4, .hierarchical_context_parallel_sizes = {2, 3}}, "2 x 3 do not multiply to");
  refuses(4, {.num_distributed_optimizer_instances = 3}, "num_distributed_optimizer_instances 3 must divide");
  refuses(4, {.pipeline_model_parallel_size = 2, .order = "tp-dp"},
          "pp is 2, but the order 'tp-gtp_remat-dp' does not name it");
  refuses(4, {.order = "dp-pp"}, "order 'dp-pp': topology: no axis 'tp'");
  refuses(4, {.order = "tp-dp-pp-xp"}, "order 'tp-dp-pp-xp': RankGenerator: no parallelism 'xp'");
  refuses(8, {.pipeline_model_parallel_size = 2, .expert_model_parallel_size = 2, .order = "tp-cp-ep-pp-dp"},
          "the experts' dp is 2 and the dense one 4; they may differ only where pp is last");
  refuses(8, {.gtp_remat_size = 2, .num_distributed_optimizer_instances = 2}, "got 2");
  refuses(4, {.rank_offset = -1}, "rank_offset -1");
}

TEST(MegatronRanks, SayWhatTheGettersSay) {
  const auto ranks =
      megatron_ranks(megatron_plan(16, {.tensor_model_parallel_size = 2, .pipeline_model_parallel_size = 4}));
  const MegatronRank recorded{.rank = 13,
                              .tensor_rank = 1,
                              .tensor_size = 2,
                              .tensor_source = 12,
                              .pipeline_rank = 3,
                              .pipeline_size = 4,
                              .pipeline_first = 1,
                              .pipeline_last = 13,
                              .pipeline_next = 1,
                              .pipeline_previous = 9,
                              .data_rank = 0,
                              .data_size = 2,
                              .data_source = 13,
                              .model_source = 0,
                              .expert_tensor_rank = 1,
                              .first_stage = false,
                              .last_stage = true,
                              .in_embedding_group = true,
                              .in_position_embedding_group = false};
  EXPECT_EQ(ranks[13], recorded);
  EXPECT_FALSE(ranks[4].in_embedding_group) << "in the middle of its pipeline";
}

TEST(MegatronRanks, NeedAMegatronPlan) {
  const Plan other{.world_size = 1, .creations = {{"DATA", {0}}}};
  EXPECT_THAT([&] { (void)megatron_ranks(other); },
              ThrowsMessage<NotFound>(AllOf(HasSubstr("TENSOR_MODEL_PARALLEL_GROUP"), HasSubstr("[DATA]"))));
}

}  // namespace
}  // namespace plumbline::groups
