// Pipelines that train: each schedule against a single device, tied parameters, shapes that change, what is kept.
#include "conformance/pipeline/pipeline_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/training/job_runs.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/report.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/steps.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

constexpr std::string_view kCoverage = "PIPE-001@abd6";
constexpr std::string_view kGradient = "PIPE-002@b676";
constexpr std::string_view kValues = "PIPE-003@27ea";
constexpr std::string_view kCopies = "PIPE-004@08c7";
constexpr std::string_view kLoss = "PIPE-005@043f";
constexpr std::string_view kTied = "PIPE-006@1cdd";
constexpr std::string_view kShapes = "PIPE-007@2725";
constexpr std::string_view kSurvive = "PIPE-008@4be2";
constexpr std::string_view kActivations = "PIPE-009@6adf";
constexpr std::string_view kEvaluation = "PIPE-011@5160";
constexpr std::string_view kRefusal = "PIPE-010@be78";

constexpr int kJudge = 0;  // the rank that prepares and judges

std::filesystem::path folder_of(Context& context, const char* name) {
  return std::filesystem::path(context.scratch()) / name;
}

// ---- what a case asks for ----

int number_or(const suite::Parameters& parameters, const char* name, int otherwise) {
  return parameters.has(name) ? static_cast<int>(parameters.number(name)) : otherwise;
}
int data_of(const suite::Parameters& parameters) { return number_or(parameters, "data", 1); }
int pipeline_of(const suite::Parameters& parameters) { return parameters.world() / data_of(parameters); }
// "1", or twice the pipeline's ranks.
int micro_batches_of(const suite::Parameters& parameters) {
  const bool one = parameters.has("micro_batches") && parameters.text("micro_batches") == "1";
  return one ? 1 : 2 * pipeline_of(parameters);
}
bool has_two_chunks(const std::string& schedule) {
  return schedule == "interleaved-1f1b" || schedule == "looped-bfs" || schedule == "interleaved-zb" ||
         schedule == "zbv" || schedule == "dualpipev";
}

// Plain SGD: a wrong scale of the gradient shows in the values.
training::DigitsRun settings_of(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  const int micro_batches = micro_batches_of(parameters);
  return {.model = parameters.has("model") ? parameters.text("model") : "mlp",
          .optimizer = "sgd",
          .data = data_of(parameters),
          .steps = 3,
          .global_batch = std::int64_t{3} * data_of(parameters) * micro_batches,
          .micro_batches = micro_batches,
          .accumulation = number_or(parameters, "accumulation", 1),
          .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
          .device = context.device(),
          .pipeline = pipeline_of(parameters),
          .chunks = has_two_chunks(parameters.text("schedule")) ? 2 : 1,
          .schedule = parameters.text("schedule")};
}

job::RunSpec written(const training::DigitsRun& settings, const std::filesystem::path& folder) {
  job::RunSpec spec = training::write_digits_run(settings, training::digits(), folder);
  spec.optimizer = job::Sgd{.lr = 0.1};
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}

// Writes the run on one rank and reads it on all.
job::RunSpec prepared(Context& context, const training::DigitsRun& settings) {
  const std::filesystem::path folder = folder_of(context, "run");
  if (context.rank() == kJudge) (void)written(settings, folder);
  context.world().barrier();
  return job::read_run_spec(folder / "spec.toml");
}

const training::ExecutorSteps& steps_of(Context& context) { return context.steps().of<training::ExecutorSteps>(); }

// ---- whole runs ----

std::string id_of(std::string_view citation) { return std::string(suite::id_of_citation(citation)); }

// What the judge finds, by the requirements of a pipeline.
using Renaming = std::map<std::string, std::string_view, std::less<>>;
Renaming of_pipelines() {
  return {{id_of(ids::kCoverage), kCoverage},
          {id_of(ids::kGivenWeights), kValues},
          {id_of(ids::kContinuity), kValues},
          {id_of(ids::kUpdate), kValues},
          {id_of(ids::kEqualParameters), kCopies},
          {id_of(ids::kEqualGradients), kCopies},
          {id_of(ids::kGradient), kGradient},
          {id_of(ids::kGradientBits), kGradient},
          {id_of(ids::kUnionGradient), kGradient},
          {id_of(ids::kOwnRows), kGradient},
          {id_of(ids::kLoss), kLoss}};
}

std::vector<Finding> renamed(std::vector<Finding> findings, const Renaming& names) {
  for (Finding& finding : findings) finding.requirement = id_of(names.at(finding.requirement));
  return findings;
}

