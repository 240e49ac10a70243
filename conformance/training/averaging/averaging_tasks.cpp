#include "conformance/training/averaging/averaging_tasks.hpp"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/training/averaging/averaging_judge.hpp"
#include "harness/record/result.hpp"
#include "harness/run/findings.hpp"
#include "harness/subject/averaging_json.hpp"
#include "harness/subject/training_module.hpp"
#include "harness/suite/machine_error.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/averaging.hpp"
#include "reference/training/checkpoint.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/training.hpp"

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

// ---- checkpoints ----

// Of one run: the session's files, and beside them what the ranks had since the checkpoint before.
class AveragingCheckpoints {
 public:
  AveragingCheckpoints(const json& arguments, comm::Communicator& world, int steps,
                       const training::AveragingSettings& settings)
      : world_(world),
        folder_(arguments.at("folder").get<std::string>()),
        steps_(steps),
        // A run that lags goes on otherwise after a checkpoint: there is none where a longer run would have none.
        saves_last_(!training::lags(settings)) {
    if (folder_.empty()) return;
    every_ = arguments.at("steps");
    resumes_ = arguments.at("resume");
  }
  [[nodiscard]] bool keeps() const { return !folder_.empty(); }

  // What this rank had in the steps before; none where there is nothing to go on from.
  std::vector<training::AveragedStep> go_on(training::AveragedSession& session) {
    const std::int64_t last = last_step();
    std::vector<training::AveragedStep> done;
    if (last == 0) return done;
    session.load(folder_, static_cast<int>(last));
    for (const std::int64_t step : training::checkpoint_steps(folder_, world_.size())) {
      if (step > last) break;
      for (training::AveragedStep& one : training::read_averaged_steps(folder_of(step), world_.rank()))
        done.push_back(std::move(one));
    }
    if (std::ssize(done) != last)
      throw InvalidArgument(
          fmt::format("'{}' has what ranks had in {} steps, and the checkpoint is after step {}; give another folder",
                      folder_.string(), done.size(), last));
    saved_ = done.size();
    return done;
  }

  void save(training::AveragedSession& session, const std::vector<training::AveragedStep>& done) {
    const auto count = static_cast<int>(done.size());
    if (!keeps() || (count % every_ != 0 && !(saves_last_ && count == steps_))) return;
    const auto from = done.begin() + static_cast<std::ptrdiff_t>(std::exchange(saved_, done.size()));
    // First these: a checkpoint is complete when the sessions' files are there.
    training::write_averaged_steps({from, done.end()}, folder_of(count), world_.rank());
    session.save(folder_);
  }

 private:
  [[nodiscard]] std::filesystem::path folder_of(std::int64_t step) const {
    return training::checkpoint_file(folder_, step, 0).parent_path();
  }
  // The last complete checkpoint that rank 0 sees; 0: there is none.
  [[nodiscard]] std::int64_t last_step() const {
    if (!keeps()) return 0;
    constexpr std::int64_t of_fewer_ranks = -1;
    std::int64_t last = 0;
    if (world_.rank() == 0 && !training::checkpoint_steps(folder_, 1).empty()) {
      const auto steps = training::checkpoint_steps(folder_, world_.size());
      last = steps.empty() ? of_fewer_ranks : steps.back();
    }
    world_.broadcast({&last, 1, comm::DType::i64}, 0);
    if (last != 0 && !resumes_)
      throw InvalidArgument(
          fmt::format("'{}' has checkpoints of a run; resume it, or give another folder", folder_.string()));
    if (last == of_fewer_ranks)
      throw InvalidArgument(
          fmt::format("'{}' has no checkpoint of {} ranks; resume it with as many as it has, or give "
                      "another folder",
                      folder_.string(), world_.size()));
    if (last > steps_)
      throw InvalidArgument(
          fmt::format("'{}' has a checkpoint after step {}; the run has {} steps", folder_.string(), last, steps_));
    return last;
  }

