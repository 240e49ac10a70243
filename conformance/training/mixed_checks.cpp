// Training over tensor ranks, and in 16 bits: against a single device, with overflows on one rank, clipped.
#include "conformance/training/mixed_checks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/support/claimed_type.hpp"
#include "conformance/training/bounds.hpp"
#include "conformance/training/job_runs.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/report.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using suite::Context;
using suite::Parameters;

namespace {

constexpr int kSteps = 6;
constexpr int kFirstOverflow = 1, kSecondOverflow = 3;

std::string id_of_cited(std::string_view citation) { return std::string(suite::id_of_citation(citation)); }

std::string value_or(const Parameters& parameters, const char* name, const char* otherwise) {
  return parameters.has(name) ? parameters.text(name) : otherwise;
}

// "2x2x1": tensor, pipeline and data ranks.
struct Grid {
  int tensor = 1, pipeline = 1, data = 1;
  explicit Grid(const std::string& text) : tensor(text[0] - '0'), pipeline(text[2] - '0'), data(text[4] - '0') {}
  [[nodiscard]] int world() const { return tensor * pipeline * data; }
};

bool fills_world(const Parameters& parameters) { return Grid(parameters.text("grid")).world() == parameters.world(); }

// On one replica alone, each of three once: two steps after each other, and one after a growth of the scale.
std::vector<job::Injection> injections_of_replicas(bool reduced) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {{.step = 1, .rank = 0, .value = infinity, .reduced = reduced},
          {.step = 2, .rank = 1, .value = std::numeric_limits<double>::quiet_NaN(), .reduced = reduced},
          {.step = 5, .rank = 2, .value = -infinity, .reduced = reduced}};
}
constexpr int kStepsOfReplicas = 8;

// Where something is written into a gradient: in two steps, on two ranks.
std::vector<job::Injection> injections_of(const Parameters& parameters, int world) {
  if (parameters.has("moment")) return injections_of_replicas(parameters.text("moment") == "reduced");
  const std::string kind = value_or(parameters, "overflow", "none");
  if (kind == "none" || kind == "scale") return {};
  const double value = kind == "nan"     ? std::numeric_limits<double>::quiet_NaN()
                       : kind == "large" ? 1e30
                                         : std::numeric_limits<double>::infinity();
  const bool reduced = kind == "reduced";
  return {{.step = kFirstOverflow, .rank = 0, .value = value, .reduced = reduced},
          {.step = kSecondOverflow, .rank = world - 1, .value = value, .reduced = reduced}};
}

bool is_autocast(const Parameters& parameters) { return value_or(parameters, "precision", "fp16").starts_with("amp"); }
std::string dtype_of(const Parameters& parameters) {
  const std::string precision = value_or(parameters, "precision", "fp16");
  if (precision == "fp32") return "float32";
  return precision.ends_with("bf16") ? "bfloat16" : "float16";
}

// bf16 has float32's range, and needs no scale; a scaler is what survives an injection.
std::optional<job::Scaler> scaler_of(const Parameters& parameters) {
  if (dtype_of(parameters) != "float16" && !parameters.has("moment")) return {};
  const bool too_large = value_or(parameters, "overflow", "none") == "scale";
  return job::Scaler{
      .init_scale = too_large ? 0x1p26 : 1024, .backoff_factor = too_large ? 0x1p-6 : 0.5, .growth_interval = 2};
}

training::DigitsRun settings_for(Context& context) {
  const Parameters& parameters = context.parameters();
  const Grid grid(parameters.text("grid"));
  return {.model = value_or(parameters, "model", "pairs"),
          .optimizer = value_or(parameters, "optimizer", "sgd"),
          .data = grid.data,
          .steps = parameters.has("moment") ? kStepsOfReplicas : kSteps,
          .global_batch = std::int64_t{12} * grid.data,
          .micro_batches = 2,
          .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
          .device = context.device(),
          .pipeline = grid.pipeline,
          .schedule = value_or(parameters, "schedule", "1f1b"),
          .tensor = grid.tensor,
          .dtype = dtype_of(parameters),
          .scaler = scaler_of(parameters),
          .injections = injections_of(parameters, grid.world())};
}

