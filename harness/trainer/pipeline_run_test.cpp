// Runs by names: what they tell, save, go on from and refuse.
#include "harness/trainer/pipeline_run.hpp"

#include <mutex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/trainer/data/cifar10.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/checkpoint.hpp"

namespace plumbline::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Told {
  std::vector<EpochResult> epochs;
  std::string log, progress;
  std::vector<UpdateComparison> compared;
  std::vector<RankTimeline> timeline;
};

Told told_by(const PipelineRun& run) {
  Told told;
  std::mutex mutex;
  comm::run_ranks(run.settings.pipeline * run.settings.data, [&](comm::Communicator& world) {
    const PipelineSinks sinks{.log = [&](const std::string& text) { told.log += text + "\n"; },
                              .progress = [&](const std::string& text) { told.progress += text; },
                              .compared = [&](const UpdateComparison& one) { told.compared.push_back(one); },
                              .timeline = [&](const std::vector<RankTimeline>& ranks) { told.timeline = ranks; }};
    const auto epochs = run_pipeline(run, world, sinks);
    const std::lock_guard lock(mutex);
    if (told.epochs.empty()) told.epochs = epochs;
    EXPECT_EQ(told.epochs, epochs) << "rank " << world.rank();
  });
  return told;
}

std::string error_of(const PipelineRun& run) {
  try {
    (void)told_by(run);
  } catch (const Error& error) {
    return std::string(error.kind()) + ": " + error.what();
  }
  return "no error";
}

class PipelineRunTest : public testing::Test {
 protected:
  [[nodiscard]] PipelineRun small() const {
    return {.settings = {.batch_size = 16,
                         .epochs = 3,
                         .micro_batches = 2,
                         .learning_rate = 0.003,
                         .warmup_epochs = 1,
                         .pipeline = 2},
            .model = "perceptron",
            .data = "digits",
            .most_digits = 32,
            .checkpoints = folder.path() / "checkpoints"};
  }
  job::TemporaryFolder folder;
};

TEST_F(PipelineRunTest, TellsWhatGoesWhereAndHowItGoes) {
  const Told told = told_by(small());
  EXPECT_THAT(told.log, HasSubstr("rank 0, chunk 0: 401600 parameters in 0: linear 3072 to 128; 1: "));
  EXPECT_THAT(told.log, HasSubstr("\nepoch 2, training: LR "));
  EXPECT_THAT(told.log, HasSubstr("\nepoch 2, test: Accuracy "));
  EXPECT_THAT(told.progress, HasSubstr("\repoch 0, training: batch 2 of 2, loss "));
  ASSERT_EQ(told.epochs.size(), 3u);
  EXPECT_THAT(checkpoint_steps(folder.path() / "checkpoints", 2), ElementsAre(4, 6)) << "two are kept";
}

TEST_F(PipelineRunTest, GoesOnFromTheLastCheckpointToTheSameEnd) {
  PipelineRun run = small();
  const Told whole = told_by(run);
  std::filesystem::remove_all(checkpoint_file(run.checkpoints, 6, 0).parent_path());
  EXPECT_THAT(error_of(run), HasSubstr("has checkpoints of a run; resume it, or give another folder"));
  run.resume = true;
  const Told rest = told_by(run);
  ASSERT_EQ(rest.epochs.size(), 1u);
  EXPECT_EQ(rest.epochs[0], whole.epochs[2]);
  EXPECT_THAT(rest.log, HasSubstr("goes on from '" + (run.checkpoints / "step-4").string() + "'"));
  EXPECT_TRUE(told_by(run).epochs.empty()) << "it is at its end";
  run.settings.learning_rate = 0.01;
  EXPECT_THAT(error_of(run), HasSubstr("it is of another run: LEARNING_RATE is 0.003 there and 0.01 here"));
}

TEST_F(PipelineRunTest, ReadsImagesFromFiles) {
  data::write_cifar10(data::cifar10_of_digits(digits(), 32), folder.path() / "files");
  PipelineRun run = small();
  run.checkpoints.clear();
  const Told compiled_in = told_by(run);
  run.data = "cifar10";
  run.data_folder = folder.path() / "files";
  EXPECT_EQ(told_by(run).epochs, compiled_in.epochs);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "checkpoints"));
  run.data_folder = folder.path() / "none";
  EXPECT_THAT(error_of(run), HasSubstr("not_found: '" + (folder.path() / "none" / "data_batch_1.bin").string()));
}

