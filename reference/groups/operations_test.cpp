// groups.* and topology.initialize_model_parallel: what is read, what is answered, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

TEST(ParallelGroups, AreAnsweredUnderTheRecordedNames) {
  const json result = ask("groups.parallel_groups",
                          R"({"convention": "colossalai", "world_size": 4, "parallel": {"pipeline": {"size": 2}}})");
  EXPECT_EQ(result.at("initialized_modes"), json::parse(R"(["DATA", "MODEL", "PIPELINE", "TENSOR"])"));
  EXPECT_EQ(result.at("data_parallel_size"), 2);
  EXPECT_EQ(result.at("new_group_calls"), json::parse("[[0,2],[1,3],[0,1],[2,3],[0,1],[2,3],[0],[1],[2],[3]]"));
  EXPECT_EQ(result.at("ranks")[3].at("DATA"),
            json::parse(R"({"local_rank": 1, "world_size": 2, "ranks": [1, 3], "new_group_index": 1, "next": 1,
                            "prev": 1})"));
}

TEST(ParallelGroups, ModesAreListedRowsFirstAndGroupsSorted) {
  const json result = ask("groups.parallel_groups",
                          R"({"world_size": 8, "parallel": {"tensor": {"size": 8, "mode": "2.5d", "depth": 2}}})");
  EXPECT_EQ(result.at("initialized_modes")[3], "PARALLEL_2P5D_ROW");
  EXPECT_EQ(result.at("groups").at("PARALLEL_2P5D_COL"), json::parse("[[0,2],[1,3],[4,6],[5,7]]"));
  EXPECT_EQ(result.at("new_group_calls")[11], json::parse("[4,6]"));
}

TEST(ParallelGroups, WhatTheSourceRefusesIsRefused) {
  const auto refused = [](const char* args) { return error_of("groups.parallel_groups", args); };
  EXPECT_THAT(refused(R"({"convention": "colossalai", "world_size": 8, "parallel": {"pipeline": 2, "tensor": 2}})"),
              HasSubstr("parallel.tensor"));
  EXPECT_THAT(refused(R"({"world_size": 8, "parallel": {"pipeline": "2"}})"), HasSubstr("parallel.pipeline"));
  EXPECT_THAT(refused(R"({"world_size": 8, "parallel": {"tensor": {"size": 2, "mode": "4d"}}})"), HasSubstr("'4d'"));
  EXPECT_THAT(
      refused(R"({"convention": "colossalai", "world_size": 2, "parallel": {"tensor": {"size": 2, "mode": "none"}}})"),
      HasSubstr("must be null"));
  EXPECT_THAT(refused(R"({"world_size": 8, "parallel": {"pipeline": 3}})"),
              HasSubstr("data 2 x pipeline 3 x tensor 1 = 6"));
  EXPECT_THAT(refused(R"({"world_size": 8, "parallel": {"stages": 3}})"), HasSubstr("parallel.stages"));
  EXPECT_THAT(refused(R"({"convention": "megatron", "world_size": 8})"), HasSubstr("plumbline, colossalai"));
}

// ColossalAI computes the size of data parallelism, and looks up pipeline and tensor alone.
TEST(ParallelGroups, ColossalaiLeavesFieldsUnreadThatItDoesNotKnow) {
  const auto asked = [](const std::string& parallel) {
    return R"({"convention": "colossalai", "world_size": 8, "parallel": )" + parallel + "}";
  };
  const json plain = ask("groups.parallel_groups", asked(R"({"pipeline": 2, "tensor": {"size": 2}})").c_str());
  EXPECT_EQ(plain.at("data_parallel_size"), 2);
  for (const char* parallel :
       {R"({"pipeline": 2, "tensor": {"size": 2}, "data": 4})",
        R"({"pipeline": 2, "tensor": {"size": 2}, "data": null, "zero": {"level": 1}})",
        R"({"pipeline": {"size": 2, "chunks": 3}, "tensor": {"size": 2, "mode": null, "depth": "x", "rows": 1}})"})
    EXPECT_EQ(ask("groups.parallel_groups", asked(parallel).c_str()), plain) << parallel;
  // What stands beside a mode goes to its initializer.
  for (const char* parallel :
       {R"({"tensor": {"size": 2, "mode": "1d", "rows": 1}})", R"({"tensor": {"size": 2, "mode": "1d", "depth": 1}})",
        R"({"tensor": {"size": 2, "mode": "1d", "depth": null}})",
        R"({"tensor": {"size": 4, "mode": "2.5d", "depth": 1, "rows": 1}})"})
    EXPECT_THAT(error_of("groups.parallel_groups", asked(parallel).c_str()), HasSubstr("parallel.tensor.")) << parallel;
  EXPECT_EQ(ask("groups.shared_module", R"({"convention": "colossalai", "world_size": 8, "pipeline_ranks": [1, 3],
                                            "parallel": {"pipeline": 4, "data": 1}})")
                .at("new_group_calls"),
            json::parse("[[1,3],[5,7]]"));
}

