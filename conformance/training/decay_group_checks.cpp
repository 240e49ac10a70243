// Weight decay that leaves out biases and normalizations: each parameter is updated by the rule of its group.
#include "conformance/training/decay_group_checks.hpp"

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

// Biases alone, and batch or layer normalization with them, beside pipelines and tensor ranks, too.
struct GroupedSetup {
  int world;
  std::string_view model, pipeline, tensor;
};
constexpr std::array kGroupedSetups{GroupedSetup{2, "conv_norm", "1", "1"}, GroupedSetup{3, "mlp", "1", "1"},
                                    GroupedSetup{4, "pairs", "2", "1"}, GroupedSetup{4, "pairs", "2", "2"}};

bool is_planned_with_groups(const suite::Parameters& parameters) {
  return std::ranges::any_of(kGroupedSetups, [&](const GroupedSetup& setup) {
    return parameters.world() == setup.world && parameters.text("model") == setup.model &&
           parameters.text("pipeline") == setup.pipeline && parameters.text("tensor") == setup.tensor;
  });
}

job::RunSpec grouped_run(Context& context, const std::filesystem::path& folder) {
  const suite::Parameters& parameters = context.parameters();
  const auto pipeline = static_cast<int>(parameters.number("pipeline"));
  const auto tensor = static_cast<int>(parameters.number("tensor"));
  return training::write_digits_run({.model = parameters.text("model"),
                                     .optimizer = "sgd_decay",
                                     .data = parameters.world() / pipeline / tensor,
                                     .steps = 4,
                                     .global_batch = 24,
                                     .seed = context.seed() & INT64_MAX,
                                     .device = context.device(),
                                     .pipeline = pipeline,
                                     .tensor = tensor,
                                     .decays_matrices_alone = true},
                                    training::digits(), folder);
}

void grouped_job(Context& context) {
  report(findings_of_job(context, [&](const std::filesystem::path& folder) { return grouped_run(context, folder); }));
}

void grouped_reference(Context& context) {
  judge_reference(context, [&](const std::filesystem::path& folder) { return grouped_run(context, folder); });
}

}  // namespace

void add_decay_group_checks(suite::Suite& suite, suite::Door door) {
  const bool is_job = door == suite::Door::job;
  suite.add({.id = is_job ? "training.job.no_decay" : "training.no_decay",
             .verifies = cited({ids::kGroupedUpdate, ids::kCoverage, ids::kGivenWeights, ids::kContinuity,
                                ids::kEqualParameters, ids::kEqualGradients, ids::kGradient, ids::kUnionGradient,
                                ids::kLoss, ids::kOwnRows}),
             .door = door,
             .axes = {{"model", {"mlp", "conv_norm", "pairs"}},
                      {"pipeline", {"1", "2"}},
                      {"tensor", {"1", "2"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned_with_groups,
             .modules = {"training"},
             .limit = std::chrono::seconds(is_job ? 75 : 20),
             .body = is_job ? grouped_job : grouped_reference});
}

}  // namespace plumbline::conformance