TEST_F(PipelineRunTest, LearnsTheDigits) {
  PipelineRun run = small();
  run.settings.epochs = 6;
  run.settings.learning_rate = 0.001;
  run.most_digits = 320;
  run.checkpoints.clear();
  EXPECT_GT(told_by(run).epochs.back().test.at("Accuracy"), 0.6) << "one of ten is 0.1";
}

// A thousand classes of which ten are there: whoever learns anything learns that first.
TEST_F(PipelineRunTest, TrainsResNet50ForTwoShortEpochs) {
  PipelineRun run = small();
  run.model = "resnet50";
  run.settings.batch_size = 8;
  run.settings.epochs = 2;
  run.most_digits = 24;
  run.checkpoints.clear();
  const Told told = told_by(run);
  ASSERT_EQ(told.epochs.size(), 2u);
  EXPECT_LT(told.epochs[1].training.at("Loss"), told.epochs[0].training.at("Loss") - 0.5) << "it learns";
  EXPECT_EQ(told.epochs[1].test.count("Accuracy"), 1u);
}

TEST_F(PipelineRunTest, TrainsATransformerOnText) {
  PipelineRun run = small();
  run.settings.batch_size = 4;
  run.model = "gpt";
  run.data = "text";
  run.text_batches = 4;
  const Told told = told_by(run);
  EXPECT_LT(told.epochs[2].training.at("Loss"), told.epochs[0].training.at("Loss"));
  EXPECT_GT(told.epochs[2].test.at("Accuracy"), 0.03) << "better than one of 256";
}

TEST_F(PipelineRunTest, TrainsByAnyScheduleThatIsNamed) {
  PipelineRun run = small();
  run.checkpoints.clear();
  run.settings.epochs = 1;
  run.settings.micro_batches = 4;
  const Told usual = told_by(run);
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2"}) {
    run.schedule = name;
    EXPECT_EQ(told_by(run).epochs, usual.epochs) << name << " adds each stage's micro-batches in their order";
  }
  run.settings.chunks = 2;
  run.model = "resnet_small";
  run.schedule.clear();
  const double loss = told_by(run).epochs[0].training.at("Loss");
  for (const char* name : {"interleaved", "interleaved-1f1b", "looped-bfs", "interleaved-zero-bubble", "interleaved-zb",
                           "zbv", "v-half", "v-min", "dualpipev"}) {
    run.schedule = name;
    EXPECT_NEAR(told_by(run).epochs[0].training.at("Loss"), loss, 1e-3) << name;
  }
}

// What a run and its comparison have in common is the model's layers and the optimizer's rule.
std::string findings_of(const Told& told) {
  std::string text;
  for (const UpdateComparison& one : told.compared)
    for (const auto& [kind, words] : one.findings)
      text += fmt::format("epoch {}, batch {}, {}: {}\n", one.epoch, one.batch, kind, words);
  return text;
}

TEST_F(PipelineRunTest, ComputesWhatASingleDeviceComputes) {
  using Schedules = std::vector<std::pair<std::string, int>>;  // with their chunks
  const Schedules usual{{"1f1b", 1}, {"zb-h1", 1}, {"interleaved", 2}, {"looped-bfs", 2}, {"zbv", 2}, {"dualpipev", 2}};
  const Schedules others{{"gpipe", 1}, {"zb-h2", 1}, {"interleaved-zero-bubble", 2}, {"v-half", 2}, {"v-min", 2}};
  for (const std::string model : {"perceptron", "resnet_small", "gpt"}) {
    Schedules schedules = usual;
    if (model == "perceptron") schedules.insert(schedules.end(), others.begin(), others.end());  // it is the smallest
    for (const auto& [schedule, chunks] : schedules) {
      PipelineRun run = small();
      run.checkpoints.clear();
      run.settings.epochs = 1;
      run.settings.micro_batches = 4;
      run.settings.data = model == "gpt" ? 1 : 2;
      run.settings.batch_size = 8;
      run.settings.chunks = chunks;
      run.model = model;
      run.data = model == "gpt" ? "text" : "digits";
      run.text_batches = 2;
      run.schedule = schedule;
      run.check = 100;
      const Told told = told_by(run);
      ASSERT_EQ(told.compared.size(), 2u) << model << ' ' << schedule;
      EXPECT_EQ(findings_of(told), "") << model << ' ' << schedule;
      const UpdateComparison& one = told.compared[1];
      EXPECT_GT(one.gradients, 7);
      const int shared = model == "gpt" ? 1 : 0;  // its embeddings are on the first stage and on the last
      if (run.schedule != "looped-bfs") {
        EXPECT_EQ(one.gradients - one.equal_in_bits, shared) << model << ' ' << schedule << ": " << one.gradient.tensor;
      }
    }
  }
}

