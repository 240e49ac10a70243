// harness/subject/pipeline_run_json.hpp: a pipeline training run, and what its epochs come to, on the way between
// driver and workers.
#pragma once

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

#include "harness/record/result.hpp"
#include "harness/trainer/pipeline_run.hpp"

namespace plumbline::training {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResidualSettings, block, layers, classes, zero_init_residual, groups,
                                   width_per_group, replace_stride_with_dilation, planes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainerSettings, batch_size, epochs, micro_batches, chunks, tensor_shape,
                                   learning_rate, warmup_epochs, seed, pipeline, tensor, tensor_mode, data,
                                   accumulation, fp16, resnet)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GradientSettings, bucket_bytes, compression, join, broadcast_buffers, static_graph)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PipelineRun, settings, model, data, data_folder, most_digits, text_batches, schedule,
                                   device, checkpoints, checkpoint_epochs, keep, resume, check, trace, gradients)

/// An update beside the single device's; numbers may be none.
inline void to_json(nlohmann::json& value, const Distance& one) {
  value = {{"tensor", one.tensor},
           {"difference", record::number_or_word(one.difference)},
           {"bound", record::number_or_word(one.bound)}};
}
inline void from_json(const nlohmann::json& value, Distance& one) {
  one = {value.at("tensor"), record::number_from(value.at("difference")), record::number_from(value.at("bound"))};
}
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(UpdateComparison::Finding, kind, text)
inline void to_json(nlohmann::json& value, const UpdateComparison& one) {
  value = {{"epoch", one.epoch},
           {"batch", one.batch},
           {"loss", record::number_or_word(one.loss)},
           {"gradient", one.gradient},
           {"after", one.after},
           {"gradients", one.gradients},
           {"equal_in_bits", one.equal_in_bits},
           {"findings", one.findings}};
}
inline void from_json(const nlohmann::json& value, UpdateComparison& one) {
  one = {.epoch = value.at("epoch"),
         .batch = value.at("batch"),
         .loss = record::number_from(value.at("loss")),
         .gradient = value.at("gradient"),
         .after = value.at("after"),
         .gradients = value.at("gradients"),
         .equal_in_bits = value.at("equal_in_bits"),
         .findings = value.at("findings")};
}

/// A rank's timeline: [kind, joined, stage, micro-batch, start, end] of each action.
inline void to_json(nlohmann::json& value, const RankTimeline& one) {
  value = nlohmann::json::array();
  for (std::size_t i = 0; i < one.actions.size(); ++i) {
    const schedules::Action& action = one.actions[i];
    value.push_back({static_cast<int>(action.kind), action.joined, action.stage, action.micro_batch,
                     one.periods[i].start, one.periods[i].end});
  }
}
inline void from_json(const nlohmann::json& value, RankTimeline& one) {
  for (const nlohmann::json& entry : value) {
    one.actions.push_back({.kind = static_cast<schedules::ActionKind>(entry.at(0).get<int>()),
                           .joined = entry.at(1).get<bool>(),
                           .stage = entry.at(2).get<int>(),
                           .micro_batch = entry.at(3).get<int>()});
    one.periods.push_back({.start = entry.at(4), .end = entry.at(5)});
  }
}

/// An epoch as a step of a record: the number of the last update, the mean training loss, and "epoch",
/// "training_accuracy", "learning_rate", "test_loss" and "test_accuracy"; of each rank "peak_bytes_rank<R>" and
/// "peak_activations_rank<R>", and the seconds of each phase, "seconds_<phase>".
inline record::Step step_of(const Position& at, const EpochResult& result) {
  record::Step step{.step = static_cast<int>(at.step - 1), .values = {{"epoch", result.epoch}}};
  const auto take = [&](const Metrics& metrics, const char* metric, const char* name) {
    if (const auto found = metrics.find(metric); found != metrics.end()) step.values[name] = found->second;
  };
  take(result.training, "Accuracy", "training_accuracy");
  take(result.training, "LR", "learning_rate");
  take(result.test, "Loss", "test_loss");
  take(result.test, "Accuracy", "test_accuracy");
  for (std::size_t rank = 0; rank < result.memory.size(); ++rank) {
    step.values["peak_bytes_rank" + std::to_string(rank)] = static_cast<double>(result.memory[rank].bytes);
    step.values["peak_activations_rank" + std::to_string(rank)] = result.memory[rank].activations;
  }
  for (const auto& [phase, time] : result.seconds) {
    std::string name = "seconds_" + phase;
    std::ranges::replace(name, ' ', '_');
    step.values[name] = time.total;
  }
  if (const auto loss = result.training.find("Loss"); loss != result.training.end()) step.loss = loss->second;
  return step;
}

}  // namespace plumbline::training
