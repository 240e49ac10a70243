// bucketing.dp_pass: what is read, what is answered, what is refused and how.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"
#include "reference/adapter/service.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// One gradient that is made, reduced over a ring of two, scaled and used.
json step() {
  return json::parse(R"({"program": {
    "vars": [{"name": "loss@GRAD", "shape": [], "dtype": "float32"}, {"name": "w", "shape": [4], "dtype": "float32", "persistable": true},
             {"name": "w@GRAD", "shape": [4], "dtype": "float32"}],
    "ops": [{"type": "fill_constant", "inputs": {}, "outputs": {"Out": ["loss@GRAD"]}, "attrs": {"op_role": 257, "value": 1.0}},
            {"type": "reduce_sum_grad", "inputs": {"Out@GRAD": ["loss@GRAD"], "X": ["w"]}, "outputs": {"X@GRAD": ["w@GRAD"]},
             "attrs": {"op_role": 1}},
            {"type": "all_reduce", "inputs": {"x": ["w@GRAD"]}, "outputs": {"out": ["w@GRAD"]},
             "attrs": {"op_role": 1, "op_namescope": "/auto_parallel/data_parallel", "ring_id": 12, "reduce_type": "sum"}},
            {"type": "scale", "inputs": {"X": ["w@GRAD"]}, "outputs": {"Out": ["w@GRAD"]},
             "attrs": {"op_role": 1, "op_namescope": "/auto_parallel/data_parallel", "scale": 0.5}},
            {"type": "sgd", "inputs": {"Grad": ["w@GRAD"], "Param": ["w"]}, "outputs": {"ParamOut": ["w"]}, "attrs": {"op_role": 2}}]},
    "rings": {"0": [0, 1], "12": [0, 1]}})");
}

TEST(DpPass, AnswersEveryStageAndTheEnd) {
  const json result = ask("bucketing.dp_pass", step().dump().c_str());
  EXPECT_EQ(result["final"]["ops"].size(), 4);
  EXPECT_EQ(result["final"]["ops"][0]["attrs"]["value"], 0.5);
  EXPECT_EQ(result["stages"]["after_fuse"], json({{"same_as", "after_overlap"}}));
  EXPECT_EQ(result["groups"][0]["gradients"], json({"w@GRAD"}));
  EXPECT_EQ(result["analysis"]["ring_to_grads"], json::parse(R"([[12, ["w@GRAD"]]])"));
  EXPECT_EQ(result["summary"]["allreduce_ops"], 1);
}

TEST(DpPass, SaysWhyItDidNothing) {
  json args = step();
  args["options"] = {{"global_rank", "0"}, {"enable", true}};
  const json result = ask("bucketing.dp_pass", args.dump().c_str());
  EXPECT_EQ(result,
            json::parse(R"({"skipped": "_check_self: global_rank is not an int", "final": {"same_as": "before"}})"));
}

TEST(DpPass, RefusesWithStageAndClass) {
  json args = step();
  args["program"]["ops"][2]["attrs"]["ring_id"] = 3;
  const json request{{"id", 1}, {"op", "bucketing.dp_pass"}, {"args", args}};
  const json reply = json::parse(reference_service().handle(request.dump()));
  EXPECT_EQ(reply["error"]["kind"], "invalid_argument");
  EXPECT_EQ(reply["error"]["stage"], "analyze");
  EXPECT_EQ(reply["error"]["class"], "AssertionError");
  EXPECT_THAT(reply["error"]["message"].get<std::string>(), HasSubstr("data parallel group of [w@GRAD]"));
}

TEST(DpPass, RefusesLinesThatAreNoQuestions) {
  const auto error_to = [](const std::string& line) {
    return json::parse(reference_service().handle(line)).at("error").at("message").get<std::string>();
  };
  EXPECT_THAT(error_to(R"({"id": 1, "op": "bucketing.dp_pass", "args": {"program": {]}})"), HasSubstr("column 59"));
  EXPECT_THAT(error_to(R"({"id": 1, "op": "bucketing.dp_pass", "args": []})"), HasSubstr("args"));
}

TEST(DpPass, RefusesOpsThatNeedEachOther) {
  json args = step();
  args["program"]["ops"][0]["inputs"] = {{"ValueTensor", {"w@GRAD"}}};
  EXPECT_THAT(error_of("bucketing.dp_pass", args.dump().c_str()), HasSubstr("which needs what it makes itself"));
  args = step();
  json& ops = args["program"]["ops"];
  std::rotate(ops.begin(), ops.begin() + 1, ops.end() - 1);
  EXPECT_THAT(error_of("bucketing.dp_pass", args.dump().c_str()),
              HasSubstr("op 0 (reduce_sum_grad) reads 'loss@GRAD' before op 3 (fill_constant)"));
  args["convention"] = "paddle";  // does not look
  EXPECT_NO_THROW((void)ask("bucketing.dp_pass", args.dump().c_str()));
}

TEST(DpPass, RefusesInOneLine) {
  const auto error_with = [](const char* field, const json& value) {
    json args = step();
    args[json::json_pointer(field)] = value;
    return error_of("bucketing.dp_pass", args.dump().c_str());
  };
  EXPECT_THAT(error_with("/program/ops/4/inputs/Grad/0", "v"), HasSubstr("op 4 (sgd) names 'v' in slot Grad"));
  EXPECT_THAT(error_with("/program/vars/0/shape", {-2}), HasSubstr("program.vars[0].shape[0] must be 0 or more"));
  EXPECT_THAT(error_with("/rings/12", {1, 1}), HasSubstr("rings.12 has a rank twice"));
  EXPECT_THAT(error_with("/max_fuse_numel", -1), HasSubstr("max_fuse_numel must be"));
  EXPECT_THAT(error_with("/options", {{"use_sharding", 1}}), HasSubstr("options.use_sharding must be true or false"));
  EXPECT_THAT(error_with("/convention", "torch"), HasSubstr("plumbline, paddle"));
  EXPECT_THAT(error_with("/limit", 1), HasSubstr("limit"));
}

}  // namespace
}  // namespace plumbline::adapter
