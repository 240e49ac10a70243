// Whole runs: pipelines of several ranks against one rank that does everything, saved and continued, and stopped.
#include "harness/trainer/pipeline_program.hpp"

#include <atomic>
#include <mutex>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/trainer/hooks.hpp"
#include "harness/trainer/models/perceptron.hpp"
#include "harness/trainer/models/resnet.hpp"
#include "harness/trainer/models/transformer.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::training {
namespace {

using testing::HasSubstr;

const data::Cifar10& images() {
  static const data::Cifar10 all = data::cifar10_of_digits(digits(), 16);
  return all;
}

PipelineTask residual_task(const TrainerSettings& settings) {
  return {.blocks = resnet({.block = ResidualBlock::basic, .layers = {1, 1, 1, 1}, .classes = 10, .planes = 4}),
          .data = [=](int rank) { return image_data(images(), settings, rank); }};
}

TrainerSettings small(int pipeline, int chunks = 1, int data = 1) {
  return {.batch_size = 8,
          .epochs = 2,
          .micro_batches = 4,
          .chunks = chunks,
          .learning_rate = 0.01,
          .warmup_epochs = 1,
          .pipeline = pipeline,
          .data = data};
}

// What a run came to.
struct Outcome {
  std::vector<EpochResult> epochs;                       // of rank 0
  std::vector<std::map<std::string, at::Tensor>> ranks;  // parameters and buffers of each
  std::map<std::string, at::Tensor> everything;          // of all ranks together
};

/// Says where a rank's run begins, and may bring hooks.
using Hooks = std::vector<std::unique_ptr<Hook>>;
using Prepare = std::function<Position(int rank, PipelineProgram& program, Hooks& hooks)>;

Outcome train(const TrainerSettings& settings, const PipelineTask& task, const Prepare& prepare = {}) {
  Outcome outcome;
  const int ranks = settings.pipeline * settings.data;
  outcome.ranks.resize(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    at::set_num_threads(1);
    Timers timers;
    PipelineProgram program(settings, task, world, &timers);
    Hooks hooks;
    hooks.push_back(std::make_unique<LossHook>());
    hooks.push_back(std::make_unique<AccuracyHook>());
    hooks.push_back(std::make_unique<LearningRateHook>(
        linear_warmup(settings.learning_rate, settings.epochs, settings.warmup_epochs),
        [&](double rate) { program.set_learning_rate(rate); }));
    const Position from = prepare ? prepare(world.rank(), program, hooks) : Position{};
    std::vector<Hook*> all;
    for (const auto& hook : hooks) all.push_back(hook.get());
    const auto epochs = fit(program.program(), {.epochs = settings.epochs, .from = from}, timers, all);
    const std::lock_guard lock(mutex);
    if (world.rank() == 0) outcome.epochs = epochs;
    auto& own = outcome.ranks[static_cast<std::size_t>(world.rank())];
    for (const NamedTensor& parameter : program.parameters()) own[parameter.name] = parameter.tensor.detach();
    for (const NamedTensor& buffer : program.buffers()) own[buffer.name] = buffer.tensor;
    for (const auto& [name, tensor] : own) outcome.everything[name] = tensor;
  });
  return outcome;
}

void expect_same_bits(const Outcome& got, const Outcome& expected) {
  EXPECT_EQ(got.epochs, expected.epochs);
  ASSERT_EQ(got.everything.size(), expected.everything.size());
  for (const auto& [name, tensor] : expected.everything)
    EXPECT_TRUE(at::equal(got.everything.at(name), tensor)) << name;
}

class PipelineRuns : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_F(PipelineRuns, OfAResidualNetworkHaveTheBitsOfOneRank) {
  const Outcome alone = train(small(1), residual_task(small(1)));
  ASSERT_EQ(alone.epochs.size(), 2u);
  EXPECT_GT(alone.epochs[0].test.at("Loss"), 0);
  EXPECT_EQ(alone.epochs[0].training.count("Accuracy"), 0u);
  EXPECT_DOUBLE_EQ(alone.epochs[0].training.at("LR"), 0.005);
  EXPECT_EQ(alone.epochs[0].seconds.at("update").count, 2);
  expect_same_bits(train(small(2), residual_task(small(2))), alone);
  expect_same_bits(train(small(3), residual_task(small(3))), alone);
  expect_same_bits(train(small(2, 2), residual_task(small(2, 2))), alone);
}

