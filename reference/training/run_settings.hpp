// reference/training/run_settings.hpp: the settings of a run by steps beside its specification, and their limits.
// Free of LibTorch.
//
// Threads Plain values.
#pragma once

#include "reference/record/run_spec.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/training/gradient_settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

struct RunSettings {
  /// How gradients travel: of a specification's run the compression, and without a pipeline whether the graph is
  /// static.
  GradientSettings gradients = {};
  /// In which way a run in 16 bits is made, and by what gradients are clipped.
  PrecisionSettings precision = {};
  /// (optional) Around the computations of a pipeline: benchmarks take the time of each one by it.
  schedules::AroundComputation around = {};
};

/// Throws InvalidArgument for a specification that is impossible to run, rows that would be left over and schedules
/// that its pipeline does not have included.
void refuse_impossible(const job::RunSpec& spec);

/// Throws Unsupported for settings of gradients that runs of this kind do not have: a static graph, where the engine of
/// pipelines reduces gradients when back-propagation is over, or where rows decide which parameters are used.
void require_possible(const job::RunSpec& spec, const GradientSettings& gradients, const PrecisionSettings& precision);

/// Whether rows decide which parameters they use: experts that no token chooses are unused.
[[nodiscard]] bool leaves_some_unused(const job::RunSpec& spec);

/// The values of the run's file of weights, from which every rank starts.
[[nodiscard]] Values given_weights(const job::RunSpec& spec);

}  // namespace plumbline::training