void run_and_judge(Context& context, const Renaming& names) {
  const job::RunSpec spec = prepared(context, settings_of(context));
  context.training().run(spec, context.world(), folder_of(context, "record"), {}, steps_of(context));
  context.world().barrier();
  if (context.rank() != kJudge) return;
  const comm::Capabilities& capabilities = context.capabilities();
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = capabilities.accumulator(comm::DType::f32, comm::ReduceOp::avg),
                             .rank_order = capabilities.has(comm::Capability::rank_order)},
      .device = context.device()};
  report(renamed(
      judge(spec, job::TrainingRecord(spec, folder_of(context, "record")), context.training(), options).findings,
      names));
}

void single_device(Context& context) { run_and_judge(context, of_pipelines()); }

Renaming of_tied_parameters() {
  Renaming names = of_pipelines();
  for (auto& [id, citation] : names) citation = kTied;
  return names;
}

void tied(Context& context) { run_and_judge(context, of_tied_parameters()); }

// Programs of others. They take seconds to start, so that a few runs must tell much.
void job(Context& context) {
  const bool is_tied = context.parameters().text("model") == "tied";
  report(
      renamed(findings_of_job(
                  context, [&](const std::filesystem::path& folder) { return written(settings_of(context), folder); }),
              is_tied ? of_tied_parameters() : of_pipelines()));
}

// ---- sessions: batches that no specification has ----

using Rows = std::vector<job::RowRange>;

// Micro-batches of these numbers of rows, one after the other in a batch.
Rows rows_of(std::int64_t batch, const std::vector<std::int64_t>& counts) {
  Rows rows;
  std::int64_t next = 0;
  for (const std::int64_t count : counts) {
    rows.push_back({.batch = batch, .first_row = next, .rows = count});
    next += count;
  }
  return rows;
}

// Three calls of four micro-batches each.
std::vector<Rows> calls_named(const std::string& shapes) {
  if (shapes == "per_call") return {rows_of(0, {2, 2, 2, 2}), rows_of(1, {5, 5, 5, 5}), rows_of(2, {1, 1, 1, 1})};
  if (shapes == "per_micro_batch")
    return {rows_of(0, {4, 1, 3, 2}), rows_of(1, {1, 6, 2, 5}), rows_of(2, {2, 2, 7, 1})};
  return {rows_of(0, {3, 3, 3, 3}), rows_of(1, {3, 3, 3, 3}), rows_of(2, {3, 3, 3, 3})};
}

// The largest difference of two gradients in parts of the largest element.
double distance(const std::vector<double>& got, const std::vector<double>& expected) {
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double here = std::abs(got[i] - expected[i]);
    difference = here >= 0 ? std::max(difference, here) : std::numeric_limits<double>::infinity();
  }
  return difference == 0 ? 0 : difference / largest;
}

// Each rank compares what it has with one device that takes the micro-batches of all calls as one step, and with one that
// has lost all but the last call.
void compare_sessions(Context& context, const job::RunSpec& spec, const std::vector<Rows>& calls,
                      training::PipelineSession& session) {
  constexpr double within = 1e-4;  // sums of a dozen micro-batches in other orders are off by less than 1e-5
  training::Slice all;
  for (const Rows& rows : calls) all.insert(all.end(), rows.begin(), rows.end());
  const training::Values weights = training::given_weights(spec, context.rank());
  const auto alone = [&](const training::Slice& slice) {
    return context.training().baseline(spec, {slice}, weights, training::Arithmetic::float64, "cpu").slices.front();
  };
  const training::LossGradient expected = alone(all), last = alone(calls.back());
  const double share = static_cast<double>(calls.back().size()) / static_cast<double>(all.size());
  for (const auto& [name, gradient] : session.gradients()) {
    const double difference = distance(gradient, expected.gradients.at(name));
    if (difference <= within) continue;
    std::vector<double> of_last = last.gradients.at(name);
    for (double& value : of_last) value *= share;
    const bool lost = calls.size() > 1 && distance(gradient, of_last) <= within;
    ADD_FAILURE() << id_of(lost ? kSurvive : kShapes) << ": rank " << context.rank() << ", " << name
                  << ": the gradient is " << (lost ? "that of the last call alone" : "not that of a single device")
                  << ", off by " << difference << " of its largest element";
  }
}

