#include "harness/trainer/trainer.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace plumbline::training {
namespace {

void check(const TrainingProgram& program, const FitOptions& options) {
  if (program.training_batches < 1 || program.test_batches < 0)
    throw InvalidArgument(fmt::format("{} batches to train on and {} to test; at least 1 and 0 are needed",
                                      program.training_batches, program.test_batches));
  if (!program.train || (program.test_batches > 0 && !program.test))
    throw InvalidArgument("the program has batches, and no function that runs them");
  if (options.epochs < 1 || options.test_interval < 1)
    throw InvalidArgument(
        fmt::format("{} epochs, a test every {}; both must be at least 1", options.epochs, options.test_interval));
  const Position& from = options.from;
  if (from.epoch < 0 || from.epoch > options.epochs || from.batch < 0 || from.batch >= program.training_batches ||
      (from.epoch == options.epochs && from.batch != 0))
    throw InvalidArgument(fmt::format("a run from epoch {}, batch {}; it has {} epochs of {} batches", from.epoch,
                                      from.batch, options.epochs, program.training_batches));
}

void check(const BatchResult& result, const Position& at, Part part, const FitOptions& options) {
  if (std::isfinite(result.loss)) return;
  const std::string kept = options.last_checkpoint ? options.last_checkpoint() : "";
  throw NonFiniteLoss(
      fmt::format("the loss is {} on rank {}, {} step {} (epoch {}, batch {}); {}",
                  // Its sign says nothing.
                  std::isnan(result.loss) ? std::fabs(result.loss) : result.loss, result.loss_rank,
                  part == Part::training ? "training" : "testing after", at.step, at.epoch, at.batch,
                  kept.empty() ? "no checkpoint was written" : fmt::format("the last checkpoint is '{}'", kept)),
      at.step, result.loss_rank);
}

// One run of fit().
class Fit {
 public:
  Fit(const TrainingProgram& program, const FitOptions& options, Timers& timers, std::vector<Hook*> hooks)
      : program_(program), options_(options), timers_(timers), hooks_(std::move(hooks)), at_(options.from) {}

  std::vector<EpochResult> run() {
    std::vector<EpochResult> results;
    for (Hook* hook : hooks_) hook->before_training(at_);
    while (at_.epoch < options_.epochs) {
      timers_.reset();
      EpochResult result{.epoch = at_.epoch};
      train(result);
      if (program_.test_batches > 0 && (at_.epoch + 1) % options_.test_interval == 0) test(result);
      result.seconds = timers_.phases();
      ++at_.epoch;
      at_.batch = 0;
      for (Hook* hook : hooks_) hook->after_epoch(at_, result);
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  template <class Run>
  BatchResult timed(const char* phase, const Run& run) {
    const TimedPhase time(timers_, phase);
    return run();
  }
  void train(EpochResult& result) {
    const TimedPhase epoch(timers_, "train epoch");
    for (Hook* hook : hooks_) hook->before_part(Part::training, at_);
    while (at_.batch < program_.training_batches) {
      const BatchResult one = timed("train batch", [&] { return program_.train(at_.epoch, at_.batch); });
      check(one, at_, Part::training, options_);
      ++at_.batch;
      ++at_.step;
      for (Hook* hook : hooks_) hook->after_batch(Part::training, at_, one);
    }
    for (Hook* hook : hooks_) hook->after_part(Part::training, at_, result);
  }
  void test(EpochResult& result) {
    const TimedPhase epoch(timers_, "test epoch");
    for (Hook* hook : hooks_) hook->before_part(Part::test, at_);
    for (std::int64_t batch = 0; batch < program_.test_batches; ++batch) {
      const BatchResult one = timed("test batch", [&] { return program_.test(batch); });
      check(one, at_, Part::test, options_);
      for (Hook* hook : hooks_) hook->after_batch(Part::test, at_, one);
    }
    for (Hook* hook : hooks_) hook->after_part(Part::test, at_, result);
  }

  const TrainingProgram& program_;
  const FitOptions& options_;
  Timers& timers_;
  std::vector<Hook*> hooks_;
  Position at_;
};

}  // namespace

std::vector<EpochResult> fit(const TrainingProgram& program, const FitOptions& options, Timers& timers,
                             std::span<Hook* const> hooks) {
  check(program, options);
  std::vector<Hook*> sorted(hooks.begin(), hooks.end());
  std::ranges::stable_sort(sorted, {}, &Hook::rank);
  return Fit(program, options, timers, std::move(sorted)).run();
}

}  // namespace plumbline::training
