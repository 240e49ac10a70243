// The operations about loss scales, decisions and clipping: what is read, what is answered, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ScalerTrace, RunsCallsAndGoesOnBehindARefusal) {
  const json rows = ask("scaler.trace", R"({"convention": "torch", "init": {"init_scale": 4, "growth_interval": 2},
    "sizes": [[2]], "lr": 0.5, "ops": [["update"], ["scale", [3]], ["grads", 0, [[4, "inf"]]], ["step", 0], ["update"]]})")
      ["results"];
  EXPECT_EQ(rows[0]["error"]["kind"], "state");
  EXPECT_EQ(rows[1]["out"], json::parse("[12.0]"));
  EXPECT_EQ(rows[3]["stepped"], false);
  EXPECT_EQ(rows[3]["grads"], json::parse(R"([[1.0, "inf"]])"));
  EXPECT_EQ(rows[3]["params"], json::parse("[[0.125, 0.25]]"));
  EXPECT_EQ(rows[4]["scale"], 2.0);
}

TEST(ScalerTrace, RunsRulesByTheirConvention) {
  const char* overflows = R"({"convention": "megatron", "init": {"initial_scale": 16, "hysteresis": 2},
    "found_inf": [true, true]})";
  EXPECT_EQ(ask("scaler.trace", overflows)["trace"][2],
            json::parse(R"({"scale": 8.0, "inv_scale": 0.125, "growth_tracker": 0, "hysteresis_tracker": 0})"));
  const json constant = ask("scaler.trace", R"({"convention": "colossalai", "init": {"initial_scale": 16},
    "found_inf": [true]})");
  EXPECT_EQ(constant["state_dict"], json::parse(R"({"scale": 16.0})"));
  const json ended = ask("scaler.trace", R"({"convention": "deepspeed", "init": {"init_scale": 1, "min_scale": 1},
    "overflow": [true, false]})")["trace"];
  EXPECT_EQ(ended.size(), 2) << "nothing follows the overflow at the minimum";
  EXPECT_TRUE(ended[1].contains("error"));
}

TEST(ScalerTrace, NamesWhatIsWrong) {
  EXPECT_THAT(error_of("scaler.trace", R"({"convention": "apex"})"), HasSubstr("apex"));
  EXPECT_THAT(error_of("scaler.trace", R"({"convention": "torch", "sizes": [], "lr": -0.5, "ops": []})"),
              HasSubstr("lr is -0.5; it must be 0 or more"));
  EXPECT_THAT(error_of("scaler.trace", R"({"sizes": [[1]], "ops": [["scale", [1]], ["grow"]]})"),
              HasSubstr("ops[1] is no operation"));
  EXPECT_THAT(error_of("scaler.trace", R"({"sizes": [[1]], "ops": [["unscale", 1]]})"),
              HasSubstr("names optimizer 1; there are 1"));
  EXPECT_THAT(error_of("scaler.trace", R"({"sizes": [[1]], "ops": [["grads", 0, [[1, 2]]]]})"),
              HasSubstr("2 elements for parameter 0 of 1"));
  EXPECT_THAT(error_of("scaler.trace", R"({"sizes": [[-1]], "ops": []})"), HasSubstr("sizes has -1"));
  EXPECT_THAT(error_of("scaler.trace", R"({"sizes": [], "ops": [["load", {}]]})"), HasSubstr("before any save"));
  EXPECT_THAT(error_of("scaler.trace", R"({"convention": "megatron", "init": {"max_scale": 4}, "found_inf": []})"),
              HasSubstr("max_scale"));
  EXPECT_THAT(error_of("scaler.trace", R"({"convention": "megatron", "init": {"min_scale": 0}, "found_inf": []})"),
              HasSubstr("min_scale is 0"));
}

