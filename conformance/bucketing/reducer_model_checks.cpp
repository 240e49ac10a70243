// A model whose gradients are reduced in buckets while back-propagation runs: its record is a single device's, whatever the
// size of the buckets.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/training/judge.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/steps.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using suite::Context;
using training::DigitsRun;

namespace {

constexpr int kJudge = 0;  // the rank that prepares and judges

std::int64_t bucket_bytes(const std::string& size) {
  if (size == "each") return 1;
  return size == "flat" ? 1 << 30 : 2048;
}

std::filesystem::path folder_of(Context& context, const std::string& name) {
  return std::filesystem::path(context.scratch()) / name;
}

// Writes the run on one rank, and runs it on all.
job::RunSpec ran(Context& context, const DigitsRun& settings, const std::string& name) {
  const std::filesystem::path folder = folder_of(context, "run_" + name);
  if (context.rank() == kJudge) (void)training::write_digits_run(settings, training::digits(), folder);
  context.world().barrier();
  job::RunSpec spec = job::read_run_spec(folder / "spec.toml");
  context.training().run(spec, context.world(), folder_of(context, name), {},
                         context.steps().of<training::ExecutorSteps>());
  context.world().barrier();
  return spec;
}

DigitsRun settings_of(Context& context, const std::string& size) {
  const int accumulation = static_cast<int>(context.parameters().number("accumulation"));
  return {.model = context.parameters().text("model"),
          .optimizer = "sgd",  // with momentum
          .data = context.size(),
          .steps = 4,
          .global_batch = 12 * context.size(),
          .micro_batches = 2,
          .accumulation = accumulation,
          .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
          .device = context.device(),
          .bucket_bytes = bucket_bytes(size)};
}

void expect_none(const std::vector<Finding>& findings) {
  std::string all;
  for (const Finding& finding : findings) all += text_of(finding) + "; ";
  EXPECT_EQ(all, "") << "BUCKET-070";
}

void model_in_buckets(Context& context) {
  const job::RunSpec spec = ran(context, settings_of(context, context.parameters().text("buckets")), "record");
  if (context.rank() != kJudge) return;
  const comm::Capabilities& capabilities = context.capabilities();
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = capabilities.accumulator(comm::DType::f32, comm::ReduceOp::avg),
                             .rank_order = capabilities.has(comm::Capability::rank_order)},
      .device = context.device()};
  expect_none(
      judge(spec, job::TrainingRecord(spec, folder_of(context, "record")), context.training(), options).findings);
}

}  // namespace

void add_reducer_model_checks(suite::Suite& suite) {
  suite.add({.id = "bucketing.training.single_device",
             .verifies = {"BUCKET-070@460f"},
             .axes = {{"model", {"mlp", "conv_norm", "tied"}},
                      {"buckets", {"each", "several", "flat"}},
                      {"accumulation", {"1", "3"}},
                      suite::worlds({1, 2, 3, 4})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   const bool usual = parameters.text("buckets") == "several" || parameters.text("model") == "mlp";
                   const bool short_one =
                       parameters.number("accumulation") == 1 || parameters.text("model") == "conv_norm";
                   return usual && short_one &&
                          (parameters.world() == 2 || parameters.world() == 3 || parameters.text("model") == "mlp");
                 },
             .modules = {"training"},
             .limit = std::chrono::seconds(40),
             .body = model_in_buckets});
}

}  // namespace plumbline::conformance