// Below the norms that these runs have.
double max_norm_of(const std::string& norm) { return norm == "inf" ? 0.05 : norm == "1" ? 5 : 0.25; }
double type_of_norm(const std::string& norm) {
  return norm == "inf" ? std::numeric_limits<double>::infinity() : std::stod(norm);
}

training::PrecisionSettings precision_of(const Parameters& parameters) {
  training::PrecisionSettings settings{.autocast = is_autocast(parameters)};
  if (!parameters.has("norm")) return settings;
  settings.norm_type = type_of_norm(parameters.text("norm"));
  settings.clip_norm = max_norm_of(parameters.text("norm"));
  return settings;
}

// The record of a run, judged; of every rank the same specification.
Judgement judgement_of(Context& context, const job::RunSpec& spec, const training::PrecisionSettings& precision) {
  const comm::Capabilities& capabilities = context.capabilities();
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = capabilities.accumulator(comm::DType::f32, comm::ReduceOp::avg),
                             .rank_order = capabilities.has(comm::Capability::rank_order)},
      .device = context.device(),
      .precision = precision};
  const std::filesystem::path record = std::filesystem::path(context.scratch()) / "record";
  return judge(spec, job::TrainingRecord(spec, record), context.oracle(), options);
}

// Under autocast only tensor ranks give each other values of 16 bits.
void require_type_of(Context& context) {
  const Parameters& parameters = context.parameters();
  const std::string dtype = dtype_of(parameters);
  if (dtype == "float32" || (is_autocast(parameters) && Grid(parameters.text("grid")).tensor == 1)) return;
  require_claimed(context, dtype == "float16" ? comm::DType::f16 : comm::DType::bf16);
}

// Runs what the axes say on all ranks; the judgement is rank 0's, the others have none.
Judgement trained_mixed(Context& context) {
  require_type_of(context);
  const std::filesystem::path folder = std::filesystem::path(context.scratch()) / "run";
  if (context.rank() == 0) (void)training::write_digits_run(settings_for(context), training::digits(), folder);
  context.world().barrier();
  const job::RunSpec spec = job::read_run_spec(folder / "spec.toml");
  const training::RunSettings settings{.precision = precision_of(context.parameters())};
  context.training().run(spec, context.world(), std::filesystem::path(context.scratch()) / "record", {}, settings);
  context.world().barrier();
  return context.rank() == 0 ? judgement_of(context, spec, settings.precision) : Judgement();
}

// What the judge finds by the requirements of training, by those of this check.
void report_as(std::vector<Finding> findings, std::string_view citation) {
  for (Finding& finding : findings)
    if (finding.requirement.starts_with("TRAIN-")) finding.requirement = id_of_cited(citation);
  report(findings);
}

// Programs of others. They take seconds to start, so that a few runs must tell much.
void job_in_16_bits(Context& context) {
  std::vector<Finding> findings = findings_of_job(context, [&](const std::filesystem::path& folder) {
    return training::write_digits_run(settings_for(context), training::digits(), folder);
  });
  report_as(std::move(findings), scaling_requirements::kTraining);
}

void job_over_tensor_ranks(Context& context) {
  std::vector<Finding> findings = findings_of_job(context, [&](const std::filesystem::path& folder) {
    return training::write_digits_run(settings_for(context), training::digits(), folder);
  });
  report_as(std::move(findings), training_requirements::kTensorRanks);
}

// Clipping that the specification says.
void clipped_job(Context& context) {
  std::vector<Finding> findings = findings_of_job(context, [&](const std::filesystem::path& folder) {
    training::DigitsRun settings = settings_for(context);
    const std::string& norm = context.parameters().text("norm");
    settings.micro_batches = std::max(settings.micro_batches, settings.pipeline);  // which some schedules need
    settings.clip = job::Clip{.max_norm = max_norm_of(norm), .norm_type = type_of_norm(norm)};
    return training::write_digits_run(settings, training::digits(), folder);
  });
  report_as(std::move(findings), scaling_requirements::kClips);
}

