#include "reference/record/layout.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RunSpec small_net() {
  RunSpec spec;
  spec.layers = {Conv2d{.in = 1, .out = 4, .kernel = 3, .stride = 2, .padding = 1}, BatchNorm2d{4}, Relu{}, Flatten{},
                 Linear{.in = 64, .out = 10, .bias = false}};
  return spec;
}

RunSpec language_model(std::string schedule, int pipeline, std::vector<int> stages) {
  RunSpec spec;
  spec.layers = {Embedding{50, 8}, LayerNorm{8}, Linear{8, 8}, TiedLinear{0}};
  spec.parallel.pipeline = pipeline;
  spec.run.schedule = std::move(schedule);
  spec.run.chunks = static_cast<int>(stages.size()) / pipeline;
  spec.stages = std::move(stages);
  return spec;
}

TEST(Parameters, HaveTheNamesAndShapesOfTorch) {
  std::vector<std::string> list;
  for (const Parameter& parameter : parameters_of(small_net()))
    list.push_back(parameter.name + " " + text_of(parameter.shape));
  EXPECT_THAT(list,
              ElementsAre("0.weight [4, 1, 3, 3]", "0.bias [4]", "1.weight [4]", "1.bias [4]", "4.weight [10, 64]"));
}

TEST(Parameters, OfATiedLayerBelongToTheFirst) {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters_of(language_model("1f1b", 1, {0}))) names.push_back(parameter.name);
  EXPECT_THAT(names, ElementsAre("0.weight", "1.weight", "1.bias", "2.weight", "2.bias"));
}

TEST(Parameters, LieOnTheRanksOfTheirStagesAndTiedUses) {
  const RunSpec spec = language_model("1f1b", 3, {0, 1, 3});
  const std::vector<Parameter> parameters = parameters_of(spec);
  EXPECT_THAT(holders_of(spec, parameters[0]), ElementsAre(0, 2));
  EXPECT_THAT(holders_of(spec, parameters[1]), ElementsAre(1));
  EXPECT_THAT(holders_of(spec, parameters[4]), ElementsAre(1));
}

TEST(Stages, GoRoundOrInVSchedulesBack) {
  const RunSpec round = language_model("interleaved-1f1b", 2, {0, 1, 2, 3});
  const RunSpec back = language_model("zbv", 2, {0, 1, 2, 3});
  std::vector<int> ranks, ranks_back;
  for (int stage = 0; stage < 4; ++stage) {
    ranks.push_back(pipeline_rank_of_stage(round, stage));
    ranks_back.push_back(pipeline_rank_of_stage(back, stage));
  }
  EXPECT_THAT(ranks, ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(ranks_back, ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(last_pipeline_rank(round), 1);
  EXPECT_EQ(last_pipeline_rank(back), 0);
}

TEST(Coordinates, AreRowMajorOverTheOrder) {
  Parallel parallel{.pipeline = 2, .data = 3, .tensor = 2};
  EXPECT_EQ(coordinates_of(parallel, 7), (Coordinates{.pipeline = 1, .data = 0, .tensor = 1}));
  parallel.order = {"data", "pipeline", "tensor"};
  EXPECT_EQ(coordinates_of(parallel, 7), (Coordinates{.pipeline = 1, .data = 1, .tensor = 1}));
  for (int rank = 0; rank < parallel.world(); ++rank)
    EXPECT_EQ(rank_of(parallel, coordinates_of(parallel, rank)), rank);
  EXPECT_THROW((void)coordinates_of(parallel, parallel.world()), OutOfRange);
  EXPECT_THROW((void)rank_of(parallel, {.data = 3}), OutOfRange);
}

TEST(Experts, LieOnTheDataRanksOfTheirExpertRank) {
  RunSpec spec;
  spec.parallel = {.data = 4, .expert = 2};
  spec.run.global_batch = 4;
  spec.layers = {Linear{3, 2, false}, Moe{.features = 2, .hidden = 5, .experts = 4}};
  ASSERT_EQ(problem_of(spec), std::nullopt);
  const std::vector<Parameter> list = parameters_of(spec);
  std::vector<std::string> names;
  for (const Parameter& one : list) names.push_back(one.name + " " + text_of(one.shape));
  EXPECT_THAT(names,
              ElementsAre("0.weight [2, 3]", "1.weight [4, 2]", "1.up.0 [5, 2]", "1.down.0 [2, 5]", "1.up.1 [5, 2]",
                          "1.down.1 [2, 5]", "1.up.2 [5, 2]", "1.down.2 [2, 5]", "1.up.3 [5, 2]", "1.down.3 [2, 5]"));
  for (const Parameter& one : list)
    for (int data = 0; data < 4; ++data)
      EXPECT_EQ(is_on_data_rank(spec, one, data), one.expert < 0 || one.expert / 2 == data % 2) << one.name << data;
  EXPECT_THAT(output_shape(spec, {7, 3}), ElementsAre(7, 2));
  spec.layers[0] = Linear{3, 4, false};
  EXPECT_THROW((void)output_shape(spec, {7, 3}), InvalidArgument);
}

TEST(MicroBatches, AreConsecutivePartsOfEachBatch) {
  RunSpec spec = small_net();
  spec.parallel.data = 2;
  spec.run = {.steps = 2, .global_batch = 12, .micro_batches = 3, .accumulation = 2};
  EXPECT_THAT(micro_batches_of(spec, 1, 1), ElementsAre(RowRange{2, 6, 2}, RowRange{2, 8, 2}, RowRange{2, 10, 2},
                                                        RowRange{3, 6, 2}, RowRange{3, 8, 2}, RowRange{3, 10, 2}));
}

TEST(OutputShape, FollowsARowThroughTheLayers) {
  EXPECT_THAT(output_shape(small_net(), {1, 8, 8}), ElementsAre(10));
  EXPECT_THAT(output_shape(language_model("1f1b", 1, {0}), {5}), ElementsAre(5, 50));
  RunSpec block;
  block.layers = {Linear{6, 12}, Attention{2}, Linear{4, 6}, Tanh{}, Add{2}};
  EXPECT_THAT(output_shape(block, {5, 6}), ElementsAre(5, 6));
}

TEST(OutputShape, NamesTheLayerThatDoesNotFit) {
  const auto error_of = [](const RunSpec& spec, const Shape& row) -> std::string {
    try {
      (void)output_shape(spec, row);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(
      error_of(small_net(), {1, 9, 8}),
      HasSubstr("model.layer[4] (linear) does not fit: a row that reaches it has shape [80]; it must end with 64"));
  EXPECT_THAT(error_of(small_net(), {3, 8, 8}), HasSubstr("model.layer[0] (conv2d) does not fit"));
  EXPECT_THAT(error_of(small_net(), {64}), HasSubstr("model.layer[0] (conv2d) does not fit"));
  RunSpec block;
  block.layers = {Linear{6, 12}, Attention{2}, Add{0}};
  EXPECT_THAT(
      error_of(block, {5, 6}),
      HasSubstr("model.layer[2] (add) does not fit: a row that reaches it has shape [5, 4]; layer 0 gives [5, 12]"));
  EXPECT_THAT(error_of(block, {6}),
              HasSubstr("model.layer[1] (attention) does not fit: a row that reaches it has shape [12]"));
  block.layers[1] = Attention{3};
  EXPECT_THAT(error_of(block, {5, 6}), HasSubstr("has shape [5, 12]; it must be [tokens, features], with features a "
                                                 "multiple of 9, 3 x heads"));
}

}  // namespace
}  // namespace plumbline::job