  comm::Communicator& world_;
  std::filesystem::path folder_;
  int steps_, every_ = 0;
  bool saves_last_, resumes_ = false;
  std::size_t saved_ = 0;  // steps that the last checkpoint has
};

// ---- runs ----

void tell_step(worker::TaskRank& rank, int number, std::size_t step, const training::AveragedStep& own) {
  const auto distance = training::consensus_distance(rank.world, training::model_behind(own));
  const double loss = mean_over_ranks(rank.world, own.loss);
  if (rank.world.rank() == 0)
    rank.output({{"run", number},
                 {"step", step},
                 {"loss", number_or_word(loss)},
                 {"largest", number_or_word(distance.largest)},
                 {"mean", number_or_word(distance.mean)}});
}

void one_average(worker::TaskRank& rank, int number, const json& run) {
  const job::RunSpec spec = job::read_run_spec(run.at("spec").get<std::string>());
  const auto settings = run.at("settings").get<training::AveragingSettings>();
  const std::string record = run.at("record");
  training::Training& training = subject::training_module();
  const auto session = training.averaged(spec, rank.world, settings);
  AveragingCheckpoints checkpoints(run.at("checkpoints"), rank.world, spec.run.steps, settings);
  const bool tells = rank.world.rank() == 0;
  std::vector<training::AveragedStep> done = checkpoints.go_on(*session);
  if (tells && !done.empty()) rank.output({{"run", number}, {"resumed", done.size()}});
  for (std::size_t step = 0; step < done.size(); ++step) tell_step(rank, number, step, done[step]);
  for (auto step = static_cast<int>(done.size()); step < spec.run.steps; ++step) {
    training::AveragedStep own = session->step(step);
    tell_step(rank, number, static_cast<std::size_t>(step), own);
    if (record.empty() && !checkpoints.keeps()) continue;
    done.push_back(std::move(own));
    checkpoints.save(*session, done);
  }
  if (!record.empty()) training::write_averaged_steps(done, record, rank.world.rank());
  const training::LabelledRows rows = training::held_out_rows(spec, training::digits());
  const std::vector<float> mean = mean_of_ranks(rank.world, session->estimate());
  const std::vector<double> accuracies = of_all_ranks(rank.world, session->evaluate(rows));
  if (tells)
    rank.output({{"run", number},
                 {"accuracy", training.accuracy(spec, values_by_parameter(spec, mean), rows, spec.run.device)},
                 {"accuracies", accuracies},
                 {"slow_bytes", session->slow_buffer_bytes()}});
}

void one_alone(worker::TaskRank& rank, int number, const json& run) {
  const job::RunSpec spec = job::read_run_spec(run.at("spec").get<std::string>());
  training::Training& training = subject::training_module();
  const training::Values values = training.alone(spec, run.at("rate_decay"), [&](int step, double loss) {
    rank.output({{"run", number}, {"step", step}, {"loss", number_or_word(loss)}});
  });
  rank.output({{"run", number},
               {"accuracy",
                training.accuracy(spec, values, training::held_out_rows(spec, training::digits()), spec.run.device)}});
}

template <class One>
void each_run(worker::TaskRank& rank, const One& one) {
  int number = 0;
  try {
    for (const json& run : rank.arguments.at("runs")) one(rank, number++, run);
  } catch (const training::DeviceMissing& error) {
    throw suite::MachineFailure(error.what());
  }
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
    const AveragingJudgement judgement = judge_averaging(
        spec, run.at("settings").get<training::AveragingSettings>(), ranks, subject::training_module(),
        judge.arguments.at("rank_order"), [&](int step) { judge.output({{"run", number}, {"step", step}}); });
    for (const Finding& finding : judgement.findings)
      judge.output({{"run", number}, {"finding", run::failure_of(reported(finding))}});
    judge.output({{"run", number}, {"judged", judgement.judged}});
  });
}

}  // namespace plumbline::conformance
