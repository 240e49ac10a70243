// conformance/training/averaging/averaging_judge.hpp: judges training whose ranks average parameters, step by step.
//
// Model   A pure function of a specification, the settings and what all ranks had in each step. Every step is judged
//         from the values that were recorded before it, so that errors do not pile up; carried along are the
//         optimizer's moments and the slow momentum alone, in float64. When something is due, what is mixed with what,
//         and slow momentum are written out here from the papers. Shared with the executor is the gradient of given
//         rows.
// Bounds  Of an average or a round over n ranks (n + 4) u of the largest value, u = 2^-24; of slow momentum 16 for each
//         slow step so far, of the largest term. Over a backend that adds in rank order gradients have the single
//         device's bits.
// Distance The nodes' values X, a row a node, keep X - mean = P (X - mean + D - mean of D) in a step whose own changes
// are D and
//         whose mixing is P. So the distance is at most the sum of the norms of all D's deviations, each times the norm
//         of the product of the mixing since, on what has mean 0: an average gives 0, nothing 1. Of doubly stochastic
//         P.
// Overlap Where gossip overlaps, the optimizer changes what a node kept before a forward and what came for it after
//         the backward `lag` steps later; both are judged from the values before those forwards. Then no distance is
//         known. What is under way at a checkpoint is in the values before the next step.
// Halves  Gossip of 16 bits is judged within their rounding, and what it changes a float32 master by, exactly: it is a
//         difference of numbers of 16 bits, whatever the halves lacked before.
// Source  Stich (ICLR 2019), Wang et al., SlowMo (ICLR 2020), Assran et al. (ICML 2019), Douillard et al., DiLoCo
//         (2023).
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/training/finding.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/averaging.hpp"

namespace plumbline::conformance {

/// The requirements of such training, as checks cite them.
namespace averaging_requirements {
inline constexpr std::string_view kRecord = "TRAIN-018@eaf6";
inline constexpr std::string_view kEstimate = "TRAIN-040@75cc";
inline constexpr std::string_view kGradient = "TRAIN-041@b0ef";
inline constexpr std::string_view kUpdate = "TRAIN-042@f6a9";
inline constexpr std::string_view kAverage = "TRAIN-043@fbec";
inline constexpr std::string_view kGossip = "TRAIN-044@2883";
inline constexpr std::string_view kSlowStep = "TRAIN-045@c2f2";
inline constexpr std::string_view kBuffers = "TRAIN-046@7403";
inline constexpr std::string_view kDistance = "TRAIN-047@ec94";
inline constexpr std::string_view kSynchronous = "TRAIN-048@077d";
inline constexpr std::string_view kMemory = "TRAIN-049@a55f";
inline constexpr std::string_view kEvaluation = "TRAIN-050@ed0c";
inline constexpr std::string_view kResumes = "TRAIN-051@e656";
inline constexpr std::string_view kHalves = "TRAIN-052@ac1d";
inline constexpr std::string_view kLearns = "TRAIN-053@976a";
inline constexpr std::string_view kOverlap = "TRAIN-110@4ae1";
inline constexpr std::string_view kSameRun = "TRAIN-111@9a93";
inline constexpr std::string_view kRates = "TRAIN-112@62bb";
inline constexpr std::string_view kFeedback = "TRAIN-200@315a";
inline constexpr std::string_view kDeviceMemory = "TRAIN-212@46aa";
inline constexpr std::string_view kCheckpoints = "TRAIN-201@354f";
}  // namespace averaging_requirements

/// What every rank had, [rank][step].
using AveragedRanks = std::vector<std::vector<training::AveragedStep>>;

struct AveragingSummary {
  double loss = 0;                       // mean over the ranks
  training::ConsensusDistance distance;  // of the estimates, after the step
  double distance_bound = 0;             // of the largest; 0 where none is known
};

struct AveragingJudgement {
  std::vector<Finding> findings;
  std::set<std::string> judged;  // ids of requirements by which something was compared
  std::vector<AveragingSummary> steps;
};

/// `rank_order`: the backend adds in rank order. `told` is called when a step has been judged.
[[nodiscard]] AveragingJudgement judge_averaging(const job::RunSpec& spec, const training::AveragingSettings& settings,
                                                 const AveragedRanks& ranks, training::Training& training,
                                                 bool rank_order, const std::function<void(int step)>& told);

/// Judges the record of a run with [averaging]: its form, and of its first steps all that are whole.
[[nodiscard]] AveragingJudgement judge_averaging_record(const job::RunSpec& spec, const job::TrainingRecord& record,
                                                        training::Training& training);

/// What every rank recorded of its first steps that are whole.
[[nodiscard]] AveragedRanks recorded_ranks(const job::RunSpec& spec, const job::TrainingRecord& record);
/// What every rank recorded of one step; nothing where a rank lacks something.
[[nodiscard]] std::optional<std::vector<training::AveragedStep>> recorded_step(const job::RunSpec& spec,
                                                                               const job::TrainingRecord& record,
                                                                               int step);

/// Where a run with plain SGD that must take the steps of data-parallel SGD takes others, by kSynchronous.
[[nodiscard]] std::vector<Finding> findings_beside_data_parallel(const job::RunSpec& spec, const AveragedRanks& ranks,
                                                                 training::Training& training);

/// The share of held-out digits that the mean of the ranks' estimates classifies, and what a single device that takes
/// all rows of each batch reaches.
struct AveragedAccuracy {
  double mean = 0, single_device = 0;
};
inline constexpr double kAccuracyMargin = 0.02;  // by which the first may be below the second
[[nodiscard]] AveragedAccuracy accuracy_of(const job::RunSpec& spec, const AveragedRanks& ranks,
                                           training::Training& training);

/// Numerators divided by their weight.
[[nodiscard]] std::vector<float> estimate_of(const training::AveragedStep& step);
/// Values by parameter, of all one after the other.
[[nodiscard]] training::Values values_by_parameter(const job::RunSpec& spec, const std::vector<float>& flat);

}  // namespace plumbline::conformance
