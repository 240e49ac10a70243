// slowmo.trace: what is read, what is answered, what is refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Two ranks with a parameter of 1 each, whose gradients are 1 and 3 in each of four steps.
json slowmo_question(const char* changes) {
  json args = json::parse(R"({"world_size": 2, "nprocs_per_node": 1, "slowmo_momentum": 0, "localsgd_frequency": 2,
    "optimizer": {"lr": 0.5}, "ranks": [{"init_params": [1]}, {"init_params": [1]}]})");
  for (int step = 0; step < 4; ++step) args["steps"].push_back({{{"grads", {1}}}, {{"grads", {3}}}});
  const json changed = json::parse(changes);
  for (const auto& [field, value] : changed.items()) {
    args[field] = value;
    if (value.is_null()) args.erase(field);
  }
  return args;
}
json steps_of(const char* changes) { return ask("slowmo.trace", slowmo_question(changes).dump().c_str())["steps"]; }
std::string refusal_of(const char* changes) {
  return error_of("slowmo.trace", slowmo_question(changes).dump().c_str());
}

TEST(SlowMoTrace, AveragesEveryFewSteps) {
  const json steps = steps_of("{}");
  EXPECT_EQ(steps[0][0]["params"], json::parse("[0.5]"));
  EXPECT_EQ(steps[0][1]["params"], json::parse("[-0.5]"));
  EXPECT_EQ(steps[1][1]["params_after_optimizer"], json::parse("[-2.0]"));
  EXPECT_EQ(steps[1][1]["params"], json::parse("[-1.0]"));
  EXPECT_EQ(steps[1][1]["plan"]["allreduce_params"], true);
  EXPECT_FALSE(steps[0][0].contains("ps_weight"));
}

TEST(SlowMoTrace, AppliesSlowMomentum) {
  const json steps = steps_of(R"({"slowmo_momentum": 0.5, "slowmo_frequency": 2, "memory_efficient": false})");
  // The mean goes by -2 in two steps; momentum is of that over the rate.
  EXPECT_EQ(steps[1][0]["slow"]["momentum"], json::parse("[4.0]"));
  EXPECT_EQ(steps[1][0]["params"], json::parse("[-1.0]"));
  EXPECT_EQ(steps[3][0]["slow"]["momentum"], json::parse("[6.0]"));
  EXPECT_EQ(steps[3][1]["params"], json::parse("[-4.0]"));
}

TEST(SlowMoTrace, TakesRatesByStepOrByGroup) {
  EXPECT_EQ(steps_of(R"({"lrs": [0.5, 1, 1, 1]})")[1][0]["params_after_optimizer"], json::parse("[-0.5]"));
  EXPECT_THAT(refusal_of(R"({"lrs": [0.5]})"), HasSubstr("lrs has 1 rates for 4 steps"));
  EXPECT_THAT(refusal_of(R"({"dims": [1, 1, 1], "lrs": [1, 1, 1, 1], "groups": {"split": 1, "lrs": [0.5, 0.25]},
                             "ranks": [{"init_params": [1, 1, 1, 1]}, {"init_params": [1, 1, 1, 1]}]})"),
              HasSubstr("lrs and groups are both there"));
}

TEST(SlowMoTrace, GossipsOverGraphsOrRows) {
  const json steps = steps_of(R"({"base": "sgp", "phone_book": [[1], [0]]})");
  EXPECT_EQ(steps[0][0]["params"], json::parse("[0.0]"));
  EXPECT_EQ(steps[0][0]["ps_weight"], 1.0);
  EXPECT_THAT(refusal_of(R"({"base": "sgp", "phone_book": [[1]]})"), HasSubstr("phone_book has 1 rows"));
  EXPECT_THAT(refusal_of(R"({"base": "sgp", "graph": "grid"})"), HasSubstr("graph 'grid' is unknown"));
}

TEST(SlowMoTrace, TakesAnotherOuterRule) {
  // The mean goes by -2 in two steps: half of the way.
  const json steps = steps_of(R"({"outer": "lookahead", "slowmo_lr": 0.5, "slowmo_frequency": 2})");
  EXPECT_EQ(steps[1][0]["params"], json::parse("[0.0]"));
  EXPECT_THAT(refusal_of(R"({"outer": "adam"})"), HasSubstr("outer"));
}

TEST(SlowMoTrace, AveragesTheFirstStepsOfPostLocalSgd) {
  EXPECT_EQ(steps_of(R"({"localsgd_begin": 1})")[0][0]["params"], json::parse("[0.0]"));
  EXPECT_EQ(steps_of("{}")[0][0]["params"], json::parse("[0.5]"));
}

TEST(SlowMoTrace, EvaluatesBetweenSteps) {
  const json steps = steps_of(R"({"evaluate_after": [0]})");
  EXPECT_EQ(steps[0][1]["params_in_evaluation"], json::parse("[-0.5]"));
  EXPECT_FALSE(steps[1][1].contains("params_in_evaluation"));
  EXPECT_EQ(steps[1][1]["params"], json::parse("[-1.0]"));
}

TEST(SlowMoTrace, LagsWhereItMay) {
  const json steps = steps_of(R"({"base": "sgp", "overlap": true, "accepts_stale": true, "synch_freq": 1})");
  EXPECT_EQ(steps[0][0]["ps_weight"], 0.5) << "what it sends is under way";
  EXPECT_EQ(steps[1][0]["ps_weight"], 1.0);
}

