// schedules.stage_to_rank, generate, load_csv, lower, instruction_stream, trace: names of what is read and answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(SchedulePlans, AreGeneratedByPytorchsNamesAndByOurs) {
  const char* torch = R"({"convention": "torch", "schedule": "Schedule1F1B", "pp": 2, "microbatches": 2,
                          "stages_per_rank": 1})";
  EXPECT_EQ(ask("schedules.generate", torch),
            json::parse(R"({"compute_only": ["0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"], "stage_to_rank": [0, 1]})"));
  EXPECT_EQ(ask("schedules.generate", R"({"schedule": "zb-h1", "pp": 1, "microbatches": 1})").at("compute_only"),
            json::parse(R"(["0F0,0I0,0W0"])"));
  EXPECT_THAT(
      error_of("schedules.generate", R"({"convention": "torch", "schedule": "zb-h1", "pp": 2, "microbatches": 2})"),
      HasSubstr("PyTorch has no such"));
  EXPECT_THAT(error_of("schedules.generate", R"({"schedule": "zb-h3", "pp": 2, "microbatches": 2})"),
              HasSubstr("zb-h2"));
  EXPECT_EQ(ask("schedules.stage_to_rank", R"({"pp": 2, "num_stages": 4, "style": "v"})"),
            json::parse(R"({"result": [0, 1, 1, 0]})"));
  EXPECT_THAT(error_of("schedules.stage_to_rank", R"({"pp": 2, "num_stages": 4, "style": "zigzag"})"),
              HasSubstr("loop, v"));
}

TEST(SchedulePlans, AreMadeForTimesAndMemory) {
  const json found = ask("schedules.generate",
                         R"({"schedule": "auto", "pp": 2, "microbatches": 3, "memory_limit": 1, "latency": 0.5,
                             "durations": {"F": [1, 2], "I": 1, "W": 0}})");
  EXPECT_EQ(found.at("compute_only"), json::parse(R"(["0F0,0I0,0W0,0F1,0I1,0W1,0F2,0I2,0W2",
                                                      "1F0,1I0,1W0,1F1,1I1,1W1,1F2,1I2,1W2"])"));
  EXPECT_EQ(found.at("makespan"), 18);
  EXPECT_EQ(found.at("lower_bound"), 18);
  EXPECT_THAT(error_of("schedules.generate", R"({"schedule": "auto", "pp": 2, "microbatches": 3, "memory_limit": 0})"),
              HasSubstr("a memory limit of at least 1 activation, got 0"));
  EXPECT_THAT(error_of("schedules.generate",
                       R"({"schedule": "auto", "pp": 2, "microbatches": 3, "durations": {"F": [1, 2, 3]}})"),
              HasSubstr("durations.F has 3 entries for 2 stages"));
  EXPECT_THAT(error_of("schedules.generate", R"({"schedule": "zb-h1", "pp": 2, "microbatches": 3, "memory_limit": 1})"),
              HasSubstr("memory_limit"));
}

TEST(SchedulePlans, AreLoweredAsPytorchDoesAndAsWeDo) {
  const json torch = ask("schedules.lower", R"({"convention": "torch", "compute_only": ["0F0,,0I0,0W0", "1F0,1B0"],
                                                "stage_to_rank": [0, 1], "num_stages": 2})");
  EXPECT_EQ(torch.at("send_recv"), json::parse(R"(["0F0,0SEND_F0,0RECV_B0,0I0,0W0", "1RECV_F0,1F0,1B0,1SEND_B0"])"));
  EXPECT_EQ(torch.at("merge_bw"), json::parse(R"(["0F0,0B0", "1F0,1B0"])"));
  EXPECT_EQ(torch.at("with_comms")[1], "1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD,1RESHARD");
  EXPECT_EQ(torch.at("with_comms_defer_recv")[1], torch.at("with_comms")[1]);
  const json ours = ask("schedules.lower", R"({"compute_only": ["0F0,0B0", "1F0,1B0"], "stage_to_rank": [0, 1],
                                               "num_stages": 2, "metadata": "once"})");
  EXPECT_EQ(ours.at("send_recv")[0], "0F0,0SEND_META0,(0SEND_F0;0RECV_B0)P2P,0B0");
  EXPECT_THAT(
      error_of("schedules.lower", R"({"compute_only": ["0F0,0B0", "1F0,1B0"], "stage_to_rank": [0], "num_stages": 1})"),
      HasSubstr("rank 1, position 0: 1F0 has a stage that is not of 0 to 0"));
  EXPECT_THAT(
      error_of("schedules.lower", R"({"compute_only": ["0F0,0F2000000000"], "stage_to_rank": [0], "num_stages": 1})"),
      HasSubstr("micro-batch 2000000000"));
}

TEST(SchedulePlans, AreLoweredWithSoManyActiveStages) {
  json question = json::parse(R"({"compute_only": ["0F0,1F0,1B0,0B0"], "stage_to_rank": [0, 0], "num_stages": 2,
                                  "max_active_stages": 1})");
  EXPECT_EQ(ask("schedules.lower", question.dump().c_str()).at("with_comms")[0],
            "0UNSHARD,0F0,0RESHARD,1UNSHARD,1F0,1B0,1REDUCE_GRAD,1RESHARD,0UNSHARD,0B0,0REDUCE_GRAD,0RESHARD");
  question["max_active_stages"] = 2;
  question["convention"] = "torch";
  EXPECT_EQ(ask("schedules.lower", question.dump().c_str()).at("with_comms")[0],
            "0UNSHARD,1UNSHARD,0F0,1F0,1B0,1REDUCE_GRAD,1RESHARD,0B0,0REDUCE_GRAD,0RESHARD");
  question["max_active_stages"] = 0;
  EXPECT_THAT(error_of("schedules.lower", question.dump().c_str()), HasSubstr("max_active_stages is 0"));
}

