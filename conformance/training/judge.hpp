// conformance/training/judge.hpp: judges a training record, requirement by requirement.
//
// Model   A pure function of a specification, the records of all ranks, and a device to compute the same
//         training on without distribution. Each step is judged from its own recorded `before`, so that
//         errors do not pile up; only the optimizer's moments are carried from step to step, in float64.
//         States each property by itself, the cut of a batch into slices included. Shared with the executor
//         are the gradient of given rows, from the model on, and the reading of the specification's files.
// Bounds  The reference's executor is held to the bound of its one reduction, and to the bits over a backend
//         that adds in rank order; a pipeline that adds in another order than a single device, as others are.
//         Any other program is held, tensor by tensor, to a float64 baseline:
//         max|g - g64| <= max(8 d, 64 u max|gradient of a slice|), d the distance of a plain float32 baseline
//         from float64, or in 16 bits of a plain one in that type if it is farther off, u the unit round-off of the
//         compute dtype; loss alike. Gradients that travel compressed may be off
//         by those roundings besides, place by place.
// Scaled  Of a run with a scaler gradients are as if losses had not been multiplied; a skipped step's may be anything
//         where they are not finite, and is no step of the optimizer (scaling.hpp has what else is asked). In 16 bits,
//         and over tensor ranks, the reference's executor is held as others are; to the bits where it computes with
//         rounded parameters on whole layers, over a backend that adds in rank order.
// Errors  What a record lacks is a finding of the
//         coverage, and of each requirement that could not be judged for it: of a rank, its first gap.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/training/compare.hpp"
#include "conformance/training/finding.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/gradient_settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

/// How the reference's executor reduced its gradients.
struct Reduction {
  comm::DType accumulator = comm::DType::f32;
  bool rank_order = false;  // the backend adds in rank order
};

/// The run that saved the checkpoint from which another one continues.
struct EarlierRun {
  const job::RunSpec* spec = nullptr;
  const job::TrainingRecord* record = nullptr;
};

struct JudgeOptions {
  /// Of the reference's executor; nothing: another program.
  std::optional<Reduction> reduction;
  std::string device = "cpu";  // where the baseline is computed
  /// As what 16-bit numbers the gradients of data ranks travelled; nothing: as they are.
  std::optional<comm::DType> wire{};  // u8: quantised
  training::PrecisionSettings precision{};
  /// Hears how many of the parts of a judgement are done: of a long run it takes minutes.
  std::function<void(int done, int parts)> progress = [](int, int) {};
  /// Of a run that begins after step 0, which is judged as that one's continuation.
  std::optional<EarlierRun> earlier{};
};

struct StepSummary {
  int step = 0;
  double loss = 0;                // mean over the data ranks, as recorded
  Largest gradient;               // against the single device
  Largest update;                 // against the optimizer's rule
  std::optional<double> scale{};  // that rank 0 recorded, of a run with a scaler
  bool skipped = false;           // by any rank
};

struct Judgement {
  std::vector<Finding> findings;
  /// The requirements with a verdict: by which something was compared, or could not be for a gap in the record.
  std::set<std::string> judged;
  std::vector<StepSummary> steps;
};

[[nodiscard]] Judgement judge(const job::RunSpec& spec, const job::TrainingRecord& record, training::Training& training,
                              const JudgeOptions& options);

/// Whether the ranks of the reference's executor add gradients in a single device's order before the reduction over
/// data ranks. Not over tensor ranks, in a pipeline whose stages back-propagate micro-batches in another order than
/// their own (looped-bfs), nor where it uses a parameter on several stages, each of which adds for itself.
[[nodiscard]] bool adds_as_a_single_device(const job::RunSpec& spec);

/// Where two records of the same specification differ in any value or loss, as findings of that requirement.
[[nodiscard]] std::vector<Finding> compare_runs(const job::RunSpec& spec, const job::TrainingRecord& first,
                                                const job::TrainingRecord& second,
                                                std::string_view requirement = training_requirements::kSameBits);

/// All parameters at one moment, as the lowest rank that holds each recorded them; nothing where one is
/// missing.
[[nodiscard]] std::optional<training::Values> values_of(const job::RunSpec& spec, const job::TrainingRecord& record,
                                                        int step, job::Moment moment);

}  // namespace plumbline::conformance