TEST(ParallelGroups, ByDefaultATensorSizeMayBeANumber) {
  EXPECT_EQ(ask("groups.parallel_groups", R"({"world_size": 4, "parallel": {"tensor": 2}})").at("groups").at("TENSOR"),
            json::parse("[[0,1],[2,3]]"));
}

TEST(SharedModuleOperation, NamesTheFirstMemberUnlessTheSourcesRuleIsAskedFor) {
  const char* args = R"({"world_size": 8, "parallel": {"pipeline": 4}, "pipeline_ranks": [1, 3]})";
  const json right = ask("groups.shared_module", args);
  EXPECT_EQ(right.at("new_group_calls"), json::parse("[[1,3],[5,7]]"));
  EXPECT_EQ(right.at("ranks")[7].at("register_module").at("broadcast_src"), 5);
  EXPECT_EQ(right.at("ranks")[7].at("new_group_index"), 1);
  EXPECT_EQ(right.at("ranks")[6].at("ranks_in_group"), nullptr);
  EXPECT_THAT(right.at("ranks")[6].at("register_module").at("error").at("message").get<std::string>(),
              HasSubstr("stage 2 is not in pipeline_ranks [1, 3]"));
  json quirk = json::parse(args);
  quirk["convention"] = "colossalai";
  EXPECT_EQ(ask("groups.shared_module", quirk.dump().c_str()).at("ranks")[7].at("register_module").at("broadcast_src"),
            7);
  quirk["pipeline_ranks"] = {2, 3};
  EXPECT_EQ(
      ask("groups.shared_module", quirk.dump().c_str()).at("ranks")[2].at("register_module").at("error").at("kind"),
      "out_of_range");
}

TEST(InitializeModelParallel, AnswersCreationsAndGetters) {
  const json result =
      ask("topology.initialize_model_parallel",
          R"({"convention": "megatron", "world_size": 4, "args": {"pipeline_model_parallel_size": 2}})");
  EXPECT_EQ(result.at("new_group_calls").back(),
            json::parse(R"(["INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP", [0, 2, 1, 3]])"));
  EXPECT_EQ(result.at("ranks")[1].at("get_pipeline_model_parallel_next_rank"), 3);
  EXPECT_EQ(result.at("ranks")[1].at("is_rank_in_position_embedding_group"), true);
  EXPECT_EQ(result.at("ranks")[0].size(), 23U);
}

TEST(InitializeModelParallel, NamesWhatItDoesNotSupport) {
  EXPECT_THAT(error_of("topology.initialize_model_parallel", R"({"world_size": 4, "args": {"use_sharp": true}})"),
              HasSubstr("use_sharp is not supported"));
  EXPECT_THAT(error_of("topology.initialize_model_parallel", R"({"world_size": 4, "args": {"tensor_size": 2}})"),
              HasSubstr("args.tensor_size"));
}

TEST(LintOperation, FindsTheFirstDifference) {
  const json result =
      ask("groups.lint", R"({"rule": "all_ranks", "creations": [{"rank": 0, "ranks": [0, 1], "mode": "A"},
      {"rank": 1, "ranks": [0]}, {"rank": 0, "ranks": [0]}, {"rank": 1, "ranks": [0, 1]}]})");
  EXPECT_EQ(result.at("valid"), false);
  EXPECT_EQ(result.at("findings")[0].at("kind"), "order");
  EXPECT_EQ(result.at("findings")[0].at("rank"), 1);
  EXPECT_EQ(result.at("findings")[0].at("sequence"), 0);
  EXPECT_EQ(result.at("findings")[0].at("message"), "makes [0] where rank 0 makes [0 1]");
}