// Evaluates ahead of a step, or between its two calls.
void evaluation(Context& context) {
  constexpr double within = 1e-4;
  training::DigitsRun settings = settings_of(context);
  settings.global_batch = 18;
  settings.micro_batches = 1;  // of the file; the session cuts by itself
  const job::RunSpec spec = prepared(context, settings);
  const bool first = context.parameters().text("when") == "ahead_of_the_step";
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(micro_batches_of(context.parameters())), 3);
  const Rows evaluated = rows_of(2, counts);
  const std::vector<Rows> calls{rows_of(0, counts), rows_of(1, counts)};
  const training::Values weights = training::given_weights(spec, context.rank());
  const auto alone = [&](const training::Slice& slice) {
    return context.training().baseline(spec, {slice}, weights, training::Arithmetic::float64, "cpu").slices.front();
  };
  const auto session = context.training().pipeline(spec, context.world(), steps_of(context));
  if (!first) (void)session->train(calls[0], 2);
  const training::PipelineOutcome outcome = session->evaluate(evaluated);
  if (first) (void)session->train(calls[0], 2);
  (void)session->train(calls[1], 2);
  const std::string who = fmt::format("{}: rank {}: ", id_of(kEvaluation), context.rank());
  if (!outcome.losses.empty()) {
    double loss = 0;
    for (const double one : outcome.losses) loss += one / static_cast<double>(outcome.losses.size());
    EXPECT_NEAR(loss, alone(evaluated).loss, within) << who << "the loss";
    EXPECT_EQ(outcome.outputs.size(), 10 * 3 * counts.size()) << who << "ten outputs a row";
  }
  EXPECT_LE(outcome.peak_activations, 1) << who << "something is kept for a backward pass";
  training::Slice all = calls[0];
  all.insert(all.end(), calls[1].begin(), calls[1].end());
  const training::LossGradient expected = alone(all);
  for (const auto& [name, gradient] : session->gradients())
    EXPECT_LE(distance(gradient, expected.gradients.at(name)), within)
        << who << name << ": the gradient of the step is not that of its two calls";
}

void shapes(Context& context) {
  training::DigitsRun settings = settings_of(context);
  settings.micro_batches = 1;  // of the file; the session cuts by itself
  settings.global_batch = 20;
  const job::RunSpec spec = prepared(context, settings);
  const std::vector<Rows> calls = calls_named(context.parameters().text("shapes"));
  const auto session = context.training().pipeline(spec, context.world(), steps_of(context));
  try {
    for (const Rows& rows : calls) (void)session->train(rows, static_cast<int>(calls.size()));
  } catch (const InvalidArgument& error) {
    FAIL() << id_of(kShapes) << ": rank " << context.rank() << ": " << error.what();
  }
  compare_sessions(context, spec, calls, *session);
}

// The most (stage, micro-batch) pairs that a rank of p keeps at once, of m micro-batches: as the schedules' papers say.
int activations_of(const std::string& schedule, int p, int rank, int m) {
  constexpr int chunks = 2;
  if (schedule == "gpipe") return m;
  if (schedule == "looped-bfs") return chunks * m;
  if (schedule == "1f1b") return std::min(p - rank, m);
  if (schedule == "zb-h1") return std::min(p, m);
  return std::min(chunks * m, (chunks - 1) * p + 2 * (p - rank - 1) + 1);  // interleaved-1f1b
}

void activations(Context& context) {
  training::DigitsRun settings = settings_of(context);
  const int micro_batches = settings.micro_batches;
  const job::RunSpec spec = prepared(context, settings);
  const auto session = context.training().pipeline(spec, context.world(), steps_of(context));
  const Rows rows = job::micro_batches_of(spec, 0, 0);
  const int expected = activations_of(spec.run.schedule, spec.parallel.pipeline, context.rank(), micro_batches);
  for (int call = 0; call < 2; ++call)
    EXPECT_EQ(session->train(rows, 2).peak_activations, expected)
        << id_of(kActivations) << ": rank " << context.rank() << ", call " << call << ": activations at once";
}

// ---- what cannot be run ----

void refusal(Context& context) {
  job::RunSpec spec = prepared(context, settings_of(context));
  const bool divides = context.parameters().number("left_over") == 0;
  if (!divides) spec.run.micro_batches = 2 * spec.run.micro_batches + 1;
  const std::string rows = std::to_string(spec.run.global_batch), parts = std::to_string(spec.run.micro_batches);
  try {
    context.training().run(spec, context.world(), folder_of(context, "record"), {}, steps_of(context));
    EXPECT_TRUE(divides) << id_of(kRefusal) << ": " << rows << " rows in " << parts
                         << " micro-batches were not refused";
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    EXPECT_FALSE(divides) << id_of(kRefusal) << ": refused, although nothing is left over: " << text;
    EXPECT_TRUE(text.find(rows) != std::string::npos && text.find(parts) != std::string::npos)
        << id_of(kRefusal) << ": the numbers are not in: " << text;
  }
}

// ---- the cases ----

