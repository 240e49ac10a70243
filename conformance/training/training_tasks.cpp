#include "conformance/training/training_tasks.hpp"

#include <array>

#include "conformance/training/judge.hpp"
#include "harness/subject/training_module.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using nlohmann::json;
namespace ids = training_requirements;

namespace {

// Requirements that any record is judged by, and those that only the bits of rank-ordered addition can meet.
constexpr std::array kJudged{ids::kCoverage,       ids::kGivenWeights, ids::kContinuity,    ids::kEqualParameters,
                             ids::kEqualGradients, ids::kGradient,     ids::kUnionGradient, ids::kUpdate,
                             ids::kLoss,           ids::kOwnRows};

json words(const StepSummary& step) {
  return {{"step", step.step},
          {"loss", step.loss},
          {"difference", step.gradient.difference},
          {"bound", step.gradient.bound},
          {"update_difference", step.update.difference},
          {"update_bound", step.update.bound}};
}

std::string id_of(std::string_view citation) { return std::string(citation.substr(0, citation.find('@'))); }

}  // namespace

void train_task(worker::TaskRank& rank) {
  const job::RunSpec spec = job::read_run_spec(rank.arguments.at("spec").get<std::string>());
  const comm::Capabilities& capabilities = rank.world.capabilities();
  if (rank.world.rank() == 0)
    rank.output({{"accumulator", name_of(capabilities.accumulator(comm::DType::f32, comm::ReduceOp::avg))},
                 {"rank_order", capabilities.has(comm::Capability::rank_order)}});
  subject::training_module().run(
      spec, rank.world, rank.arguments.at("record").get<std::string>(),
      [&](const training::StepProgress& progress) { rank.output({{"step", progress.step}, {"loss", progress.loss}}); });
}

void judge_task(worker::TaskRank& rank) {
  const json& arguments = rank.arguments;
  const std::string device = arguments.at("device");
  const job::RunSpec spec = job::read_run_spec(arguments.at("spec").get<std::string>());
  const job::TrainingRecord record(spec, arguments.at("record").get<std::string>());
  training::Training& training = subject::training_module();
  const JudgeOptions options{
      .reduction = Reduction{.accumulator = comm::parse_dtype(arguments.at("accumulator").get<std::string>()).value(),
                             .rank_order = arguments.at("rank_order")},
      .device = device};
  const Judgement judgement = judge(spec, record, training, options);

  json out{{"steps", json::array()}, {"findings", json::array()}, {"judged", json::array()}};
  for (const StepSummary& step : judgement.steps) out["steps"].push_back(words(step));
  for (const Finding& finding : judgement.findings)
    out["findings"].push_back({{"requirement", finding.requirement}, {"text", text_of(finding)}});
  for (const std::string_view citation : kJudged) out["judged"].push_back(id_of(citation));
  if (options.reduction->rank_order) out["judged"].push_back(id_of(ids::kGradientBits));
  if (arguments.value("digits", false))
    if (const auto values = values_of(spec, record, spec.run.steps - 1, job::Moment::after))
      out["accuracy"] = training.accuracy(spec, *values, training::held_out_rows(spec, training::digits()), device);
  rank.output(out);
}

}  // namespace plumbline::conformance
