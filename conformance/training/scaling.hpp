// conformance/training/scaling.hpp: what a run with a loss scale records beside its gradients: who skipped, and the
// scales.
//
// Model   Stated here by itself, from the record alone: the scale of a step follows from the steps skipped before it; a
//         step is skipped where a gradient that some rank of the deciding group was about to use is not finite, and
//         nowhere else.
// Source  job door, What is judged; torch.amp.GradScaler's rule.
#pragma once

#include <vector>

#include "conformance/training/finding.hpp"
#include "reference/record/training_record.hpp"

namespace plumbline::conformance {

/// Which ranks skipped which steps.
class SkippedSteps {
 public:
  SkippedSteps(const job::RunSpec& spec, const job::TrainingRecord& record);
  /// False, too, where the record does not say.
  [[nodiscard]] bool at(int step, int rank) const {
    return skipped_[static_cast<std::size_t>(step)][static_cast<std::size_t>(rank)];
  }
  /// The steps before `end` are those of a run in which ranks were others: what any of them skipped, all have.
  void take(const SkippedSteps& earlier, int end);
  /// By any rank.
  [[nodiscard]] bool any(int step) const;

 private:
  std::vector<std::vector<bool>> skipped_;  // by step and rank
};

/// The findings of kSkipsTogether, kScale and kSkipLeaves. Nothing of a run without a scaler.
[[nodiscard]] std::vector<Finding> judge_scaling(const job::RunSpec& spec, const job::TrainingRecord& record,
                                                 const SkippedSteps& skipped);

/// The scale that a step must have, of a rank that skipped those steps.
[[nodiscard]] double expected_scale(const job::RunSpec& spec, const SkippedSteps& skipped, int step, int rank);

}  // namespace plumbline::conformance
