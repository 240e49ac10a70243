// harness/trainer/trainer.hpp: epochs over a training program, with hooks. Free of LibTorch.
//
// Model   The trainer knows when what happens, the program how: it is given as functions that run one batch. Hooks look
//         on: they gather metrics, set the learning rate, tell people, save. Metrics are plain numbers by name.
// Ranks   Every rank has a trainer of its own and calls the same functions in the same order; a batch's result must be
//         the same on all ranks that fit() shall stop together (the loss is known on one of them: it has to tell the
//         others).
// Order   At each point hooks are called by rank(), lowest first, of equal ones in the order in which they were given.
// Errors  NonFiniteLoss where a loss is infinite or not a number: before any hook sees that batch, so that nothing is
//         saved of it and the last checkpoint stays.
// Source  ColossalAI's Trainer.fit and hooks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/trainer/timers.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/checkpoint.hpp"

namespace plumbline::training {

/// What a rank took to train on a batch, or on the batch that took most.
struct RankMemory {
  std::int64_t bytes = 0;  // of tensors at once: activations, messages, gradients
  int activations = 0;     // (stage, micro-batch) pairs at once
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// Of one batch.
struct BatchResult {
  double loss = 0;                   // mean over its rows
  std::int64_t right = 0;            // rows whose class was found
  std::int64_t rows = 0;             // that `right` is of
  int loss_rank = 0;                 // which computed the loss
  std::vector<RankMemory> memory{};  // of each rank; of training, where it is measured
};

/// What a training program can do.
struct TrainingProgram {
  std::int64_t training_batches = 0;  // of an epoch
  std::int64_t test_batches = 0;      // 0: nothing to test on
  /// Trains on a batch: forward, backward, update.
  std::function<BatchResult(int epoch, std::int64_t batch)> train;
  /// Evaluates a batch.
  std::function<BatchResult(std::int64_t batch)> test;
};

using Metrics = std::map<std::string, double>;

enum class Part { training, test };

/// What an epoch came to. A part that was not run has no metrics.
struct EpochResult {
  int epoch = 0;
  Metrics training;
  Metrics test;
  std::vector<RankMemory> memory{};  // of each rank, the most of any batch trained on
  std::map<std::string, PhaseTime>
      seconds;  // "train batch", "train epoch", "test batch", "test epoch", and the program's own
  friend bool operator==(const EpochResult& a, const EpochResult& b) {
    return a.epoch == b.epoch && a.training == b.training && a.test == b.test;
  }
};

/// Called around what is done; `result` is of the epoch so far, and hooks may add metrics to it.
class Hook {
 public:
  Hook() = default;
  virtual ~Hook() = default;
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  [[nodiscard]] virtual int rank() const { return 10; }
  virtual void before_training(const Position&) {}
  virtual void before_part(Part, const Position&) {}
  virtual void after_batch(Part, const Position&, const BatchResult&) {}
  virtual void after_part(Part, const Position&, EpochResult&) {}
  virtual void after_epoch(const Position&, const EpochResult&) {}
};

struct FitOptions {
  int epochs = 1;
  int test_interval = 1;  // epochs from one test to the next
  Position from = {};     // of a run that is continued
  /// Where the last checkpoint is, for the message of NonFiniteLoss; empty: there is none.
  std::function<std::string()> last_checkpoint = {};
};

class NonFiniteLoss : public Error {
 public:
  NonFiniteLoss(const std::string& message, std::int64_t step, int rank) : Error(message), step_(step), rank_(rank) {}
  [[nodiscard]] std::int64_t step() const { return step_; }
  [[nodiscard]] int rank() const { return rank_; }

 private:
  std::int64_t step_;
  int rank_;
};

/// Runs the epochs and returns what each came to. Throws InvalidArgument for a program without batches or functions,
/// for options that make no run, and for a position after the run's end; NonFiniteLoss; and what the program throws.
/// An epoch that is continued in its middle has metrics of the batches that were run now.
std::vector<EpochResult> fit(const TrainingProgram& program, const FitOptions& options, Timers& timers,
                             std::span<Hook* const> hooks);

}  // namespace plumbline::training