// Every schedule at two sizes and beside data parallelism; one micro-batch and accumulation where they tell more.
bool is_planned(const suite::Parameters& parameters) {
  const std::string schedule = parameters.text("schedule");
  const bool one = parameters.text("micro_batches") == "1", accumulates = parameters.number("accumulation") > 1;
  const int world = parameters.world(), data = data_of(parameters);
  if (data > 1) return world == 4 && !one && !accumulates;
  if (one) return world == 2 && !accumulates && (schedule == "gpipe" || schedule == "1f1b");
  if (accumulates) return world == 2 && (schedule == "1f1b" || schedule == "zb-h1" || schedule == "zbv");
  return true;
}

suite::Axis schedules(std::vector<std::string> names) { return {"schedule", std::move(names)}; }

struct Setup {
  std::string_view model, schedule;
  int accumulation, data, world;
};
constexpr std::array kJobs{
    Setup{"mlp", "1f1b", 1, 1, 2},  Setup{"mlp", "interleaved-1f1b", 3, 1, 3}, Setup{"mlp", "gpipe", 1, 2, 4},
    Setup{"tied", "1f1b", 1, 1, 3}, Setup{"conv_norm", "zbv", 1, 1, 2},
};
bool is_planned_job(const suite::Parameters& parameters) {
  return std::ranges::any_of(kJobs, [&](const Setup& setup) {
    return parameters.text("model") == setup.model && parameters.text("schedule") == setup.schedule &&
           parameters.number("accumulation") == setup.accumulation && data_of(parameters) == setup.data &&
           parameters.world() == setup.world;
  });
}

}  // namespace

void add_pipeline_checks(suite::Suite& suite) {
  suite.add({.id = "pipeline.training.single_device",
             .verifies = cited({kCoverage, kGradient, kValues, kCopies, kLoss}),
             .axes = {schedules({"gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1", "zb-h2", "interleaved-zb",
                                 "zbv", "dualpipev"}),
                      {"micro_batches", {"1", "2p"}},
                      {"accumulation", {"1", "3"}},
                      {"data", {"1", "2"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned,
             .modules = {"training"},
             .body = single_device});
  // Convolutions and the statistics of batch normalisation, which are a micro-batch's own.
  suite.add({.id = "pipeline.training.convolutions",
             .verifies = cited({kGradient, kLoss}),
             .axes = {{"model", {"conv_norm"}}, schedules({"1f1b", "zb-h1", "zbv"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .body = single_device});
  suite.add({.id = "pipeline.training.tied",
             .verifies = cited({kTied}),
             .axes = {{"model", {"tied", "mlp"}},
                      schedules({"1f1b", "interleaved-1f1b", "zb-h1", "zbv"}),
                      {"data", {"1", "2"}},
                      suite::worlds({2, 3, 4})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   const bool one_plain = parameters.text("model") == "mlp";
                   if (one_plain && (parameters.world() != 2 || parameters.text("schedule") != "1f1b")) return false;
                   return data_of(parameters) == 1 || parameters.world() == 4;
                 },
             .modules = {"training"},
             .body = tied});
  suite.add({.id = "pipeline.job.single_device",
             .verifies = cited({kCoverage, kGradient, kValues, kCopies, kLoss, kTied}),
             .door = suite::Door::job,
             .axes = {{"model", {"mlp", "conv_norm", "tied"}},
                      schedules({"gpipe", "1f1b", "interleaved-1f1b", "zbv"}),
                      {"accumulation", {"1", "3"}},
                      {"data", {"1", "2"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned_job,
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = job});
  suite.add({.id = "pipeline.training.shapes",
             .verifies = cited({kShapes, kSurvive}),
             .axes = {{"shapes", {"constant", "per_call", "per_micro_batch"}},
                      schedules({"1f1b", "zbv"}),
                      suite::worlds({2, 3})},
             .modules = {"training"},
             .body = shapes});
  suite.add({.id = "pipeline.training.evaluation",
             .verifies = cited({kEvaluation}),
             .axes = {{"when", {"ahead_of_the_step", "within_the_step"}},
                      schedules({"1f1b", "zbv", "looped-bfs"}),
                      suite::worlds({2, 3})},
             .modules = {"training"},
             .body = evaluation});
  suite.add(
      {.id = "pipeline.training.activations",
       .verifies = cited({kActivations}),
       .axes = {schedules({"gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1"}), suite::worlds({2, 3, 4})},
       .modules = {"training"},
       .body = activations});
  suite.add({.id = "pipeline.training.refuses_uneven",
             .verifies = cited({kRefusal}),
             .axes = {{"left_over", {"0", "1"}}, schedules({"1f1b"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .body = refusal});
}

}  // namespace plumbline::conformance
