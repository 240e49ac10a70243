#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"
#include "reference/support/fnv1a.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::training {
namespace {

using testing::HasSubstr;

std::string line(int pixel, int label) {
  std::string text;
  for (int i = 0; i < 64; ++i) text += std::to_string(pixel) + ",";
  return text + std::to_string(label);
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_digits(text, "d.csv");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

std::uint64_t hash_of(const std::vector<float>& values) {
  comm::Fnv1a hash;
  for (const float value : values) hash.add_word(std::bit_cast<std::uint32_t>(value));
  return hash.value();
}

TEST(Digits, AreAllThereWithEveryFifthHeldOut) {
  const Digits all = digits();
  EXPECT_EQ(all.training.size(), 1437u);
  EXPECT_EQ(all.held_out.size(), 360u);
  EXPECT_EQ(all.held_out[0].label, 0);
  EXPECT_EQ(all.training[0].label, 1);
  EXPECT_EQ(all.training[0].pixels[3], 12);  // second line: 0,0,0,12,13,5,…
  EXPECT_EQ(all.held_out[1].label, 5);
  EXPECT_EQ(all.training.back().label, 8);
}

TEST(Digits, ComeFromATextAsFromTheLibrary) {
  const Digits read = parse_digits(line(3, 1) + "\r\n" + line(16, 9) + "\n" + line(0, 0), "d.csv");
  EXPECT_EQ(read.held_out.size(), 1u);
  ASSERT_EQ(read.training.size(), 2u);
  EXPECT_EQ(read.training[0].pixels[63], 16);
  EXPECT_EQ(read.training[0].label, 9);
}

TEST(Digits, NameTheBadLine) {
  const std::string good = line(1, 2) + "\n";
  EXPECT_EQ(error_of(good + line(17, 2)), "d.csv:2: column 1 must be a whole number, 0 to 16");
  EXPECT_EQ(error_of(good + good + line(1, 10)), "d.csv:3: column 65 must be a whole number, 0 to 9");
  EXPECT_EQ(error_of(good + "1,2,3\n"), "d.csv:2: a line has 65 columns with commas between; see column 3");
  EXPECT_EQ(error_of(good + line(1, 2) + ",5\n"), "d.csv:2: a line has 65 columns with commas between; see column 65");
  EXPECT_EQ(error_of(good + "\n"), "d.csv:2: column 1 must be a whole number, 0 to 16");
  EXPECT_EQ(error_of("pixels\n"), "d.csv:1: column 1 must be a whole number, 0 to 16");
  EXPECT_EQ(error_of(good), "d.csv: 1 lines; at least two are needed");
}

class DigitsRunTest : public testing::Test {
 protected:
  job::RunSpec write(const DigitsRun& settings) { return write_digits_run(settings, digits(), folder.path() / "run"); }
  std::string error_of(const DigitsRun& settings) {
    try {
      write(settings);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  }
  job::TemporaryFolder folder;
};

bool takes_tokens(std::string_view model) { return model == "transformer" || model == "moe"; }
job::Shape output_of(std::string_view model) { return takes_tokens(model) ? job::Shape{4, 16} : job::Shape{10}; }

TEST_F(DigitsRunTest, IsACompleteRunOfEachModelAndOptimizer) {
  for (const std::string_view model : kDigitsModels)
    for (const std::string_view optimizer : kDigitsOptimizers) {
      const job::RunSpec spec = write({.model = std::string(model), .optimizer = std::string(optimizer), .data = 3});
      const job::RunSpec read = job::read_run_spec(folder.path() / "run" / "spec.toml");
      EXPECT_EQ(job::to_toml(read), job::to_toml(spec));
      EXPECT_EQ(job::RunFiles(read).output(), output_of(model));
      EXPECT_EQ(read.parallel.world(), 3);
    }
}

TEST_F(DigitsRunTest, HasAStageForEachChunkOfAPipeline) {
  for (const std::string_view model : kDigitsModels)
    for (const auto& [pipeline, chunks] : {std::pair{2, 1}, {3, 1}, {2, 2}, {3, 2}}) {
      const job::RunSpec spec = write({.model = std::string(model),
                                       .data = 2,
                                       .pipeline = pipeline,
                                       .chunks = chunks,
                                       .schedule = chunks == 1 ? "gpipe" : "interleaved-1f1b"});
      EXPECT_EQ(spec.stages.size(), static_cast<std::size_t>(pipeline) * static_cast<std::size_t>(chunks));
      EXPECT_EQ(spec.parallel.world(), 2 * pipeline);
      EXPECT_EQ(job::RunFiles(spec).output(), output_of(model));
      for (std::size_t i = 0; (model == "tied" || takes_tokens(model)) && i < spec.layers.size(); ++i)
        if (const auto* tied = std::get_if<job::TiedLinear>(&spec.layers[i])) {
          EXPECT_NE(job::stage_of_layer(spec, tied->with), job::stage_of_layer(spec, static_cast<int>(i)));
        }
    }
}

TEST_F(DigitsRunTest, FreezesParametersAndLeavesVectorsOutOfWeightDecay) {
  EXPECT_THAT(write({.model = "conv_norm"}).frozen, testing::IsEmpty());
  EXPECT_THAT(write({.model = "conv_norm", .frozen = "first_layer"}).frozen,
              testing::ElementsAre("0.weight", "0.bias"));
  EXPECT_THAT(write({.model = "conv_norm", .frozen = "biases"}).frozen,
              testing::ElementsAre("0.bias", "1.bias", "3.bias", "6.bias"));
  EXPECT_THROW((void)write({.frozen = "weights"}), InvalidArgument);
  EXPECT_THAT(write({.model = "conv_norm", .optimizer = "sgd_decay", .decays_matrices_alone = true}).no_decay,
              testing::ElementsAre("0.bias", "1.weight", "1.bias", "3.bias", "6.bias"));
}

// The numbers were computed by a second program, written from the description of the generator.
TEST_F(DigitsRunTest, GivesTheSameBitsEverywhere) {
  const job::RunFiles files(write({.model = "conv_norm", .seed = 5}));
  EXPECT_EQ(hash_of(files.weight("0.weight")), 16424823705324562971u);
  EXPECT_EQ(hash_of(files.weight("6.bias")), 5168043724017482891u);
  EXPECT_THAT(files.weight("1.weight"), testing::Each(1.0f));
  EXPECT_THAT(files.weight("1.bias"), testing::Each(0.0f));
  std::vector<float> x(64 * 96);
  files.read_x(job::RowRange{3, 0, 96}, std::span(x));
  EXPECT_EQ(hash_of(x), 1273629214937449253u);
}

TEST_F(DigitsRunTest, WeighsRowsSoThatNoDataRankHasNone) {
  for (const std::string_view kind : kDigitsRows)
    for (std::uint64_t seed = 1; seed < 20; ++seed) {
      const job::RunSpec spec =
          write({.data = 3, .global_batch = 24, .micro_batches = 2, .seed = seed, .rows = std::string(kind)});
      EXPECT_EQ(spec.row_weights, kind != "equal");
      const job::RunFiles files(spec);  // which refuses a data rank without weight
      std::set<float> seen;
      for (std::int64_t batch = 0; spec.row_weights && batch < 4; ++batch)
        for (const float weight : files.row_weights({batch, 0, 24})) seen.insert(weight);
      const std::set<float> expected = kind == "equal"     ? std::set<float>{}
                                       : kind == "padding" ? std::set<float>{0, 1}
                                                           : std::set<float>{0, 0.25f, 0.5f, 1, 2};
      EXPECT_EQ(seen, expected) << kind << ", seed " << seed;
    }
}

TEST_F(DigitsRunTest, DrawsWeightsWithinOneOverTheRootOfTheInputs) {
  const job::RunFiles files(write({.model = "mlp"}));
  const std::vector<float> weight = files.weight("0.weight");
  EXPECT_LT(*std::ranges::max_element(weight), 0.125f);
  EXPECT_GT(*std::ranges::max_element(weight), 0.124f);
  EXPECT_GE(*std::ranges::min_element(weight), -0.125f);
}

TEST_F(DigitsRunTest, UsesARowOnceAnEpochAndNeverOneThatIsHeldOut) {
  const job::RunFiles files(write({.steps = 14, .global_batch = 96}));  // 1344 of 1437 rows
  using Row = std::vector<float>;
  std::multiset<Row> used;
  for (std::int64_t batch = 0; batch < 14; ++batch)
    for (std::int64_t row = 0; row < 96; ++row) {
      Row pixels(64);
      files.read_x(job::RowRange{batch, row, 1}, std::span(pixels));
      used.insert(pixels);
    }
  std::multiset<Row> there;
  for (const Digit& digit : digits().training) {
    Row pixels;
    for (const std::uint8_t pixel : digit.pixels) pixels.push_back(static_cast<float>(pixel) / 16);
    there.insert(pixels);
  }
  for (const Row& row : used) EXPECT_LE(used.count(row), there.count(row));
}

TEST_F(DigitsRunTest, DependsOnItsSeed) {
  const auto weights = [&](std::uint64_t seed) { return job::RunFiles(write({.seed = seed})).weight("0.weight"); };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST_F(DigitsRunTest, NamesTheSettingThatIsWrong) {
  EXPECT_EQ(error_of({.model = "resnet"}),
            "model 'resnet'; it must be mlp, conv, conv_norm, tied, pairs, transformer, moe");
  EXPECT_EQ(error_of({.tied_uses = 1}), "1 uses of a tied weight; it has two at least");
  EXPECT_EQ(error_of({.optimizer = "lamb"}), "optimizer 'lamb'; it must be sgd, sgd_decay, adam");
  EXPECT_EQ(error_of({.rows = "some"}), "rows 'some'; it must be equal, padding, weights");
  EXPECT_EQ(error_of({.global_batch = 2000}), "global batch 2000; there are 1437 rows to train on");
  EXPECT_EQ(error_of({.data = 5}),
            "run.global_batch = 96; it must be a multiple of parallel.data x run.micro_batches = 10");
  EXPECT_EQ(error_of({.steps = 0}), "run.steps = 0; it must be at least 1");
  EXPECT_EQ(error_of({.pipeline = 0}), "0 pipeline ranks of 1 chunks; there must be at least 1 of each");
  EXPECT_EQ(error_of({.pipeline = 2000}), "2000 pipeline ranks of 1 chunks; at most 1024 stages are made");
  EXPECT_EQ(error_of({.model = "conv", .pipeline = 7}), "7 stages; model 'conv' has 6 layers");
  EXPECT_EQ(error_of({.pipeline = 2, .chunks = 2}), "run.chunks = 2; it must be 1 with schedule '1f1b'");
  EXPECT_THAT(error_of({.pipeline = 2, .schedule = "gpip"}), testing::StartsWith("run.schedule = 'gpip'; it must be"));
  std::ofstream(folder.path() / "run") << "a file";
  EXPECT_THROW(write({}), RuntimeFailure);
}

TEST_F(DigitsRunTest, HandsOutTheHeldOutRowsAsTheModelTakesThem) {
  const LabelledRows rows = held_out_rows(write({.model = "conv"}), digits());
  EXPECT_EQ(rows.row, (job::Shape{1, 8, 8}));
  EXPECT_EQ(rows.labels.size(), 360u);
  EXPECT_EQ(rows.x.size(), 360u * 64);
  const LabelledRows tokens = held_out_rows(write({.model = "transformer"}), digits());
  EXPECT_EQ(tokens.row, job::Shape{4});
  ASSERT_EQ(tokens.labels.size(), 360u * 4);
  // Each token is followed by the next one.
  for (std::size_t i = 0; i + 1 < tokens.labels.size(); ++i) {
    if (i % 4 < 3) {
      EXPECT_EQ(static_cast<std::int64_t>(tokens.x[i + 1]), tokens.labels[i]) << i;
    }
  }
}

}  // namespace
}  // namespace plumbline::training