TEST(ScalerFoundInf, TellsWhoSkipsByEachPolicy) {
  const json skips = ask("scaler.found_inf", R"({"world_size": 8, "tensor": 2, "pipeline": 2, "data": 2,
    "local_found_inf": [1]})");
  EXPECT_EQ(skips["skips_local_only"], json::parse("[1]"));
  EXPECT_EQ(skips["skips_tensor_only"], json::parse("[0, 1]"));
  EXPECT_EQ(skips["skips_model"], json::parse("[0, 1, 2, 3]"));
  EXPECT_EQ(skips["skips_model_and_data"].size(), 8);
  EXPECT_THAT(error_of("scaler.found_inf", R"({"world_size": 8, "tensor": 2, "pipeline": 2, "data": 1,
    "local_found_inf": []})"),
              HasSubstr("are not the 8 of world_size"));
  EXPECT_THAT(error_of("scaler.found_inf", R"({"world_size": 1, "tensor": 1, "pipeline": 1, "data": 1,
    "local_found_inf": [1]})"),
              HasSubstr("has rank 1; there are 1"));
}

TEST(ScalerClipGradNorm, IsOfOneProcessOrOfRanks) {
  EXPECT_EQ(ask("scaler.clip_grad_norm", R"({"grads": [[3], [4]], "max_norm": 100})")["total_norm"], 5.0);
  const char* ranks = R"({"world_size": 2, "tensor": 2, "pipeline": 1, "max_norm": 100, "norm_type": 1,
    "ranks": [{"grads": [[1], [4]]}, {"grads": [[2], [4]]}]})";
  EXPECT_EQ(ask("scaler.clip_grad_norm", ranks)["ranks"][1], json::parse(R"({"norm": 7.0, "clipped": [[2.0], [4.0]]})"))
      << "the second gradient is the same on both";
  json asked = json::parse(ranks);
  asked["convention"] = "colossalai";
  EXPECT_THAT(error_of("scaler.clip_grad_norm", asked.dump().c_str()), HasSubstr("norm_type is 1; ColossalAI"));
  asked["norm_type"] = "inf";
  EXPECT_EQ(ask("scaler.clip_grad_norm", asked.dump().c_str())["ranks"][0]["norm"], 4.0);
}

TEST(ScalerClipGradNorm, NamesWhatIsWrong) {
  EXPECT_THAT(error_of("scaler.clip_grad_norm", R"({"grads": [[1]], "max_norm": -1})"), HasSubstr("max_norm is -1"));
  EXPECT_THAT(error_of("scaler.clip_grad_norm", R"({"world_size": 2, "tensor": 1, "pipeline": 1, "data": 1,
    "max_norm": 1, "ranks": []})"),
              HasSubstr("are not the 2 of world_size"));
  EXPECT_THAT(error_of("scaler.clip_grad_norm", R"({"world_size": 2, "tensor": 2, "pipeline": 1, "max_norm": 1,
    "ranks": [{"grads": []}]})"),
              HasSubstr("ranks has 1 entries for 2 ranks"));
  EXPECT_THAT(error_of("scaler.clip_grad_norm", R"({"world_size": 1, "tensor": 1, "pipeline": 1, "max_norm": 1,
    "norm_type": 0, "ranks": [{"grads": [[1]]}]})"),
              HasSubstr("norm_type is 0"));
}

TEST(ScalerTotalNorm, CombinesParts) {
  EXPECT_EQ(ask("scaler.total_norm", R"({"parts": [[[3]], [], [[4], [12]]]})"),
            json::parse(R"({"total_norm": 13.0, "part_norms": [3.0, 0.0, 12.649110794067383]})"));
  EXPECT_EQ(ask("scaler.total_norm", R"({"parts": [[[3], [-1]], [[4]]], "norm_type": 1})")["total_norm"], 8.0);
  EXPECT_EQ(ask("scaler.total_norm", R"({"parts": [[[3, -5]], [[4]]], "norm_type": "inf"})")["total_norm"], 5.0);
  EXPECT_EQ(ask("scaler.total_norm", R"({"parts": [[[3, -5]], [[4]]], "norm_type": "-inf"})")["total_norm"], 3.0);
  EXPECT_EQ(ask("scaler.total_norm", R"({"parts": [[[3], [0]], [[4], [5]]], "norm_type": 0})")["total_norm"], 3.0);
  EXPECT_EQ(ask("scaler.total_norm", R"({"parts": []})")["total_norm"], 0.0);
}

