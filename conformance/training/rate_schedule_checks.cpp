// Learning-rate schedules: each update has the learning rate of its own step.
#include "conformance/training/rate_schedule_checks.hpp"

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

// Both decays with and without warm-up, and each optimizer, beside pipelines, too.
struct ScheduledSetup {
  int world;
  std::string_view decay, optimizer;
  int warmup_steps;
  std::string_view pipeline;
};
constexpr std::array kScheduledSetups{
    ScheduledSetup{2, "linear", "sgd", 2, "1"},  ScheduledSetup{3, "cosine", "adam", 2, "1"},
    ScheduledSetup{3, "linear", "adam", 0, "1"}, ScheduledSetup{2, "cosine", "sgd", 0, "1"},
    ScheduledSetup{2, "linear", "adam", 2, "2"}, ScheduledSetup{4, "cosine", "sgd", 2, "2"}};

bool is_planned_with_schedule(const suite::Parameters& parameters) {
  return std::ranges::any_of(kScheduledSetups, [&](const ScheduledSetup& setup) {
    return parameters.world() == setup.world && parameters.text("decay") == setup.decay &&
           parameters.text("optimizer") == setup.optimizer && parameters.number("warmup_steps") == setup.warmup_steps &&
           parameters.text("pipeline") == setup.pipeline;
  });
}

training::DigitsRun scheduled_run(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  const auto pipeline = static_cast<int>(parameters.number("pipeline"));
  return {.optimizer = parameters.text("optimizer"),
          .data = parameters.world() / pipeline,
          .steps = 6,
          .global_batch = 24,
          .seed = context.seed() & INT64_MAX,
          .device = context.device(),
          .pipeline = pipeline,
          .rate_schedule = job::RateSchedule{.decay = parameters.text("decay"),
                                             .warmup_steps = static_cast<int>(parameters.number("warmup_steps"))}};
}

void scheduled_job(Context& context) {
  report(findings_of_job(context, [&](const std::filesystem::path& folder) {
    return training::write_digits_run(scheduled_run(context), training::digits(), folder);
  }));
}

void scheduled_reference(Context& context) {
  judge_reference(context, [&](const std::filesystem::path& folder) {
    return training::write_digits_run(scheduled_run(context), training::digits(), folder);
  });
}

}  // namespace

void add_rate_schedule_checks(suite::Suite& suite, suite::Door door) {
  const bool is_job = door == suite::Door::job;
  suite.add({.id = is_job ? "training.job.lr_schedule" : "training.lr_schedule",
             .verifies = cited({ids::kScheduledUpdate, ids::kCoverage, ids::kGivenWeights, ids::kContinuity,
                                ids::kEqualParameters, ids::kEqualGradients, ids::kGradient, ids::kUnionGradient,
                                ids::kLoss, ids::kOwnRows}),
             .door = door,
             .axes = {{"decay", {"linear", "cosine"}},
                      {"optimizer", {"sgd", "adam"}},
                      {"warmup_steps", {"0", "2"}},
                      {"pipeline", {"1", "2"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned_with_schedule,
             .modules = {"training"},
             .limit = std::chrono::seconds(is_job ? 75 : 20),
             .body = is_job ? scheduled_job : scheduled_reference});
}

}  // namespace plumbline::conformance
