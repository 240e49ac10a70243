// reference/training/steps.hpp: what decides the numbers of a run beside back-propagation, as functions. Free of
// LibTorch.
//
// Model   Training::run() calls these at each step. A value made without arguments has the right ones; a program with
//         another one in place of one of them is wrong in one known way, which is how the judge is tested.
// Threads A value serves one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/bucketing/reducer.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/training_record.hpp"
#include "reference/scaler/fp16_optimizer.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/training/gradient_settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

// ---- What decides the numbers of a pipeline beside its layers, as functions. Free of
// LibTorch.
//
// Model   The engine calls these. A value made without arguments has the right ones; a program with another one in
//         place of one of them is wrong in one known way, which is how the checks are tested.
// Threads A value serves one rank.

/// The gradients that the parameters of a rank's stages have so far, in any order in memory; one that has none is left
/// out. Throws Unsupported for gradients that are not float32 on the host.
using GradientViews = std::function<std::vector<std::span<float>>()>;

/// Of a call of the engine.
struct CallSize {
  int micro_batches = 1;
  int calls = 1;  // whose gradients make a step
};

/// The number of micro-batches of a step: its gradient is the mean of theirs.
[[nodiscard]] double micro_batches_of_all_calls(const CallSize& size);
/// The first, then the second.
void reduce_then_update(const std::function<void()>& reduce_shared, const std::function<void()>& update);

struct PipelineTrainingSteps {
  /// What the last stage divides the loss of a micro-batch by.
  std::function<double(const CallSize& size)> divisor = micro_batches_of_all_calls;
  /// What is done with the gradients of a stage's outputs, one a tensor, when they have come.
  std::function<void(int stage, const GradientViews& of_outputs, const CallSize& size)> output_gradients =
      [](int, const GradientViews&, const CallSize&) {};
  /// The part of the batch that a micro-batch is.
  std::function<int(int micro_batch, const CallSize& size)> part = [](int micro_batch, const CallSize&) {
    return micro_batch;
  };
  /// The stage whose layers are run for a stage; `of_rank` are the rank's.
  std::function<int(int stage, std::span<const int> of_rank)> layers = [](int stage, std::span<const int>) {
    return stage;
  };
  /// Whether a pass is one of training to the layers, given whether the call only evaluates.
  std::function<bool(bool forward_only)> trains = [](bool forward_only) { return !forward_only; };
  /// Computes weight gradients that were left behind; may be called again.
  std::function<void(const std::function<void()>& compute, const GradientViews& gradients, const CallSize& size)>
      weight_half = [](const std::function<void()>& compute, const GradientViews&, const CallSize&) { compute(); };
  /// Whether a weight that is used twice between two weight halves gets the gradient of both uses; else of the last.
  std::function<bool()> adds_uses = [] { return true; };
  /// What is done with the gradients when a stage has all of a micro-batch.
  std::function<void(const GradientViews& gradients, int micro_batch, const CallSize& size)> after_backward =
      [](const GradientViews&, int, const CallSize&) {};
  /// Whether what was kept for a backward pass that is over is given up.
  std::function<bool(int stage, int micro_batch)> gives_up = [](int, int) { return true; };
  /// Whether stages tell each other their shapes, given whether these have changed.
  std::function<bool(bool changed)> tells_shapes = [](bool changed) { return changed; };
  /// Whether they do so for each micro-batch, given whether these differ.
  std::function<bool(bool differ)> tells_each = [](bool differ) { return differ; };
  /// What else is done when shapes have changed.
  std::function<void(const GradientViews& gradients)> shapes_changed = [](const GradientViews&) {};
  /// What is done with the gradients when a call begins.
  std::function<void(const GradientViews& gradients, bool forward_only)> begin_of_call = [](const GradientViews&,
                                                                                            bool) {};
  /// What is done with the gradients when a call that trains ends.
  std::function<void(const GradientViews& gradients, const CallSize& size)> end_of_call = [](const GradientViews&,
                                                                                             const CallSize&) {};
  /// What is done after each of the calls of a step.
  std::function<void(const std::function<void()>& reduce_shared, int call, int calls)> after_call =
      [](const std::function<void()>&, int, int) {};
  /// Of the reducer that sums the gradients of shared parameters over the ranks that hold them.
  bucketing::ReducerSteps shared;
  /// Ends a step.
  std::function<void(const std::function<void()>& reduce_shared, const std::function<void()>& update)> finish =
      reduce_then_update;
};

// ---- What decides the numbers of layers that are cut over tensor ranks, as functions. Free of
// LibTorch.
//
// Model   The layers call these. A value made without arguments has the right ones; a program with another one in place
//         of one of them is wrong in one known way, which is how the checks are tested.

/// Adds up over the group, in place.
void sum_over(comm::Communicator& group, const comm::Buffer& values);

struct TensorSteps {
  /// Of the products of row-parallel layers, forward.
  std::function<void(comm::Communicator& group, const comm::Buffer& products)> sum_outputs = sum_over;
  /// Of the input's gradient of column-parallel layers, backward.
  std::function<void(comm::Communicator& group, const comm::Buffer& gradient)> sum_input_gradients = sum_over;
  /// Whether a row-parallel layer adds its bias to what is added up; else once, to the sum.
  bool adds_bias_on_every_rank = false;
};

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

/// Throws InvalidArgument for a specification that is impossible to run, rows that would be left over and schedules
/// that its pipeline does not have included.
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
  /// Makes of the rank's own gradients, all in one bucket, those that it uses, in place. Collective over the group.
  /// Empty: they are averaged in buckets of run.bucket_bytes; without a pipeline while back-propagation runs.
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
  /// (optional) Around the computations of a pipeline.
  schedules::AroundComputation around = {};
};

}  // namespace plumbline::training
