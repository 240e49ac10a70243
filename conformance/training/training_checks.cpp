#include "conformance/training/training_checks.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/training/decay_group_checks.hpp"
#include "conformance/training/device_checks.hpp"
#include "conformance/training/frozen_checks.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/mixed_checks.hpp"
#include "conformance/training/mixture_checks.hpp"
#include "conformance/training/rate_schedule_checks.hpp"
#include "conformance/training/report.hpp"
#include "conformance/training/resume_checks.hpp"
#include "conformance/training/sharded_checks.hpp"
#include "conformance/training/transformer_checks.hpp"
#include "conformance/training/weighted_checks.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using suite::Context;
using training::DigitsRun;
namespace ids = training_requirements;

namespace {

constexpr int kJudge = 0;  // the rank that prepares and judges

std::filesystem::path folder_of(Context& context, const char* name) {
  return std::filesystem::path(context.scratch()) / name;
}

// Writes the run on one rank and reads it on all.
job::RunSpec prepared(Context& context, const DigitsRun& settings) {
  const std::filesystem::path folder = folder_of(context, "run");
  if (context.rank() == kJudge) (void)training::write_digits_run(settings, training::digits(), folder);
  context.world().barrier();
  return job::read_run_spec(folder / "spec.toml");
}

// A rank's part of the run; all records are there when it returns.
void run(Context& context, const job::RunSpec& spec, const char* record) {
  constexpr int news = 25;  // steps
  const auto listen = [&](const training::StepProgress& progress) {
    if ((progress.step + 1) % news == 0)
      context.progress(fmt::format("step {} of {}, loss {:.4f}", progress.step + 1, progress.steps, progress.loss));
  };
  context.training().run(spec, context.world(), folder_of(context, record), listen, {});
  context.world().barrier();
}

// At least 24 rows, as many for each of a rank's micro-batches.
std::int64_t rows_for(int ranks, int micro_batches) {
  const std::int64_t parts = std::int64_t{micro_batches} * ranks;
  return (24 + parts - 1) / parts * parts;
}

DigitsRun short_run(Context& context, int micro_batches = 2) {
  const suite::Parameters& parameters = context.parameters();
  return {.model = parameters.text("model"),
          .optimizer = parameters.text("optimizer"),
          .data = context.size(),
          .steps = 4,
          .global_batch = rows_for(context.size(), micro_batches),
          .micro_batches = micro_batches,
          .accumulation = parameters.has("accumulation") ? static_cast<int>(parameters.number("accumulation")) : 1,
          .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
          .device = context.device()};
}

void judge_short_run(Context& context, const job::RunSpec& spec, const char* record, bool bitwise) {
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = context.capabilities().accumulator(comm::DType::f32, comm::ReduceOp::avg),
                             .rank_order = bitwise},
      .device = context.device()};
  report(judge(spec, job::TrainingRecord(spec, folder_of(context, record)), context.oracle(), options).findings);
}

void single_device(Context& context) {
  const job::RunSpec spec = prepared(context, short_run(context));
  run(context, spec, "record");
  if (context.rank() == kJudge) judge_short_run(context, spec, "record", false);
}

void one_micro_batch(Context& context) {
  const job::RunSpec spec = prepared(context, short_run(context, 1));
  run(context, spec, "record");
  if (context.rank() == kJudge) judge_short_run(context, spec, "record", false);
}

void bitwise(Context& context) {
  const job::RunSpec spec = prepared(context, short_run(context));
  run(context, spec, "first");
  run(context, spec, "second");
  if (context.rank() != kJudge) return;
  judge_short_run(context, spec, "first", true);
  report(compare_runs(spec, job::TrainingRecord(spec, folder_of(context, "first")),
                      job::TrainingRecord(spec, folder_of(context, "second"))));
}

