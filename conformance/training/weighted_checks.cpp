// Rows with weights: the mean over all rows of a step, and not one of means.
#include "conformance/training/weighted_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "conformance/training/job_runs.hpp"
#include "conformance/training/reference_runs.hpp"
#include "conformance/training/report.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

// Weights in data ranks, micro-batches and accumulated batches, alone and together, beside pipelines, too.
struct WeightedSetup {
  int world;
  std::string_view rows, pipeline;
  int micro_batches, accumulation;
};
constexpr std::array kWeightedSetups{WeightedSetup{2, "padding", "1", 1, 1}, WeightedSetup{2, "weights", "1", 2, 1},
                                     WeightedSetup{3, "padding", "1", 2, 2}, WeightedSetup{4, "weights", "1", 1, 2},
                                     WeightedSetup{2, "padding", "2", 2, 1}, WeightedSetup{4, "padding", "2", 2, 2}};

bool is_planned_with_weights(const suite::Parameters& parameters) {
  return std::ranges::any_of(kWeightedSetups, [&](const WeightedSetup& setup) {
    return parameters.world() == setup.world && parameters.text("rows") == setup.rows &&
           parameters.text("pipeline") == setup.pipeline && parameters.number("micro_batches") == setup.micro_batches &&
           parameters.number("accumulation") == setup.accumulation;
  });
}

training::DigitsRun weighted_run(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  const auto pipeline = static_cast<int>(parameters.number("pipeline"));
  return {.data = parameters.world() / pipeline,
          .steps = 4,
          .global_batch = 24,
          .micro_batches = static_cast<int>(parameters.number("micro_batches")),
          .accumulation = static_cast<int>(parameters.number("accumulation")),
          .seed = context.seed() & INT64_MAX,
          .device = context.device(),
          .pipeline = pipeline,
          .rows = parameters.text("rows")};
}

void weighted_job(Context& context) {
  report(findings_of_job(context, [&](const std::filesystem::path& folder) {
    return training::write_digits_run(weighted_run(context), training::digits(), folder);
  }));
}

void weighted_reference(Context& context) {
  judge_reference(context, [&](const std::filesystem::path& folder) {
    return training::write_digits_run(weighted_run(context), training::digits(), folder);
  });
}

}  // namespace

void add_weighted_checks(suite::Suite& suite, suite::Door door) {
  const bool is_job = door == suite::Door::job;
  suite.add({.id = is_job ? "training.job.row_weights" : "training.row_weights",
             .verifies =
                 cited({ids::kCoverage, ids::kGivenWeights, ids::kContinuity, ids::kEqualParameters,
                        ids::kEqualGradients, ids::kWeightedGradient, ids::kUpdate, ids::kWeightedLoss, ids::kOwnRows}),
             .door = door,
             .axes = {{"rows", {"padding", "weights"}},
                      {"pipeline", {"1", "2"}},
                      {"micro_batches", {"1", "2"}},
                      {"accumulation", {"1", "2"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned_with_weights,
             .modules = {"training"},
             .limit = std::chrono::seconds(is_job ? 75 : 20),
             .body = is_job ? weighted_job : weighted_reference});
}

}  // namespace plumbline::conformance