// What the steps of plain training come to: the whole model, its micro-batches one after the other, and SGD by hand.
struct PlainTraining {
  std::vector<double> losses;
  std::map<std::string, at::Tensor> tensors;  // parameters and running statistics
};
PlainTraining plain_training(const TrainerSettings& settings, const PipelineTask& task, double rate, int steps) {
  TensorStore store(settings.seed);
  const auto model = make_stage(task.blocks, parts_of(task.blocks, 1, 1, task.cut).front(), store);
  const TrainingData data = task.data(0);
  PlainTraining done;
  for (int step = 0; step < steps; ++step) {
    const BatchTensors batch = data.training(0, step);
    double sum = 0;
    for (int part = 0; part < settings.micro_batches; ++part) {
      const std::int64_t rows = settings.batch_size / settings.micro_batches;
      const at::Tensor x = batch.x.narrow(0, part * rows, rows).clone(),
                       y = batch.y.narrow(0, part * rows, rows).clone();
      const at::Tensor loss = at::cross_entropy_loss(model->forward({x}, {}).at(0), y);
      sum += loss.item<double>();
      loss.div(static_cast<double>(settings.micro_batches)).backward();
    }
    done.losses.push_back(sum / settings.micro_batches);
    for (const NamedTensor& parameter : model->parameters()) {
      parameter.tensor.detach().sub_(parameter.tensor.grad() * rate);
      parameter.tensor.mutable_grad() = at::Tensor();
    }
  }
  for (const NamedTensor& parameter : model->parameters()) done.tensors[parameter.name] = parameter.tensor.detach();
  for (const NamedTensor& buffer : model->buffers()) done.tensors[buffer.name] = buffer.tensor;
  return done;
}

// Equal values after steps of plain SGD are equal gradients in each of them; the statistics of the normalisations are
// those of the micro-batches.
TEST_F(PipelineRuns, OfResNet50HaveTheBitsOfPlainTraining) {
  constexpr double rate = 0.0078125;  // a power of two: multiplied and subtracted with one rounding in any order
  constexpr int steps = 3;
  TrainerSettings settings = small(2);
  settings.batch_size = 4;
  settings.micro_batches = 2;
  settings.learning_rate = rate;
  const PipelineTask task{.blocks = resnet50(), .optimizer = job::Sgd{.lr = rate}, .data = [=](int rank) {
                            return image_data(images(), settings, rank);
                          }};
  const PlainTraining expected = plain_training(settings, task, rate, steps);
  EXPECT_EQ(expected.tensors.size(), 161u + 2 * 53) << "parameters, and a mean and a variance for each normalisation";
  std::atomic<std::size_t> compared = 0;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    PipelineProgram program(settings, task, world);
    const TrainingProgram run = program.program();
    for (int step = 0; step < steps; ++step)
      EXPECT_EQ(run.train(0, step).loss, expected.losses[static_cast<std::size_t>(step)]) << "step " << step;
    std::vector<NamedTensor> own = program.parameters();
    for (NamedTensor& buffer : program.buffers()) own.push_back(std::move(buffer));
    for (const NamedTensor& one : own)
      EXPECT_TRUE(at::equal(one.tensor.detach(), expected.tensors.at(one.name))) << one.name;
    compared += own.size();
  });
  EXPECT_EQ(compared, expected.tensors.size());
}

// The shared embeddings are on the first and on the last rank.
TEST_F(PipelineRuns, OfATransformerKeepItsSharedEmbeddingsEqual) {
  const data::Text text = data::text();
  const auto task = [&](const TrainerSettings& settings) {
    return PipelineTask{.blocks = transformer({.length = 16, .width = 16, .heads = 2, .layers = 2}),
                        .data = [=](int rank) { return text_data(text, settings, rank, 16, 4); }};
  };
  const Outcome alone = train(small(1), task(small(1)));
  const Outcome pipeline = train(small(2), task(small(2)));
  EXPECT_TRUE(at::equal(pipeline.ranks[0].at(kSharedEmbedding), pipeline.ranks[1].at(kSharedEmbedding)));
  EXPECT_EQ(pipeline.everything.size(), alone.everything.size());
  // The sums of the shared gradient are made in another order.
  for (const auto& [name, tensor] : alone.everything)
    EXPECT_TRUE(at::allclose(pipeline.everything.at(name), tensor, 1e-3, 1e-4)) << name;
  EXPECT_NEAR(pipeline.epochs[1].training.at("Loss"), alone.epochs[1].training.at("Loss"), 1e-4);
  EXPECT_LT(alone.epochs[1].training.at("Loss"), alone.epochs[0].training.at("Loss")) << "it learns";
}

