#include "conformance/training/training_tasks.hpp"

#include "conformance/training/averaging/averaging_judge.hpp"
#include "conformance/training/judge.hpp"
#include "harness/record/result.hpp"
#include "harness/run/findings.hpp"
#include "harness/subject/pipeline_run_json.hpp"
#include "harness/subject/training_module.hpp"
#include "harness/suite/machine_error.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using nlohmann::json;

namespace {

// Of a run that diverges nothing is finite.
using record::number_or_word;

json words(const StepSummary& step) {
  json words{{"step", step.step},
             {"loss", number_or_word(step.loss)},
             {"difference", number_or_word(step.gradient.difference)},
             {"bound", number_or_word(step.gradient.bound)},
             {"update_difference", number_or_word(step.update.difference)},
             {"update_bound", number_or_word(step.update.bound)}};
  if (step.scale) {
    words["scale"] = number_or_word(*step.scale);
    words["skipped"] = step.skipped;
  }
  return words;
}

// What was found, and by which requirements.
template <class AnyJudgement>
void tell_judgement(worker::TaskRank& rank, const AnyJudgement& judgement) {
  for (const Finding& finding : judgement.findings) rank.output({{"finding", run::failure_of(reported(finding))}});
  rank.output({{"judged", judgement.judged}});
}

// What no specification says of a run in 16 bits.
training::PrecisionSettings precision_of(const json& arguments) {
  if (!arguments.contains("precision")) return {};
  const json& given = arguments.at("precision");
  return {.autocast = given.at("autocast"), .clip_norm = given.at("clip_norm")};
}

}  // namespace

void train_task(worker::TaskRank& rank) {
  const job::RunSpec spec = job::read_run_spec(rank.arguments.at("spec").get<std::string>());
  const comm::Capabilities& capabilities = rank.world.capabilities();
  if (rank.world.rank() == 0)
    rank.output({{"accumulator", name_of(capabilities.accumulator(comm::DType::f32, comm::ReduceOp::avg))},
                 {"rank_order", capabilities.has(comm::Capability::rank_order)}});
  const auto listen = [&](const training::StepProgress& progress) {
    json told{{"step", progress.step}, {"loss", number_or_word(progress.loss)}};
    if (progress.scale) told.update({{"scale", *progress.scale}, {"skipped", progress.skipped}});
    rank.output(told);
  };
  training::RunSettings settings;
  if (rank.arguments.contains("gradients")) settings.gradients = rank.arguments.at("gradients");
  if (rank.arguments.contains("precision")) settings.precision = precision_of(rank.arguments);
  try {
    subject::training_module().run(spec, rank.world, rank.arguments.at("record").get<std::string>(), listen, settings);
  } catch (const training::DeviceMissing& error) {
    throw suite::MachineFailure(error.what());
  }
}

void judge_task(worker::TaskRank& rank) {
  const json& arguments = rank.arguments;
  const std::string device = arguments.at("device");
  const job::RunSpec spec = job::read_run_spec(arguments.at("spec").get<std::string>());
  const job::TrainingRecord record(spec, arguments.at("record").get<std::string>());
  training::Training& training = subject::training_module();
  if (spec.averaging) return tell_judgement(rank, judge_averaging_record(spec, record, training));
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = comm::parse_dtype(arguments.at("accumulator").get<std::string>()).value(),
                             .rank_order = arguments.at("rank_order")},
      .device = device,
      .wire = training::wire_of(arguments.value("gradients", training::GradientSettings())),
      .precision = precision_of(arguments),
      .progress = [&rank](int done, int parts) { rank.output({{"done", done}, {"parts", parts}}); }};
  const Judgement judgement = judge(spec, record, training, options);

  // One by one: a long run's together would be too much for one message.
  for (const StepSummary& step : judgement.steps) rank.output({{"step", words(step)}});
  tell_judgement(rank, judgement);
  json out = json::object();
  if (arguments.value("digits", false))
    if (const auto values = values_of(spec, record, spec.end_step() - 1, job::Moment::after))
      out["accuracy"] = training.accuracy(spec, *values, training::held_out_rows(spec, training::digits()), device);
  if (!out.empty()) rank.output(out);
}

}  // namespace plumbline::conformance
