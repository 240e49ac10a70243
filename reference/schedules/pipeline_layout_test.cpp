#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/partition.hpp"
#include "reference/schedules/schedule_samples_test.hpp"

namespace plumbline::schedules {
namespace {

using samples::refusal;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> stages_of(std::string_view text) {
  std::vector<std::string> stages;
  for (const auto& stage : parse_pipeline_layout(text).stages) stages.push_back(to_string(stage));
  return stages;
}

std::string layout_refusal(std::string_view text) {
  return refusal([&] { (void)parse_pipeline_layout(text); });
}

std::string layout_refusal(std::string_view text, const LayoutDemands& demands) {
  return refusal([&] { require_layout(parse_pipeline_layout(text), demands); });
}

TEST(Layout, RepeatsGroupsThenCharacters) {
  EXPECT_THAT(stages_of("Et*3|(tt|)*2,m|L"), ElementsAre("Ettt", "tt", "tt", "m", "L"));
  EXPECT_THAT(stages_of("E(t*2|)*2L"), ElementsAre("Ett", "tt", "L"));
  EXPECT_THAT(stages_of("Et|*2tL"), ElementsAre("Et", "", "tL"));
  EXPECT_THAT(stages_of("E(t|)*2*2L"), ElementsAre("Et", "t", "", "L"));
  EXPECT_THAT(stages_of("Et*1,2L"), ElementsAre("E" + std::string(12, 't') + "L"));
  EXPECT_THAT(stages_of("E(tt)*0|tL"), ElementsAre("E", "tL"));
  EXPECT_THAT(stages_of(""), ElementsAre(""));
}

TEST(Layout, RemembersWhereALayerIsWritten) {
  const PipelineLayout layout = parse_pipeline_layout("E,(tm|)*2L");
  EXPECT_EQ(layout.stages[1],
            (std::vector<PlacedLayer>{{LayerKind::transformer, 4}, {LayerKind::multi_token_prediction, 5}}));
  EXPECT_EQ(layout.stages[2].front().character, 10U);
}

TEST(Layout, NamesTheCharacterThatIsWrong) {
  EXPECT_EQ(
      layout_refusal("EtxL"),
      "pipeline layout: 'x' at character 3; it is E (embedding), t (transformer layer), m (multi-token prediction), "
      "L (loss) or |; a repetition is x*N or (...)*N, without parentheses inside");
  EXPECT_THAT(layout_refusal("E,t L"), HasSubstr("' ' at character 4"));
  EXPECT_THAT(layout_refusal("Et\xd9\xa3L"), HasSubstr("'\\xd9' at character 3"));
  EXPECT_THAT(layout_refusal("E(tL"), HasSubstr("'(' at character 2; it is E (embedding)"));
  EXPECT_THAT(layout_refusal("E((t)*2|)*2L"), HasSubstr("'(' at character 3"));
  EXPECT_THAT(layout_refusal("Et*L"), HasSubstr("'*' at character 3; it is E (embedding)"));
  EXPECT_THAT(layout_refusal("Ett3L"), HasSubstr("'3' at character 4"));
}

TEST(Layout, RefusesTextThatGrowsTooLong) {
  EXPECT_THAT(layout_refusal("Et*99999999999999999999L"), HasSubstr("from character 2 on has more than 1048576"));
  EXPECT_THAT(layout_refusal("E(t*1024|)*2048L"), HasSubstr("from character 3 on"));
  EXPECT_EQ(stages_of("t*1048576").front().size(), 1048576U);
}

TEST(Layout, HasTheLayersOfTheModel) {
  const LayoutDemands demands{.ranks = 2, .transformer_layers = 3, .prediction_layers = 1};
  EXPECT_EQ(layout_refusal("Et|t|t|mL", demands), "");
  EXPECT_THAT(layout_refusal("Et|tt|mL", demands), HasSubstr("3 stages are no whole number of stages for 2 ranks"));
  EXPECT_THAT(layout_refusal("tE|ttmL", demands), HasSubstr("the first layer is 't' at character 1; it has to be 'E'"));
  EXPECT_THAT(layout_refusal("Et|ttLm", demands), HasSubstr("the last layer is 'm' at character 7"));
  EXPECT_THAT(layout_refusal("Et|EttmL", demands), HasSubstr("'E' at character 4 is the second"));
  EXPECT_THAT(layout_refusal("EtL|ttmL", demands), HasSubstr("'L' at character 3 is the second"));
  EXPECT_THAT(layout_refusal("Et|tmL", demands), HasSubstr("2 layers 't', the model has 3"));
  EXPECT_THAT(layout_refusal("Et|ttL", demands), HasSubstr("0 layers 'm', the model has 1"));
  EXPECT_THAT(layout_refusal("Et|tmtL", demands), HasSubstr("'t' at character 6 is after 'm' at character 5"));
  EXPECT_THAT(layout_refusal("Et|ttm||L", demands),
              HasSubstr("'m' at character 6 is in stage 1, which is not the last one of rank 1"));
  EXPECT_THAT(layout_refusal("|", {.ranks = 2}), HasSubstr("there is no layer in it"));
  EXPECT_THAT(layout_refusal("Et|ttm|mL|", {.ranks = 2, .transformer_layers = 3, .prediction_layers = 2}),
              HasSubstr("from 'm' at character 6 on, 'm' is in several stages"));
}

TEST(Layout, SaysWhichLayersAStageHas) {
  const PipelineLayout layout = parse_pipeline_layout("Ett|t||tmL");
  EXPECT_THAT(boundaries_of(layout, LayerKind::transformer), ElementsAre(0, 2, 3, 3, 4));
  EXPECT_THAT(boundaries_of(layout, LayerKind::loss), ElementsAre(0, 0, 0, 0, 1));
  EXPECT_FALSE(has_standalone_prediction(layout, 4));
  EXPECT_TRUE(has_standalone_prediction(parse_pipeline_layout("Et|m|L"), 3));
}

TEST(Counted, EmbeddingAndLossTakeTheirStagesALayer) {
  EXPECT_THAT(partition_counted(14, 4, {.embedding = true, .loss = true}), ElementsAre(0, 3, 7, 11, 14));
  EXPECT_THAT(partition_counted(15, 4, {.embedding = true}), ElementsAre(0, 3, 7, 11, 15));
  EXPECT_THAT(partition_counted(15, 4, {.loss = true}), ElementsAre(0, 4, 8, 12, 15));
  EXPECT_THAT(partition_counted(15, 4, {}), ElementsAre(0, 4, 8, 12, 15));
  EXPECT_THAT(partition_counted(2, 4, {.embedding = true, .loss = true}), ElementsAre(0, 0, 1, 2, 2));
}

TEST(Counted, RefusesWhatDoesNotGoRound) {
  const auto ours = [](int layers, int parts, const CountedEnds& counted) {
    return refusal([&] { (void)partition_counted(layers, parts, counted); });
  };
  EXPECT_THAT(ours(1, 4, {.embedding = true, .loss = true}),
              HasSubstr("1 layers and 2 of embedding and loss are fewer"));
  EXPECT_THAT(ours(-1, 4, {}), HasSubstr("got -1"));
  EXPECT_THAT(ours(4, 0, {}), HasSubstr("got 0"));
  const auto theirs = [](int layers, int ranks, int chunks, const CountedEnds& counted) {
    return refusal([&] { (void)megatron_counted(layers, ranks, chunks, counted); });
  };
  EXPECT_EQ(theirs(14, 4, 2, {.embedding = true, .loss = true}), "");
  EXPECT_THAT(theirs(15, 4, 1, {.embedding = true, .loss = true}),
              HasSubstr("17 layers with those counted are no multiple of 4"));
  EXPECT_THAT(theirs(10, 4, 2, {.embedding = true, .loss = true}),
              HasSubstr("the 3 layers of a rank are no multiple of 2"));
  EXPECT_THAT(theirs(4, 0, 1, {}), HasSubstr("0 ranks"));
}

}  // namespace
}  // namespace plumbline::schedules
