// Layers of jobs that record what they put out: over data, pipeline and tensor ranks.
#include "conformance/training/activation_checks.hpp"

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/training/grid_runs.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/report.hpp"
#include "harness/suite/requirement.hpp"
#include "harness/suite/skipped.hpp"
#include "reference/record/training_record.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

// Tensor, pipeline and data ranks alone, three of each, and products; micro-batches and accumulated batches. Attention
// of which each tensor rank has its heads.
constexpr std::array kRecordedRuns{GridRun{"mlp", 1, 1, 2, 2, 2},   GridRun{"conv_norm", 1, 1, 3, 1, 1},
                                   GridRun{"pairs", 1, 2, 1, 4, 1}, GridRun{"mlp", 1, 3, 1, 3, 2},
                                   GridRun{"tied", 1, 2, 2, 2, 1},  GridRun{"pairs", 2, 1, 1, 1, 2},
                                   GridRun{"pairs", 3, 1, 1, 2, 1}, GridRun{"pairs", 2, 1, 2, 2, 1},
                                   GridRun{"pairs", 2, 2, 1, 2, 2}, GridRun{"transformer", 2, 1, 2, 1, 1}};

job::RunSpec recorded_run(Context& context, const std::filesystem::path& folder) {
  job::RunSpec spec = write_planned_run(kRecordedRuns, context, context.seed(), folder);
  spec.run.activations = true;
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}

// What is wrong with what layers make, by that requirement: outputs and their gradients, which are inputs' of the next
// layer, and as `asks` says parameters'. The rest is asked by other checks.
using AsksOf = std::function<bool(const Finding& finding)>;
std::vector<Finding> of_layers(Context& context, const job::RunSpec& spec, const job::TrainingRecord& record,
                               std::string_view citation, const AsksOf& asks) {
  const std::string id(suite::id_of_citation(citation));
  if (!record.has_activations()) {
    if (record.findings().empty()) throw suite::Skipped{"the program records no outputs of layers"};
    return {{.requirement = id,
             .parameter = "",
             .what = "not judged: the record has no outputs of layers, and lacks more"}};
  }
  std::vector<Finding> findings = judge(spec, record, context.oracle(), {}).findings;
  std::erase_if(findings, [&](const Finding& finding) { return !asks(finding); });
  for (Finding& finding : findings) finding.requirement = id;
  // A value that no place has is not compared, nor one of a rank that lacks what it started from.
  if (findings.empty() && !record.findings().empty()) {
    const job::RecordFinding& gap = record.findings().front();
    return {{.requirement = id,
             .step = gap.step,
             .rank = gap.rank,
             .parameter = gap.tensor,
             .what = "not judged: the record is wrong: " + gap.what}};
  }
  if (!findings.empty() && findings.front().index >= 0) findings.front().is_first = true;
  return findings;
}

void recorded_layers(Context& context, std::string_view citation, const AsksOf& asks) {
  report(findings_of_job(
      context, [&](const std::filesystem::path& folder) { return recorded_run(context, folder); },
      [&](const job::RunSpec& spec, const job::TrainingRecord& record) {
        return of_layers(context, spec, record, citation, asks);
      }));
}

bool is_by(const Finding& finding, std::string_view citation) {
  return finding.requirement == suite::id_of_citation(citation);
}
void recorded_activations(Context& context) {
  recorded_layers(context, ids::kActivations, [](const Finding& finding) { return is_by(finding, ids::kActivations); });
}
// Layers in pairs, the first cut by columns and the second by rows, and attention of which each rank has its heads.
void recorded_cut_layers(Context& context) {
  recorded_layers(context, ids::kCutLayers, [](const Finding& finding) {
    return is_by(finding, ids::kActivations) || is_by(finding, ids::kGradient);
  });
}

}  // namespace

void add_activation_checks(suite::Suite& suite) {
  suite.add(
      {.id = "training.job.activations",
       .verifies = cited({ids::kActivations}),
       .door = suite::Door::job,
       .axes = {{"grid", {"1x1x2", "1x1x3", "1x2x1", "1x3x1", "1x2x2", "2x1x1", "3x1x1", "2x1x2", "2x2x1"}},
                {"layers", {"mlp", "conv_norm", "pairs", "tied", "transformer"}},
                {"micro_batches", {"1", "2", "3", "4"}},
                {"accumulation", {"1", "2"}},
                suite::worlds({2, 3, 4})},
       .applies = [](const suite::Parameters& parameters) { return planned_run(kRecordedRuns, parameters) != nullptr; },
       .modules = {"training"},
       .limit = std::chrono::seconds(75),
       .body = recorded_activations});
  suite.add(
      {.id = "training.job.cut_layers",
       .verifies = cited({ids::kCutLayers}),
       .door = suite::Door::job,
       .axes = {{"grid", {"3x1x1", "2x1x2"}},
                {"layers", {"pairs", "transformer"}},
                {"micro_batches", {"1", "2"}},
                {"accumulation", {"1"}},
                suite::worlds({3, 4})},
       .applies = [](const suite::Parameters& parameters) { return planned_run(kRecordedRuns, parameters) != nullptr; },
       .modules = {"training"},
       .limit = std::chrono::seconds(75),
       .body = recorded_cut_layers});
}

}  // namespace plumbline::conformance