TEST(ScalerTotalNorm, LeavesOutPartsWithoutGradients) {
  const char* halves = R"({"parts": [[[2]], [], [[2]]], "norm_type": -1})";
  EXPECT_EQ(ask("scaler.total_norm", halves)["total_norm"], 1.0);
  json asked = json::parse(halves);
  asked["convention"] = "torch";
  EXPECT_EQ(ask("scaler.total_norm", asked.dump().c_str())["total_norm"], 0.0) << "PyTorch counts a norm of 0";
}

TEST(ScalerTotalNorm, AddsPowersInTheGradientsTypeOrMore) {
  const char* large = R"({"parts": [[[300]], [[400]]], "dtype": "float16"})";
  EXPECT_EQ(ask("scaler.total_norm", large)["total_norm"], 500.0);
  json asked = json::parse(large);
  asked["convention"] = "torch";
  EXPECT_EQ(ask("scaler.total_norm", asked.dump().c_str())["total_norm"], "inf") << "300^2 is too large for fp16";
}

TEST(ScalerTotalNorm, NamesWhatIsWrong) {
  EXPECT_THAT(error_of("scaler.total_norm", R"({"parts": [[[1]], [["nan"]]], "error_if_nonfinite": true})"),
              HasSubstr("is nan; it must be finite"));
  EXPECT_THAT(error_of("scaler.total_norm", R"({"parts": [[[]]], "norm_type": "inf"})"), HasSubstr("without elements"));
  EXPECT_THAT(error_of("scaler.total_norm", R"({"parts": [[1]]})"), HasSubstr("parts[0][0]"));
}

TEST(ScalerOverflow, IsFoundInElementsAndAgreedOn) {
  const char* question = R"({"tensor": 1, "pipeline": 2, "data": 2, "dtype": "float16",
    "ranks": [{"grads": [[60000, 60000], null]}, {"grads": [[70000]]}, {"grads": [[]]}, {"grads": []}]})";
  EXPECT_EQ(ask("scaler.overflow", question), json::parse(R"({"local": [1], "overflow": [0, 1]})"));
  json asked = json::parse(question);
  asked["over"] = "world";
  EXPECT_EQ(ask("scaler.overflow", asked.dump().c_str())["overflow"], json::parse("[0, 1, 2, 3]"));
  asked["over"] = "none";
  EXPECT_EQ(ask("scaler.overflow", asked.dump().c_str())["overflow"], json::parse("[1]"));
  asked["over"] = "tensor";
  EXPECT_THAT(error_of("scaler.overflow", asked.dump().c_str()), HasSubstr("over"));
  asked["over"] = "none";
  asked["data"] = 1;
  EXPECT_THAT(error_of("scaler.overflow", asked.dump().c_str()), HasSubstr("ranks has 4 entries"));
}

TEST(ScalerFp16Optimizer, StepsEveryRankAndSkipsTogether) {
  const json steps = ask("scaler.fp16_optimizer", R"({"world_size": 2, "tensor": 2, "pipeline": 1, "data": 1,
    "scaler": {"initial_scale": 4, "hysteresis": 1}, "lr": 0.5, "momentum": 0, "params0": [[[1]], [[2]]],
    "steps": [[{"grads_scaled": [["inf"]]}, {"grads_scaled": [[4]]}], [{"grads_scaled": [[2]]}, {"grads_scaled": [[4]]}]]})")
      ["steps"];
  for (const json& rank : steps[0]) {
    EXPECT_EQ(rank["stepped"], false);
    EXPECT_EQ(rank["scale"], 2.0);
  }
  EXPECT_EQ(steps[1][0]["main_params"], json::parse("[[0.5]]"));
  EXPECT_EQ(steps[1][1]["params"], json::parse("[[1.0]]"));
  EXPECT_THAT(error_of("scaler.fp16_optimizer", R"({"world_size": 1, "tensor": 1, "pipeline": 1, "data": 1,
    "scaler": {"hysteresis": 0}, "params0": [[]], "steps": []})"),
              HasSubstr("hysteresis is 0"));
  EXPECT_THAT(error_of("scaler.fp16_optimizer", R"({"world_size": 2, "tensor": 2, "pipeline": 1, "data": 1,
    "scaler": {}, "params0": [[]], "steps": []})"),
              HasSubstr("params0 has 1 entries for 2 ranks"));
}

