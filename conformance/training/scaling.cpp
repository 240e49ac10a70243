#include "conformance/training/scaling.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "conformance/training/compare.hpp"
#include "harness/suite/requirement.hpp"

namespace plumbline::conformance {

using job::Moment;

namespace {

Finding found(std::string_view citation, int step, int rank, std::string parameter, std::string what) {
  return {.requirement = std::string(suite::id_of_citation(citation)),
          .step = step,
          .rank = rank,
          .parameter = std::move(parameter),
          .what = std::move(what)};
}

// A gradient that is not finite, of any parameter that the rank has a part of: its name, or nothing. Parts are joined
// in the record, so that a tensor group has it together.
struct NonFinite {
  std::vector<std::string> by_rank;
  NonFinite(const job::RunSpec& spec, const job::TrainingRecord& record, int step)
      : by_rank(static_cast<std::size_t>(spec.parallel.world())) {
    for (const job::Parameter& parameter : job::parameters_of(spec))
      for (const job::Copy& copy : record.copies(step, Moment::grad, parameter))
        if (!std::ranges::all_of(copy.values, [](float value) { return std::isfinite(value); }))
          for (const int rank : copy.ranks) by_rank[static_cast<std::size_t>(rank)] = parameter.name;
  }
};

// The ranks of a replica.
std::vector<int> model_group(const job::Parallel& parallel, int data) {
  std::vector<int> ranks;
  for (int pipeline = 0; pipeline < parallel.pipeline; ++pipeline)
    for (int tensor = 0; tensor < parallel.tensor; ++tensor)
      ranks.push_back(job::rank_of(parallel, {pipeline, data, tensor}));
  return ranks;
}

void skips_of_group(const job::RunSpec& spec, const SkippedSteps& skipped, const NonFinite& non_finite, int step,
                    int data, std::vector<Finding>& findings) {
  const std::vector<int> ranks = model_group(spec.parallel, data);
  const auto has_cause = [&](int rank) { return !non_finite.by_rank[static_cast<std::size_t>(rank)].empty(); };
  const auto cause = std::ranges::find_if(ranks, has_cause);
  for (const int rank : ranks) {
    if (cause != ranks.end() && !skipped.at(step, rank))
      findings.push_back(found(scaling_requirements::kSkipsTogether, step, rank,
                               non_finite.by_rank[static_cast<std::size_t>(*cause)],
                               fmt::format("the step was made, although a gradient of rank {} is not finite", *cause)));
    // What another replica found may be asked, too.
    const bool anywhere =
        std::ranges::any_of(non_finite.by_rank, [](const std::string& name) { return !name.empty(); });
    if (!anywhere && skipped.at(step, rank))
      findings.push_back(found(scaling_requirements::kSkipsTogether, step, rank, "",
                               "the step was skipped, although every gradient is finite"));
  }
}

// What was written in must have been met: by all ranks where it was there before the reductions.
void skips_of_injections(const job::RunSpec& spec, const SkippedSteps& skipped, std::vector<Finding>& findings) {
  for (const job::Injection& one : spec.injections) {
    if (std::isfinite(one.value)) continue;
    const int data = job::coordinates_of(spec.parallel, one.rank).data;
    for (int rank = 0; rank < spec.parallel.world(); ++rank) {
      if (one.reduced && job::coordinates_of(spec.parallel, rank).data != data) continue;
      if (skipped.at(one.step, rank)) continue;
      findings.push_back(found(
          scaling_requirements::kSkipsTogether, one.step, rank, one.parameter,
          fmt::format("the step was made, although {} was written into a gradient of rank {}", one.value, one.rank)));
    }
  }
}

void scales(const job::RunSpec& spec, const job::TrainingRecord& record, const SkippedSteps& skipped, int step,
            std::vector<Finding>& findings) {
  for (const job::RankNumber& one : record.scales(step)) {
    const auto expected = static_cast<float>(expected_scale(spec, skipped, step, one.rank));
    compare_bits(std::span(&one.value, 1), std::span(&expected, 1),
                 found(scaling_requirements::kScale, step, one.rank, "scale", "the scale is not the rule's"), findings);
  }
}

// Replicas that the parameter lies on have findings of their own where they part.
void left_alone(const job::RunSpec& spec, const job::TrainingRecord& record, const SkippedSteps& skipped, int step,
                std::vector<Finding>& findings) {
  for (const job::Parameter& parameter : job::parameters_of(spec)) {
    const std::vector<job::Copy> before = record.copies(step, Moment::before, parameter);
    for (const job::Copy& after : record.copies(step, Moment::after, parameter)) {
      const auto start = std::ranges::find(before, after.rank, &job::Copy::rank);
      if (start == before.end() || !skipped.at(step, after.rank)) continue;
      compare_bits(after.values, start->values,
                   found(scaling_requirements::kSkipLeaves, step, after.rank, parameter.name,
                         "a skipped step has changed the value"),
                   findings);
    }
  }
}

}  // namespace

SkippedSteps::SkippedSteps(const job::RunSpec& spec, const job::TrainingRecord& record)
    : skipped_(static_cast<std::size_t>(spec.run.steps),
               std::vector<bool>(static_cast<std::size_t>(spec.parallel.world()))) {
  if (!spec.scaler) return;
  for (int step = spec.first_step(); step < spec.end_step(); ++step)
    for (const job::RankNumber& one : record.skipped(step))
      skipped_[static_cast<std::size_t>(step)][static_cast<std::size_t>(one.rank)] = one.value != 0;
}

void SkippedSteps::take(const SkippedSteps& earlier, int end) {
  for (int step = 0; step < end; ++step) {
    std::vector<bool>& ranks = skipped_[static_cast<std::size_t>(step)];
    ranks.assign(ranks.size(), earlier.any(step));
  }
}

bool SkippedSteps::any(int step) const {
  const std::vector<bool>& ranks = skipped_[static_cast<std::size_t>(step)];
  return std::ranges::find(ranks, true) != ranks.end();
}

double expected_scale(const job::RunSpec& spec, const SkippedSteps& skipped, int step, int rank) {
  if (!spec.scaler) return 1;
  auto scale = static_cast<float>(spec.scaler->init_scale);
  if (!spec.scaler->dynamic) return static_cast<double>(scale);
  int clean = 0;  // in a row
  for (int earlier = 0; earlier < step; ++earlier) {
    if (skipped.at(earlier, rank)) {
      scale = static_cast<float>(static_cast<double>(scale) * spec.scaler->backoff_factor);
      clean = 0;
    } else if (++clean == spec.scaler->growth_interval) {
      const auto grown = static_cast<float>(static_cast<double>(scale) * spec.scaler->growth_factor);
      if (std::isfinite(grown)) scale = grown;
      clean = 0;
    }
  }
  return static_cast<double>(scale);
}

std::vector<Finding> judge_scaling(const job::RunSpec& spec, const job::TrainingRecord& record,
                                   const SkippedSteps& skipped) {
  std::vector<Finding> findings;
  if (!spec.scaler) return findings;
  skips_of_injections(spec, skipped, findings);
  for (int step = spec.first_step(); step < spec.end_step(); ++step) {
    const NonFinite non_finite(spec, record, step);
    for (int data = 0; data < spec.parallel.data; ++data)
      skips_of_group(spec, skipped, non_finite, step, data, findings);
    scales(spec, record, skipped, step, findings);
    left_alone(spec, record, skipped, step, findings);
  }
  return findings;
}

}  // namespace plumbline::conformance
