// harness/subject/pipeline_run_json.hpp: a pipeline training run, and what its epochs come to, on the way between driver and
// workers.
#pragma once

#include <nlohmann/json.hpp>

#include "harness/record/result.hpp"
#include "reference/training/trainer/pipeline_run.hpp"

namespace plumbline::training {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerSettings, batch_size, epochs, micro_batches, chunks, tensor_shape,
                                   learning_rate, warmup_epochs, seed, pipeline, tensor, tensor_mode, data)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PipelineRun, settings, model, data, data_folder, most_digits, text_batches, schedule,
                                   device, checkpoints, checkpoint_epochs, keep, resume)

/// An epoch as a step of a record: the number of the last update, the mean training loss, and "epoch",
/// "training_accuracy", "learning_rate", "test_loss" and "test_accuracy".
inline record::Step step_of(const Position& at, const EpochResult& result) {
  record::Step step{.step = static_cast<int>(at.step - 1), .values = {{"epoch", result.epoch}}};
  const auto take = [&](const Metrics& metrics, const char* metric, const char* name) {
    if (const auto found = metrics.find(metric); found != metrics.end()) step.values[name] = found->second;
  };
  take(result.training, "Accuracy", "training_accuracy");
  take(result.training, "LR", "learning_rate");
  take(result.test, "Loss", "test_loss");
  take(result.test, "Accuracy", "test_accuracy");
  if (const auto loss = result.training.find("Loss"); loss != result.training.end()) step.loss = loss->second;
  return step;
}

}  // namespace plumbline::training