TEST(LintOperation, TakesTheWorldAndModesThatLeaveRanksOut) {
  const char* args = R"({"rule": "members_only", "world_size": 2, "partial_modes": ["A"],
                         "creations": [{"rank": 0, "ranks": [0], "mode": "A"}]})";
  const json result = ask("groups.lint", args);
  EXPECT_EQ(result.at("valid"), true);
  EXPECT_EQ(result.at("findings").size(), 1U);
  EXPECT_EQ(result.at("findings")[0].at("kind"), "absent");
  EXPECT_THAT(error_of("groups.lint", R"({"world_size": 2, "creations": [{"rank": 2, "ranks": [0]}]})"),
              AllOf(HasSubstr("rank"), HasSubstr("2")));
  EXPECT_THAT(error_of("groups.lint", R"({"rule": "own", "creations": []})"), HasSubstr("all_ranks, members_only"));
}

TEST(ConventionsOperation, ComparesThem) {
  const json result =
      ask("groups.conventions", R"({"sizes": {"pipeline": 2, "data": 2}, "conventions": ["torch", "colossalai"]})");
  EXPECT_EQ(result.at("same_order"), false);
  EXPECT_EQ(result.at("modes")[0].at("agreements")[1], json::parse(R"({"conventions": ["colossalai"],
                                                                       "groups": [[0, 2], [1, 3]]})"));
  EXPECT_EQ(result.at("plans")[0].at("new_group_calls")[0], json::parse(R"(["pipeline", [0, 2]])"));
  EXPECT_THAT(error_of("groups.conventions", R"({"sizes": {"data": 2, "world": 3}})"), HasSubstr("the world has 3"));
}

TEST(ParallelGroups, ADepthNeedsAModeAndASizeThatIsNullIsNoneOfColossalAIs) {
  const auto refused = [](const char* args) { return error_of("groups.parallel_groups", args); };
  EXPECT_THAT(refused(R"({"world_size": 8, "parallel": {"tensor": {"size": 2, "depth": 2}}})"),
              HasSubstr("mode none has depth 2"));
  EXPECT_THAT(refused(R"({"convention": "colossalai", "world_size": 2, "parallel": {"pipeline": null}})"),
              HasSubstr("parallel.pipeline must be a number or an object with a size, got null"));
  EXPECT_THAT(refused(R"({"convention": "colossalai", "world_size": 2, "parallel": {"tensor": null}})"),
              HasSubstr("parallel.tensor"));
  EXPECT_EQ(ask("groups.parallel_groups", R"({"world_size": 2, "parallel": {"pipeline": null, "tensor": null}})")
                .at("data_parallel_size"),
            2);
}

TEST(SharedModuleOperation, RefusesWhatTheInitializersRefuse) {
  EXPECT_THAT(error_of("groups.shared_module", R"({"world_size": 16, "pipeline_ranks": [0, 1], "parallel": {
                         "pipeline": 2, "tensor": {"size": 8, "mode": "2d"}}})"),
              HasSubstr("mode 2d needs a square of tensor ranks; 8 is not one"));
}

TEST(Bounds, AreSaidWithTheArithmetic) {
  EXPECT_THAT(error_of("groups.parallel_groups", R"({"world_size": 1048576})"),
              HasSubstr("1048576 x 1048576 numbers to tell them; at most 16777216"));
  EXPECT_THAT(error_of("groups.conventions", R"({"sizes": {"pipeline": 1024, "data": 1024, "tensor": 1024}})"),
              HasSubstr("pipeline 1024 x data 1024 x tensor 1024 is more than 1048576 ranks"));
  EXPECT_THAT(
      error_of("topology.initialize_model_parallel", R"({"world_size": 2, "args": {"rank_offset": 2000000000}})"),
      HasSubstr("local_world_size 2 + rank_offset 2000000000 is more than 1048576 ranks"));
  EXPECT_THAT(error_of("schedules.partition_uniform", R"({"num_items": 1, "num_parts": 2000000000})"),
              HasSubstr("num_parts 2000000000 is more than 1048576 parts"));
  EXPECT_THAT(error_of("schedules.partition_uniform",
                       R"({"convention": "colossalai", "num_items": 1, "pp": 1000000, "chunks": 1000000})"),
              HasSubstr("pp 1000000 x chunks 1000000 is more than 1048576 parts"));
}

TEST(LintOperation, TakesSequenceNumbers) {
  const json result = ask("groups.lint", R"({"creations": [
      {"rank": 0, "sequence": 1, "ranks": [0]}, {"rank": 0, "sequence": 0, "ranks": [0, 1]},
      {"rank": 1, "sequence": 5, "ranks": [0, 1]}, {"rank": 1, "sequence": 8, "ranks": [0]}]})");
  EXPECT_EQ(result.at("valid"), true);
  EXPECT_THAT(error_of("groups.lint", R"({"creations": [{"rank": 0, "sequence": -1, "ranks": [0]}]})"),
              HasSubstr("sequence"));
}