void over_tensor_ranks(Context& context) {
  report_as(trained_mixed(context).findings, training_requirements::kTensorRanks);
}
void in_16_bits(Context& context) { report_as(trained_mixed(context).findings, scaling_requirements::kTraining); }
void clipped_training(Context& context) { report_as(trained_mixed(context).findings, scaling_requirements::kClips); }
void autocast_clipped(Context& context) {
  std::vector<Finding> findings = trained_mixed(context).findings;
  for (Finding& finding : findings) finding.requirement = id_of_cited(scaling_requirements::kAutocastClips);
  report(findings);
}
void bits_of_16(Context& context) { report_as(trained_mixed(context).findings, scaling_requirements::kBits); }

// ---- one layer ----

void compare_layer(const std::string& what, const std::vector<double>& got, const std::vector<double>& narrow,
                   const std::vector<double>& wide) {
  ASSERT_EQ(got.size(), wide.size()) << id_of_cited(training_requirements::kCutLayers) << ": " << what;
  const double bound = bound_beside(distance(narrow, wide), largest_of(wide), unit_roundoff(comm::DType::f32));
  const double difference = distance(got, wide);
  EXPECT_LE(difference, bound) << id_of_cited(training_requirements::kCutLayers) << ": " << what
                               << " of the cut layer is not that of the whole one";
}

void one_layer(Context& context) {
  const training::CutLayer layer{.kind = context.parameters().text("layer"), .seed = context.seed()};
  training::Training& oracle = context.oracle();
  const training::LayerOutcome got = context.training().cut_layer(layer, context.world());
  const training::LayerOutcome narrow = oracle.whole_layer(layer, training::Arithmetic::float32);
  const training::LayerOutcome wide = oracle.whole_layer(layer, training::Arithmetic::float64);
  compare_layer("the output", got.output, narrow.output, wide.output);
  compare_layer("the input's gradient", got.input_gradient, narrow.input_gradient, wide.input_gradient);
  ASSERT_EQ(got.gradients.size(), wide.gradients.size()) << id_of_cited(training_requirements::kCutLayers);
  for (const auto& [name, gradient] : wide.gradients)
    compare_layer("the gradient of " + name, got.gradients.at(name), narrow.gradients.at(name), gradient);
}

// ---- the cases ----

struct MixedCase {
  std::string_view first, grid;
};
template <std::size_t Count>
bool is_one_of(const std::array<MixedCase, Count>& cases, const Parameters& parameters, const char* axis) {
  if (!fills_world(parameters)) return false;
  for (const MixedCase& one : cases)
    if (parameters.text(axis) == one.first && parameters.text("grid") == one.grid) return true;
  return false;
}

suite::Axis grids() {
  return {"grid", {"1x1x1", "1x1x2", "1x1x3", "1x3x1", "1x2x1", "1x2x2", "2x1x1", "3x1x1", "2x1x2", "2x2x1", "2x2x2"}};
}
suite::Axis all_worlds() { return suite::worlds({1, 2, 3, 4, 8}); }

bool is_planned_in_tensor_ranks(const Parameters& parameters) {
  if (!fills_world(parameters) || Grid(parameters.text("grid")).tensor == 1) return false;
  const std::string &model = parameters.text("model"), &grid = parameters.text("grid");
  if (parameters.text("schedule") == "zb-h1") return model == "pairs" && grid == "2x2x1";
  if (model == "pairs") return true;
  return grid == "2x2x1";
}

constexpr std::array kTrained{MixedCase{"fp16", "1x1x1"}, MixedCase{"fp16", "2x1x1"},    MixedCase{"fp16", "3x1x1"},
                              MixedCase{"fp16", "2x2x2"}, MixedCase{"bf16", "2x2x1"},    MixedCase{"amp", "2x2x1"},
                              MixedCase{"amp", "1x1x2"},  MixedCase{"amp_bf16", "2x1x1"}};
constexpr std::array kOverflows{MixedCase{"none", "2x2x1"},  MixedCase{"inf", "2x2x2"},     MixedCase{"nan", "2x2x1"},
                                MixedCase{"nan", "1x3x1"},   MixedCase{"inf", "1x1x1"},     MixedCase{"large", "1x2x1"},
                                MixedCase{"scale", "2x1x2"}, MixedCase{"reduced", "2x1x2"}, MixedCase{"inf", "1x1x2"}};
