// Training programs of others whose ranks average parameters, round by round, by the records that they leave.
#include "conformance/training/averaging/averaging_job_checks.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/training/averaging/averaging_judge.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/report.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = averaging_requirements;

namespace {

struct AveragedSetup {
  std::string graph;  // empty: the algorithm has none
  std::string optimizer;
  int world;
};
struct AveragedAlgorithm {
  std::string name;
  std::string_view rule;
  std::vector<AveragedSetup> setups;
};
const std::vector<AveragedAlgorithm>& averaged_algorithms() {
  static const std::vector<AveragedAlgorithm> all{
      {"localsgd", ids::kAverage, {{"", "sgd", 3}, {"", "adam", 4}}},
      {"slowmo", ids::kSlowStep, {{"", "sgd", 3}, {"", "sgd", 2}}},
      {"diloco", ids::kSlowStep, {{"", "adam", 3}, {"", "sgd", 2}}},
      {"sgp", ids::kGossip, {{"star", "sgd", 3}, {"n-peer-exponential", "adam", 4}}}};
  return all;
}
std::vector<std::string> averaged_rules(const AveragedAlgorithm& algorithm) {
  return cited(
      {training_requirements::kCoverage, ids::kRecord, ids::kEstimate, ids::kGradient, ids::kUpdate, algorithm.rule});
}

bool is_planned_average(const AveragedAlgorithm& algorithm, const suite::Parameters& parameters) {
  return std::ranges::any_of(algorithm.setups, [&](const AveragedSetup& setup) {
    return parameters.world() == setup.world && parameters.text("optimizer") == setup.optimizer &&
           (setup.graph.empty() || parameters.text("graph") == setup.graph);
  });
}

// Two rounds, of which the second has the momentum of the first, and a step after them.
job::RunSpec averaged_run(Context& context, const std::string& algorithm, const std::filesystem::path& folder) {
  const suite::Parameters& parameters = context.parameters();
  job::RunSpec spec = training::write_digits_run({.optimizer = parameters.text("optimizer"),
                                                  .data = parameters.world(),
                                                  .steps = 7,
                                                  .global_batch = 24,
                                                  .micro_batches = 2,
                                                  .seed = context.seed() & INT64_MAX,
                                                  .device = context.device()},
                                                 training::digits(), folder);
  const bool is_slowmo = algorithm == "slowmo";
  spec.averaging = job::Averaging{
      .algorithm = algorithm, .period = 3, .lr = is_slowmo ? 0.9 : 0.7, .momentum = is_slowmo ? 0.5 : 0.9};
  if (!spec.averaging->has_rounds()) spec.averaging->graph = parameters.text("graph");
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}

// What a case cites passes where it fails by none of it: so all of it must have been judged.
std::vector<Finding> findings_of_averaging(const AveragedAlgorithm& algorithm, AveragingJudgement judgement) {
  for (const std::string& citation : averaged_rules(algorithm)) {
    const std::string id(suite::id_of_citation(citation));
    if (!judgement.judged.contains(id) && std::ranges::count(judgement.findings, id, &Finding::requirement) == 0)
      judgement.findings.push_back({.requirement = id, .parameter = "", .what = "nothing was compared"});
  }
  return std::move(judgement.findings);
}

void averaged_job(Context& context, const AveragedAlgorithm& algorithm) {
  report(findings_of_job(
      context, [&](const std::filesystem::path& folder) { return averaged_run(context, algorithm.name, folder); },
      [&](const job::RunSpec& spec, const job::TrainingRecord& record) {
        return findings_of_averaging(algorithm, judge_averaging_record(spec, record, context.oracle()));
      }));
}

}  // namespace

void add_averaging_job_checks(suite::Suite& suite) {
  for (const AveragedAlgorithm& algorithm : averaged_algorithms()) {
    std::vector<suite::Axis> axes{{"optimizer", {"sgd", "adam"}}, suite::worlds({2, 3, 4})};
    if (algorithm.rule == ids::kGossip) axes.insert(axes.begin(), {"graph", {"star", "n-peer-exponential"}});
    suite.add(
        {.id = "training.job.averaging_" + algorithm.name,
         .verifies = averaged_rules(algorithm),
         .door = suite::Door::job,
         .axes = std::move(axes),
         .applies = [&](const suite::Parameters& parameters) { return is_planned_average(algorithm, parameters); },
         .modules = {"training"},
         .limit = std::chrono::seconds(75),
         .body = [&](Context& context) { averaged_job(context, algorithm); }});
  }
}

}  // namespace plumbline::conformance
