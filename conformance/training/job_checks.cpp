// Training programs of others, by the records that they leave.
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "conformance/training/activation_checks.hpp"
#include "conformance/training/decay_group_checks.hpp"
#include "conformance/training/frozen_checks.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/mixture_checks.hpp"
#include "conformance/training/rate_schedule_checks.hpp"
#include "conformance/training/report.hpp"
#include "conformance/training/resume_checks.hpp"
#include "conformance/training/sharded_checks.hpp"
#include "conformance/training/training_checks.hpp"
#include "conformance/training/transformer_checks.hpp"
#include "conformance/training/weighted_checks.hpp"
#include "harness/suite/machine_error.hpp"
#include "harness/suite/requirement.hpp"
#include "harness/suite/skipped.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

// A program takes seconds to start, so a few runs must tell much: of each two settings (world, model, optimizer,
// micro-batches, accumulation) all pairs of values occur in some run. Weight decay and Nesterov's momentum, which touch
// nothing but the optimizer, have one run.
struct Setup {
  int world;
  std::string_view model, optimizer;
  int micro_batches, accumulation;
};
constexpr std::array kSetups{
    Setup{2, "mlp", "sgd", 1, 1},
    Setup{2, "conv", "sgd_momentum", 2, 1},
    Setup{2, "conv_norm", "adam", 1, 3},
    Setup{3, "mlp", "sgd_momentum", 2, 3},
    Setup{3, "conv", "adam", 1, 1},
    Setup{3, "conv_norm", "sgd", 2, 1},
    Setup{4, "mlp", "adam", 2, 1},
    Setup{4, "conv", "sgd", 1, 3},
    Setup{4, "conv_norm", "sgd_momentum", 1, 1},
    Setup{4, "mlp", "sgd_decay", 1, 3},
};

bool is_planned(const suite::Parameters& parameters) {
  return std::ranges::any_of(kSetups, [&](const Setup& setup) {
    return parameters.world() == setup.world && parameters.text("model") == setup.model &&
           parameters.text("optimizer") == setup.optimizer &&
           parameters.number("micro_batches") == setup.micro_batches &&
           parameters.number("accumulation") == setup.accumulation;
  });
}

// Writes the run's files into `folder`.
job::RunSpec prepared_run(Context& context, const std::filesystem::path& folder) {
  const suite::Parameters& parameters = context.parameters();
  const std::string& optimizer = parameters.text("optimizer");
  job::RunSpec spec =
      training::write_digits_run({.model = parameters.text("model"),
                                  .optimizer = optimizer == "adam" || optimizer == "sgd_decay" ? optimizer : "sgd",
                                  .data = parameters.world(),
                                  .steps = 4,
                                  .global_batch = 24,
                                  .micro_batches = static_cast<int>(parameters.number("micro_batches")),
                                  .accumulation = static_cast<int>(parameters.number("accumulation")),
                                  .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
                                  .device = context.device()},
                                 training::digits(), folder);
  if (optimizer == "sgd") {
    spec.optimizer = job::Sgd{.lr = 0.1};
    job::write_run_spec(spec, folder / "spec.toml");
  }
  return spec;
}

// Writes what the program is given. That this cannot be done is no fault of the program's.
void provide(const std::function<job::RunSpec(const std::filesystem::path&)>& prepared,
             const std::filesystem::path& run, const std::filesystem::path& record) {
  try {
    (void)prepared(run);
    std::filesystem::create_directories(record);
  } catch (const RuntimeFailure& error) {
    throw suite::MachineFailure(error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    throw suite::MachineFailure(error.what());
  }
}

void single_device_job(Context& context) {
  report(findings_of_job(context, [&](const std::filesystem::path& folder) { return prepared_run(context, folder); }));
}

// ---- what a run comes to ----

// One seed for all: what is asked is whether training works, not how lucky a start is.
job::RunSpec learning_run_of_job(Context& context, const std::filesystem::path& folder) {
  const std::string& model = context.parameters().text("model");
  return training::write_digits_run({.model = model,
                                     .data = context.parameters().world(),
                                     .steps = model == "mlp" ? 200 : 100,
                                     .global_batch = 96,
                                     .micro_batches = 1,
                                     .seed = 1,
                                     .device = context.device()},
                                    training::digits(), folder);
}

std::vector<Finding> findings_of_learning(Context& context, const job::RunSpec& spec,
                                          const job::TrainingRecord& record) {
  constexpr double enough = 0.95;
  Finding finding{
      .requirement = std::string(suite::id_of_citation(ids::kLearns)), .step = spec.run.steps - 1, .parameter = ""};
  const auto values = values_of(spec, record, spec.run.steps - 1, job::Moment::after);
  if (!values) {
    finding.what = "the record has no values after the last step";
    return {finding};
  }
  const double accuracy =
      context.oracle().accuracy(spec, *values, training::held_out_rows(spec, training::digits()), spec.run.device);
  if (accuracy > enough) return {};
  finding.what =
      fmt::format("the values classify {:.4f} of the held-out digits; more than {} are asked", accuracy, enough);
  return {finding};
}

void learning_job(Context& context) {
  report(findings_of_job(
      context, [&](const std::filesystem::path& folder) { return learning_run_of_job(context, folder); },
      [&](const job::RunSpec& spec, const job::TrainingRecord& record) {
        return findings_of_learning(context, spec, record);
      }));
}

// The sum of two gradients has the same bits in any order, so over any library: two ranks.
void repeated_job(Context& context) {
  if (context.device() != "cpu")
    throw suite::Skipped{fmt::format("device {}: its kernels may add in any order", context.device())};
  const auto run_again = [&](const job::RunSpec& spec, const job::TrainingRecord& first) {
    const std::filesystem::path scratch = std::filesystem::absolute(context.scratch());
    const std::filesystem::path again = scratch / "again";
    provide([&](const std::filesystem::path& folder) { return prepared_run(context, folder); }, scratch / "run", again);
    (void)context.job().run(context.parameters().world(), scratch / "run" / "spec.toml", again);
    context.progress("comparing two records");
    std::vector<Finding> findings = compare_runs(spec, first, job::TrainingRecord(spec, again));
    for (const job::RecordFinding& gap : first.findings())
      findings.push_back({.requirement = std::string(suite::id_of_citation(ids::kSameBits)),
                          .step = gap.step,
                          .rank = gap.rank,
                          .parameter = gap.tensor,
                          .what = "not compared: " + gap.what});
    return findings;
  };
  report(findings_of_job(
      context, [&](const std::filesystem::path& folder) { return prepared_run(context, folder); }, run_again));
}

}  // namespace

