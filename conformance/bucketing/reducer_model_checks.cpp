// Models whose gradients are reduced in buckets: what they are trained with is a single device's, whatever the size of
// the buckets, the type that travels, and who has rows.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/support/recording.hpp"
#include "conformance/training/judge.hpp"
#include "harness/trainer/pipeline_run.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"
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
job::RunSpec ran(Context& context, comm::Communicator& world, const DigitsRun& digits,
                 const training::GradientSettings& gradients = {}) {
  const std::filesystem::path folder = folder_of(context, "run");
  if (context.rank() == kJudge) (void)training::write_digits_run(digits, training::digits(), folder);
  world.barrier();
  job::RunSpec spec = job::read_run_spec(folder / "spec.toml");
  context.training().run(spec, world, folder_of(context, "record"), {}, {.gradients = gradients});
  world.barrier();
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

// The record that the run left is a single device's.
void judge_record(Context& context, const job::RunSpec& spec, const training::GradientSettings& gradients,
                  const char* requirement) {
  if (context.rank() != kJudge) return;
  const comm::Capabilities& capabilities = context.capabilities();
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = capabilities.accumulator(comm::DType::f32, comm::ReduceOp::avg),
                             .rank_order = capabilities.has(comm::Capability::rank_order)},
      .device = context.device(),
      .wire = training::wire_of(gradients)};
  std::string all;
  for (const Finding& finding :
       judge(spec, job::TrainingRecord(spec, folder_of(context, "record")), context.oracle(), options).findings)
    all += text_of(finding) + "; ";
  EXPECT_EQ(all, "") << requirement;
}

void model_in_buckets(Context& context) {
  const job::RunSpec spec = ran(context, context.world(), settings_of(context, context.parameters().text("buckets")));
  judge_record(context, spec, {}, "BUCKET-070");
}

void compressed(Context& context) {
  const comm::DType wire = context.parameters().dtype();
  const training::GradientSettings gradients{.compression = wire == comm::DType::f16 ? "fp16" : "bf16"};
  RecordingCommunicator world(context.world().duplicate());
  const job::RunSpec spec = ran(context, world, settings_of(context, "several"), gradients);
  judge_record(context, spec, gradients, "BUCKET-080");
  std::int64_t parameters = 0, travelled = 0;
  for (const job::Parameter& parameter : job::parameters_of(spec)) parameters += job::elements_of(parameter.shape);
  for (const RecordedCall& call : world.calls)
    if (call.operation == comm::Operation::all_reduce && call.dtype == wire) travelled += call.elements;
  EXPECT_EQ(travelled, parameters * spec.run.steps) << "BUCKET-080: numbers that travelled as " << name_of(wire);
}

void static_graph(Context& context) {
  const training::GradientSettings gradients{.static_graph = true};
  const job::RunSpec spec = ran(context, context.world(), settings_of(context, "several"), gradients);
  judge_record(context, spec, gradients, "BUCKET-081");
}

// ---- models by names ----

// Of three batches of four rows a rank and epoch, and a second epoch.
training::PipelineRun run_of(Context& context, const std::string& model) {
  training::PipelineRun run{.settings = {.batch_size = 4,
                                         .epochs = 2,
                                         .micro_batches = 1,
                                         .learning_rate = 0.01,
                                         .warmup_epochs = 1,
                                         .seed = context.seed() & INT64_MAX,
                                         .pipeline = 1,
                                         .data = context.size()},
                            .model = model,
                            .data = model == "gpt" ? "text" : "digits",
                            .most_digits = static_cast<std::size_t>(12 * context.size()),
                            .text_batches = 3,
                            .device = context.device(),
                            .check = INT64_MAX};
  // The 161 gradients of ResNet-50, of fewer numbers.
  if (model == "resnet50") {
    run.settings.resnet.classes = 10;
    run.settings.resnet.planes = 4;
    run.settings.epochs = 1;
  }
  return run;
}

// Every update of the run is a single device's.
void train_and_compare(Context& context, const training::PipelineRun& run, std::size_t updates,
                       const char* requirement) {
  std::vector<training::UpdateComparison> compared;
  training::PipelineSinks sinks;
  sinks.compared = [&](const training::UpdateComparison& one) { compared.push_back(one); };
  (void)context.training().program(run, context.world(), sinks);
  if (context.rank() != kJudge) return;
  EXPECT_EQ(compared.size(), updates) << requirement << ": updates that were compared";
  for (const training::UpdateComparison& one : compared)
    for (const auto& [kind, text] : one.findings)
      ADD_FAILURE() << requirement << ": epoch " << one.epoch << ", batch " << one.batch << ": " << kind << ": "
                    << text;
}

void named_model(Context& context) {
  training::PipelineRun run = run_of(context, context.parameters().text("model"));
  run.gradients.bucket_bytes = bucket_bytes(context.parameters().text("buckets"));
  train_and_compare(context, run, static_cast<std::size_t>(3 * run.settings.epochs), "BUCKET-084");
}