TEST(GroupsCreate, UsesEachGroupAndSaysWhatRanksLack) {
  const json ranks = ask("groups.create", R"({"world_size": 3, "plans": [[{"mode": "data", "ranks": [2, 0]}]],
                                              "lookups": ["data", "tensor"]})")["ranks"];
  EXPECT_EQ(ranks[0]["groups"]["data"],
            json::parse(R"({"ranks": [2, 0], "local_rank": 1, "next": 2, "prev": 2, "gathered": [2, 0],
                            "positions": [1, null, 0], "members": [2, 0, null], "from_last": 0, "initial": 2})"));
  EXPECT_EQ(ranks[1]["groups"], json::object());
  EXPECT_EQ(ranks[1]["lookups"]["data"]["error"]["kind"], "state");
  EXPECT_EQ(ranks[1]["lookups"]["tensor"]["error"]["kind"], "not_found");
  EXPECT_EQ(ranks[1]["log"], json::parse(R"([{"mode": "data", "ranks": [2, 0]}])"));
}

TEST(GroupsCreate, GivesEveryRankTheErrorOfPlansThatDiffer) {
  const json ranks = ask("groups.create", R"({"world_size": 2, "plans": [[{"mode": "data", "ranks": [0, 1]}],
                                                                         [{"mode": "data", "ranks": [1, 0]}]]})")
      ["ranks"];
  EXPECT_EQ(ranks[0]["error"], ranks[1]["error"]);
  EXPECT_FALSE(ranks[0]["error"].is_null());
  EXPECT_EQ(ranks[1]["world_sum"], 3);
  EXPECT_THAT(error_of("groups.create", R"({"world_size": 3, "plans": [[], []]})"), testing::HasSubstr("2 entries"));
  EXPECT_THAT(error_of("groups.create", R"({"world_size": 2, "plans": [[]], "planned_worlds": [2]})"),
              testing::HasSubstr("planned_worlds has 1 entries"));
  EXPECT_THAT(error_of("groups.create", R"({"world_size": 3, "plans": [[{"mode": "data", "ranks": [0, 1]},
                                                                        {"mode": "data", "ranks": [1, 2]}]]})"),
              testing::HasSubstr("rank 1 in two groups of mode 'data'"));
}

TEST(GroupsCreate, EndsWithoutARankAndSumsAtOnce) {
  const json absent = ask("groups.create", R"({"world_size": 2, "plans": [[{"mode": "data", "ranks": [0, 1]}]],
                                               "absent": 1, "limit": 0.1})")["ranks"];
  EXPECT_THAT(absent[0]["error"]["message"].get<std::string>(), testing::HasSubstr("1"));
  EXPECT_EQ(absent[1]["error"], nullptr);
  const json failing = ask("groups.create", R"({"world_size": 2, "plans": [[{"mode": "data", "ranks": [0, 1]}]],
                                                "failing_log": 0, "log_error": "disk 7 is full"})")["ranks"];
  EXPECT_THAT(failing[0]["error"]["message"].get<std::string>(), testing::HasSubstr("disk 7 is full"));
  EXPECT_NE(failing[0]["error"]["message"], failing[1]["error"]["message"]);
  const json sums = ask("groups.create", R"({"world_size": 2, "plans": [[{"mode": "data", "ranks": [0, 1]},
      {"mode": "model", "ranks": [1, 0]}]], "sums": [["data", "model"], ["model", "data"]]})")["ranks"];
  EXPECT_EQ(sums[0]["sums"], json::parse(R"({"data": 3, "model": 3})"));
  EXPECT_THAT(error_of("groups.create", R"({"world_size": 2, "plans": [[]], "absent": 2})"),
              testing::HasSubstr("absent"));
  EXPECT_THAT(error_of("groups.create", R"({"world_size": 2, "plans": [[]], "limit": 0})"),
              testing::HasSubstr("limit is 0 s"));
  json many{{"world_size", 1}, {"plans", {json::array()}}};
  for (int i = 0; i < 257; ++i) many["plans"][0].push_back({{"mode", std::to_string(i)}, {"ranks", {0}}});
  EXPECT_THAT(error_of("groups.create", many.dump().c_str()), testing::HasSubstr("257 groups"));
  EXPECT_THAT(error_of("groups.create", R"({"world_size": 2, "plans": [[]], "sums": [[]]})"),
              testing::HasSubstr("sums has 1 entries"));
}

}  // namespace
}  // namespace plumbline::adapter