TEST(Fp16OptimizerOperation, TakesWhoDecidesWhatCountsAndWhatIsLacking) {
  const auto steps = [](const char* changes) {
    json args = json::parse(R"({"world_size": 2, "tensor": 1, "pipeline": 1, "data": 2, "momentum": 0, "lr": 1,
      "scaler": {"initial_scale": 2, "hysteresis": 1}, "params0": [[[1], [2]], [[1], [2]]],
      "steps": [[{"grads_scaled": [["inf"], [2]]}, {"grads_scaled": [[2], [0]]}]]})");
    args.update(json::parse(changes));
    return ask("scaler.fp16_optimizer", args.dump().c_str())["steps"];
  };
  EXPECT_EQ(steps("{}")[0][1]["stepped"], true);
  EXPECT_EQ(steps(R"({"deciding": "model_and_data"})")[0][1]["stepped"], false);
  EXPECT_EQ(steps(R"({"count_zeros": true})")[0][1]["zeros"], 1);
  EXPECT_EQ(steps(R"({"count_zeros": true})")[0][0]["zeros"], nullptr);
  EXPECT_EQ(steps(R"({"clip_grad": 9, "norm_type": 1})")[0][1]["grad_norm"], 1.0);
  const char* const lacking = R"({"steps": [[{"grads_scaled": [null, [2]]}, {"grads_scaled": [null, [2]]}]]})";
  EXPECT_EQ(steps(lacking)[0][0]["main_params"], json::parse("[[1.0], [1.0]]"));
  EXPECT_EQ(steps(R"({"dtype": "float32"})")[0][1]["params"], json::parse("[[0.0], [2.0]]"));
  const auto refused = [](const char* fields) {
    return error_of("scaler.fp16_optimizer", (R"({"world_size": 1, "tensor": 1, "pipeline": 1, "data": 1, "scaler": {},
      "params0": [[[1]]], "steps": [],)" + std::string(fields) +
                                              "}")
                                                 .c_str());
  };
  EXPECT_THAT(refused(R"("kinds": [["cut"]])"), HasSubstr("'cut'"));
  EXPECT_THAT(refused(R"("kinds": [[]])"), HasSubstr("kinds[0] has 0 entries for 1 parameters"));
  EXPECT_THAT(refused(R"("deciding": "nobody")"), HasSubstr("deciding"));
  EXPECT_THAT(refused(R"("steps": [[{"grads_scaled": [[]]}]])"), HasSubstr("has 1 elements, its gradient 0"));
  EXPECT_THAT(refused(R"("norm_type": 0)"), HasSubstr("0"));
}

TEST(ScalerUnscale, MultipliesAndNamesWhatIsWrong) {
  EXPECT_EQ(
      ask("scaler.unscale", R"({"grads": [[1, "inf"], [4]], "dtype": "float16", "to": "float32", "inverse": 0.5})"),
      json::parse(R"({"grads": [[0.5, "inf"], [2.0]], "found_inf": true})"));
  EXPECT_THAT(error_of("scaler.unscale", R"({"grads": [[1]], "inverse": 0.5, "elements": [2]})"), HasSubstr("2"));
  EXPECT_THAT(error_of("scaler.unscale", R"({"grads": [[1]], "inverse": 0.5, "elements": []})"),
              HasSubstr("elements has 0 entries for 1 gradients"));
  EXPECT_THAT(error_of("scaler.unscale", R"({"grads": [[1]], "inverse": 0.5, "elements": [-1]})"), HasSubstr("-1"));
  EXPECT_THAT(error_of("scaler.unscale", R"({"grads": [[1]], "inverse": 0.5, "to": "float16"})"), HasSubstr("f16"));
  EXPECT_THAT(error_of("scaler.unscale", R"({"grads": [[1]]})"), HasSubstr("inverse is missing"));
  EXPECT_THAT(error_of("scaler.unscale", R"({"grads": [[], []], "inverse": 0.5, "elements": [4194304, 1]})"),
              HasSubstr("more than 4194304 elements together"));
}

}  // namespace
}  // namespace plumbline::adapter
