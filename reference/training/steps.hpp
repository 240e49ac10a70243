// reference/training/steps.hpp: what decides the numbers of a run beside back-propagation, as functions. Free of LibTorch.
//
// Model   Training::run() calls these at each step. A value made without arguments has the right ones; a program with
//         another one in place of one of them is wrong in one known way, which is how the judge is tested.
// Threads A value serves one rank.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "reference/bucketing/reducer_steps.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/training_record.hpp"
#include "reference/scaler/fp16_optimizer.hpp"
#include "reference/training/gradient_settings.hpp"
#include "reference/training/pipeline/steps.hpp"
#include "reference/training/precision_settings.hpp"
#include "reference/training/tensor/steps.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

/// A parameter's gradient in the bucket, row-major.
struct BucketPart {
  job::Parameter parameter;
  std::span<float> values;
  bool copied = false;  // the gradient lies in memory in another order than row-major: the bucket has it rearranged
};

/// All gradients of a step: one buffer, and its parts in the order of job::parameters_of().
struct Bucket {
  std::span<float> values;
  std::vector<BucketPart> parts;
};

/// The values of the run's file of weights.
[[nodiscard]] Values given_weights(const job::RunSpec& spec, int rank);
/// The number of micro-batches of a step: the gradient is the mean of theirs.
[[nodiscard]] double micro_batches_of_a_step(const job::RunSpec& spec);
/// Averages over the group, in place.
void average(const job::RunSpec& spec, comm::Communicator& group, const Bucket& bucket);
/// The run's own settings.
[[nodiscard]] job::Optimizer given_optimizer(const job::RunSpec& spec, int rank);
/// Adds the values to the record.
void add_to_record(job::RecordWriter& record, int step, job::Moment moment, const job::Parameter& parameter,
                   std::span<const float> values);
/// The mean.
[[nodiscard]] double mean_loss(std::span<const double> micro_batches);

/// Throws InvalidArgument for a specification that is impossible to run, rows that would be left over and schedules that
/// its pipeline does not have included.
void refuse_impossible(const job::RunSpec& spec);

/// Throws Unsupported for settings of gradients that runs of this kind do not have: a static graph, where the engine of
/// pipelines reduces gradients when back-propagation is over.
void require_possible(const job::RunSpec& spec, const GradientSettings& gradients, const PrecisionSettings& precision);

struct ExecutorSteps {
  /// Looks at the specification before anything is done.
  std::function<void(const job::RunSpec& spec)> accept = refuse_impossible;
  /// The rows on which a data rank computes in a step: a micro-batch each.
  std::function<std::vector<job::RowRange>(const job::RunSpec& spec, int step, int rank)> rows = job::micro_batches_of;
  /// The values from which a rank starts.
  std::function<Values(const job::RunSpec& spec, int rank)> weights = given_weights;
  /// What the loss of a micro-batch is divided by before its gradient is added to the others', without a pipeline.
  std::function<double(const job::RunSpec& spec)> divisor = micro_batches_of_a_step;
  /// Makes of the rank's own gradients, all in one bucket, those that it uses, in place. Collective over the group. Empty:
  /// they are averaged in buckets of run.bucket_bytes; without a pipeline while back-propagation runs.
  std::function<void(const job::RunSpec& spec, comm::Communicator& group, const Bucket& bucket)> reduce = {};
  /// Of those buckets.
  bucketing::ReducerSteps reducer;
  /// Of gradients that travel as products.
  bucketing::PowerSgdSteps power_sgd;
  /// How they travel: of a specification's run the compression, and without a pipeline whether the graph is static.
  GradientSettings gradients;
  /// The rule by which a rank changes its values.
  std::function<job::Optimizer(const job::RunSpec& spec, int rank)> optimizer = given_optimizer;
  /// Notes a parameter's values at a moment.
  std::function<void(job::RecordWriter& record, int step, job::Moment moment, const job::Parameter& parameter,
                     std::span<const float> values)>
      note = add_to_record;
  /// The loss to note, of the losses of a rank's micro-batches, in their order.
  std::function<double(std::span<const double> micro_batches)> loss = mean_loss;
  /// Of a pipeline.
  PipelineTrainingSteps pipeline;
  /// Of layers that are cut over tensor ranks.
  TensorSteps tensor;
  /// In which way a run in 16 bits is made, and by what gradients are clipped.
  PrecisionSettings precision;
};

}  // namespace plumbline::training
