// Runs by names: what they tell, save, go on from and refuse.
#include "reference/training/trainer/pipeline_run.hpp"

#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/record/temporary_folder.hpp"
#include "reference/training/data/cifar10.hpp"
#include "reference/training/trainer/checkpoint.hpp"

namespace plumbline::training {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Told {
  std::vector<EpochResult> epochs;
  std::string log, progress;
};

Told told_by(const PipelineRun& run) {
  Told told;
  std::mutex mutex;
  comm::run_ranks(run.settings.pipeline * run.settings.data, [&](comm::Communicator& world) {
    const PipelineSinks sinks{.log = [&](const std::string& text) { told.log += text + "\n"; },
                              .progress = [&](const std::string& text) { told.progress += text; }};
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
  EXPECT_THAT(told.log, HasSubstr("rank 0, chunk 0: 393344 parameters in 0: linear 3072 to 128\n"));
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
  run.model = "transformer";
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
  for (const char* name : {"interleaved-1f1b", "looped-bfs", "interleaved-zb"}) {
    run.schedule = name;
    EXPECT_NEAR(told_by(run).epochs[0].training.at("Loss"), loss, 1e-3) << name;
  }
}

TEST_F(PipelineRunTest, SaysWhatIsWrong) {
  const auto with = [&](auto change) {
    PipelineRun run = small();
    change(run);
    return error_of(run);
  };
  EXPECT_EQ(with([](PipelineRun& run) { run.model = "vgg"; }),
            "invalid_argument: model 'vgg'; it must be resnet50, resnet_small, perceptron, transformer");
  EXPECT_EQ(with([](PipelineRun& run) { run.data = "mnist"; }),
            "invalid_argument: data 'mnist'; it must be cifar10, digits, text");
  EXPECT_EQ(with([](PipelineRun& run) { run.data = "text"; }),
            "invalid_argument: model 'perceptron' with data 'text'; the transformer takes text, the others cifar10 or "
            "digits");
  EXPECT_EQ(with([](PipelineRun& run) { run.settings.micro_batches = 5; }),
            "invalid_argument: BATCH_SIZE = 16; it must be a multiple of NUM_MICRO_BATCHES = 5");
  EXPECT_THAT(with([](PipelineRun& run) { run.schedule = "zbv"; }),
              HasSubstr("invalid_argument: schedule 'zbv'; it must be gpipe, 1f1b, "));
  EXPECT_THAT(with([](PipelineRun& run) { run.schedule = "zb-h1", run.settings.chunks = 2; }),
              HasSubstr("schedule 'zb-h1' with parallel.pipeline = 2, NUM_MICRO_BATCHES = 2, NUM_CHUNKS = 2: "));
  EXPECT_THAT(with([](PipelineRun& run) { run.resume = true, run.checkpoints.clear(); }), HasSubstr("must be given"));
}

}  // namespace
}  // namespace plumbline::training