TEST_F(PipelineRunTest, OfSeveralBatchesAnUpdateIsTheSingleDevicesToo) {
  PipelineRun run = small();
  run.settings.batch_size = 4;
  run.settings.micro_batches = 2;
  run.settings.epochs = 2;
  run.settings.accumulation = 3;
  run.settings.fp16 = "naive";
  run.check = 4;
  const Told told = told_by(run);
  EXPECT_EQ(findings_of(told), "");
  ASSERT_EQ(told.compared.size(), 4u) << "8 batches an epoch: 3, 3 and 2";
  EXPECT_EQ(told.compared[2].batch, 7);
  EXPECT_EQ(told.compared[3].epoch, 1);
  const double loss = told.epochs[1].training.at("Loss");
  run.checkpoints.clear();
  run.settings.fp16.clear();
  EXPECT_NE(told_by(run).epochs[1].training.at("Loss"), loss) << "what travels in half precision is rounded";
}

TEST_F(PipelineRunTest, WhatGoesOnIsComparedFromThereOn) {
  PipelineRun run = small();
  run.settings.epochs = 2;
  (void)told_by(run);
  run.settings.epochs = 2;
  std::filesystem::remove_all(checkpoint_file(run.checkpoints, 4, 0).parent_path());
  run.resume = true;
  run.check = 100;
  const Told told = told_by(run);
  EXPECT_EQ(findings_of(told), "");
  EXPECT_EQ(told.compared.size(), 2u) << "with the moments of the checkpoint";
}

TEST_F(PipelineRunTest, LeavesOutWhatTheMicroBatchesDoNotDivide) {
  PipelineRun run = small();
  run.checkpoints.clear();
  run.settings.micro_batches = 4;
  run.most_digits = 39;  // 16, 16 and 7, of which 4 are used
  const Told told = told_by(run);
  EXPECT_THAT(told.progress, HasSubstr("training: batch 3 of 3"));
  run.settings.tensor_shape = {4, 64};
  EXPECT_THAT(told_by(run).progress, HasSubstr("training: batch 2 of 2")) << "a smaller one would break the promise";
  run.most_digits = 3;
  EXPECT_THAT(error_of(run), HasSubstr("invalid_argument: of the training set: batch = 16; a data rank has 3 rows"));
}

TEST_F(PipelineRunTest, TellsMemoryAndTheLastBatchsTimeline) {
  PipelineRun run = small();
  run.checkpoints.clear();
  run.trace = true;
  run.settings.micro_batches = 8;
  const auto of_schedule = [&](const char* name) {
    run.schedule = name;
    return told_by(run);
  };
  const Told gpipe = of_schedule("gpipe"), usual = of_schedule("1f1b");
  ASSERT_EQ(gpipe.epochs[0].memory.size(), 2u);
  EXPECT_EQ(gpipe.epochs[0].memory[0].activations, 8);
  EXPECT_EQ(usual.epochs[0].memory[0].activations, 2);
  EXPECT_EQ(usual.epochs[0].memory[1].activations, 1);
  EXPECT_GT(gpipe.epochs[0].memory[0].bytes, usual.epochs[0].memory[0].bytes) << "it keeps 6 more micro-batches";
  EXPECT_THAT(usual.log, HasSubstr(" MB)"));
  ASSERT_EQ(usual.timeline.size(), 2u);
  const auto computations = std::ranges::count_if(
      usual.timeline[1].actions, [](const schedules::Action& action) { return schedules::is_compute(action.kind); });
  EXPECT_EQ(computations, 16);
  EXPECT_EQ(usual.timeline[1].periods.size(), usual.timeline[1].actions.size());
}

