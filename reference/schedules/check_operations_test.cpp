// schedules.check and schedules.simulate: what is read, what is answered, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ScheduleCheck, ProvesASchedule) {
  const json result = ask("schedules.check", R"({"ranks": ["0F0,0F1,,0B0,0B1", ",1F0,1B0,1F1,1B1"],
                                                 "stage_to_rank": [0, 1], "num_stages": 2, "microbatches": 2})");
  EXPECT_EQ(result,
            json::parse(R"({"valid": true, "problems": [], "errors": 0, "warnings": 0, "peak_activations": [2, 1],
                                    "deadlock_free": {"buffered": true, "rendezvous": true}})"));
}

TEST(ScheduleCheck, NamesWhatIsWrongAndWhere) {
  const json doubled = ask("schedules.check", R"({"ranks": ["0F0,0B0,0B0"], "stage_to_rank": [0], "num_stages": 1,
                                                  "microbatches": 1})");
  EXPECT_FALSE(doubled.at("valid"));
  EXPECT_EQ(doubled.at("problems"), json::parse(R"([{"kind": "doubled", "severity": "error", "rank": 0, "position": 2,
                                                     "action": "0B0", "message": "done before, 0B0 at position 1"}])"));
  const json missing = ask("schedules.check", R"({"ranks": ["0F0"], "stage_to_rank": [0], "num_stages": 1,
                                                  "microbatches": 1})");
  EXPECT_EQ(missing.at("problems")[0].at("position"), nullptr);
  const json cycle = ask("schedules.check", R"({"ranks": ["0F0,0B0,0F1,0B1", "1F0,1F1,1B1,1B0"],
                                                "stage_to_rank": [0, 1], "num_stages": 2, "microbatches": 2})");
  EXPECT_EQ(
      cycle.at("problems")[0].at("cycle"),
      json::parse(R"([{"rank": 0, "position": 1, "action": "0B0"}, {"rank": 1, "position": 1, "action": "1F1"}])"));
  EXPECT_EQ(cycle.at("deadlock_free"), json::parse(R"({"buffered": false, "rendezvous": false})"));
}

TEST(ScheduleCheck, MatchingDecidesWhetherAnotherOrderIsAnError) {
  const auto of = [](const char* matching) {
    return ask("schedules.check",
               (std::string(R"({"ranks": ["0F0,0F1,(0SEND_F0;0SEND_F1)P2P", "(1RECV_F1;1RECV_F0)P2P,1F0,1F1"],
                              "stage_to_rank": [0, 1], "num_stages": 2, "microbatches": 2, "forward_only": true,
                              "matching": ")") +
                matching + "\"}")
                   .c_str());
  };
  EXPECT_TRUE(of("name").at("valid"));
  EXPECT_EQ(of("name").at("problems")[0].at("kind"), "fifo_order");
  EXPECT_EQ(of("name").at("problems")[0].at("severity"), "warning");
  EXPECT_FALSE(of("fifo").at("valid"));
}

TEST(ScheduleCheck, RefusesWhatItCannotRead) {
  const auto refused = [](const char* args) { return error_of("schedules.check", args); };
  EXPECT_THAT(refused(R"({"ranks": ["0F0", "0X0"], "stage_to_rank": [0, 1], "num_stages": 2, "microbatches": 1})"),
              HasSubstr("line 2, column 1: '0X0'"));
  EXPECT_THAT(refused(R"({"ranks": ["0F0"], "stage_to_rank": [3], "num_stages": 1, "microbatches": 1})"),
              HasSubstr("stage 0 is on rank 3"));
  EXPECT_THAT(refused(R"({"ranks": ["0F0"], "stage_to_rank": [0], "num_stages": 1, "microbatches": 0})"),
              HasSubstr("one micro-batch, got 1 and 0"));
  EXPECT_THAT(refused(R"({"ranks": [], "stage_to_rank": [], "num_stages": 0, "microbatches": 1, "matching": "tag"})"),
              HasSubstr("name, fifo"));
  EXPECT_THAT(
      refused(R"({"ranks": [], "stage_to_rank": [], "num_stages": 1, "microbatches": 1, "convention": "torch"})"),
      HasSubstr("plumbline"));
  EXPECT_THAT(refused(R"({"ranks": ["0F0"], "stage_to_rank": [0], "num_stages": 1, "microbatches": 1, "m": 2})"),
              HasSubstr("m"));
}

