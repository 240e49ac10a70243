// schedules.execute and schedules.send_tensors: names of what is read and answered, and what is rejected.
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// Stages of weights 2 and 3 and an input of 1 and 2: outputs 6 and 12, and half of the sum of their squares is 90.
TEST(Execute, GivesGradientsAndWhatRanksDid) {
  const json answer =
      ask("schedules.execute", R"({"ranks": ["0F0,0SEND_F0,0RECV_B0,0I0,0W0", "1RECV_F0,1F0,1B0,1SEND_B0"],
      "stage_to_rank": [0, 1], "weights": [2, 3], "inputs": [[1, 2]]})");
  EXPECT_EQ(answer.at("weight_gradients"), json({90, 60}));
  EXPECT_EQ(answer.at("ranks")[0].at("computations"), json({"0F0", "0I0", "0W0"}));
  EXPECT_EQ(answer.at("ranks")[1].at("periods").size(), 2U);
  EXPECT_EQ(answer.at("ranks")[1].at("call_seconds").size(), 2U);
  EXPECT_EQ(answer.at("ranks")[1].at("peak_activations"), 1);
}

TEST(Execute, RejectsWhatCannotBeExecuted) {
  const auto said = [](const char* rows, const char* more) {
    const std::string args = fmt::format(R"({{"ranks": {}, "stage_to_rank": [0], "weights": [2], {}}})", rows, more);
    return error_of("schedules.execute", args.c_str());
  };
  EXPECT_THAT(said(R"(["0F0,1F0"])", R"("inputs": [[1]])"), HasSubstr("ranks has 1F0, but there are 1 stages"));
  EXPECT_THAT(said(R"(["0F0,0SEND_META0"])", R"("inputs": [[1]])"), HasSubstr("0SEND_META0"));
  EXPECT_THAT(said(R"(["0F0"])", R"("inputs": [])"), HasSubstr("inputs is empty"));
  EXPECT_THAT(said(R"(["0F0"])", R"("inputs": [[1]], "timeout": 21)"), HasSubstr("timeout is 21 s"));
  EXPECT_THAT(said(R"(["0F0"])", R"("inputs": [[1]], "most_bytes": 0)"), HasSubstr("most_bytes"));
}

TEST(SendTensors, ArriveOrAreRejected) {
  const json answer = ask("schedules.send_tensors", R"({"described": "once", "outputs": [
      [{"dtype": "int32", "shape": [2], "values": [7, 200]}], [{"dtype": "int32", "shape": [1], "values": [7]}]]})");
  EXPECT_EQ(answer.at("received"), json::parse(R"([[{"dtype": "int32", "shape": [2], "values": [7, 200]}], null])"));
  EXPECT_EQ(answer.at("errors")[0], nullptr);
  EXPECT_THAT(answer.at("errors")[1].at("message").get<std::string>(), HasSubstr("i32[1]"));
  EXPECT_THAT(
      error_of("schedules.send_tensors", R"({"outputs": [[{"dtype": "uint8", "shape": [], "values": [256]}]]})"),
      HasSubstr("values has 256"));
}

}  // namespace
}  // namespace plumbline::adapter