void overlapped_model(Context& context) {
  training::PipelineRun run = run_of(context, context.parameters().text("model"));
  run.settings.micro_batches = static_cast<int>(context.parameters().number("micro_batches"));
  run.gradients = {.bucket_bytes = bucket_bytes("several"), .static_graph = true};
  train_and_compare(context, run, static_cast<std::size_t>(3 * run.settings.epochs), "BUCKET-081");
}

void hooked_model(Context& context) {
  training::PipelineRun run = run_of(context, context.parameters().text("model"));
  const std::string compression = context.parameters().text("compression");
  // From the third update on.
  run.gradients = {.bucket_bytes = bucket_bytes("several"),
                   .compression = compression == "powersgd" ? "powersgd:2:2" : compression,
                   .static_graph = context.parameters().text("reduced") == "meanwhile"};
  train_and_compare(context, run, static_cast<std::size_t>(3 * run.settings.epochs), "BUCKET-209");
}

void quantised_run(Context& context) {
  const training::GradientSettings gradients{.compression = context.parameters().text("compression")};
  judge_record(context, ran(context, context.world(), settings_of(context, "several"), gradients), gradients,
               "BUCKET-209");
}

void uneven_rows(Context& context) {
  const std::string rows = context.parameters().text("rows");
  training::PipelineRun run = run_of(context, "perceptron");
  run.settings.accumulation = static_cast<int>(context.parameters().number("accumulation"));
  run.gradients.join = context.parameters().text("divisor") == "present_ranks" ? "present" : "all";
  // Of the last batch rank 0 has one row and the others none, or all have some, rank 0 the most.
  if (rows == "of_rank_0") run.most_digits += 1;
  if (rows == "uneven") run.most_digits += static_cast<std::size_t>(2 * context.size() + 1);
  const int batches = rows == "even" ? 3 : 4;
  const int updates = (batches + run.settings.accumulation - 1) / run.settings.accumulation;
  train_and_compare(context, run, static_cast<std::size_t>(updates * run.settings.epochs), "BUCKET-082");
}

void running_statistics(Context& context) {
  training::PipelineRun run = run_of(context, "resnet_small");
  run.settings.accumulation = static_cast<int>(context.parameters().number("accumulation"));
  run.gradients.broadcast_buffers = context.parameters().text("statistics") == "broadcast";
  run.gradients.static_graph = context.parameters().text("reduced") == "meanwhile";
  const int updates = (3 + run.settings.accumulation - 1) / run.settings.accumulation;
  train_and_compare(context, run, static_cast<std::size_t>(updates * run.settings.epochs), "BUCKET-083");
}

}  // namespace

void add_reducer_model_checks(suite::Suite& suite) {
  suite.add({.id = "bucketing.training.single_device",
             .verifies = {"BUCKET-070@8db0"},
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
  using Applies = std::function<bool(const suite::Parameters&)>;
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds = {2, 3}, Applies applies = {}) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("bucketing.training.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .applies = std::move(applies),
               .modules = {"training"},
               .limit = std::chrono::seconds(60),
               .body = body});
  };
  add("compressed", "BUCKET-080@a8a4", {{"model", {"mlp", "conv_norm"}}, suite::half_dtypes(), {"accumulation", {"1"}}},
      compressed, {1, 2, 3});
  add("static_graph", "BUCKET-081@66a8", {{"model", {"mlp", "tied"}}, {"accumulation", {"1", "3"}}}, static_graph);
  add("overlapped", "BUCKET-081@66a8", {{"model", {"resnet50", "gpt"}}, {"micro_batches", {"1", "2"}}},
      overlapped_model);
  add("hooked", "BUCKET-209@f201",
      {{"model", {"perceptron", "resnet_small", "gpt"}},
       {"compression", {"int8", "int8-channel", "powersgd"}},
       {"reduced", {"afterwards", "meanwhile"}}},
      hooked_model, {1, 2, 3}, [](const suite::Parameters& parameters) {
        return parameters.text("model") == "perceptron" ||
               (parameters.world() == 2 && parameters.text("reduced") == "meanwhile");
      });
  add("quantised", "BUCKET-209@f201",
      {{"model", {"mlp"}}, {"compression", {"int8", "int8-channel"}}, {"accumulation", {"1"}}}, quantised_run);
  add("uneven_rows", "BUCKET-082@891e",
      {{"rows", {"even", "uneven", "of_rank_0"}},
       {"divisor", {"present_ranks", "initial_world"}},
       {"accumulation", {"1", "2"}}},
      uneven_rows, {2, 3}, [](const suite::Parameters& parameters) {
        return parameters.number("accumulation") == 1 || parameters.text("rows") == "of_rank_0";
      });
  add("statistics", "BUCKET-083@6785",
      {{"statistics", {"own", "broadcast"}}, {"reduced", {"afterwards", "meanwhile"}}, {"accumulation", {"1", "2"}}},
      running_statistics, {2, 3}, [](const suite::Parameters& parameters) {
        return parameters.number("accumulation") == 1 || parameters.text("statistics") == "broadcast";
      });
  add("models", "BUCKET-084@01c2", {{"model", {"resnet50", "gpt"}}, {"buckets", {"several", "flat"}}}, named_model);
}

}  // namespace plumbline::conformance
