// Transformers whose head has the embedding's weight, trained in data-parallel form and by stages that share it.
#include "conformance/training/transformer_checks.hpp"

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/training/grid_runs.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/reference_runs.hpp"
#include "conformance/training/report.hpp"
#include "conformance/training/single_device.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

// Both uses of the weight on one rank, and on two of two and three stages; one head on each of two tensor ranks; and
// products of two of these. Parts of a step are micro-batches here and accumulated batches there.
constexpr std::array kTransformers{GridRun{"transformer", 1, 1, 2, 2, 1}, GridRun{"transformer", 1, 1, 3, 1, 2},
                                   GridRun{"transformer", 1, 2, 1, 2, 2}, GridRun{"transformer", 1, 3, 1, 3, 1},
                                   GridRun{"transformer", 1, 2, 2, 2, 1}, GridRun{"transformer", 2, 1, 1, 2, 1},
                                   GridRun{"transformer", 2, 2, 1, 2, 1}};

job::RunSpec transformer_run(Context& context, const std::filesystem::path& folder) {
  return write_planned_run(kTransformers, context, context.seed(), folder);
}

// A wrong gradient of a weight that several layers use violates what is asked of all, and what is asked of these.
std::vector<Finding> with_shared_weights(const job::RunSpec& spec, std::vector<Finding> findings) {
  std::vector<Finding> shared;
  for (const Finding& finding : findings) {
    const bool is_gradient = finding.requirement == suite::id_of_citation(ids::kGradient);
    if (!is_gradient || uses_of(spec, finding.parameter).size() < 2) continue;
    shared.push_back(finding);
    shared.back().requirement = suite::id_of_citation(ids::kSharedWeight);
  }
  findings.insert(findings.end(), shared.begin(), shared.end());
  return findings;
}

void transformer_job(Context& context) {
  job::RunSpec spec;
  const std::vector<Finding> findings = findings_of_job(context, [&](const std::filesystem::path& folder) {
    spec = transformer_run(context, folder);
    return spec;
  });
  report(with_shared_weights(spec, findings));
}

void transformer_reference(Context& context) {
  judge_reference(
      context, context.world(), [&](const std::filesystem::path& folder) { return transformer_run(context, folder); },
      with_shared_weights);
}

}  // namespace

void add_transformer_checks(suite::Suite& suite, suite::Door door) {
  const bool is_job = door == suite::Door::job;
  suite.add(
      {.id = is_job ? "training.job.transformer" : "training.transformer",
       .verifies =
           cited({ids::kSharedWeight, ids::kCoverage, ids::kGivenWeights, ids::kContinuity, ids::kEqualParameters,
                  ids::kEqualGradients, ids::kGradient, ids::kUnionGradient, ids::kUpdate, ids::kLoss, ids::kOwnRows}),
       .door = door,
       .axes = {{"grid", {"1x1x2", "1x1x3", "1x2x1", "1x3x1", "1x2x2", "2x1x1", "2x2x1"}},
                {"micro_batches", {"1", "2", "3"}},
                {"accumulation", {"1", "2"}},
                suite::worlds({2, 3, 4})},
       .applies = [](const suite::Parameters& parameters) { return planned_run(kTransformers, parameters) != nullptr; },
       .modules = {"training"},
       .limit = std::chrono::seconds(is_job ? 75 : 20),
       .body = is_job ? transformer_job : transformer_reference});
}

}  // namespace plumbline::conformance
