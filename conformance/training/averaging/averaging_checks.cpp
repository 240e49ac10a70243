#include "conformance/training/averaging/averaging_checks.hpp"

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/support/claimed_type.hpp"
#include "conformance/support/refusal.hpp"
#include "conformance/training/averaging/averaging_device_checks.hpp"
#include "conformance/training/averaging/averaging_job_checks.hpp"
#include "conformance/training/averaging/averaging_judge.hpp"
#include "conformance/training/bounds.hpp"
#include "conformance/training/compare.hpp"
#include "conformance/training/report.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/averaging.hpp"
#include "reference/training/digits_run.hpp"

namespace plumbline::conformance {

using suite::Context;
using training::AveragedSession;
using training::AveragedStep;
using training::AveragingSettings;
namespace ids = averaging_requirements;

namespace {

constexpr int kAveragingJudge = 0;  // the rank that prepares and judges

// The algorithms by the names of the cases, with periods that a short run sees several of.
AveragingSettings settings_named(const std::string& name) {
  static const std::map<std::string, AveragingSettings> known{
      {"localsgd", {.algorithm = "localsgd", .local_sgd_frequency = 3}},
      {"localsgd-1", {.algorithm = "localsgd", .local_sgd_frequency = 1}},
      {"post-localsgd", {.algorithm = "post-localsgd", .local_sgd_frequency = 2, .local_sgd_begin = 3}},
      {"sgp", {.algorithm = "sgp"}},
      {"sgp-star", {.algorithm = "sgp", .graph = "star"}},
      {"sgp-complete", {.algorithm = "sgp", .graph = "complete"}},
      {"slowmo", {.local_sgd_frequency = 2, .slow_frequency = 3, .slow_learning_rate = 0.9}},
      {"slowmo-off", {.local_sgd_frequency = 1, .slow_frequency = 2, .slow_momentum = 0, .slow_learning_rate = 1}},
      {"slowmo-sgp", {.base = "sgp", .slow_frequency = 3, .graph = "star"}},
      {"slowmo-sgp-apart", {.base = "sgp", .slow_frequency = 3, .memory_efficient = false, .graph = "star"}},
      {"diloco", {.algorithm = "diloco", .slow_frequency = 3}},
      {"sgp-overlap", {.algorithm = "sgp", .overlap = true}},
      {"sgp-star-overlap", {.algorithm = "sgp", .graph = "star", .overlap = true}},
      {"slowmo-sgp-overlap", {.base = "sgp", .slow_frequency = 3, .graph = "star", .overlap = true}},
      {"slowmo-sgp-apart-overlap",
       {.base = "sgp", .slow_frequency = 3, .memory_efficient = false, .graph = "star", .overlap = true}},
  };
  AveragingSettings settings = known.at(name);
  settings.rate_decay = 0.9;
  return settings;
}

AveragingSettings settings_of_case(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  AveragingSettings settings = settings_named(parameters.text("algorithm"));
  if (parameters.has("lag")) settings.overlap_lag = static_cast<int>(parameters.number("lag"));
  if (parameters.has("node")) settings.ranks_per_node = static_cast<int>(parameters.number("node"));
  if (parameters.has("checkpoints")) settings.checkpoint_steps = static_cast<int>(parameters.number("checkpoints"));
  return settings;
}

std::filesystem::path averaging_folder(Context& context, const char* name) {
  return std::filesystem::path(context.scratch()) / name;
}

job::RunSpec prepared_digits(Context& context, const training::DigitsRun& settings) {
  const std::filesystem::path folder = averaging_folder(context, "run");
  if (context.rank() == kAveragingJudge) (void)training::write_digits_run(settings, training::digits(), folder);
  context.world().barrier();
  return job::read_run_spec(folder / "spec.toml");
}

// `steps` with 8 rows a rank.
job::RunSpec short_spec(Context& context, int steps) {
  const suite::Parameters& parameters = context.parameters();
  const auto parts = parameters.has("micro_batches") ? parameters.number("micro_batches") : 1;
  job::RunSpec spec = prepared_digits(context, {.model = parameters.has("model") ? parameters.text("model") : "mlp",
                                                .data = context.size(),
                                                .steps = steps,
                                                .global_batch = std::int64_t{8} * context.size(),
                                                .micro_batches = static_cast<int>(parts),
                                                .seed = context.seed() & INT64_MAX,
                                                .device = context.device()});
  if (parameters.has("type")) spec.run.dtype = parameters.text("type");
  return spec;
}

std::unique_ptr<AveragedSession> session_of(Context& context, const job::RunSpec& spec,
                                            const AveragingSettings& settings) {
  if (spec.run.dtype == "float16") require_claimed(context, comm::DType::f16);
  if (spec.run.dtype == "bfloat16") require_claimed(context, comm::DType::bf16);
  return context.training().averaged(spec, context.world(), settings);
}

using Around = std::function<void(std::unique_ptr<AveragedSession>& session, int step)>;

// A rank's steps; `before` is called before each.
std::vector<AveragedStep> averaged_steps(
    Context& context, const job::RunSpec& spec, const AveragingSettings& settings,
    const Around& before = [](auto&, int) {}) {
  std::unique_ptr<AveragedSession> session = session_of(context, spec, settings);
  std::vector<AveragedStep> steps;
  for (int step = 0; step < spec.run.steps; ++step) {
    before(session, step);
    steps.push_back(session->step(step));
  }
  return steps;
}

// What all ranks had, on the rank that judges.
AveragedRanks gathered(Context& context, const std::vector<AveragedStep>& own, const char* record) {
  const std::filesystem::path folder = averaging_folder(context, record);
  training::write_averaged_steps(own, folder, context.rank());
  context.world().barrier();
  AveragedRanks ranks;
  if (context.rank() == kAveragingJudge)
    for (int rank = 0; rank < context.size(); ++rank) ranks.push_back(training::read_averaged_steps(folder, rank));
  return ranks;
}

bool adds_in_rank_order(Context& context) { return context.capabilities().has(comm::Capability::rank_order); }

// ---- step by step ----

// Saves as often as the settings say.
void save_checkpoints(Context& context, const AveragingSettings& settings, AveragedSession& session, int step) {
  if (settings.checkpoint_steps == 0 || step == 0 || step % settings.checkpoint_steps != 0) return;
  EXPECT_EQ(refusal<StateError>([&] { session.save(averaging_folder(context, "checkpoints")); }), kNotRefused)
      << suite::id_of_citation(ids::kCheckpoints) << ": a checkpoint before step " << step;
}

// Trains, and judges every step; something must have been compared by `id`, if one is named.
void train_and_judge(Context& context, const job::RunSpec& spec, std::string_view citation = {}) {
  const AveragingSettings settings = settings_of_case(context);
  const std::vector<AveragedStep> own = averaged_steps(
      context, spec, settings, [&](auto& session, int step) { save_checkpoints(context, settings, *session, step); });
  const AveragedRanks ranks = gathered(context, own, "record");
  if (context.rank() != kAveragingJudge) return;
  int told = 0;
  const AveragingJudgement judgement =
      judge_averaging(spec, settings, ranks, context.oracle(), adds_in_rank_order(context), [&](int step) {
        EXPECT_EQ(step, told++) << "the steps of which the judge tells";
        context.progress(fmt::format("step {} is judged", step));
      });
  report(judgement.findings);
  EXPECT_EQ(told, spec.run.steps) << "the steps of which the judge tells";
  if (!citation.empty()) {
    EXPECT_TRUE(judgement.judged.contains(std::string(suite::id_of_citation(citation))))
        << suite::id_of_citation(citation) << ": nothing was compared";
  }
}

void judged(Context& context) { train_and_judge(context, short_spec(context, 7)); }
void running_statistics(Context& context) { train_and_judge(context, short_spec(context, 5), ids::kBuffers); }
void overlaps(Context& context) { train_and_judge(context, short_spec(context, 8), ids::kOverlap); }
void overlaps_halves(Context& context) { train_and_judge(context, short_spec(context, 8), ids::kFeedback); }
void lags_over_checkpoints(Context& context) { train_and_judge(context, short_spec(context, 8), ids::kCheckpoints); }
void halves(Context& context) { train_and_judge(context, short_spec(context, 7), ids::kHalves); }

// ---- against data-parallel SGD ----

void equals_synchronous(Context& context) {
  job::RunSpec spec = short_spec(context, 5);
  constexpr double rate = 0.1;
  spec.optimizer = job::Sgd{.lr = rate};
  AveragingSettings settings = settings_of_case(context);
  settings.rate_decay = 1;
  const AveragedRanks ranks = gathered(context, averaged_steps(context, spec, settings), "record");
  if (context.rank() != kAveragingJudge) return;
  report(findings_beside_data_parallel(spec, ranks, context.oracle()));
}

// ---- two runs that must be one ----

// Where two runs of a rank differ first, in what `parts` names; "" where they do not.
using Part = std::pair<const char*, std::vector<float> AveragedStep::*>;
std::string difference_of_runs(const std::vector<AveragedStep>& one, const std::vector<AveragedStep>& other,
                               std::span<const Part> parts, std::size_t from = 0) {
  for (std::size_t step = from; step < one.size(); ++step) {
    for (const auto& [what, list] : parts)
      if (one[step].*list != other[step].*list) return fmt::format("step {}: {} differ", step, what);
    if (one[step].weight != other[step].weight) return fmt::format("step {}: the weights differ", step);
    if (one[step].loss != other[step].loss) return fmt::format("step {}: the losses differ", step);
  }
  return "";
}

constexpr Part kEstimates{"the values that forwards see", &AveragedStep::seen};
constexpr Part kGradients{"gradients", &AveragedStep::gradient};
constexpr Part kUpdated{"the values after the optimizer", &AveragedStep::updated};
constexpr Part kAfter{"the values", &AveragedStep::after};
constexpr Part kBufferParts{"running statistics", &AveragedStep::buffers};

void memory_efficient(Context& context) {
  const job::RunSpec spec = short_spec(context, 7);
  AveragingSettings settings = settings_of_case(context);
  settings.average_at_slow_steps = true;  // as shards do
  settings.memory_efficient = false;
  const std::vector<AveragedStep> whole = averaged_steps(context, spec, settings);
  settings.memory_efficient = true;
  constexpr Part parts[] = {kAfter};
  for (const int shards : {1, 2, 32}) {
    settings.shards = shards;
    const std::vector<AveragedStep> sharded = averaged_steps(context, spec, settings);
    EXPECT_EQ(difference_of_runs(whole, sharded, parts), "")
        << suite::id_of_citation(ids::kMemory) << ": with " << shards << " shards";
  }
}

void evaluates(Context& context) {
  const job::RunSpec spec = short_spec(context, 6);
  const AveragingSettings settings = settings_of_case(context);
  const training::LabelledRows rows = training::held_out_rows(spec, training::digits());
  const std::vector<AveragedStep> plain = averaged_steps(context, spec, settings);
  const std::vector<AveragedStep> interrupted = averaged_steps(context, spec, settings, [&](auto& session, int) {
    const std::vector<float> estimate = session->estimate();
    const double accuracy = session->evaluate(rows);
    if (spec.layers.size() == 3) {  // without batch normalisation
      EXPECT_EQ(accuracy, context.oracle().accuracy(spec, values_by_parameter(spec, estimate), rows, spec.run.device))
          << suite::id_of_citation(ids::kEvaluation) << ": the evaluation is not of the rank's estimate";
    }
    EXPECT_TRUE(session->estimate() == estimate)
        << suite::id_of_citation(ids::kEvaluation) << ": the evaluation changed the estimate";
  });
  constexpr Part parts[] = {kEstimates, kGradients, kUpdated, kAfter, kBufferParts};
  EXPECT_EQ(difference_of_runs(plain, interrupted, parts), "")
      << suite::id_of_citation(ids::kEvaluation) << ": training goes on otherwise after evaluations";
}

void resumes(Context& context) {
  const job::RunSpec spec = short_spec(context, 8);
  const AveragingSettings settings = settings_of_case(context);
  const training::LabelledRows rows = training::held_out_rows(spec, training::digits());
  const std::vector<AveragedStep> plain = averaged_steps(context, spec, settings);
  constexpr Part parts[] = {kEstimates, kGradients, kUpdated, kAfter, kBufferParts};
  for (const int at : {1, 4, 5})
    for (const bool evaluates : {false, true}) {
      const std::filesystem::path folder =
          averaging_folder(context, fmt::format("checkpoint{}{}", at, evaluates ? "e" : "").c_str());
      const auto stop = [&](bool loads) {
        return [&, loads](std::unique_ptr<AveragedSession>& session, int step) {
          if (step != at) return;
          if (evaluates) (void)session->evaluate(rows);
          session->save(folder);
          context.world().barrier();
          if (!loads) return;
          session.reset();
          session = session_of(context, spec, settings);
          session->load(folder, at);
        };
      };
      // To save what overlaps is to wait for what is under way.
      const std::vector<AveragedStep> straight =
          settings.overlap ? averaged_steps(context, spec, settings, stop(false)) : plain;
      EXPECT_EQ(difference_of_runs(straight, averaged_steps(context, spec, settings, stop(true)), parts), "")
          << suite::id_of_citation(ids::kResumes) << ": saved and loaded before step " << at
          << (evaluates ? ", after an evaluation" : "");
    }
}

// ---- what is refused ----

void other_runs(Context& context) {
  const std::string& differs = context.parameters().text("differs");
  const job::RunSpec spec = short_spec(context, 2);
  const AveragingSettings settings = settings_named("slowmo");
  const std::filesystem::path folder = averaging_folder(context, "checkpoint");
  {
    const auto session = session_of(context, spec, settings);
    (void)session->step(0);
    session->save(folder);
  }
  context.world().barrier();
  job::RunSpec other = spec;
  AveragingSettings other_settings = settings;
  if (differs == "optimizer") other.optimizer = job::Adam{.lr = 0.1};
  if (differs == "learning_rate") std::get<job::Sgd>(other.optimizer).lr *= 2;
  if (differs == "micro_batches") other.run.micro_batches = 2;
  if (differs == "accumulation") other.run.accumulation = 2, other.run.steps = 1;  // as many batches
  if (differs == "dtype") other.run.dtype = "bfloat16";
  if (differs == "lr-decay") other_settings.rate_decay = 0.8;
  if (differs == "slowmo-frequency") other_settings.slow_frequency = 6;
  if (differs == "checkpoint-steps") other_settings.checkpoint_steps = 3;
  const std::string said =
      refusal<InvalidArgument>([&] { session_of(context, other, other_settings)->load(folder, 1); });
  const std::string field = differs == "learning_rate" ? "optimizer" : differs;
  if (differs == "nothing")
    EXPECT_EQ(said, kNotRefused) << suite::id_of_citation(ids::kSameRun) << ": what the checkpoint is refused with";
  else
    EXPECT_THAT(
        said, testing::AllOf(testing::HasSubstr(field + " is "), testing::HasSubstr(" here"),
                             testing::Not(testing::HasSubstr("another error")), testing::Not(testing::HasSubstr("\n"))))
        << suite::id_of_citation(ids::kSameRun) << ": what the checkpoint is refused with";
}

void rates_beyond_float32(Context& context) {
  AveragingSettings settings = settings_named("localsgd");
  settings.rate_decay = std::stod(context.parameters().text("decay"));
  const bool is_refused = settings.rate_decay > 1e6 || settings.rate_decay < 1e-6;
  const job::RunSpec spec = short_spec(context, 12);
  const std::string said = refusal<InvalidArgument>([&] { (void)session_of(context, spec, settings); });
  EXPECT_THAT(said, testing::HasSubstr(is_refused ? "lr-decay " : kNotRefused))
      << suite::id_of_citation(ids::kRates) << ": what the decay is refused with";
  EXPECT_EQ(said.find("learning rate of step") != std::string::npos, is_refused)
      << suite::id_of_citation(ids::kRates) << ": what the decay is refused with";
}

// ---- a whole run ----

void averaging_learns(Context& context) {
  constexpr int news = 25;  // steps
  const job::RunSpec spec = prepared_digits(
      context,
      {.model = "mlp", .data = context.size(), .steps = 150, .global_batch = 96, .micro_batches = 1, .seed = 1});
  AveragingSettings settings = settings_of_case(context);
  settings.rate_decay = 1;
  if (settings.algorithm != "localsgd" && settings.algorithm != "post-localsgd") settings.slow_frequency = 12;
  const std::unique_ptr<AveragedSession> session = session_of(context, spec, settings);
  AveragedStep last;
  for (int step = 0; step < spec.run.steps; ++step) {
    last = session->step(step);
    if ((step + 1) % news == 0) context.progress(fmt::format("step {}, loss {:.4f}", step + 1, last.loss));
  }
  const AveragedRanks ranks = gathered(context, {last}, "record");
  if (context.rank() != kAveragingJudge) return;
  const AveragedAccuracy accuracy = accuracy_of(spec, ranks, context.oracle());
  EXPECT_GE(accuracy.mean, accuracy.single_device - kAccuracyMargin)
      << suite::id_of_citation(ids::kLearns) << ": share of held-out digits; a single device on the same batches has "
      << accuracy.single_device;
}

// ---- which cases ----

suite::Axis algorithms(std::vector<std::string> names) { return {"algorithm", std::move(names)}; }
suite::Axis overlapping_algorithms() {
  return algorithms({"sgp-overlap", "sgp-star-overlap", "slowmo-sgp-overlap", "slowmo-sgp-apart-overlap"});
}
suite::Axis types_of_16_bits() { return {"type", {"float16", "bfloat16"}}; }
suite::Axis nodes() { return {"node", {"1", "2"}}; }

// Nodes of several ranks and the smallest world are the same for all algorithms: some will do.
bool judged_tells_more(const suite::Parameters& parameters) {
  const std::string& algorithm = parameters.text("algorithm");
  const bool some = algorithm == "localsgd" || algorithm == "sgp-star";
  const bool several = some || algorithm == "slowmo" || algorithm == "diloco" || algorithm == "sgp";
  if (parameters.text("node") == "2") return several && parameters.world() == 4;
  return parameters.world() == 3 || several;
}

}  // namespace

void add_averaging_checks(suite::Suite& suite) {
  add_averaging_device_checks(suite);
  add_averaging_job_checks(suite);
  suite.add({.id = "training.averaging.judged",
             .verifies = cited({ids::kEstimate, ids::kGradient, ids::kUpdate, ids::kAverage, ids::kGossip,
                                ids::kSlowStep, ids::kDistance}),
             .axes = {algorithms({"localsgd", "post-localsgd", "sgp", "sgp-star", "slowmo", "slowmo-sgp",
                                  "slowmo-sgp-apart", "diloco"}),
                      nodes(), suite::worlds({2, 3, 4})},
             .applies = judged_tells_more,
             .modules = {"training"},
             .body = judged});
  suite.add({.id = "training.averaging.running_statistics",
             .verifies = cited({ids::kBuffers}),
             .axes = {algorithms({"localsgd", "sgp-star"}), {"model", {"conv_norm"}}, suite::worlds({1, 3})},
             .modules = {"training"},
             .body = running_statistics});
  suite.add({.id = "training.averaging.overlaps",
             .verifies = cited({ids::kOverlap}),
             .axes = {overlapping_algorithms(), {"lag", {"0", "2"}}, nodes(), suite::worlds({2, 3, 4})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return parameters.text("node") == "1" || parameters.world() == 4;
                 },
             .needs = {comm::Capability::thread_multiple},
             .modules = {"training"},
             .body = overlaps});
  suite.add({.id = "training.averaging.overlaps_micro_batches",
             .verifies = cited({ids::kOverlap}),
             .axes = {algorithms({"sgp-overlap", "sgp-star-overlap"}),
                      {"lag", {"0", "2"}},
                      {"micro_batches", {"2"}},
                      suite::worlds({3})},
             .needs = {comm::Capability::thread_multiple},
             .modules = {"training"},
             .body = overlaps});
  suite.add({.id = "training.averaging.overlaps_halves",
             .verifies = cited({ids::kOverlap, ids::kFeedback}),
             .axes = {overlapping_algorithms(), types_of_16_bits(), {"lag", {"0", "2"}}, suite::worlds({2, 3})},
             .needs = {comm::Capability::thread_multiple},
             .modules = {"training"},
             .body = overlaps_halves});
  suite.add({.id = "training.averaging.lags_over_checkpoints",
             .verifies = cited({ids::kCheckpoints, ids::kFeedback}),
             .axes = {overlapping_algorithms(),
                      {"type", {"float32", "float16"}},
                      {"lag", {"2", "5"}},
                      {"checkpoints", {"2", "4"}},
                      suite::worlds({3})},
             .needs = {comm::Capability::thread_multiple},
             .modules = {"training"},
             .body = lags_over_checkpoints});
  suite.add(
      {.id = "training.averaging.overlap_resumes",
       .verifies = cited({ids::kResumes}),
       .axes = {overlapping_algorithms(), {"type", {"float32", "float16"}}, {"lag", {"0", "2"}}, suite::worlds({3})},
       .needs = {comm::Capability::rank_order, comm::Capability::thread_multiple},
       .modules = {"training"},
       .body = resumes});
  suite.add({.id = "training.averaging.other_runs",
             .verifies = cited({ids::kSameRun}),
             .axes = {{"differs",
                       {"nothing", "optimizer", "learning_rate", "micro_batches", "accumulation", "dtype", "lr-decay",
                        "slowmo-frequency", "checkpoint-steps"}},
                      suite::worlds({1, 3})},
             .modules = {"training"},
             .body = other_runs});
  suite.add({.id = "training.averaging.rates",
             .verifies = cited({ids::kRates}),
             .axes = {{"decay", {"0.9", "1", "1.1", "1e30", "1e-30", "1e300"}}, suite::worlds({1, 3})},
             .modules = {"training"},
             .body = rates_beyond_float32});
  suite.add({.id = "training.averaging.halves",
             .verifies = cited({ids::kHalves, ids::kFeedback}),
             .axes = {algorithms({"localsgd", "sgp", "sgp-star", "slowmo", "slowmo-sgp-apart"}), types_of_16_bits(),
                      suite::worlds({1, 3})},
             .modules = {"training"},
             .body = halves});
  suite.add({.id = "training.averaging.equals_synchronous",
             .verifies = cited({ids::kSynchronous}),
             .axes = {algorithms({"localsgd-1", "slowmo-off", "sgp-complete"}), nodes(), suite::worlds({1, 3, 4})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return parameters.text("node") == "1" || parameters.world() == 4;
                 },
             .modules = {"training"},
             .body = equals_synchronous});
  suite.add({.id = "training.averaging.memory_efficient",
             .verifies = cited({ids::kMemory}),
             .axes = {algorithms({"slowmo", "slowmo-sgp", "diloco"}), suite::worlds({1, 3})},
             .needs = {comm::Capability::rank_order},
             .modules = {"training"},
             .body = memory_efficient});
  suite.add(
      {.id = "training.averaging.evaluates",
       .verifies = cited({ids::kEvaluation}),
       .axes = {algorithms({"localsgd", "sgp-star", "slowmo"}), {"model", {"mlp", "conv_norm"}}, suite::worlds({1, 3})},
       .needs = {comm::Capability::rank_order},
       .modules = {"training"},
       .body = evaluates});
  suite.add({.id = "training.averaging.resumes",
             .verifies = cited({ids::kResumes}),
             .axes = {algorithms({"localsgd", "sgp", "slowmo", "slowmo-sgp", "diloco"}), suite::worlds({1, 3})},
             .needs = {comm::Capability::rank_order},
             .modules = {"training"},
             .body = resumes});
  suite.add({.id = "training.averaging.learns",
             .verifies = cited({ids::kLearns}),
             .axes = {algorithms({"localsgd", "post-localsgd", "sgp", "slowmo", "slowmo-sgp", "diloco"}),
                      suite::worlds({3, 4})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return parameters.world() == 4 || parameters.text("algorithm") == "sgp";
                 },
             .modules = {"training"},
             .body = averaging_learns});
}

}  // namespace plumbline::conformance
