#include "reference/training/detail/rank_groups.hpp"

#include <gtest/gtest.h>

namespace plumbline::training {
namespace {

std::string lines_of(const groups::Plan& plan) {
  std::string text;
  for (const groups::Creation& made : plan.creations) text += made.mode + ' ' + groups::shown(made.ranks) + '\n';
  return text;
}

TEST(RankGroups, AreThoseOfEachAxisAndOfAWholeModel) {
  const job::Parallel parallel{.pipeline = 2, .data = 2, .tensor = 2, .order = {"data", "pipeline", "tensor"}};
  EXPECT_EQ(lines_of(groups_plan(parallel, true)),
            "pipeline [0 2]\npipeline [1 3]\npipeline [4 6]\npipeline [5 7]\n"
            "data [0 4]\ndata [1 5]\ndata [2 6]\ndata [3 7]\n"
            "tensor [0 1]\ntensor [2 3]\ntensor [4 5]\ntensor [6 7]\n"
            "model [0 1 2 3]\nmodel [4 5 6 7]\n");
}

TEST(RankGroups, OfExpertsAreConsecutiveDataRanksAndThoseOfOneExpertRank) {
  EXPECT_EQ(lines_of(groups_plan({.pipeline = 2, .data = 4, .order = {"data", "pipeline", "tensor"}, .expert = 2})),
            "pipeline [0 1]\npipeline [2 3]\npipeline [4 5]\npipeline [6 7]\n"
            "data [0 2 4 6]\ndata [1 3 5 7]\n"
            "expert [0 2]\nexpert [1 3]\nexpert [4 6]\nexpert [5 7]\n"
            "expert_data [0 4]\nexpert_data [1 5]\nexpert_data [2 6]\nexpert_data [3 7]\n");
}

TEST(RankGroups, AreOfOneRankAlongAnAxisOfOneButForTensor) {
  EXPECT_EQ(lines_of(groups_plan({.data = 2})), "pipeline [0]\npipeline [1]\ndata [0 1]\n");
}

TEST(RankGroups, AreOfReplicasAndOfShards) {
  EXPECT_EQ(lines_of(groups_plan({.data = 4, .shard = 2})),
            "pipeline [0]\npipeline [1]\npipeline [2]\npipeline [3]\ndata [0 1 2 3]\n"
            "replicate [0 2]\nreplicate [1 3]\nshard [0 1]\nshard [2 3]\n");
}

}  // namespace
}  // namespace plumbline::training