TEST_F(PipelineRunTest, TrainsTheResidualNetworkThatTheSettingsAskFor) {
  PipelineRun run = small();
  run.checkpoints.clear();
  run.model = "resnet50";
  run.settings.epochs = 1;
  run.settings.resnet = {.layers = {1, 1, 1, 1}, .classes = 10, .planes = 4};
  const Told plain = told_by(run);
  EXPECT_THAT(plain.log, HasSubstr("2: layer2 (1 bottleneck)"));
  const auto loss_with = [&](auto change) {
    PipelineRun other = run;
    change(other.settings.resnet);
    return told_by(other).epochs[0].training.at("Loss");
  };
  const double loss = plain.epochs[0].training.at("Loss");
  EXPECT_NE(loss_with([](ResidualSettings& one) { one.zero_init_residual = true; }), loss);
  EXPECT_NE(loss_with([](ResidualSettings& one) { one.groups = 2; }), loss);
  EXPECT_NE(loss_with([](ResidualSettings& one) { one.width_per_group = 128; }), loss);
  EXPECT_NE(loss_with([](ResidualSettings& one) { one.replace_stride_with_dilation = {false, true, true}; }), loss);
  EXPECT_NE(loss_with([](ResidualSettings& one) { one.block = "basic"; }), loss);
  run.model = "perceptron";
  EXPECT_THAT(error_of(run), HasSubstr("[resnet] is of model 'resnet50'; 'perceptron' has no such settings"));
}

TEST_F(PipelineRunTest, RefusesANetworkWithFewerClassesThanTheData) {
  PipelineRun run = small();
  run.model = "resnet50";
  run.settings.resnet = {.layers = {1, 1, 1, 1}, .classes = 9, .planes = 4};
  EXPECT_EQ(error_of(run), "invalid_argument: resnet.num_classes = 9; it must be at least 10, the classes of the data");
}

TEST_F(PipelineRunTest, SaysWhatIsWrong) {
  const auto with = [&](auto change) {
    PipelineRun run = small();
    change(run);
    return error_of(run);
  };
  EXPECT_EQ(with([](PipelineRun& run) { run.model = "vgg"; }),
            "invalid_argument: model 'vgg'; it must be resnet50, resnet_small, perceptron, gpt");
  EXPECT_EQ(with([](PipelineRun& run) { run.data = "mnist"; }),
            "invalid_argument: data 'mnist'; it must be cifar10, digits, text");
  EXPECT_EQ(with([](PipelineRun& run) { run.data = "text"; }),
            "invalid_argument: model 'perceptron' with data 'text'; gpt takes text, the others cifar10 or "
            "digits");
  EXPECT_EQ(with([](PipelineRun& run) { run.settings.micro_batches = 5; }),
            "invalid_argument: BATCH_SIZE = 16; it must be a multiple of NUM_MICRO_BATCHES = 5");
  EXPECT_THAT(with([](PipelineRun& run) { run.schedule = "zbv2"; }),
              HasSubstr("invalid_argument: schedule 'zbv2'; it must be gpipe, 1f1b, "));
  EXPECT_THAT(with([](PipelineRun& run) { run.schedule = "zbv"; }),
              HasSubstr("schedule 'zbv' with parallel.pipeline = 2, NUM_MICRO_BATCHES = 2, NUM_CHUNKS = 1: "));
  EXPECT_EQ(
      with([](PipelineRun& run) { run.settings.chunks = 2, run.settings.pipeline = 4; }),
      "invalid_argument: NUM_MICRO_BATCHES = 2; it must be a multiple of parallel.pipeline = 4 with NUM_CHUNKS = 2");
  EXPECT_THAT(with([](PipelineRun& run) { run.schedule = "zb-h1", run.settings.chunks = 2; }),
              HasSubstr("schedule 'zb-h1' with parallel.pipeline = 2, NUM_MICRO_BATCHES = 2, NUM_CHUNKS = 2: "));
  EXPECT_THAT(with([](PipelineRun& run) { run.resume = true, run.checkpoints.clear(); }), HasSubstr("must be given"));
}

}  // namespace
}  // namespace plumbline::training