TEST_F(PipelineRuns, WithSeveralPipelinesHaveEqualReplicas) {
  const TrainerSettings settings = small(2, 1, 2);
  const PipelineTask task{.blocks = perceptron({3072, 8, 10}),
                          .data = [=](int rank) { return image_data(images(), settings, rank); }};
  const Outcome outcome = train(settings, task);
  for (const int pipeline : {0, 1}) {
    const auto &first = outcome.ranks[static_cast<std::size_t>(2 * pipeline)],
               &second = outcome.ranks[static_cast<std::size_t>(2 * pipeline + 1)];
    ASSERT_EQ(first.size(), 2u);
    for (const auto& [name, tensor] : first) EXPECT_TRUE(at::equal(tensor, second.at(name))) << name;
  }
  // All 16 rows in one step, as one rank with twice the batch has them; the order of sums is another.
  TrainerSettings one = small(1);
  one.batch_size = 16;
  one.micro_batches = 8;
  const Outcome alone =
      train(one, {.blocks = task.blocks, .data = [=](int rank) { return image_data(images(), one, rank); }});
  EXPECT_NEAR(outcome.epochs[1].training.at("Loss"), alone.epochs[1].training.at("Loss"), 1e-3);
}

TEST_F(PipelineRuns, ContinuedHaveTheBitsOfOneThatNeverStopped) {
  const TrainerSettings settings = small(2);
  const job::TemporaryFolder folder;
  Configuration configuration = configuration_of(settings);
  configuration.emplace_back("model", "small resnet");
  const Outcome whole = train(settings, residual_task(settings), [&](int, PipelineProgram& program, Hooks& hooks) {
    const auto save = [&program, &configuration, &folder](const Position& at) {
      (void)write_checkpoint(program.checkpoint(configuration, at), folder.path());
    };
    hooks.push_back(std::make_unique<CheckpointHook>(save, 0, 3));
    return Position{};
  });
  EXPECT_THAT(checkpoint_steps(folder.path(), 2), testing::ElementsAre(3)) << "in the middle of the second epoch";
  const Outcome continued = train(settings, residual_task(settings), [&](int rank, PipelineProgram& program, Hooks&) {
    const Checkpoint checkpoint = read_checkpoint(checkpoint_file(folder.path(), 3, rank), configuration, rank, 2);
    program.restore(checkpoint);
    return checkpoint.at;
  });
  for (const auto& [name, tensor] : whole.everything)
    EXPECT_TRUE(at::equal(continued.everything.at(name), tensor)) << name;
  EXPECT_EQ(continued.epochs.at(0).test, whole.epochs.at(1).test);
}

TEST_F(PipelineRuns, StopOnAllRanksAtALossThatIsNoNumberAndUpdateNothing) {
  const TrainerSettings settings = small(2);
  PipelineTask task = residual_task(settings);
  task.data = [=](int rank) {
    TrainingData data = image_data(images(), settings, rank);
    data.training = [inner = data.training](int epoch, std::int64_t batch) {
      BatchTensors tensors = inner(epoch, batch);
      if (batch == 1) tensors.x.select(0, 5).fill_(std::nan(""));
      return tensors;
    };
    return data;
  };
  std::mutex mutex;
  std::vector<std::string> told(2);
  comm::run_ranks(2, [&](comm::Communicator& world) {
    Timers timers;
    PipelineProgram program(settings, task, world, &timers);
    std::map<std::string, at::Tensor> before;
    CheckpointHook note(
        [&](const Position&) {
          for (const NamedTensor& parameter : program.parameters())
            before[parameter.name] = parameter.tensor.detach().clone();
        },
        0, 1);
    Hook* const hooks[] = {&note};
    std::string message = "no error";
    try {
      (void)fit(program.program(), {.epochs = 1}, timers, hooks);
    } catch (const NonFiniteLoss& stop) {
      message = stop.what();
    }
    EXPECT_FALSE(before.empty());
    for (const NamedTensor& parameter : program.parameters())
      EXPECT_TRUE(at::equal(parameter.tensor.detach(), before.at(parameter.name))) << parameter.name;
    const std::lock_guard lock(mutex);
    told[static_cast<std::size_t>(world.rank())] = message;
  });
  EXPECT_THAT(told, testing::Each(HasSubstr("the loss is nan on rank 1, training step 1 (epoch 0, batch 1)")));
}

TEST_F(PipelineRuns, TakeAPromisedShapeAndRefuseWhatTheyCannotRun) {
  TrainerSettings settings = small(2);
  settings.tensor_shape = {2, 8};  // two rows a micro-batch
  const PipelineTask task{.blocks = perceptron({3072, 8, 10}),
                          .data = [=](int rank) { return image_data(images(), settings, rank); }};
  const Outcome promised = train(settings, task);
  settings.tensor_shape.clear();
  expect_same_bits(promised, train(settings, task));
  settings.tensor = 2;
  EXPECT_THROW(train(settings, task), Unsupported);
  settings.tensor = 1;
  EXPECT_THROW(comm::run_ranks(3, [&](comm::Communicator& world) { PipelineProgram(settings, task, world); }),
               InvalidArgument);
}

}  // namespace
}  // namespace plumbline::training
