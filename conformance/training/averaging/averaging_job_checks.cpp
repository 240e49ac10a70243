// Training programs of others whose ranks average parameters, round by round, by the records that they leave.
#include "conformance/training/averaging/averaging_job_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "conformance/training/averaging/averaging_judge.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/report.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = averaging_requirements;

namespace {

struct AveragedSetup {
  std::string_view algorithm, graph, optimizer;
  int world;
};
constexpr std::array kAveragedSetups{
    AveragedSetup{"localsgd", "none", "sgd", 3}, AveragedSetup{"localsgd", "none", "adam", 4},
    AveragedSetup{"slowmo", "none", "sgd", 3},   AveragedSetup{"slowmo", "none", "sgd", 2},
    AveragedSetup{"diloco", "none", "adam", 3},  AveragedSetup{"diloco", "none", "sgd", 2},
    AveragedSetup{"sgp", "star", "sgd", 3},      AveragedSetup{"sgp", "n-peer-exponential", "adam", 4}};

bool is_planned_average(const suite::Parameters& parameters) {
  return std::ranges::any_of(kAveragedSetups, [&](const AveragedSetup& setup) {
    return parameters.world() == setup.world && parameters.text("algorithm") == setup.algorithm &&
           parameters.text("graph") == setup.graph && parameters.text("optimizer") == setup.optimizer;
  });
}

// Two rounds, of which the second has the momentum of the first, and a step after them.
job::RunSpec averaged_run(Context& context, const std::filesystem::path& folder) {
  const suite::Parameters& parameters = context.parameters();
  job::RunSpec spec = training::write_digits_run({.optimizer = parameters.text("optimizer"),
                                                  .data = parameters.world(),
                                                  .steps = 7,
                                                  .global_batch = 24,
                                                  .micro_batches = 2,
                                                  .seed = context.seed() & INT64_MAX,
                                                  .device = context.device()},
                                                 training::digits(), folder);
  const bool is_slowmo = parameters.text("algorithm") == "slowmo";
  spec.averaging = job::Averaging{.algorithm = parameters.text("algorithm"),
                                  .period = 3,
                                  .lr = is_slowmo ? 0.9 : 0.7,
                                  .momentum = is_slowmo ? 0.5 : 0.9};
  if (!spec.averaging->has_rounds()) spec.averaging->graph = parameters.text("graph");
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}

void averaged_job(Context& context) {
  report(findings_of_job(
      context, [&](const std::filesystem::path& folder) { return averaged_run(context, folder); },
      [&](const job::RunSpec& spec, const job::TrainingRecord& record) {
        return judge_averaging_record(spec, record, context.oracle()).findings;
      }));
}

}  // namespace

void add_averaging_job_checks(suite::Suite& suite) {
  suite.add({.id = "training.job.averaging",
             .verifies = cited({training_requirements::kCoverage, ids::kRecord, ids::kEstimate, ids::kGradient,
                                ids::kUpdate, ids::kAverage, ids::kGossip, ids::kSlowStep}),
             .door = suite::Door::job,
             .axes = {{"algorithm", {"localsgd", "slowmo", "diloco", "sgp"}},
                      {"graph", {"none", "star", "n-peer-exponential"}},
                      {"optimizer", {"sgd", "adam"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned_average,
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = averaged_job});
}

}  // namespace plumbline::conformance