// Recorded from _add_send_recv of PyTorch 2.13, which was given these rows.
TEST(SchedulePlans, IdleCellsAreStepsAsForPytorchsPass) {
  const auto sent = [](json args) {
    args["convention"] = "torch";
    return ask("schedules.lower", args.dump().c_str()).at("send_recv");
  };
  json plain = {
      {"compute_only", {"0F0,0F1,,0B0,,0B1", ",1F0,1B0,1F1,1B1,"}}, {"stage_to_rank", {0, 1}}, {"num_stages", 2}};
  EXPECT_EQ(sent(plain), json::parse(R"(["0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                         "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"])"));
  plain["idle"] = "dropped";
  EXPECT_EQ(sent(plain)[1], "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1");
  EXPECT_EQ(sent({{"compute_only", {"0F0,0F1,,,3F0,3B0,3F1,0B0,,3B1,0B1", ",1F0,,2F0,1F1,,2F1,2B0,1B0,,2B1,1B1"}},
                  {"stage_to_rank", {0, 1, 1, 0}},
                  {"num_stages", 4}})[1],
            "1RECV_F0,1RECV_F1,1F0,2F0,2SEND_F0,1F1,2RECV_B0,2F1,2SEND_F1,2B0,1B0,1SEND_B0,2RECV_B1,2B1,1B1,1SEND_B1");
  EXPECT_EQ(
      sent({{"compute_only", {"0F0,0F1,,(0F2;0B0)OVERLAP_F_B,,0B1,0B2", ",1F0,1B0,,1F1,1B1,1F2,1B2"}},
            {"stage_to_rank", {0, 1}},
            {"num_stages", 2}}),
      json::parse(R"(["0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,(0F2;0B0)OVERLAP_F_B,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2",
                            "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1RECV_F2,1F1,1B1,1SEND_B1,1F2,1B2,1SEND_B2"])"));
  // A schedule of PyTorch's own goes through its runtime, which drops idle cells first.
  json own = {{"compute_only", {"0F0,0F1,2F0,2F1,,,2B1,2B0,0B1,0B0", ",1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0"}},
              {"stage_to_rank", {0, 1, 0, 1}},
              {"num_stages", 4}};
  const json runtime = sent(own);
  own["idle"] = "dropped";
  EXPECT_EQ(sent(own), runtime);
  own["idle"] = "steps";
  EXPECT_NE(sent(own), runtime);
  EXPECT_THAT(error_of("schedules.lower", R"({"convention": "torch", "compute_only": ["0F0,0B0", ","],
                                              "stage_to_rank": [0], "num_stages": 1})"),
              HasSubstr("compute_only[1] has no computation"));
  EXPECT_THAT(error_of("schedules.lower", R"({"compute_only": ["0F0,0B0"], "stage_to_rank": [0], "num_stages": 1,
                                              "idle": "steps"})"),
              HasSubstr("idle"));
}

TEST(SchedulePlans, AreGeneratedByAnyName) {
  const auto made = [](const char* name) {
    const json args = {{"schedule", name}, {"pp", 2}, {"microbatches", 4}, {"stages_per_rank", 2}};
    return ask("schedules.generate", args.dump().c_str());
  };
  const json interleaved = made("interleaved");
  for (const char* name : {"ScheduleInterleaved1F1B", "Interleaved1F1B", "interleaved1f1b", "interleaved-1f1b"})
    EXPECT_EQ(made(name), interleaved) << name;
}

TEST(SchedulePlans, AreLoadedFromRows) {
  const json loaded = ask("schedules.load_csv", R"({"csv": ["0F0,0B0", "1F0,1B0"], "format": "compute_only", "pp": 2,
                                                    "stages_per_rank": 1, "microbatches": 1})");
  EXPECT_EQ(loaded.at("accepted"), true);
  EXPECT_EQ(loaded.at("result").at("stage_to_rank"), json::parse("[0, 1]"));
  EXPECT_EQ(loaded.at("result").at("with_comms")[0], "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD");
  EXPECT_THAT(error_of("schedules.load_csv", R"({"csv": ["0F0"], "pp": 1, "microbatches": 1})"), HasSubstr("stage 0"));
}

TEST(SchedulePlans, OfPeersAreStreamsAndTraces) {
  const json streams =
      ask("schedules.instruction_stream",
          R"({"convention": "deepspeed", "schedule": "InferenceSchedule", "pp": 1, "microbatches": 1})");
  EXPECT_EQ(streams, json::parse(R"x({"stages": [{"stage": 0, "num_pipe_buffers": 2, "is_first_stage": true,
                                      "is_last_stage": true,
                                      "steps": [["LoadMicroBatch(buffer_id=0)", "ForwardPass(buffer_id=0)"]]}]})x"));
  const char* megatron = R"({"convention": "megatron", "schedule": "1F1B", "pp": 2, "microbatches": 1,
                             "stages_per_rank": 1, "microbatch_group_size": null, "forward_only": true})";
  EXPECT_EQ(ask("schedules.trace", megatron).at("trace"),
            json::parse(R"x(["0F0,P2P(SEND act0.0>1)", "P2P(RECV act<0),1F0"])x"));
  EXPECT_THAT(error_of("schedules.trace", R"({"convention": "colossalai", "schedule": "PipelineSchedule", "pp": 2,
                                              "microbatches": 2, "stages_per_rank": 2})"),
              HasSubstr("InterleavedPipelineSchedule for several"));
}

}  // namespace
}  // namespace plumbline::adapter
