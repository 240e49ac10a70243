#include "reference/training/steps.hpp"

#include <numeric>
#include <string>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/record/run_files.hpp"
#include "reference/training/pipeline/schedule_of.hpp"

namespace plumbline::training {

Values given_weights(const job::RunSpec& spec, int) {
  const job::RunFiles files(spec);
  Values values;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    values[parameter.name] = files.weight(parameter.name);
  return values;
}

double micro_batches_of_a_step(const job::RunSpec& spec) {
  return static_cast<double>(spec.run.micro_batches) * spec.run.accumulation;
}

void average(const job::RunSpec&, comm::Communicator& group, const Bucket& bucket) {
  const comm::Buffer buffer{bucket.values.data(), static_cast<std::int64_t>(bucket.values.size()), comm::DType::f32};
  group.all_reduce(buffer, buffer, comm::ReduceOp::avg);
}

void refuse_impossible(const job::RunSpec& spec) {
  if (const auto problem = job::problem_of(spec)) throw InvalidArgument(problem->why);
  if (spec.parallel.pipeline > 1) (void)schedule_of(spec, spec.run.micro_batches);
}

void require_possible(const job::RunSpec& spec, const GradientSettings& gradients, const PrecisionSettings& precision) {
  if (power_sgd_of(gradients))
    throw Unsupported(
        fmt::format("compression '{}' of a run by steps, whose every step is judged alone; training by names has it",
                    gradients.compression));
  if (!is_staged(spec, precision)) return;
  if (!gradients.static_graph && !has_hook(gradients)) return;
  const std::string why = spec.parallel.pipeline > 1    ? fmt::format("parallel.pipeline = {}", spec.parallel.pipeline)
                          : spec.parallel.tensor > 1    ? fmt::format("parallel.tensor = {}", spec.parallel.tensor)
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

job::Optimizer given_optimizer(const job::RunSpec& spec, int) { return spec.optimizer; }

void add_to_record(job::RecordWriter& record, int step, job::Moment moment, const job::Parameter& parameter,
                   std::span<const float> values) {
  record.add(step, moment, parameter, values);
}

double mean_loss(std::span<const double> micro_batches) {
  return std::accumulate(micro_batches.begin(), micro_batches.end(), 0.0) / static_cast<double>(micro_batches.size());
}

}  // namespace plumbline::training
