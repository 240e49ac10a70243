#include "conformance/training/training_checks.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/training/judge.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
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
  context.training().run(
      spec, context.world(), folder_of(context, record), [&](const training::StepProgress& progress) {
        if ((progress.step + 1) % news == 0)
          context.progress(fmt::format("step {} of {}, loss {:.4f}", progress.step + 1, progress.steps, progress.loss));
      });
  context.world().barrier();
}

// The first findings of each requirement: the rest says the same.
void report(const std::vector<Finding>& findings) {
  constexpr int shown = 4;
  std::map<std::string, int> count;
  for (const Finding& finding : findings)
    if (++count[finding.requirement] <= shown) ADD_FAILURE() << text_of(finding);
  for (const auto& [requirement, number] : count)
    if (number > shown) ADD_FAILURE() << requirement << ": " << number - shown << " more findings";
}

DigitsRun short_run(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  return {.model = parameters.text("model"),
          .optimizer = parameters.text("optimizer"),
          .data = context.size(),
          .steps = 4,
          .global_batch = 24,
          .micro_batches = 2,
          .accumulation = parameters.has("accumulation") ? static_cast<int>(parameters.number("accumulation")) : 1,
          .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
          .device = context.device()};
}

void judge_short_run(Context& context, const job::RunSpec& spec, const char* record, bool bitwise) {
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = context.capabilities().accumulator(comm::DType::f32, comm::ReduceOp::avg),
                             .rank_order = bitwise},
      .device = context.device()};
  report(judge(spec, job::TrainingRecord(spec, folder_of(context, record)), context.training(), options).findings);
}

void single_device(Context& context) {
  const job::RunSpec spec = prepared(context, short_run(context));
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
      context.training().accuracy(spec, *values, training::held_out_rows(spec, training::digits()), context.device());
  EXPECT_GT(accuracy, enough) << "TRAIN-012: share of held-out digits classified after " << spec.run.steps << " steps";
}

std::vector<std::string> cited(std::initializer_list<std::string_view> citations) {
  return {citations.begin(), citations.end()};
}

suite::Axis models(std::vector<std::string> names) { return {"model", std::move(names)}; }
suite::Axis optimizers() { return {"optimizer", {"sgd", "adam"}}; }

// Accumulation is the same for every model and optimizer: one of each will do.
bool accumulates_where_it_tells(const suite::Parameters& parameters) {
  const std::string pair = parameters.text("model") + " " + parameters.text("optimizer");
  return parameters.number("accumulation") == 1 || pair == "mlp adam" || pair == "conv_norm sgd";
}

}  // namespace

void add_training_checks(suite::Suite& suite) {
  suite.add({.id = "training.single_device",
             .verifies = cited({ids::kCoverage, ids::kGivenWeights, ids::kContinuity, ids::kEqualParameters,
                                ids::kEqualGradients, ids::kGradient, ids::kUnionGradient, ids::kUpdate, ids::kLoss,
                                ids::kOwnRows}),
             .axes = {models({"mlp", "conv", "conv_norm"}),
                      optimizers(),
                      {"accumulation", {"1", "3"}},
                      suite::worlds({2, 3, 4})},
             .applies = accumulates_where_it_tells,
             .modules = {"training"},
             .body = single_device});
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
}

}  // namespace plumbline::conformance
