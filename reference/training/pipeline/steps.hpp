// reference/training/pipeline/steps.hpp: what decides the numbers of a pipeline beside its layers, as functions. Free of
// LibTorch.
//
// Model   The engine calls these. A value made without arguments has the right ones; a program with another one in place of
//         one of them is wrong in one known way, which is how the checks are tested.
// Threads A value serves one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/bucketing/reducer_steps.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/metadata.hpp"

namespace plumbline::training {

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
  /// Of what stages tell each other of their outputs.
  schedules::DescriptionSteps descriptions;
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
  /// Of the schedule's executor.
  schedules::PipelineSteps executor;
};

}  // namespace plumbline::training