constexpr std::array kJobs{MixedCase{"none", "1x1x2"}, MixedCase{"inf", "2x2x1"}, MixedCase{"scale", "1x1x3"}};
constexpr std::array kClipped{MixedCase{"2", "2x1x1"}, MixedCase{"1", "2x1x2"}, MixedCase{"inf", "3x1x1"},
                              MixedCase{"2", "2x2x1"}, MixedCase{"2", "1x2x1"}, MixedCase{"2", "1x1x1"}};

// Of jobs, in float32 but for one: data ranks, stages, a tied weight on two of them, tensor ranks, and products.
bool is_clipped_job(const Parameters& parameters) {
  struct Clipped {
    std::string_view precision, model, norm, grid;
  };
  constexpr std::array cases{Clipped{"fp32", "pairs", "2", "1x1x2"}, Clipped{"fp32", "pairs", "inf", "1x1x3"},
                             Clipped{"fp32", "pairs", "2", "1x2x2"}, Clipped{"fp32", "tied", "2", "1x3x1"},
                             Clipped{"fp32", "pairs", "2", "2x1x1"}, Clipped{"fp32", "pairs", "2", "2x2x1"},
                             Clipped{"fp16", "pairs", "1", "1x1x2"}};
  return fills_world(parameters) && std::ranges::any_of(cases, [&](const Clipped& one) {
           return parameters.text("precision") == one.precision && parameters.text("model") == one.model &&
                  parameters.text("norm") == one.norm && parameters.text("grid") == one.grid;
         });
}

bool clips_under_autocast(const Parameters& parameters) {
  struct Clipped {
    std::string_view precision, model, norm, overflow, grid;
  };
  constexpr std::array cases{
      Clipped{"amp", "pairs", "2", "none", "2x2x1"},  Clipped{"amp", "pairs", "2", "none", "1x1x1"},
      Clipped{"amp", "pairs", "1", "nan", "2x1x2"},   Clipped{"amp", "tied", "2", "none", "1x2x1"},
      Clipped{"amp", "pairs", "inf", "inf", "3x1x1"}, Clipped{"amp_bf16", "pairs", "2", "none", "2x2x1"}};
  return fills_world(parameters) && std::ranges::any_of(cases, [&](const Clipped& one) {
           return parameters.text("precision") == one.precision && parameters.text("model") == one.model &&
                  parameters.text("norm") == one.norm && parameters.text("overflow") == one.overflow &&
                  parameters.text("grid") == one.grid;
         });
}

}  // namespace

