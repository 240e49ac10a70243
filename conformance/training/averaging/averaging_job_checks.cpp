// Training programs of others whose ranks average parameters, round by round, by the records that they leave.
#include "conformance/training/averaging/averaging_job_checks.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

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
// Distances have a bound where mixing is doubly stochastic, as an average is, and not a star's; after slow steps, none.
bool has_distances(const AveragedAlgorithm& algorithm, std::string_view graph) {
  return algorithm.name == "localsgd" || graph == "n-peer-exponential";
}
std::vector<std::string> averaged_rules(const AveragedAlgorithm& algorithm, bool with_distances) {
  std::vector<std::string> rules = cited(
      {training_requirements::kCoverage, ids::kRecord, ids::kEstimate, ids::kGradient, ids::kUpdate, algorithm.rule});
  if (with_distances) rules.emplace_back(ids::kDistance);
  return rules;
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
std::vector<Finding> findings_of_averaging(const AveragedAlgorithm& algorithm, const job::RunSpec& spec,
                                           AveragingJudgement judgement) {
  for (const std::string& citation : averaged_rules(algorithm, has_distances(algorithm, spec.averaging->graph))) {
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
        return findings_of_averaging(algorithm, spec, judge_averaging_record(spec, record, context.oracle()));
      }));
}

// ---- what it comes to ----

Finding not_judged(std::string_view citation) {
  return {.requirement = std::string(suite::id_of_citation(citation)),
          .parameter = "",
          .what = "not judged: the record is not whole"};
}

// Three settings in which parameters are averaged after each step: on every rank those of data-parallel SGD.
job::RunSpec synchronous_run(Context& context, const std::filesystem::path& folder) {
  const suite::Parameters& parameters = context.parameters();
  job::RunSpec spec = training::write_digits_run({.data = parameters.world(),
                                                  .steps = 4,
                                                  .global_batch = 24,
                                                  .micro_batches = 1,
                                                  .seed = context.seed() & INT64_MAX,
                                                  .device = context.device()},
                                                 training::digits(), folder);
  spec.optimizer = job::Sgd{.lr = 0.1};
  spec.averaging = job::Averaging{.algorithm = parameters.text("algorithm")};
  if (!spec.averaging->has_rounds()) spec.averaging->graph = "complete";
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}
void synchronous_job(Context& context) {
  report(findings_of_job(
      context, [&](const std::filesystem::path& folder) { return synchronous_run(context, folder); },
      [&](const job::RunSpec& spec, const job::TrainingRecord& record) -> std::vector<Finding> {
        const AveragedRanks ranks = recorded_ranks(spec, record);
        if (static_cast<int>(ranks.front().size()) < spec.run.steps) return {not_judged(ids::kSynchronous)};
        return findings_beside_data_parallel(spec, ranks, context.oracle());
      }));
}

// One seed for all: what is asked is whether training works, not how lucky a start is.
job::RunSpec learning_run(Context& context, const std::filesystem::path& folder) {
  const std::string& algorithm = context.parameters().text("algorithm");
  job::RunSpec spec = training::write_digits_run({.data = context.parameters().world(),
                                                  .steps = 150,
                                                  .global_batch = 96,
                                                  .micro_batches = 1,
                                                  .seed = 1,
                                                  .device = context.device()},
                                                 training::digits(), folder);
  spec.averaging = job::Averaging{.algorithm = algorithm};
  if (!spec.averaging->has_rounds()) spec.averaging->graph = "n-peer-exponential";
  if (algorithm == "localsgd") spec.averaging->period = 3;
  if (algorithm == "slowmo") spec.averaging->period = 12, spec.averaging->momentum = 0.5;
  if (algorithm == "diloco") spec.averaging->period = 12, spec.averaging->momentum = 0.9, spec.averaging->lr = 0.7;
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}
void learning_job(Context& context) {
  report(findings_of_job(
      context, [&](const std::filesystem::path& folder) { return learning_run(context, folder); },
      [&](const job::RunSpec& spec, const job::TrainingRecord& record) -> std::vector<Finding> {
        const auto last = recorded_step(spec, record, spec.run.steps - 1);
        if (!last) return {not_judged(ids::kLearns)};
        AveragedRanks ranks;
        for (const training::AveragedStep& one : *last) ranks.push_back({one});
        const AveragedAccuracy accuracy = accuracy_of(spec, ranks, context.oracle());
        if (accuracy.mean >= accuracy.single_device - kAccuracyMargin) return {};
        return {{.requirement = std::string(suite::id_of_citation(ids::kLearns)),
                 .parameter = "",
                 .what = fmt::format("the ranks' mean classifies {:.4f} of the held-out digits; a single device on the "
                                     "same batches {:.4f}",
                                     accuracy.mean, accuracy.single_device)}};
      }));
}

}  // namespace

void add_averaging_job_checks(suite::Suite& suite) {
  for (const AveragedAlgorithm& algorithm : averaged_algorithms()) {
    std::vector<suite::Axis> axes{{"optimizer", {"sgd", "adam"}}, suite::worlds({2, 3, 4})};
    if (algorithm.rule == ids::kGossip) axes.insert(axes.begin(), {"graph", {"star", "n-peer-exponential"}});
    suite.add(
        {.id = "training.job.averaging_" + algorithm.name,
         .verifies = averaged_rules(algorithm, has_distances(algorithm, algorithm.setups.back().graph)),
         .door = suite::Door::job,
         .axes = std::move(axes),
         .applies = [&](const suite::Parameters& parameters) { return is_planned_average(algorithm, parameters); },
         .modules = {"training"},
         .limit = std::chrono::seconds(75),
         .body = [&](Context& context) { averaged_job(context, algorithm); }});
  }
  suite.add({.id = "training.job.averaging_synchronous",
             .verifies = cited({ids::kSynchronous}),
             .door = suite::Door::job,
             .axes = {{"algorithm", {"localsgd", "slowmo", "sgp"}}, suite::worlds({3})},
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = synchronous_job});
  suite.add({.id = "training.job.averaging_learns",
             .verifies = cited({ids::kLearns}),
             .door = suite::Door::job,
             .axes = {{"algorithm", {"localsgd", "slowmo", "diloco", "sgp"}}, suite::worlds({3})},
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = learning_job});
}

}  // namespace plumbline::conformance
