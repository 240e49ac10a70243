// What makes a run impossible, before LibTorch is needed.
#include <algorithm>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/training/pipeline/schedule_of.hpp"
#include "reference/training/trainer/pipeline_run.hpp"

namespace plumbline::training {
namespace {

void check_name(const char* what, const std::string& name, std::span<const std::string_view> known) {
  if (std::ranges::find(known, name) == known.end())
    throw InvalidArgument(fmt::format("{} '{}'; it must be {}", what, name, fmt::join(known, ", ")));
}

void check_schedule(const PipelineRun& run) {
  if (run.schedule.empty()) return;
  check_name("schedule", run.schedule, kPipelineSchedules);
  const TrainerSettings& settings = run.settings;
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

}  // namespace

void require_possible(const PipelineRun& run) {
  check_name("model", run.model, kPipelineModels);
  check_name("data", run.data, kPipelineData);
  if ((run.model == "transformer") != (run.data == "text"))
    throw InvalidArgument(fmt::format(
        "model '{}' with data '{}'; the transformer takes text, the others cifar10 or digits", run.model, run.data));
  if (run.data == "cifar10" && run.data_folder.empty())
    throw InvalidArgument("data 'cifar10' needs the folder of its files, data_batch_1.bin and so on");
  if (run.text_batches < 1) throw InvalidArgument(fmt::format("{} batches of text; at least 1", run.text_batches));
  if (run.resume && run.checkpoints.empty())
    throw InvalidArgument("a run resumes from its checkpoints: their folder must be given");
  require_possible(run.settings);
  check_schedule(run);
}

}  // namespace plumbline::training