void provide_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw suite::MachineFailure(fmt::format("'{}' cannot be made a folder: {}", folder.string(), error.message()));
}

RunOfJob run_job(Context& context, const std::function<job::RunSpec(const std::filesystem::path&)>& prepared, int world,
                 const std::string& name) {
  const std::filesystem::path folder = std::filesystem::absolute(context.scratch()) / name;
  const std::filesystem::path record = folder / "record";
  provide(prepared, folder / "run", record);
  (void)context.job().run(world, folder / "run" / "spec.toml", record);
  context.progress("judging the record");
  // From files of our own: a program may have written over those that it was given.
  return {prepared(folder / "baseline"), record};
}

std::vector<Finding> findings_of_job(Context& context,
                                     const std::function<job::RunSpec(const std::filesystem::path&)>& prepared,
                                     const JudgeOfRecord& judged) {
  const auto [spec, record] = run_job(context, prepared, context.parameters().world(), "");
  const job::TrainingRecord found(spec, record);
  if (judged) return judged(spec, found);
  // The baseline is computed here, wherever the program computes.
  std::vector<Finding> findings = judge(spec, found, context.oracle(), {}).findings;
  mark_first_wrong_gradient(findings, spec);
  lead_with_activation(findings);
  return findings;
}

void add_job_checks(suite::Suite& suite) {
  suite.add({.id = "training.job.single_device",
             .verifies = cited({ids::kCoverage, ids::kGivenWeights, ids::kContinuity, ids::kEqualParameters,
                                ids::kEqualGradients, ids::kGradient, ids::kUnionGradient, ids::kUpdate, ids::kLoss,
                                ids::kOwnRows}),
             .door = suite::Door::job,
             .axes = {{"model", {"mlp", "conv", "conv_norm"}},
                      {"optimizer", {"sgd", "sgd_momentum", "sgd_decay", "adam"}},
                      {"micro_batches", {"1", "2"}},
                      {"accumulation", {"1", "3"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned,
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = single_device_job});
  suite.add({.id = "training.job.repeated",
             .verifies = cited({ids::kSameBits}),
             .door = suite::Door::job,
             .axes = {{"model", {"mlp", "conv_norm"}},
                      {"optimizer", {"adam"}},
                      {"micro_batches", {"2"}},
                      {"accumulation", {"1"}},
                      suite::worlds({2})},
             .modules = {"training"},
             .limit = std::chrono::seconds(150),
             .body = repeated_job});
  suite.add({.id = "training.job.learns",
             .verifies = cited({ids::kLearns}),
             .door = suite::Door::job,
             .axes = {{"model", {"mlp", "conv"}}, suite::worlds({2, 3})},
             .applies = [](const suite::Parameters& at) { return at.world() == (at.text("model") == "mlp" ? 2 : 3); },
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = learning_job});
  add_weighted_checks(suite, suite::Door::job);
  add_rate_schedule_checks(suite, suite::Door::job);
  add_decay_group_checks(suite, suite::Door::job);
  add_frozen_checks(suite, suite::Door::job);
  add_transformer_checks(suite, suite::Door::job);
  add_mixture_checks(suite, suite::Door::job);
  add_activation_checks(suite);
  add_resume_checks(suite, suite::Door::job);
  add_sharded_checks(suite, suite::Door::job);
}

}  // namespace plumbline::conformance
