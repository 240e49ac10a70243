// What makes a run impossible, before LibTorch is needed.
#include <algorithm>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/trainer/pipeline_run.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/names.hpp"
#include "reference/training/pipeline/schedule_of.hpp"

namespace plumbline::training {
namespace {

constexpr std::int64_t kClassesOfImages = 10;

void check_name(const char* what, const std::string& name, const auto& known) {
  if (std::ranges::find(known, name) == std::ranges::end(known))
    throw InvalidArgument(fmt::format("{} '{}'; it must be {}", what, name, fmt::join(known, ", ")));
}

// Runs by ColossalAI's interleaved schedule, where none is named.
void check_interleaved(const TrainerSettings& settings) {
  if (settings.chunks > 1 && settings.micro_batches % settings.pipeline != 0)
    throw InvalidArgument(
        fmt::format("NUM_MICRO_BATCHES = {}; it must be a multiple of parallel.pipeline = {} with NUM_CHUNKS = {}",
                    settings.micro_batches, settings.pipeline, settings.chunks));
}

void check_schedule(const PipelineRun& run) {
  const TrainerSettings& settings = run.settings;
  if (run.schedule.empty()) return check_interleaved(settings);
  check_name("schedule", schedules::as_in_specifications(run.schedule), schedules::names_in_specifications());
  try {
    (void)schedule_named(
        run.schedule,
        {.ranks = settings.pipeline, .micro_batches = settings.micro_batches, .stages_per_rank = settings.chunks});
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(
        fmt::format("schedule '{}' with parallel.pipeline = {}, NUM_MICRO_BATCHES = {}, NUM_CHUNKS = {}: {}",
                    run.schedule, settings.pipeline, settings.micro_batches, settings.chunks, error.what()));
  }
}

void check_gradients(const PipelineRun& run) {
  require_possible(run.gradients);
  if (!run.gradients.join.empty() && run.data == "text")
    throw InvalidArgument(fmt::format("join '{}' with data 'text', of which all data ranks have equally many batches",
                                      run.gradients.join));
  if (has_hook(run.gradients) && run.settings.pipeline > 1)
    throw InvalidArgument(fmt::format("compression '{}' with parallel.pipeline = {}; it is of whole models alone",
                                      run.gradients.compression, run.settings.pipeline));
  if (!run.gradients.static_graph) return;
  if (run.settings.pipeline > 1)
    throw InvalidArgument(
        fmt::format("a static graph with parallel.pipeline = {}; gradients are reduced while back-propagation runs "
                    "without a pipeline alone",
                    run.settings.pipeline));
  for (const auto& actions : schedule_of(run.settings, run.schedule, run.settings.micro_batches).ranks)
    if (std::ranges::count(actions, schedules::ActionKind::weight_gradient, &schedules::Action::kind) > 0)
      throw InvalidArgument(fmt::format(
          "a static graph with schedule '{}', which computes weight gradients when back-propagation is over",
          run.schedule));
}

}  // namespace

schedules::Schedule schedule_of(const TrainerSettings& settings, const std::string& name, int micro_batches) {
  const schedules::Shape shape{
      .ranks = settings.pipeline, .micro_batches = micro_batches, .stages_per_rank = settings.chunks};
  if (!name.empty()) return schedule_named(name, shape);
  return schedules::without_idle(settings.chunks == 1 ? schedules::generate(schedules::ScheduleKind::one_f_one_b, shape)
                                                      : schedules::interleaved_as_colossalai(shape));
}

std::vector<int> PipelineRun::ranks_of_stages() const {
  return schedule_of(settings, schedule, settings.micro_batches).stage_to_rank;
}

void require_possible(const PipelineRun& run) {
  check_name("model", run.model, kPipelineModels);
  check_name("data", run.data, kPipelineData);
  if ((run.model == "gpt") != (run.data == "text"))
    throw InvalidArgument(
        fmt::format("model '{}' with data '{}'; gpt takes text, the others cifar10 or digits", run.model, run.data));
  if (run.data == "cifar10" && run.data_folder.empty())
    throw InvalidArgument("data 'cifar10' needs the folder of its files, data_batch_1.bin and so on");
  if (run.text_batches < 1) throw InvalidArgument(fmt::format("{} batches of text; at least 1", run.text_batches));
  if (run.resume && run.checkpoints.empty())
    throw InvalidArgument("a run resumes from its checkpoints: their folder must be given");
  if (run.model != "resnet50" && run.settings.resnet != ResidualSettings())
    throw InvalidArgument(fmt::format("[resnet] is of model 'resnet50'; '{}' has no such settings", run.model));
  require_possible(run.settings);
  if (run.model == "resnet50" && run.settings.resnet.classes < kClassesOfImages)
    throw InvalidArgument(fmt::format("resnet.num_classes = {}; it must be at least {}, the classes of the data",
                                      run.settings.resnet.classes, kClassesOfImages));
  check_schedule(run);
  check_gradients(run);
}

}  // namespace plumbline::training