TEST(SlowMoTrace, RejectsAStateAndGoesOn) {
  const json whole = steps_of("{}");
  const json lacks = steps_of(R"({"resume_at": 2, "bad_state": {"lacks": "steps"}})");
  EXPECT_EQ(lacks[2][1]["rejected"]["kind"], "not_found");
  EXPECT_EQ(lacks[3][1]["params"], whole[3][1]["params"]);
  EXPECT_EQ(steps_of(R"({"resume_at": 2, "bad_state": {"below_zero": "steps"}})")[2][0]["rejected"]["kind"],
            "invalid_argument");
  EXPECT_EQ(steps_of(R"({"resume_at": 2, "bad_state": {"lacks": "slow"}})")[2][0]["rejected"], nullptr)
      << "there is none";
  EXPECT_EQ(steps_of(R"({"resume_at": 2, "resume_in_evaluation": true})")[3][1]["params"], whole[3][1]["params"]);
  EXPECT_EQ(whole[3][1]["steps_done"], 4);
  EXPECT_THAT(refusal_of(R"({"bad_state": {"lacks": "steps"}})"), HasSubstr("resume_at is missing"));
  EXPECT_THAT(refusal_of(R"({"resume_at": 2, "bad_state": {}})"), HasSubstr("lacks is missing"));
  EXPECT_THAT(refusal_of(R"({"resume_at": 2, "bad_state": {"below_zero": "slow"}})"), HasSubstr("names 'slow'"));
}

TEST(SlowMoAverage, AveragesByLevel) {
  const json calls = ask("slowmo.average", R"({"world_size": 4, "warmup": 1, "calls": 4, "values": [[0], [2], [4], [6]],
    "levels": [{"period": 1, "group_size": 2}, {"period": 2, "group_size": 4}]})")["calls"];
  EXPECT_EQ(calls[0], json::parse(R"({"level": null, "values": [[0.0], [2.0], [4.0], [6.0]]})"));
  EXPECT_EQ(calls[1], json::parse(R"({"level": 1, "values": [[3.0], [3.0], [3.0], [3.0]]})"));
  EXPECT_EQ(calls[2], json::parse(R"({"level": 0, "values": [[1.0], [1.0], [5.0], [5.0]]})"));
}

TEST(SlowMoAverage, NamesWhatIsWrong) {
  const auto refused = [](const char* values, const char* levels) {
    return error_of(
        "slowmo.average",
        fmt::format(R"({{"world_size": 2, "calls": 1, "values": {}, "levels": {}}})", values, levels).c_str());
  };
  EXPECT_THAT(refused("[[1]]", "[]"), HasSubstr("values has 1 entries; world_size is 2"));
  EXPECT_THAT(refused("[[1], [1, 2]]", "[]"), HasSubstr("lists of 1 and 2 elements"));
  const auto refused_calls = [](int calls, const char* values) {
    return error_of("slowmo.average", fmt::format(R"({{"world_size": 2, "calls": {}, "values": {},
                                     "levels": [{{"period": 1, "group_size": 2}}]}})",
                                                  calls, values)
                                          .c_str());
  };
  EXPECT_THAT(refused_calls(262'145, "[[1, 2], [3, 4]]"), HasSubstr("2 ranks of 2 elements may make at most 262144"));
  EXPECT_THAT(refused_calls(524'289, "[[], []]"), HasSubstr("2 ranks of 0 elements may make at most 524288"));
  EXPECT_THAT(refused("[[1], [2]]", R"([{"period": 0, "group_size": 2}])"), HasSubstr("0"));
  EXPECT_THAT(refused("[[1], [2]]", R"([{"perod": 1, "group_size": 2}])"),
              HasSubstr("unknown field 'levels[0].perod'; there are period, group_size; did you mean period?"));
}

TEST(SlowMoTrace, NamesWhatIsWrong) {
  EXPECT_THAT(refusal_of(R"({"localsgd_frequency": 0})"), HasSubstr("local_sgd_frequency is 0"));
  EXPECT_THAT(refusal_of(R"({"nprocs_per_node": 3})"), HasSubstr("no multiple of ranks_per_node"));
  EXPECT_THAT(refusal_of(R"({"world_size": 3})"), HasSubstr("ranks has 2 entries; world_size is 3"));
  EXPECT_THAT(refusal_of(R"({"base": "adpsgd"})"), HasSubstr("no base algorithm 'adpsgd'"));
  EXPECT_THAT(refusal_of(R"({"overlap": true, "base": "sgp"})"), HasSubstr("accepts_stale"));
  EXPECT_THAT(refusal_of(R"({"steps": [[{"grads": [1]}]]})"), HasSubstr("1 ranks in a step, there must be 2"));
  EXPECT_THAT(refusal_of(R"({"ranks": [{"init_params": []}, {"init_params": []}]})"),
              HasSubstr("there is at least one parameter"));
  const auto refusal_of_row = [](const char* row) {
    return refusal_of(fmt::format(R"({{"steps": [[{0}, {0}]]}})", row).c_str());
  };
  EXPECT_THAT(refusal_of_row(R"({"grads": [0], "unused": [0]})"), HasSubstr("unused needs grads_local"));
  EXPECT_THAT(refusal_of_row(R"({"grads_local": [0], "unused": [1]})"), HasSubstr("unused names parameter 1 of 1"));
  EXPECT_THAT(refusal_of_row(R"({"grads_local": [2], "unused": [0]})"),
              HasSubstr("grads_local[0] is 2; parameter 0 is unused, and its gradient is 0"));
  EXPECT_THAT(refusal_of(R"({"optimizer": null})"), HasSubstr("optimizer"));
  EXPECT_THAT(refusal_of(R"({"slowmo_momentu": 1})"), HasSubstr("slowmo_momentu"));
}

}  // namespace
}  // namespace plumbline::adapter
