// Runs in two parts: the first saves a checkpoint, and the second continues from it in another layout.
#include "conformance/training/resume_checks.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/training/job_runs.hpp"
#include "conformance/training/judge.hpp"
#include "conformance/training/reference_runs.hpp"
#include "conformance/training/report.hpp"
#include "harness/suite/requirement.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::conformance {

using suite::Context;
namespace ids = training_requirements;

namespace {

// "2x2x1": tensor, pipeline and data ranks. "1x1x4/2": four data ranks, two of which hold a copy of the parameters.
struct ResumedLayout {
  int tensor, pipeline, data, shard;
  explicit ResumedLayout(const std::string& text)
      : tensor(text[0] - '0'),
        pipeline(text[2] - '0'),
        data(text[4] - '0'),
        shard(text.size() > 5 ? text[6] - '0' : 1) {}
  [[nodiscard]] int world() const { return tensor * pipeline * data; }
};

// Each axis is given up and taken up once, with each kind of state: moments and their step count, a learning rate in
// its warm-up, a loss scale after an overflow that is about to grow. In each of the last three the number of ranks
// changes, as that of shards does; a check over a backend has one world for both parts.
struct ResumedSetup {
  std::string_view from, to, model, state;
};
constexpr std::array kResumedSetups{
    ResumedSetup{"1x1x2", "2x1x1", "mlp", "adam"},         ResumedSetup{"2x1x1", "1x2x1", "mlp", "lr_schedule"},
    ResumedSetup{"1x2x2", "2x1x2", "transformer", "adam"}, ResumedSetup{"1x1x2", "1x2x1", "mlp", "loss_scale"},
    ResumedSetup{"1x1x3/3", "1x1x3", "mlp", "adam"},       ResumedSetup{"1x1x4/4", "1x1x4/2", "mlp", "lr_schedule"},
    ResumedSetup{"1x1x3", "1x1x2", "mlp", "adam"},         ResumedSetup{"1x1x2", "1x1x4", "mlp", "lr_schedule"},
    ResumedSetup{"1x1x3", "1x1x2", "mlp", "loss_scale"}};

constexpr int kResumedSteps = 5, kStepsBefore = 2;  // that the first part makes

bool is_planned_to_resume(const suite::Parameters& parameters) {
  const ResumedLayout from(parameters.text("from")), to(parameters.text("to"));
  if (std::max(from.world(), to.world()) != parameters.world()) return false;
  return std::ranges::any_of(kResumedSetups, [&](const ResumedSetup& setup) {
    return parameters.text("from") == setup.from && parameters.text("to") == setup.to &&
           parameters.text("model") == setup.model && parameters.text("state") == setup.state;
  });
}

bool is_planned_in_one_world(const suite::Parameters& parameters) {
  return is_planned_to_resume(parameters) &&
         ResumedLayout(parameters.text("from")).world() == ResumedLayout(parameters.text("to")).world();
}

// The files of a part: both have the same weights and batches.
job::RunSpec resumed_part(Context& context, bool is_second, const std::filesystem::path& checkpoint,
                          const std::filesystem::path& folder) {
  const suite::Parameters& parameters = context.parameters();
  const ResumedLayout layout(parameters.text(is_second ? "to" : "from"));
  const std::string& state = parameters.text("state");
  training::DigitsRun run{.model = parameters.text("model"),
                          .optimizer = state == "adam" ? "adam" : "sgd",
                          .data = layout.data,
                          .steps = kResumedSteps,
                          .global_batch = 24,
                          .seed = context.seed() & INT64_MAX,  // a specification's seed has 63 bits
                          .device = context.device(),
                          .pipeline = layout.pipeline,
                          .tensor = layout.tensor,
                          .shard = layout.shard};
  if (state == "lr_schedule") run.rate_schedule = job::RateSchedule{.decay = "cosine", .warmup_steps = 3};
  if (state == "loss_scale") {
    run.dtype = "float16";
    run.scaler = job::Scaler{.init_scale = 1024, .growth_interval = 2};
  }
  job::RunSpec spec = training::write_digits_run(run, training::digits(), folder);
  spec.checkpoint = job::CheckpointedSteps{.folder = checkpoint.string(),
                                           .begin = is_second ? kStepsBefore : 0,
                                           .end = is_second ? kResumedSteps : kStepsBefore};
  if (spec.scaler && !is_second)
    spec.injections = {
        {.step = 0, .parameter = "0.weight", .value = std::numeric_limits<double>::infinity(), .reduced = false}};
  job::write_run_spec(spec, folder / "spec.toml");
  return spec;
}

// What the second part has wrong; its loss scale is state that the first one left, too.
std::vector<Finding> findings_of_second(const JudgeOptions& options, Context& context, const job::RunSpec& spec,
                                        const job::TrainingRecord& record, const EarlierRun& earlier) {
  JudgeOptions held = options;
  held.earlier = earlier;
  std::vector<Finding> findings = judge(spec, record, context.oracle(), held).findings;
  for (std::size_t i = 0, count = findings.size(); i < count; ++i)
    if (findings[i].requirement == suite::id_of_citation(scaling_requirements::kScale)) {
      findings.push_back(findings[i]);
      findings.back().requirement = suite::id_of_citation(ids::kResumedState);
    }
  return findings;
}

std::vector<Finding> findings_of_both(const JudgeOptions& options, Context& context, const job::RunSpec& first,
                                      const std::filesystem::path& first_record, const job::RunSpec& second,
                                      const std::filesystem::path& second_record) {
  const job::TrainingRecord record(first, first_record);
  std::vector<Finding> findings = judge(first, record, context.oracle(), options).findings;
  std::vector<Finding> more = findings_of_second(options, context, second, job::TrainingRecord(second, second_record),
                                                 {.spec = &first, .record = &record});
  for (const auto& [spec, of_part] : {std::pair(&first, &findings), std::pair(&second, &more)}) {
    mark_first_wrong_gradient(*of_part, *spec);
    lead_with_activation(*of_part);
  }
  findings.insert(findings.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return findings;
}

void resumed_job(Context& context) {
  const std::filesystem::path scratch = std::filesystem::absolute(context.scratch());
  const auto prepared = [&](bool is_second) {
    return [&, is_second](const std::filesystem::path& folder) {
      return resumed_part(context, is_second, scratch / "checkpoint", folder);
    };
  };
  provide_folder(scratch / "checkpoint");
  const RunOfJob first =
      run_job(context, prepared(false), ResumedLayout(context.parameters().text("from")).world(), "first");
  const RunOfJob second =
      run_job(context, prepared(true), ResumedLayout(context.parameters().text("to")).world(), "second");
  report(findings_of_both({}, context, first.spec, first.record, second.spec, second.record));
}

void resumed_reference(Context& context) {
  const std::filesystem::path scratch(context.scratch());
  const std::filesystem::path checkpoint = std::filesystem::absolute(scratch) / "checkpoint";
  std::vector<job::RunSpec> parts;
  for (const bool is_second : {false, true}) {
    const std::filesystem::path folder = scratch / (is_second ? "second" : "first");
    if (context.rank() == 0) (void)resumed_part(context, is_second, checkpoint, folder / "run");
    context.world().barrier();
    parts.push_back(job::read_run_spec(folder / "run" / "spec.toml"));
    context.training().run(parts.back(), context.world(), folder / "record", {}, {});
    context.world().barrier();
  }
  if (context.rank() != 0) return;
  report(findings_of_both(options_of_reference(context), context, parts[0], scratch / "first" / "record", parts[1],
                          scratch / "second" / "record"));
}

}  // namespace

void add_resume_checks(suite::Suite& suite, suite::Door door) {
  const bool is_job = door == suite::Door::job;
  suite.add({.id = is_job ? "training.job.resume" : "training.resume",
             .verifies =
                 cited({ids::kResumedValues, ids::kResumedState, ids::kResumedRows, ids::kCoverage, ids::kGivenWeights,
                        ids::kContinuity, ids::kEqualParameters, ids::kEqualGradients, ids::kGradient,
                        ids::kUnionGradient, ids::kUpdate, ids::kScheduledUpdate, ids::kLoss, ids::kOwnRows}),
             .door = door,
             .axes = {{"from", {"1x1x2", "2x1x1", "1x2x2", "1x1x3/3", "1x1x4/4", "1x1x3"}},
                      {"to", {"2x1x1", "1x2x1", "2x1x2", "1x1x3", "1x1x4/2", "1x1x2", "1x1x4"}},
                      {"model", {"mlp", "transformer"}},
                      {"state", {"adam", "lr_schedule", "loss_scale"}},
                      suite::worlds({2, 3, 4})},
             .applies = is_job ? is_planned_to_resume : is_planned_in_one_world,
             .modules = {"training"},
             .limit = std::chrono::seconds(is_job ? 120 : 20),
             .body = is_job ? resumed_job : resumed_reference});
}

}  // namespace plumbline::conformance
