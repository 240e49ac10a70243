// Pipelines that train: each schedule against a single device, tied parameters, programs of others, refusals.
#include "conformance/pipeline/pipeline_checks.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/pipeline/pipeline_cases.hpp"
#include "conformance/support/words.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/report.hpp"
#include "harness/suite/job_error.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

constexpr std::string_view kCoverage = "PIPE-001@a426";
constexpr std::string_view kGradient = "PIPE-002@ffd7";
constexpr std::string_view kValues = "PIPE-003@0e6a";
constexpr std::string_view kCopies = "PIPE-004@8d1b";
constexpr std::string_view kLoss = "PIPE-005@1d4c";
constexpr std::string_view kTied = "PIPE-006@4878";
constexpr std::string_view kRefusal = "PIPE-010@0721";

// ---- whole runs ----

// The requirement of a pipeline that a finding of the judge violates.
std::string_view requirement_of(const Finding& finding) {
  static const std::map<std::string, std::string_view, std::less<>> names{{id_of(ids::kCoverage), kCoverage},
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
  return names.at(finding.requirement);
}

// The parameters that several layers share, and on how many pipeline ranks each lies.
std::map<std::string, std::size_t> shared_parameters(const job::RunSpec& spec) {
  std::map<std::string, std::size_t> shared;
  for (const job::Parameter& parameter : job::parameters_of(spec)) {
    const bool is_shared = std::ranges::any_of(spec.layers, [&](const job::Layer& layer) {
      const auto* const tied = std::get_if<job::TiedLinear>(&layer);
      return tied != nullptr && parameter.name == fmt::format("{}.weight", tied->with);
    });
    if (is_shared) shared[parameter.name] = job::holders_of(spec, parameter).size();
  }
  return shared;
}

// What the judge finds, by the requirements of a pipeline. A gradient or an update of a shared parameter that is wrong
// violates what is asked of all parameters, and what is asked of shared ones; copies that lie on several stages are
// those of shared ones.
std::vector<Finding> of_pipelines(const std::vector<Finding>& findings, const job::RunSpec& spec) {
  const std::map<std::string, std::size_t> shared = shared_parameters(spec);
  std::vector<Finding> list;
  for (Finding finding : findings) {
    const std::string_view violated = requirement_of(finding);
    const bool is_update = finding.requirement == id_of(ids::kUpdate);
    const auto found = shared.find(finding.parameter);
    const bool is_shared = found != shared.end(), on_several = is_shared && found->second > 1;
    if (violated != kCopies || !on_several) {
      finding.requirement = id_of(violated);
      list.push_back(finding);
    }
    if (is_shared && (violated == kGradient || is_update || (violated == kCopies && on_several))) {
      finding.requirement = id_of(kTied);
      list.push_back(finding);
    }
  }
  return list;
}

void single_device(Context& context) {
  const job::RunSpec spec = prepared(context, settings_of(context));
  context.training().run(spec, context.world(), folder_of(context, "record"), {}, {});
  context.world().barrier();
  if (context.rank() != kJudge) return;
  const comm::Capabilities& capabilities = context.capabilities();
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = capabilities.accumulator(comm::DType::f32, comm::ReduceOp::avg),
                             .rank_order = capabilities.has(comm::Capability::rank_order)},
      .device = context.device()};
  report(of_pipelines(
      judge(spec, job::TrainingRecord(spec, folder_of(context, "record")), context.oracle(), options).findings, spec));
}

// Programs of others. They take seconds to start, so that a few runs must tell much.
void job(Context& context) {
  job::RunSpec spec;
  const std::vector<Finding> findings = findings_of_job(context, [&](const std::filesystem::path& folder) {
    spec = written(context, settings_of(context), folder);
    return spec;
  });
  report(of_pipelines(findings, spec));
}

// ---- what cannot be run ----

