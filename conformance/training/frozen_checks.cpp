// Frozen parameters: they keep the given weights, and the others train as if nothing else had gradients.
#include "conformance/training/frozen_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include <gtest/gtest.h>

#include "conformance/support/recording.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/reference_runs.hpp"
#include "conformance/training/report.hpp"
#include "reference/record/layout.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

// With weight decay and momentum, which change a parameter whose gradient is zero, and with moments.
struct FrozenSetup {
  int world;
  std::string_view model, frozen, optimizer;
};
constexpr std::array kFrozenSetups{
    FrozenSetup{2, "mlp", "first_layer", "sgd_decay"}, FrozenSetup{3, "conv_norm", "first_layer", "adam"},
    FrozenSetup{3, "mlp", "biases", "adam"}, FrozenSetup{4, "conv_norm", "biases", "sgd_decay"}};

bool is_planned_with_frozen(const suite::Parameters& parameters) {
  return std::ranges::any_of(kFrozenSetups, [&](const FrozenSetup& setup) {
    return parameters.world() == setup.world && parameters.text("model") == setup.model &&
           parameters.text("frozen") == setup.frozen && parameters.text("optimizer") == setup.optimizer;
  });
}

job::RunSpec frozen_run(Context& context, const std::filesystem::path& folder) {
  const suite::Parameters& parameters = context.parameters();
  return training::write_digits_run({.model = parameters.text("model"),
                                     .optimizer = parameters.text("optimizer"),
                                     .data = parameters.world(),
                                     .steps = 4,
                                     .global_batch = 24,
                                     .seed = context.seed() & INT64_MAX,
                                     .device = context.device(),
                                     .frozen = parameters.text("frozen")},
                                    training::digits(), folder);
}

void frozen_job(Context& context) {
  report(findings_of_job(context, [&](const std::filesystem::path& folder) { return frozen_run(context, folder); }));
}

void frozen_reference(Context& context) {
  RecordingCommunicator world(context.world().duplicate());
  const job::RunSpec spec =
      judge_reference(context, world, [&](const std::filesystem::path& folder) { return frozen_run(context, folder); });
  std::int64_t trained = 0, reduced = 0;
  for (const job::Parameter& parameter : job::parameters_of(spec))
    if (std::ranges::count(spec.frozen, parameter.name) == 0) trained += job::elements_of(parameter.shape);
  int steps = 0;  // that reduced the gradients of the trained parameters, and nothing else
  for (const RecordedCall& call : world.calls) {
    if (comm::is_reduction(call.operation)) reduced += call.elements;
    if (reduced != trained) continue;
    ++steps;
    reduced = 0;
  }
  EXPECT_EQ(steps, spec.run.steps) << "TRAIN-022: steps that reduced as many elements as are trained, " << trained;
  EXPECT_EQ(reduced, 0) << "TRAIN-022: elements that were reduced beside those of the trained parameters";
}

}  // namespace

void add_frozen_checks(suite::Suite& suite, suite::Door door) {
  const bool is_job = door == suite::Door::job;
  std::vector<std::string> verifies =
      cited({ids::kFrozen, ids::kCoverage, ids::kGivenWeights, ids::kContinuity, ids::kEqualParameters,
             ids::kEqualGradients, ids::kGradient, ids::kUnionGradient, ids::kUpdate, ids::kLoss, ids::kOwnRows});
  if (!is_job) verifies.emplace_back(ids::kFrozenTraffic);
  suite.add({.id = is_job ? "training.job.frozen" : "training.frozen",
             .verifies = std::move(verifies),
             .door = door,
             .axes = {{"model", {"mlp", "conv_norm"}},
                      {"frozen", {"first_layer", "biases"}},
                      {"optimizer", {"sgd_decay", "adam"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned_with_frozen,
             .modules = {"training"},
             .limit = std::chrono::seconds(is_job ? 75 : 20),
             .body = is_job ? frozen_job : frozen_reference});
}

}  // namespace plumbline::conformance
