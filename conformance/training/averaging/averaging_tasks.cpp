#include "conformance/training/averaging/averaging_tasks.hpp"

#include <memory>
#include <string>
#include <vector>

#include "conformance/training/averaging/averaging_judge.hpp"
#include "conformance/training/judge.hpp"
#include "harness/record/result.hpp"
#include "harness/subject/averaging_json.hpp"
#include "harness/subject/training_module.hpp"
#include "reference/record/training_record.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/slowmo/record.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using record::number_or_word;

namespace {

std::vector<double> of_all_ranks(comm::Communicator& world, double own) {
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  world.all_gather({&own, 1, comm::DType::f64}, {all.data(), world.size(), comm::DType::f64});
  return all;
}
double mean_over_ranks(comm::Communicator& world, double own) {
  double sum = 0;
  for (const double one : of_all_ranks(world, own)) sum += one;
  return sum / world.size();
}

std::vector<float> mean_of_ranks(comm::Communicator& world, const std::vector<float>& own) {
  std::vector<double> sum(own.begin(), own.end());
  const comm::Buffer buffer{sum.data(), static_cast<std::int64_t>(sum.size()), comm::DType::f64};
  world.all_reduce(buffer, buffer, comm::ReduceOp::sum);
  std::vector<float> mean;
  for (const double value : sum) mean.push_back(static_cast<float>(value / world.size()));
  return mean;
}

void one_average(worker::TaskRank& rank, int number, const json& run) {
  const job::RunSpec spec = job::read_run_spec(run.at("spec").get<std::string>());
  const auto settings = run.at("settings").get<training::AveragingSettings>();
  const std::string record = run.at("record");
  training::Training& training = subject::training_module();
  const training::AveragedSteps steps = rank.steps.of<training::AveragedSteps>();
  const auto session = training.averaged(spec, rank.world, settings, steps);
  const bool tells = rank.world.rank() == 0;
  std::vector<training::AveragedStep> done;
  for (int step = 0; step < spec.run.steps; ++step) {
    training::AveragedStep own = session->step(step);
    const auto distance = training::consensus_distance(rank.world, session->estimate());
    const double loss = mean_over_ranks(rank.world, own.loss);
    if (tells)
      rank.output({{"run", number},
                   {"step", step},
                   {"loss", number_or_word(loss)},
                   {"largest", number_or_word(distance.largest)},
                   {"mean", number_or_word(distance.mean)}});
    if (!record.empty()) done.push_back(std::move(own));
  }
  if (!record.empty()) training::write_averaged_steps(done, record, rank.world.rank());
  const training::LabelledRows rows = training::held_out_rows(spec, training::digits());
  const std::vector<float> mean = mean_of_ranks(rank.world, session->estimate());
  const std::vector<double> accuracies = of_all_ranks(rank.world, session->evaluate(rows));
  if (tells)
    rank.output({{"run", number},
                 {"accuracy", training.accuracy(spec, values_by_parameter(spec, mean), rows, "cpu")},
                 {"accuracies", accuracies},
                 {"slow_bytes", session->slow_buffer_bytes()}});
}

void one_alone(worker::TaskRank& rank, int number, const json& run) {
  job::RunSpec spec = job::read_run_spec(run.at("spec").get<std::string>());
  spec.parallel.data = 1;
  const std::string folder = run.at("record");
  training::Training& training = subject::training_module();
  training.run(spec, rank.world, folder,
               [&](const training::StepProgress& progress) {
                 rank.output({{"run", number}, {"step", progress.step}, {"loss", number_or_word(progress.loss)}});
               },
               {});
  const auto values = values_of(spec, job::TrainingRecord(spec, folder), spec.run.steps - 1, job::Moment::after);
  if (!values) throw RuntimeFailure("the run on one device left no values");
  rank.output(
      {{"run", number},
       {"accuracy", training.accuracy(spec, *values, training::held_out_rows(spec, training::digits()), "cpu")}});
}

template <class One>
void each_run(worker::TaskRank& rank, const One& one) {
  int number = 0;
  for (const json& run : rank.arguments.at("runs")) one(rank, number++, run);
}

}  // namespace

void average_task(worker::TaskRank& rank) { each_run(rank, one_average); }

void alone_task(worker::TaskRank& rank) { each_run(rank, one_alone); }

void judge_averaging_task(worker::TaskRank& rank) {
  each_run(rank, [](worker::TaskRank& judge, int number, const json& run) {
    const job::RunSpec spec = job::read_run_spec(run.at("spec").get<std::string>());
    AveragedRanks ranks;
    for (int of = 0; of < run.at("world"); ++of)
      ranks.push_back(training::read_averaged_steps(run.at("record").get<std::string>(), of));
    const AveragingJudgement judgement =
        judge_averaging(spec, run.at("settings").get<training::AveragingSettings>(), ranks, subject::training_module(),
                        judge.arguments.at("rank_order"));
    for (const Finding& finding : judgement.findings)
      judge.output({{"run", number}, {"finding", {{"requirement", finding.requirement}, {"text", text_of(finding)}}}});
    judge.output({{"run", number}, {"judged", judgement.judged}});
  });
}

}  // namespace plumbline::conformance