void refusal(Context& context) {
  job::RunSpec spec = prepared(context, settings_of(context));
  const bool divides = context.parameters().number("left_over") == 0;
  if (!divides) spec.run.micro_batches = 2 * spec.run.micro_batches + 1;
  const std::string rows = std::to_string(spec.run.global_batch), parts = std::to_string(spec.run.micro_batches);
  const std::filesystem::path record = folder_of(context, "record");
  try {
    context.training().run(spec, context.world(), record, {}, {});
    EXPECT_TRUE(divides) << id_of(kRefusal) << ": " << rows << " rows in " << parts
                         << " micro-batches were not refused";
  } catch (const InvalidArgument& error) {
    const std::string text = error.what();
    EXPECT_FALSE(divides) << id_of(kRefusal) << ": refused, although nothing is left over: " << text;
    EXPECT_EQ(missing_words(text, {rows, parts}), "") << id_of(kRefusal) << ": in " << text;
    EXPECT_FALSE(std::filesystem::exists(record)) << id_of(kRefusal) << ": a record was begun before the refusal";
  }
}

// Writes the run of the case, of which some rows are left over; by hand, as no specification that can be run has them.
job::RunSpec written_uneven(Context& context, const std::filesystem::path& folder) {
  job::RunSpec spec = written(context, settings_of(context), folder);
  if (context.parameters().number("left_over") == 0) return spec;
  spec.run.micro_batches = 2 * spec.run.micro_batches + 1;
  std::ofstream file(folder / "spec.toml");
  file << job::to_toml(spec) << std::flush;
  if (!file) throw RuntimeFailure(fmt::format("cannot write {}", (folder / "spec.toml").string()));
  return spec;
}

// A program ends with an error that names both numbers, and leaves no record.
void refused_job(Context& context) {
  const bool divides = context.parameters().number("left_over") == 0;
  const std::filesystem::path scratch = std::filesystem::absolute(context.scratch()), record = scratch / "record";
  const job::RunSpec spec = written_uneven(context, scratch / "run");
  std::filesystem::create_directory(record);
  const std::string rows = std::to_string(spec.run.global_batch), parts = std::to_string(spec.run.micro_batches);
  try {
    (void)context.job().run(context.parameters().world(), scratch / "run" / "spec.toml", record);
    EXPECT_TRUE(divides) << id_of(kRefusal) << ": " << rows << " rows in " << parts
                         << " micro-batches were not refused";
    EXPECT_TRUE(std::filesystem::exists(job::record_file(record, 0))) << id_of(kRefusal) << ": there is no record";
  } catch (const suite::JobUnsupported&) {
    throw;
  } catch (const suite::JobHung&) {
    throw;
  } catch (const suite::JobFailure& error) {
    EXPECT_FALSE(divides) << id_of(kRefusal) << ": refused, although nothing is left over: " << error.what();
    EXPECT_EQ(missing_words(error.output(), {rows, parts}), "") << id_of(kRefusal) << ": in " << error.output();
    EXPECT_FALSE(std::filesystem::exists(job::record_file(record, 0)))
        << id_of(kRefusal) << ": a record was written in spite of the refusal";
  }
}

// ---- the cases ----

// Every schedule at two sizes and beside data parallelism. One micro-batch, as many as ranks or one more or less,
// accumulation and three data ranks where they tell more.
bool is_planned(const suite::Parameters& parameters) {
  const std::string schedule = parameters.text("schedule"), micro_batches = parameters.text("micro_batches");
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, schedule) != names.end();
  };
  const int world = parameters.world(), data = data_of(parameters);
  const bool usual = micro_batches == "2p";
  if (parameters.number("accumulation") > 1)
    return usual && data == 1 && world == 2 && is_one_of({"1f1b", "zb-h1", "zbv"});
  if (data == 3) return usual && world == 6 && is_one_of({"1f1b", "interleaved-1f1b"});
  if (data == 2) return usual && world == 4;
  if (usual) return world <= 4;
  if (micro_batches == "1") return (world == 2 || world == 4) && is_one_of({"gpipe", "1f1b"});
  if (micro_batches == "p") return world == 3 && schedule != "dualpipev";
  return world == 3 && is_one_of({"gpipe", "1f1b", "looped-bfs", "zb-h1", "zb-h2", "zbv"});
}

