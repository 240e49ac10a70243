// The record of a job whose ranks average parameters, as the judge takes what ranks had.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/training/averaging/averaging_judge.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/record/layout.hpp"

namespace plumbline::conformance {

using job::Moment;
using training::AveragedStep;
namespace ids = averaging_requirements;

namespace {

constexpr std::pair<Moment, std::vector<float> AveragedStep::*> kRecorded[] = {
    {Moment::before, &AveragedStep::before},
    {Moment::seen, &AveragedStep::seen},
    {Moment::grad, &AveragedStep::gradient},
    {Moment::updated, &AveragedStep::updated},
    {Moment::after, &AveragedStep::after}};

std::string_view rule_of(const job::Averaging& averaging) {
  if (averaging.algorithm == "sgp") return ids::kGossip;
  return averaging.has_outer_step() ? ids::kSlowStep : ids::kAverage;
}

// Whether only runs that average have this tensor.
bool is_of_averaging(const std::string& tensor) {
  return tensor.ends_with("/weight") || tensor.find("/updated/") != std::string::npos ||
         tensor.find("/seen/") != std::string::npos;
}

Finding finding_by(std::string_view citation, int step, int rank, std::string tensor, std::string what) {
  return {.requirement = std::string(suite::id_of_citation(citation)),
          .step = step,
          .rank = rank,
          .parameter = std::move(tensor),
          .what = std::move(what)};
}

}  // namespace

std::optional<std::vector<AveragedStep>> recorded_step(const job::RunSpec& spec, const job::TrainingRecord& record,
                                                       int step) {
  std::vector<AveragedStep> ranks(static_cast<std::size_t>(spec.parallel.world()));
  for (const auto& [moment, list] : kRecorded) {
    if (!job::needs_moment(spec, moment)) continue;
    for (const job::Parameter& parameter : job::parameters_of(spec)) {
      const std::vector<job::Copy> copies = record.copies(step, moment, parameter);
      if (copies.size() != ranks.size()) return std::nullopt;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank)
        (ranks[rank].*list).insert((ranks[rank].*list).end(), copies[rank].values.begin(), copies[rank].values.end());
    }
  }
  const std::vector<job::RankNumber> losses = record.losses(step), weights = record.weights(step);
  const bool has_weights = job::has_push_sum(spec);
  if (losses.size() != ranks.size() || (has_weights && weights.size() != ranks.size())) return std::nullopt;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].loss = static_cast<double>(losses[rank].value);
    if (has_weights) ranks[rank].weight = static_cast<double>(weights[rank].value);
    if (!has_weights) ranks[rank].seen = ranks[rank].before;  // the forward pass has the parameters themselves
  }
  return ranks;
}

AveragedRanks recorded_ranks(const job::RunSpec& spec, const job::TrainingRecord& record) {
  AveragedRanks ranks(static_cast<std::size_t>(spec.parallel.world()));
  for (int step = 0; step < spec.run.steps; ++step) {
    auto all = recorded_step(spec, record, step);
    if (!all) break;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (step > 0) (*all)[rank].weight_before = ranks[rank].back().weight;
      ranks[rank].push_back(std::move((*all)[rank]));
    }
  }
  return ranks;
}

AveragingJudgement judge_averaging_record(const job::RunSpec& spec, const job::TrainingRecord& record,
                                          training::Training& training) {
  const AveragedRanks ranks = recorded_ranks(spec, record);
  const auto steps = static_cast<int>(ranks.front().size());
  AveragingJudgement judgement;
  if (steps > 0)
    judgement =
        judge_averaging(spec, training::settings_of(spec.averaging.value()), ranks, training, false, [](int) {});
  for (const std::string_view citation : {training_requirements::kCoverage, ids::kRecord})
    judgement.judged.emplace(suite::id_of_citation(citation));
  for (const job::RecordFinding& one : record.findings()) {
    const bool is_own = is_of_averaging(one.tensor);
    judgement.findings.push_back(
        finding_by(is_own ? ids::kRecord : training_requirements::kCoverage, one.step, one.rank, one.tensor, one.what));
  }
  if (steps == spec.run.steps) return judgement;
  std::vector<std::string_view> not_judged{ids::kEstimate, ids::kGradient, ids::kUpdate, rule_of(*spec.averaging)};
  // A file that cannot be read has nothing between optimizer and average, either.
  if (std::ranges::count(record.findings(), "", &job::RecordFinding::tensor) > 0) not_judged.push_back(ids::kRecord);
  for (const std::string_view citation : not_judged)
    judgement.findings.push_back(
        finding_by(citation, steps, -1, "", "not judged from this step on: its record is not whole"));
  return judgement;
}

}  // namespace plumbline::conformance
