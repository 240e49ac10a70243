#include "harness/trainer/pipeline_run.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "harness/trainer/models/perceptron.hpp"
#include "harness/trainer/models/resnet.hpp"
#include "harness/trainer/models/transformer.hpp"
#include "harness/trainer/pipeline_program.hpp"
#include "harness/trainer/single_device.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kWindow = 64;  // tokens

ResNet network_of(const ResidualSettings& settings) {
  ResNet network{.block = settings.block == "basic" ? ResidualBlock::basic : ResidualBlock::bottleneck,
                 .layers = {},
                 .classes = settings.classes,
                 .zero_init_residual = settings.zero_init_residual,
                 .groups = settings.groups,
                 .width_per_group = settings.width_per_group,
                 .replace_stride_with_dilation = settings.replace_stride_with_dilation,
                 .planes = settings.planes};
  std::ranges::copy(settings.layers, network.layers.begin());
  return network;
}

Blocks blocks_of(const PipelineRun& run) {
  const std::string& model = run.model;
  if (model == "resnet50") return resnet(network_of(run.settings.resnet));
  if (model == "resnet_small")
    return resnet({.block = ResidualBlock::basic, .layers = {1, 1, 1, 1}, .classes = 10, .planes = 8});
  if (model == "perceptron") return perceptron({3072, 128, 64, 32, 10});
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
  PipelineTask task{.blocks = blocks_of(run), .schedule = run.schedule, .device = run.device};
  task.gradients = run.gradients;
  task.data = [&run, &source](int data_rank) {
    if (run.data == "text") return text_data(source.text, run.settings, data_rank, kWindow, run.text_batches);
    return image_data(source.images, run.settings, data_rank, !run.gradients.join.empty());
  };
  return task;
}

Configuration configuration_of(const PipelineRun& run) {
  Configuration configuration = training::configuration_of(run.settings);
  configuration.emplace_back("model", run.model);
  configuration.emplace_back("data", run.data);
  const auto schedule_kind = schedules::find_schedule_kind(run.schedule);
  configuration.emplace_back("schedule",
                             schedule_kind ? std::string(schedules::name_of(*schedule_kind)) : run.schedule);
  configuration.emplace_back("most_digits", std::to_string(run.most_digits));
  configuration.emplace_back("text_batches", std::to_string(run.text_batches));
  // What changes the numbers; buckets and when they are reduced do not.
  configuration.emplace_back("compression", run.gradients.compression);
  configuration.emplace_back("join", run.gradients.join);
  configuration.emplace_back("broadcast_buffers", run.gradients.broadcast_buffers ? "true" : "false");
  return configuration;
}

// The step to go on from, or -1. Rank 0 looks, before anyone writes, and tells the others.
std::int64_t step_to_resume(const PipelineRun& run, comm::Communicator& world) {
  constexpr std::int64_t kNone = -1, kRefused = -2, kTakesNoFiles = -3, kOfOthers = -4;
  if (run.checkpoints.empty()) return kNone;
  std::int64_t step = kNone;
  if (world.rank() == 0) {
    const std::vector<std::int64_t> steps = checkpoint_steps(run.checkpoints, world.size());
    const bool is_begun = !checkpoint_steps(run.checkpoints, 1).empty();  // by however many ranks
    if (!steps.empty()) step = steps.back();
    if (is_begun && steps.empty()) step = kOfOthers;
    if (is_begun && !run.resume) step = kRefused;
    if (step >= kNone && why_no_files(run.checkpoints)) step = kTakesNoFiles;
  }
  world.broadcast({&step, 1, comm::DType::i64}, 0);
  if (step == kTakesNoFiles)
    throw RuntimeFailure(fmt::format("nothing can be written into '{}'", run.checkpoints.string()));
  if (step == kRefused)
    throw InvalidArgument(
        fmt::format("'{}' has checkpoints of a run; resume it, or give another folder", run.checkpoints.string()));
  if (step == kOfOthers)
    throw InvalidArgument(
        fmt::format("'{}' has checkpoints of fewer ranks than {}, and none is complete; resume it "
                    "with the same number, or give another folder",
                    run.checkpoints.string(), world.size()));
  return step;
}