struct Setup {
  std::string_view model, schedule, micro_batches;
  int accumulation, data, world;
};
// Every schedule in some run, accumulation and data ranks each with several, and what is tied with both.
constexpr std::array kJobs{
    Setup{"mlp", "1f1b", "2p", 1, 1, 2},
    Setup{"mlp", "1f1b", "p+1", 3, 1, 3},
    Setup{"mlp", "gpipe", "2p", 1, 2, 4},
    Setup{"mlp", "gpipe", "1", 1, 1, 3},
    Setup{"mlp", "interleaved-1f1b", "2p", 3, 1, 3},
    Setup{"mlp", "looped-bfs", "2p", 2, 1, 2},
    Setup{"mlp", "gpipe", "p-1", 1, 1, 4},
    Setup{"mlp", "zb-h1", "2p", 3, 2, 4},
    Setup{"mlp", "zb-h2", "2p", 1, 1, 4},
    Setup{"mlp", "interleaved-zb", "2p", 1, 1, 2},
    Setup{"mlp", "v-half", "2p", 1, 1, 2},
    Setup{"mlp", "v-min", "2p", 1, 1, 2},
    Setup{"mlp", "dualpipev", "2p", 1, 1, 2},
    Setup{"tied", "1f1b", "2p", 1, 1, 3},
    Setup{"tied", "1f1b", "2p", 3, 2, 4},
    Setup{"tied", "zbv", "2p", 1, 1, 2},
    Setup{"conv_norm", "zbv", "2p", 1, 1, 2},
    Setup{"conv_norm", "zb-h1", "p", 1, 1, 3},
    Setup{"tied_within", "zb-h1", "2p", 1, 1, 2},
    Setup{"mlp", "1f1b", "2p", 1, 3, 6},
    Setup{"tied_thrice", "1f1b", "2p", 1, 1, 4},
};
bool is_planned_job(const suite::Parameters& parameters) {
  return std::ranges::any_of(kJobs, [&](const Setup& setup) {
    return parameters.text("model") == setup.model && parameters.text("schedule") == setup.schedule &&
           parameters.text("micro_batches") == setup.micro_batches &&
           parameters.number("accumulation") == setup.accumulation && data_of(parameters) == setup.data &&
           parameters.world() == setup.world;
  });
}

// A tied weight where it lies on two ranks, on two of two replicas, with both its uses on one stage,
// and with three uses on three ranks; beside it a model
// that ties nothing.
bool is_planned_tied(const suite::Parameters& parameters) {
  const std::string model = parameters.text("model"), schedule = parameters.text("schedule");
  const bool accumulates = parameters.number("accumulation") > 1;
  const int world = parameters.world(), data = data_of(parameters);
  if (model == "mlp") return world == 2 && schedule == "1f1b" && !accumulates && data == 1;
  if (model == "tied_within") return world < 4 && (schedule == "1f1b" || schedule == "zb-h1") && data == 1;
  if (model == "tied_thrice") return world == 4 && schedule == "1f1b" && !accumulates && data == 1;
  if (data > 1) return world == 4;
  return !accumulates || world == 2;
}

std::vector<std::string> every_schedule() {
  return {"gpipe",          "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1",    "zb-h2",
          "interleaved-zb", "zbv",  "v-half",           "v-min",      "dualpipev"};
}

}  // namespace