void learns(Context& context) {
  constexpr double enough = 0.95;
  const std::string model = context.parameters().text("model");
  // One seed for all: what is asked is whether training works, not how lucky a start is.
  const job::RunSpec spec = prepared(context, {.model = model,
                                               .data = context.size(),
                                               .steps = model == "mlp" ? 200 : 100,
                                               .global_batch = 96,
                                               .micro_batches = 1,
                                               .seed = 1,
                                               .device = context.device()});
  run(context, spec, "record");
  if (context.rank() != kJudge) return;
  const job::TrainingRecord record(spec, folder_of(context, "record"));
  const auto values = values_of(spec, record, spec.run.steps - 1, job::Moment::after);
  ASSERT_TRUE(values) << "the record has no values after the last step";
  const double accuracy =
      context.oracle().accuracy(spec, *values, training::held_out_rows(spec, training::digits()), context.device());
  EXPECT_GT(accuracy, enough) << "TRAIN-012: share of held-out digits classified after " << spec.run.steps << " steps";
}

suite::Axis models(std::vector<std::string> names) { return {"model", std::move(names)}; }
suite::Axis optimizers(std::vector<std::string> names = {"sgd", "adam"}) { return {"optimizer", std::move(names)}; }

// Accumulation is the same for every model and optimizer, and so are weight decay and the smallest and the largest
// world: one or two of each will do.
bool tells_more(const suite::Parameters& parameters) {
  const std::string pair = parameters.text("model") + " " + parameters.text("optimizer");
  const bool accumulates = parameters.number("accumulation") > 1;
  if (accumulates && pair != "mlp adam" && pair != "conv_norm sgd") return false;
  if (parameters.text("optimizer") == "sgd_decay" && (pair != "mlp sgd_decay" || parameters.world() > 3)) return false;
  const bool usual = parameters.world() > 1 && parameters.world() < 5;
  return usual || (pair == "mlp sgd" && !accumulates);
}

}  // namespace

void add_training_checks(suite::Suite& suite) {
  const std::vector<std::string> judged =
      cited({ids::kCoverage, ids::kGivenWeights, ids::kContinuity, ids::kEqualParameters, ids::kEqualGradients,
             ids::kGradient, ids::kUnionGradient, ids::kUpdate, ids::kLoss, ids::kOwnRows});
  suite.add({.id = "training.single_device",
             .verifies = judged,
             .axes = {models({"mlp", "conv", "conv_norm"}),
                      optimizers({"sgd", "sgd_decay", "adam"}),
                      {"accumulation", {"1", "3"}},
                      suite::worlds({1, 2, 3, 4, 5})},
             .applies = tells_more,
             .modules = {"training"},
             .body = single_device});
  add_weighted_checks(suite, suite::Door::backend);
  add_rate_schedule_checks(suite, suite::Door::backend);
  add_decay_group_checks(suite, suite::Door::backend);
  add_frozen_checks(suite, suite::Door::backend);
  add_transformer_checks(suite, suite::Door::backend);
  add_resume_checks(suite, suite::Door::backend);
  add_sharded_checks(suite, suite::Door::backend);
  add_mixture_checks(suite, suite::Door::backend);
  // What goes wrong only here, or everywhere but here, has to do with a rank's rows coming in parts.
  suite.add({.id = "training.one_micro_batch",
             .verifies = judged,
             .axes = {models({"mlp"}), optimizers({"sgd"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .body = one_micro_batch});
  suite.add({.id = "training.bitwise",
             .verifies = cited({ids::kGradientBits, ids::kSameBits}),
             .axes = {models({"mlp", "conv_norm"}), optimizers(), suite::worlds({2, 3, 4})},
             .modules = {"training"},
             .body = bitwise});
  suite.add({.id = "training.learns",
             .verifies = cited({ids::kLearns}),
             .axes = {models({"mlp", "conv"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .body = learns});
  add_job_checks(suite);
  add_mixed_checks(suite);
  add_training_device_checks(suite);
}

}  // namespace plumbline::conformance
