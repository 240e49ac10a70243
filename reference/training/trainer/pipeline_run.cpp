#include "reference/training/trainer/pipeline_run.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/models/perceptron.hpp"
#include "reference/training/models/resnet.hpp"
#include "reference/training/models/transformer.hpp"
#include "reference/training/trainer/pipeline_program.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kWindow = 64;  // tokens

Blocks blocks_of(const std::string& model) {
  if (model == "resnet50") return resnet50();
  if (model == "resnet_small")
    return resnet({.block = ResidualBlock::basic, .layers = {1, 1, 1, 1}, .classes = 10, .planes = 8});
  if (model == "perceptron") return perceptron({3072, 128, 64, 10});
  return transformer({.length = kWindow, .width = 64, .heads = 4, .layers = 2});
}

// The data, which the task's functions refer to.
struct Source {
  data::Cifar10 images;
  data::Text text;
};

Source source_of(const PipelineRun& run) {
  if (run.data == "cifar10") return {.images = data::read_cifar10(run.data_folder), .text = {}};
  if (run.data == "digits") return {.images = data::cifar10_of_digits(digits(), run.most_digits), .text = {}};
  return {.images = {}, .text = data::text()};
}

PipelineTask task_of(const PipelineRun& run, const Source& source) {
  PipelineTask task{.blocks = blocks_of(run.model), .schedule = run.schedule, .device = run.device};
  task.data = [&run, &source](int data_rank) {
    if (run.data == "text") return text_data(source.text, run.settings, data_rank, kWindow, run.text_batches);
    return image_data(source.images, run.settings, data_rank);
  };
  return task;
}

Configuration configuration_of(const PipelineRun& run) {
  Configuration configuration = training::configuration_of(run.settings);
  configuration.emplace_back("model", run.model);
  configuration.emplace_back("data", run.data);
  configuration.emplace_back("schedule", run.schedule);
  configuration.emplace_back("most_digits", std::to_string(run.most_digits));
  configuration.emplace_back("text_batches", std::to_string(run.text_batches));
  return configuration;
}

// The step to go on from, or -1. Rank 0 looks, before anyone writes, and tells the others.
std::int64_t step_to_resume(const PipelineRun& run, comm::Communicator& world) {
  constexpr std::int64_t kNone = -1, kRefused = -2;
  if (run.checkpoints.empty()) return kNone;
  std::int64_t step = kNone;
  if (world.rank() == 0) {
    const std::vector<std::int64_t> steps = checkpoint_steps(run.checkpoints, world.size());
    if (!steps.empty()) step = run.resume ? steps.back() : kRefused;
  }
  world.broadcast({&step, 1, comm::DType::i64}, 0);
  if (step == kRefused)
    throw InvalidArgument(
        fmt::format("'{}' has checkpoints of a run; resume it, or give another folder", run.checkpoints.string()));
  return step;
}

std::string last_of(const PipelineRun& run, int ranks) {
  const std::vector<std::int64_t> steps = checkpoint_steps(run.checkpoints, ranks);
  return steps.empty() ? "" : checkpoint_file(run.checkpoints, steps.back(), 0).parent_path().string();
}

class EpochHook final : public Hook {
 public:
  explicit EpochHook(std::function<void(const Position&, const EpochResult&)> tell) : tell_(std::move(tell)) {}
  [[nodiscard]] int rank() const override { return 100; }
  void after_epoch(const Position& at, const EpochResult& result) override { tell_(at, result); }

 private:
  std::function<void(const Position&, const EpochResult&)> tell_;
};

using Hooks = std::vector<std::unique_ptr<Hook>>;

Hooks hooks_of(const PipelineRun& run, PipelineProgram& program, const TrainingProgram& functions,
               comm::Communicator& world, const PipelineSinks& sinks) {
  Hooks hooks;
  hooks.push_back(std::make_unique<LossHook>());
  hooks.push_back(std::make_unique<AccuracyHook>());
  hooks.push_back(std::make_unique<LearningRateHook>(
      linear_warmup(run.settings.learning_rate, run.settings.epochs, run.settings.warmup_epochs),
      [&program](double rate) { program.set_learning_rate(rate); }));
  if (!run.checkpoints.empty()) {
    const auto save = [&run, &program, &world](const Position& at) {
      (void)write_checkpoint(program.checkpoint(configuration_of(run), at), run.checkpoints);
      if (world.rank() == 0) prune_checkpoints(run.checkpoints, world.size(), run.keep);
    };
    hooks.push_back(std::make_unique<CheckpointHook>(save, run.checkpoint_epochs));
  }
  if (world.rank() != 0) return hooks;
  hooks.push_back(std::make_unique<LogByEpochHook>(sinks.log));
  hooks.push_back(std::make_unique<EpochHook>(sinks.epoch));
  hooks.push_back(std::make_unique<ProgressHook>(sinks.progress, functions.training_batches, functions.test_batches));
  return hooks;
}

}  // namespace

std::vector<EpochResult> run_pipeline(const PipelineRun& run, comm::Communicator& world, const PipelineSinks& sinks) {
  require_possible(run);
  const Source source = source_of(run);
  const PipelineTask task = task_of(run, source);
  Timers timers;
  PipelineProgram program(run.settings, task, world, &timers);
  if (world.rank() == 0)
    sinks.log(describe(task.blocks, parts_of(task.blocks, run.settings.pipeline, run.settings.chunks, task.cut),
                       run.settings.pipeline));
  Position from;
  if (const std::int64_t step = step_to_resume(run, world); step >= 0) {
    const std::filesystem::path file = checkpoint_file(run.checkpoints, step, world.rank());
    const Checkpoint checkpoint = read_checkpoint(file, configuration_of(run), world.rank(), world.size());
    program.restore(checkpoint);
    from = checkpoint.at;
    if (world.rank() == 0) sinks.log(fmt::format("goes on from '{}'", file.parent_path().string()));
  }
  const TrainingProgram functions = program.program();
  const Hooks hooks = hooks_of(run, program, functions, world, sinks);
  std::vector<Hook*> all;
  for (const auto& hook : hooks) all.push_back(hook.get());
  const FitOptions options{.epochs = run.settings.epochs, .from = from, .last_checkpoint = [&] {
                             return run.checkpoints.empty() ? "" : last_of(run, world.size());
                           }};
  return fit(functions, options, timers, all);
}

}  // namespace plumbline::training