void add_pipeline_checks(suite::Suite& suite) {
  const std::vector<std::string> whole_runs = cited({kCoverage, kGradient, kValues, kCopies, kLoss});
  suite.add({.id = "pipeline.training.single_device",
             .verifies = whole_runs,
             .axes = {schedules_axis(every_schedule()),
                      {"micro_batches", {"1", "p-1", "p", "p+1", "2p"}},
                      {"accumulation", {"1", "3"}},
                      {"data", {"1", "2", "3"}},
                      suite::worlds({2, 3, 4, 6})},
             .applies = is_planned,
             .modules = {"training"},
             .deadlock_prone = true,
             .body = single_device});
  // One chunk is the schedule without chunks; four are more than a first and a last.
  suite.add({.id = "pipeline.training.chunks",
             .verifies = cited({kCoverage, kGradient, kValues, kLoss}),
             .axes = {{"chunks", {"1", "4"}},
                      schedules_axis({"interleaved-1f1b", "looped-bfs", "interleaved-zb"}),
                      suite::worlds({2, 3})},
             .modules = {"training"},
             .deadlock_prone = true,
             .body = single_device});
  // Where a rank is follows from the order of the axes, which need not be the usual one.
  for (const suite::Door door : {suite::Door::backend, suite::Door::job}) {
    const bool is_job = door == suite::Door::job;
    suite.add({.id = is_job ? "pipeline.job.order" : "pipeline.training.order",
               .verifies = whole_runs,
               .door = door,
               .axes = {{"order", {"pipeline_first", "data_first"}},
                        schedules_axis({"1f1b"}),
                        {"data", {"2"}},
                        suite::worlds({4, 6})},
               .modules = {"training"},
               .limit = std::chrono::seconds(is_job ? 75 : 20),
               .deadlock_prone = !is_job,
               .body = is_job ? job : single_device});
  }
  suite.add({.id = "pipeline.job.chunks",
             .verifies = cited({kCoverage, kGradient, kValues, kLoss}),
             .door = suite::Door::job,
             .axes = {{"chunks", {"4"}}, schedules_axis({"interleaved-1f1b"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = job});
  // With one row in each micro-batch a mean over rows is a sum.
  suite.add({.id = "pipeline.training.rows",
             .verifies = cited({kGradient, kLoss}),
             .axes = {{"rows", {"1", "7"}}, schedules_axis({"1f1b", "zb-h1"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .deadlock_prone = true,
             .body = single_device});
  // What an optimizer keeps of a parameter belongs to it, whichever stage of a rank it is on.
  suite.add(
      {.id = "pipeline.training.optimizers",
       .verifies = cited({kGradient, kValues}),
       .axes = {{"optimizer", {"sgd", "sgd_decay", "adam"}}, schedules_axis({"1f1b", "zbv"}), suite::worlds({2, 3})},
       .modules = {"training"},
       .deadlock_prone = true,
       .body = single_device});
  suite.add({.id = "pipeline.job.optimizers",
             .verifies = cited({kGradient, kValues}),
             .door = suite::Door::job,
             .axes = {{"optimizer", {"sgd_decay", "adam"}}, schedules_axis({"1f1b", "zbv"}), suite::worlds({2, 3})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return (parameters.text("optimizer") == "adam") == (parameters.text("schedule") == "1f1b");
                 },
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = job});
  // Convolutions and the statistics of batch normalisation, which are a micro-batch's own.
  suite.add({.id = "pipeline.training.convolutions",
             .verifies = cited({kGradient, kLoss}),
             .axes = {{"model", {"conv_norm"}}, schedules_axis({"1f1b", "zb-h1", "zbv"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .body = single_device});
  suite.add({.id = "pipeline.training.tied",
             .verifies = cited({kCoverage, kGradient, kValues, kCopies, kLoss, kTied}),
             .axes = {{"model", {"tied", "tied_within", "tied_thrice", "mlp"}},
                      schedules_axis({"1f1b", "interleaved-1f1b", "zb-h1", "zbv"}),
                      {"accumulation", {"1", "3"}},
                      {"data", {"1", "2"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_planned_tied,
             .modules = {"training"},
             .deadlock_prone = true,
             .body = single_device});
  suite.add({.id = "pipeline.job.single_device",
             .verifies = cited({kCoverage, kGradient, kValues, kCopies, kLoss, kTied}),
             .door = suite::Door::job,
             .axes = {{"model", {"mlp", "conv_norm", "tied", "tied_within", "tied_thrice"}},
                      schedules_axis(every_schedule()),
                      {"micro_batches", {"1", "p-1", "p", "p+1", "2p"}},
                      {"accumulation", {"1", "2", "3"}},
                      {"data", {"1", "2", "3"}},
                      suite::worlds({2, 3, 4, 6})},
             .applies = is_planned_job,
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = job});
  add_session_checks(suite);
  suite.add({.id = "pipeline.training.refuses_uneven",
             .verifies = cited({kRefusal}),
             .axes = {{"left_over", {"0", "1"}}, schedules_axis({"1f1b"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .body = refusal});
  suite.add({.id = "pipeline.job.refuses_uneven",
             .verifies = cited({kRefusal}),
             .door = suite::Door::job,
             .axes = {{"left_over", {"0", "1"}}, schedules_axis({"1f1b"}), suite::worlds({3})},
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = refused_job});
}

}  // namespace plumbline::conformance
