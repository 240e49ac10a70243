#include "reference/training/run_settings.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"
#include "reference/training/pipeline/schedule_of.hpp"

namespace plumbline::training {

bool leaves_some_unused(const job::RunSpec& spec) {
  return std::ranges::any_of(spec.layers,
                             [](const job::Layer& layer) { return std::holds_alternative<job::Moe>(layer); });
}

Values given_weights(const job::RunSpec& spec) {
  const job::RunFiles files(spec);
  Values values;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    values[parameter.name] = files.weight(parameter.name);
  return values;
}

void refuse_impossible(const job::RunSpec& spec) {
  if (const auto problem = job::problem_of(spec)) throw InvalidArgument(problem->why);
  if (spec.parallel.pipeline > 1) (void)schedule_of(spec, spec.run.micro_batches);
}

void require_possible(const job::RunSpec& spec, const GradientSettings& gradients, const PrecisionSettings& precision) {
  const GradientSettings plain{.bucket_bytes = gradients.bucket_bytes};
  if (spec.averaging && (gradients != plain || precision != PrecisionSettings()))
    throw InvalidArgument(fmt::format(
        "averaging.algorithm = '{}' beside compression, a static graph, join, autocast or clipping; gradients are not "
        "reduced there, so it must be given none of them",
        spec.averaging->algorithm));
  if (spec.parallel.shard > 1 && (gradients != plain || precision != PrecisionSettings()))
    throw Unsupported(
        fmt::format("parallel.shard = {} beside compression, a static graph, join, autocast or clipping; shards are "
                    "reduced as they are",
                    spec.parallel.shard));
  if (gradients.static_graph && leaves_some_unused(spec))
    throw Unsupported("a static graph of a model with a layer of type moe, in which rows decide what is used");
  if (power_sgd_of(gradients))
    throw Unsupported(
        fmt::format("compression '{}' of a run by steps, whose every step is judged alone; training by names has it",
                    gradients.compression));
  if (!is_staged(spec, precision)) return;
  if (!gradients.static_graph && !has_hook(gradients)) return;
  const std::string why = spec.parallel.pipeline > 1    ? fmt::format("parallel.pipeline = {}", spec.parallel.pipeline)
                          : spec.parallel.tensor > 1    ? fmt::format("parallel.tensor = {}", spec.parallel.tensor)
                          : spec.parallel.expert > 1    ? fmt::format("parallel.expert = {}", spec.parallel.expert)
                          : spec.run.dtype != "float32" ? fmt::format("run.dtype = '{}'", spec.run.dtype)
                          : spec.scaler                 ? std::string("a loss scale")
                                                        : fmt::format("clip norm {}", precision.clip_norm);
  if (has_hook(gradients))
    throw Unsupported(
        fmt::format("compression '{}' with {}; gradients are quantised only of whole models in float32, "
                    "neither scaled nor clipped",
                    gradients.compression, why));
  throw Unsupported(fmt::format(
      "a static graph with {}; gradients are reduced while back-propagation runs only of whole models in float32, "
      "neither scaled nor clipped",
      why));
}

}  // namespace plumbline::training