TEST(ScheduleSimulate, GivesTimesByStage) {
  const json result = ask("schedules.simulate", R"({"ranks": ["0F0,0B0", "1F0,1I0,1W0"], "stage_to_rank": [0, 1],
      "num_stages": 2, "durations": {"F": [1, 2], "B": 3, "I": 1.5, "W": [0, 0.5]}, "latency": 0.25, "bandwidth": 4,
      "message_bytes": 1})");
  EXPECT_EQ(result, json::parse(R"({"makespan": 8.5, "barrier_bubble": 4.5, "span_bubble": [4.5, 0.0],
      "start_times": [[0.0, 5.5], [1.5, 3.5, 5.0]], "peak_activations": [1, 1], "peak_activation_bytes": [1.0, 1.0],
      "links": [{"from": 0, "to": 1, "messages": 1, "bytes": 1.0}, {"from": 1, "to": 0, "messages": 1, "bytes": 1.0}],
      "idle": [{"transfer": 1.0, "sent_late": 0.0, "straggler": 0.0, "imbalance": 1.0, "fill": 0.0, "drain": 0.0, "dependency": 2.5},
               {"transfer": 0.5, "sent_late": 0.0, "straggler": 0.0, "imbalance": 0.0, "fill": 1.0, "drain": 3.0, "dependency": 0.0}]})"));
}

TEST(ScheduleSimulate, HasSlowRanksAndSeeds) {
  const auto makespan = [](const char* more) {
    return ask("schedules.simulate", (std::string(R"({"ranks": ["0F0,0B0"], "stage_to_rank": [0], "num_stages": 1,
        "durations": {"F": 1, "B": 2}, )") +
                                      more + "}")
                                         .c_str())
        .at("makespan")
        .get<double>();
  };
  EXPECT_EQ(makespan(R"("straggling": [3])"), 9);
  EXPECT_NE(makespan(R"("jitter": 0.5, "seed": 1)"), makespan(R"("jitter": 0.5, "seed": 2)"));
  EXPECT_EQ(makespan(R"("jitter": 0.5, "seed": 1)"), makespan(R"("jitter": 0.5, "seed": 1)"));
}

TEST(ScheduleSimulate, TakesHalvesForAWholeBackward) {
  const json result = ask("schedules.simulate", R"({"ranks": ["0F0,0B0"], "stage_to_rank": [0], "num_stages": 1,
      "durations": {"F": 1, "I": 2, "W": 4}})");
  EXPECT_EQ(result.at("makespan"), 7.0);
  EXPECT_EQ(result.at("barrier_bubble"), 0.0);
}

TEST(ScheduleSimulate, RefusesWhatItCannotRun) {
  const auto refused = [](const char* durations) {
    return error_of("schedules.simulate", (std::string(R"({"ranks": ["0F0,0B0"], "stage_to_rank": [0], "num_stages": 1,
                                                          "durations": )") +
                                           durations + "}")
                                              .c_str());
  };
  EXPECT_THAT(refused(R"({"F": -1, "B": 1})"), HasSubstr("the time of F must be a number from 0 on, got -1"));
  EXPECT_THAT(refused(R"({"F": [1, 2], "B": 1})"), HasSubstr("durations.F has 2 entries for 1 stages"));
  EXPECT_THAT(refused(R"({"F": 1})"), HasSubstr("durations.I is missing"));
  EXPECT_THAT(refused(R"({"F": 1, "B": 1, "X": 1})"), HasSubstr("durations.X"));
  EXPECT_THAT(refused(R"({"F": 1e308, "B": 1e308})"), HasSubstr("the sum of all times"));
  EXPECT_THAT(error_of("schedules.simulate", R"({"ranks": ["0F2147483000,0B0"], "stage_to_rank": [0], "num_stages": 1,
                                                  "durations": {"F": 1, "B": 1}})"),
              HasSubstr("a micro-batch 2147483000, but 2 actions"));
}

}  // namespace
}  // namespace plumbline::adapter