std::string last_of(const PipelineRun& run, int ranks) {
  const std::vector<std::int64_t> steps = checkpoint_steps(run.checkpoints, ranks);
  return steps.empty() ? "" : checkpoint_file(run.checkpoints, steps.back(), 0).parent_path().string();
}

// What the ranks of the first pipeline did in the last batch, brought to rank 0.
void tell_timelines(const PipelineRun& run, const PipelineProgram& program, comm::Communicator& world,
                    const PipelineSinks& sinks) {
  struct Entry {
    schedules::Action action;
    schedules::Period period;
  };
  static_assert(std::is_trivially_copyable_v<Entry>);
  const auto buffer_of = [](std::vector<Entry>& entries) {
    return comm::Buffer{entries.data(), static_cast<std::int64_t>(entries.size() * sizeof(Entry)), comm::DType::u8};
  };
  const RankTimeline& own = program.last_timeline();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(world.size()));
  const std::int64_t count = std::ssize(own.actions);
  world.all_gather({&count, 1, comm::DType::i64}, {counts.data(), std::ssize(counts), comm::DType::i64});
  std::vector<RankTimeline> timelines;
  for (int pipeline = 0; pipeline < run.settings.pipeline; ++pipeline) {
    const int rank =
        job::rank_of({.pipeline = run.settings.pipeline, .data = run.settings.data}, {.pipeline = pipeline});
    std::vector<Entry> entries(static_cast<std::size_t>(counts[static_cast<std::size_t>(rank)]));
    if (rank == world.rank())
      for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = {own.actions[i], own.periods[i]};
    if (rank != 0 && rank == world.rank()) world.send(buffer_of(entries), 0);
    if (rank != 0 && world.rank() == 0) world.recv(buffer_of(entries), rank);
    timelines.emplace_back();
    for (const Entry& entry : entries) {
      timelines.back().actions.push_back(entry.action);
      timelines.back().periods.push_back(entry.period);
    }
  }
  if (world.rank() == 0 && count > 0) sinks.timeline(timelines);
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
  hooks.push_back(std::make_unique<MemoryHook>());
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

std::vector<EpochResult> run_pipeline(const PipelineRun& run, comm::Communicator& world, const PipelineSinks& sinks,
                                      const std::shared_ptr<device::Runtime>& devices) {
  require_possible(run);
  const Source source = source_of(run);
  PipelineTask task = task_of(run, source);
  task.devices = devices;
  Timers timers;
  PipelineProgram program(run.settings, task, world, &timers);
  if (world.rank() == 0)
    sinks.log(describe(task.blocks, parts_of(task.blocks, run.settings.pipeline, run.settings.chunks, task.cut),
                       run.ranks_of_stages()));
  Position from;
  if (const std::int64_t step = step_to_resume(run, world); step >= 0) {
    const std::filesystem::path file = checkpoint_file(run.checkpoints, step, world.rank());
    const Checkpoint checkpoint = read_checkpoint(file, configuration_of(run), world.rank(), world.size());
    program.restore(checkpoint);
    from = checkpoint.at;
    if (world.rank() == 0) sinks.log(fmt::format("goes on from '{}'", file.parent_path().string()));
  }
  TrainingProgram functions = program.program();
  std::optional<SingleDeviceCheck> check;
  if (run.check > 0) {
    check.emplace(run.settings, task, world, program);
    functions = check->watched(std::move(functions), run.check, sinks.compared);
  }
  const Hooks hooks = hooks_of(run, program, functions, world, sinks);
  std::vector<Hook*> all;
  for (const auto& hook : hooks) all.push_back(hook.get());
  const FitOptions options{.epochs = run.settings.epochs, .from = from, .last_checkpoint = [&] {
                             return run.checkpoints.empty() ? "" : last_of(run, world.size());
                           }};
  std::vector<EpochResult> epochs = fit(functions, options, timers, all);
  if (run.trace) tell_timelines(run, program, world, sinks);
  return epochs;
}

}  // namespace plumbline::training
