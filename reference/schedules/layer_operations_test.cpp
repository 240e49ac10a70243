// The operations about partitions by name, layout and measured layers: what is read, what is answered, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(PartitionMethod, HasTheLayoutOfItsSystem) {
  EXPECT_EQ(ask("schedules.partition_method", R"({"convention": "deepspeed", "method": "type:block", "num_parts": 2,
                "layers": [{"type": "Block", "parameters": 1}, {"type": null, "parameters": 0},
                           {"type": "Block", "parameters": 1}]})"),
            json::parse(R"({"boundaries": [0, 2, 3]})"));
  EXPECT_EQ(ask("schedules.partition_method", R"({"convention": "colossalai", "method": "layer", "pp": 2, "chunks": 1,
                "layers": [{"type": "A", "parameters": 1}, {"type": "B", "parameters": 1},
                           {"type": "C", "parameters": 1}]})"),
            json::parse(R"({"parts": [[[0, 1]], [[1, 3]]], "warned": false})"));
}

TEST(PartitionMethod, RefusesInOneLine) {
  EXPECT_THAT(error_of("schedules.partition_method", R"({"convention": "deepspeed", "method": "parameters",
                       "num_parts": 1, "layers": [{"parameters": -1}]})"),
              HasSubstr("layers has -1 parameters"));
  EXPECT_THAT(error_of("schedules.partition_method", R"({"method": "uniform", "num_parts": 1, "layers": []})"),
              HasSubstr("colossalai, deepspeed, deepspeed-0.6"));
  EXPECT_THAT(error_of("schedules.partition_method",
                       R"({"convention": "deepspeed", "method": "profile", "num_parts": 1, "layers": []})"),
              HasSubstr("'profile' is not there"));
  EXPECT_THAT(error_of("schedules.partition_method", R"({"convention": "deepspeed", "method": "uniform", "num_parts": 1,
                       "layers": [{"type": "A"}]})"),
              HasSubstr("layers[0].parameters is missing"));
  EXPECT_THAT(error_of("schedules.partition_method", R"({"convention": "deepspeed", "method": "uniform",
                       "num_parts": 99999999, "layers": []})"),
              HasSubstr("more than 1048576 parts"));
}

TEST(PipelineLayout, SaysWhichLayersAStageHas) {
  EXPECT_EQ(ask("schedules.pipeline_layout",
                R"({"layout": "Et*3|(t|)*2tmL", "pp": 2, "num_layers": 6, "mtp_num_layers": 1})"),
            json::parse(R"({"stages": ["Ettt", "t", "t", "tmL"], "parts": [[[0, 3], [4, 5]], [[3, 4], [5, 6]]],
                            "mtp_standalone": false})"));
  EXPECT_THAT(error_of("schedules.pipeline_layout", R"({"layout": "EtxL", "pp": 1, "num_layers": 1})"),
              HasSubstr("'x' at character 3"));
}

TEST(PartitionCounted, KnowsBothRules) {
  EXPECT_EQ(ask("schedules.partition_counted", R"({"num_layers": 5, "pp": 2, "embedding": true})"),
            json::parse(R"({"parts": [[[0, 2]], [[2, 5]]]})"));
  EXPECT_THAT(error_of("schedules.partition_counted",
                       R"({"convention": "megatron", "num_layers": 4, "pp": 2, "embedding": true})"),
              HasSubstr("5 layers with those counted are no multiple of 2 ranks"));
  EXPECT_THAT(error_of("schedules.partition_counted", R"({"num_layers": 4, "pp": 0})"), HasSubstr("make no parts"));
}

TEST(PartitionMeasured, AnswersWhatFits) {
  const char* layers = R"("layers": [{"forward": 1, "backward": 2, "activation_bytes": 8, "parameter_bytes": 1},
                                     {"forward": 1, "backward": 2, "activation_bytes": 4, "parameter_bytes": 1},
                                     {"forward": 1, "backward": 1, "activation_bytes": 4, "parameter_bytes": 1}])";
  const auto of = [&](const std::string& rest) { return std::string("{") + layers + ", " + rest + "}"; };
  EXPECT_EQ(ask("schedules.partition_measured", of(R"("pp": 2, "microbatches": 4)").c_str()).at("boundaries"),
            json({0, 1, 3}));
  EXPECT_EQ(ask("schedules.partition_measured", of(R"("pp": 2, "microbatches": 4, "memory": 17)").c_str()),
            json::parse(R"({"boundaries": [0, 1, 3], "period": 5.0,
                            "stages": [{"seconds": 3.0, "message": 0.0, "bytes": 17},
                                       {"seconds": 5.0, "message": 0.0, "bytes": 10}]})"));
  EXPECT_THAT(error_of("schedules.partition_measured", of(R"("pp": 2, "microbatches": 4, "memory": 16)").c_str()),
              HasSubstr("stage 0, with layers 0 to 0, has 17 bytes, 1 too many"));
}

TEST(PartitionCosts, ComparesTheCandidates) {
  const json result = ask("schedules.partition_costs", R"({"schedule": "gpipe", "pp": 2, "microbatches": 3, "layers": [
      {"forward": 3, "backward": 3, "parameters": 1}, {"forward": 1, "backward": 1, "parameters": 1},
      {"forward": 1, "backward": 1, "parameters": 1}, {"forward": 1, "backward": 1, "parameters": 9}]})");
  std::vector<std::string> names;
  for (const json& candidate : result.at("candidates")) names.push_back(candidate.at("name"));
  EXPECT_THAT(names, testing::ElementsAre("uniform", "parameters", "optimal"));
  EXPECT_EQ(result.at("candidates")[0].at("makespan"), 12 + 2 * 8);
  EXPECT_EQ(result.at("candidates")[1].at("boundaries"), json({0, 3, 4}));
  EXPECT_EQ(result.at("candidates")[2].at("makespan"), 12 + 2 * 6);
}

}  // namespace
}  // namespace plumbline::adapter
