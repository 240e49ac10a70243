// Transformers with mixtures of experts, which every data rank holds, or a part of which each.
#include "conformance/training/mixture_checks.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "conformance/training/grid_runs.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/reference_runs.hpp"
#include "conformance/training/report.hpp"
#include "conformance/training/routing.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

// Few rows, so that micro-batches, data ranks and whole steps leave experts unused; and all experts on several data
// ranks, once and twice, alone and beside stages. Parts of a step are micro-batches here and accumulated batches there.
constexpr std::array kMixtures{GridRun{"moe", 1, 1, 2, 2, 1, 1, 2},  GridRun{"moe", 1, 1, 3, 1, 2, 1, 1},
                               GridRun{"moe", 1, 1, 2, 2, 1, 2, 12}, GridRun{"moe", 1, 1, 4, 1, 2, 2, 12},
                               GridRun{"moe", 1, 1, 3, 2, 1, 3, 12}, GridRun{"moe", 1, 2, 2, 2, 1, 2, 12}};

std::vector<std::string_view> citations_of(const job::RunSpec& spec) {
  if (spec.parallel.expert > 1) return {ids::kExpertRanks};
  return {ids::kMixture, ids::kUnused};
}

// A wrong gradient violates what is asked of all; and one of experts and of what chooses between them, or any over
// expert ranks, what is asked of these. So does one that cannot be judged, which is told of one parameter of a rank.
std::vector<Finding> with_mixtures(const job::RunSpec& spec, std::vector<Finding> findings) {
  std::vector<Finding> more;
  for (const Finding& finding : findings) {
    if (finding.requirement != suite::id_of_citation(ids::kGradient)) continue;
    if (finding.what.starts_with("not judged")) {
      for (const std::string_view citation : citations_of(spec)) {
        more.push_back(finding);
        more.back().requirement = suite::id_of_citation(citation);
      }
      continue;
    }
    for (const job::Parameter& parameter : job::parameters_of(spec)) {
      const bool is_of_mixture =
          std::holds_alternative<job::Moe>(spec.layers[static_cast<std::size_t>(parameter.layer)]);
      if (parameter.name != finding.parameter || !(is_of_mixture || spec.parallel.expert > 1)) continue;
      more.push_back(finding);
      more.back().requirement = suite::id_of_citation(spec.parallel.expert > 1 ? ids::kExpertRanks : ids::kMixture);
    }
  }
  findings.insert(findings.end(), more.begin(), more.end());
  return findings;
}

// By a seed whose first step can be judged, so that a case never passes without.
job::RunSpec mixture_run(Context& context, const std::filesystem::path& folder) {
  for (std::uint64_t seed = context.seed();; ++seed) {
    job::RunSpec spec = write_planned_run(kMixtures, context, seed, folder);
    if (!is_routing_unsure(spec, 0, training::given_weights(spec), context.oracle(), "cpu")) return spec;
  }
}

void mixture_job(Context& context) {
  job::RunSpec spec;
  const std::vector<Finding> findings = findings_of_job(context, [&](const std::filesystem::path& folder) {
    spec = mixture_run(context, folder);
    return spec;
  });
  report(with_mixtures(spec, findings));
}

void mixture_reference(Context& context) {
  judge_reference(
      context, context.world(), [&](const std::filesystem::path& folder) { return mixture_run(context, folder); },
      with_mixtures);
}

void add(suite::Suite& suite, suite::Door door, const std::string& name, const std::vector<std::string>& expert_ranks,
         std::vector<std::string> verifies) {
  const bool is_job = door == suite::Door::job;
  const std::vector<std::string> of_all =
      cited({ids::kCoverage, ids::kGivenWeights, ids::kContinuity, ids::kEqualParameters, ids::kEqualGradients,
             ids::kGradient, ids::kUnionGradient, ids::kUpdate, ids::kLoss, ids::kOwnRows});
  verifies.insert(verifies.end(), of_all.begin(), of_all.end());
  suite.add(
      {.id = (is_job ? "training.job." : "training.") + name,
       .verifies = std::move(verifies),
       .door = door,
       .axes = {{"grid", {"1x1x2", "1x1x3", "1x1x4", "1x2x2"}},
                {"expert_ranks", expert_ranks},
                {"micro_batches", {"1", "2"}},
                {"accumulation", {"1", "2"}},
                suite::worlds({2, 3, 4})},
       .applies = [](const suite::Parameters& parameters) { return planned_run(kMixtures, parameters) != nullptr; },
       .modules = {"training"},
       .limit = std::chrono::seconds(is_job ? 75 : 20),
       .body = is_job ? mixture_job : mixture_reference});
}

}  // namespace

void add_mixture_checks(suite::Suite& suite, suite::Door door) {
  add(suite, door, "moe", {"1"}, cited({ids::kMixture, ids::kUnused}));
  add(suite, door, "expert_ranks", {"2", "3"}, cited({ids::kExpertRanks}));
}

}  // namespace plumbline::conformance
