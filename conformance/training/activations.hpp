// conformance/training/activations.hpp: recorded outputs of layers, and their gradients, against a single device.
//
// Model   In each direction a layer's value depends on those before it alone. The first one that is wrong, in the order
//         of forward passes and then of backward ones, is where a rank went wrong.
// Bounds  As of gradients: max(8 d, 64 u max|value|), d being the distance of a plain run in float32, or in the run's
//         type, from float64. A relu passes on a gradient or not by the sign of its input: in rows where rounding can
//         change that, gradients of what stands before the relu are not judged.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conformance/training/finding.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

/// What is known of a step beside the record of activations.
struct StepOfActivations {
  int step = 0;
  std::vector<std::optional<training::Values>> before;  // by data rank: the values that it started from, if recorded
  std::optional<double> scale = {};                     // of a run that is not in float32: the loss scale
  bool skipped = false;                                 // gradients may be anything
};

class ActivationJudge {
 public:
  /// All must outlive it.
  ActivationJudge(const job::RunSpec& spec, const job::TrainingRecord& record, training::Training& training,
                  std::string device);

  /// What is wrong in a step, the first wrong place first. Steps come in their order.
  [[nodiscard]] std::vector<Finding> wrong_in(const StepOfActivations& step);

 private:
  class Step;

  const job::RunSpec& spec_;
  const job::TrainingRecord& record_;
  training::Training& training_;
  std::string device_;
  std::vector<training::SliceActivations> of_step_before_;  // by data rank
};

}  // namespace plumbline::conformance