void add_mixed_checks(suite::Suite& suite) {
  using namespace scaling_requirements;
  suite.add({.id = "training.tensor.layers",
             .verifies = cited({training_requirements::kCutLayers}),
             .axes = {{"layer", {training::kCutLayers.begin(), training::kCutLayers.end()}}, suite::worlds({1, 2, 3})},
             .modules = {"training"},
             .body = one_layer});
  suite.add({.id = "training.tensor.single_device",
             .verifies = cited({training_requirements::kTensorRanks}),
             .axes = {{"precision", {"fp32"}},
                      {"model", {"pairs", "mlp", "tied"}},
                      {"schedule", {"1f1b", "zb-h1"}},
                      grids(),
                      all_worlds()},
             .applies = is_planned_in_tensor_ranks,
             .modules = {"training"},
             .body = over_tensor_ranks});
  suite.add({.id = "training.job.tensor",
             .verifies = cited({training_requirements::kTensorRanks}),
             .door = suite::Door::job,
             .axes = {{"precision", {"fp32"}},
                      {"model", {"pairs"}},
                      {"grid", {"2x1x2", "3x1x1", "2x2x1"}},
                      suite::worlds({3, 4})},
             .applies = fills_world,
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = job_over_tensor_ranks});
  suite.add({.id = "scaler.training.single_device",
             .verifies = cited({kTraining}),
             .axes = {{"precision", {"fp16", "bf16", "amp", "amp_bf16"}}, grids(), all_worlds()},
             .applies = [](const Parameters& parameters) { return is_one_of(kTrained, parameters, "precision"); },
             .modules = {"training"},
             .body = in_16_bits});
  for (const bool autocast : {false, true})
    suite.add({.id = autocast ? "scaler.training.autocast_overflows" : "scaler.training.overflows",
               .verifies = cited({kTraining, kSkipsTogether, kScale, kSkipLeaves}),
               .axes = {{"precision", {autocast ? "amp" : "fp16"}},
                        {"overflow", {"none", "inf", "nan", "large", "scale", "reduced"}},
                        grids(),
                        all_worlds()},
               .applies =
                   [autocast](const Parameters& parameters) {
                     if (autocast)
                       return fills_world(parameters) && parameters.text("grid") == "1x3x1" &&
                              parameters.text("overflow") == "nan";
                     return is_one_of(kOverflows, parameters, "overflow");
                   },
               .modules = {"training"},
               .body = in_16_bits});
  suite.add({.id = "scaler.training.clips",
             .verifies = cited({kClips}),
             .axes = {{"precision", {"fp32", "fp16"}},
                      {"model", {"pairs", "tied"}},
                      {"norm", {"1", "2", "inf"}},
                      grids(),
                      all_worlds()},
             .applies =
                 [](const Parameters& parameters) {
                   const bool is_tied = parameters.text("model") == "tied";
                   if (parameters.text("precision") == "fp16" && parameters.text("grid") != "2x2x1") return false;
                   return is_one_of(kClipped, parameters, "norm") && is_tied == (parameters.text("grid") == "1x2x1");
                 },
             .modules = {"training"},
             .body = clipped_training});
  suite.add({.id = "scaler.training.autocast_clips",
             .verifies = cited({kAutocastClips}),
             .axes = {{"precision", {"amp", "amp_bf16"}},
                      {"model", {"pairs", "tied"}},
                      {"norm", {"1", "2", "inf"}},
                      {"overflow", {"none", "inf", "nan"}},
                      grids(),
                      all_worlds()},
             .applies = clips_under_autocast,
             .modules = {"training"},
             .body = autocast_clipped});
  suite.add({.id = "scaler.training.bits",
             .verifies = cited({kBits}),
             .axes = {{"precision", {"fp16", "bf16"}}, {"overflow", {"none", "inf"}}, grids(), all_worlds()},
             .applies =
                 [](const Parameters& parameters) {
                   const std::string& grid = parameters.text("grid");
                   if (!fills_world(parameters)) return false;
                   if (parameters.text("precision") == "bf16")
                     return grid == "1x1x3" && parameters.text("overflow") == "none";
                   return grid == "1x2x2";
                 },
             .modules = {"training"},
             .body = bits_of_16});
  suite.add({.id = "scaler.job.single_device",
             .verifies = cited({kTraining, kSkipsTogether, kScale, kSkipLeaves}),
             .door = suite::Door::job,
             .axes = {{"precision", {"fp16", "bf16"}}, {"overflow", {"none", "inf", "scale"}}, grids(), all_worlds()},
             .applies =
                 [](const Parameters& parameters) {
                   if ((parameters.text("precision") == "bf16") != (parameters.text("overflow") == "none"))
                     return false;
                   return is_one_of(kJobs, parameters, "overflow");
                 },
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = job_in_16_bits});
  suite.add({.id = "scaler.job.clips",
             .verifies = cited({kClips}),
             .door = suite::Door::job,
             .axes = {{"precision", {"fp32", "fp16"}},
                      {"model", {"pairs", "tied"}},
                      {"norm", {"1", "2", "inf"}},
                      grids(),
                      all_worlds()},
             .applies = is_clipped_job,
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = clipped_job});
  suite.add({.id = "scaler.job.one_replica",
             .verifies = cited({kTraining, kSkipsTogether, kScale, kSkipLeaves}),
             .door = suite::Door::job,
             .axes = {{"precision", {"fp16", "bf16"}},
                      {"moment", {"local", "reduced"}},
                      {"grid", {"1x1x3"}},
                      suite::worlds({3})},
             .modules = {"training"},
             .limit = std::chrono::seconds(75),
             .body = job_in_16_bits});
}

}  // namespace plumbline::conformance
