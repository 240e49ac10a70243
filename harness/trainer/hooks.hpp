// harness/trainer/hooks.hpp: the trainer's hooks. Free of LibTorch.
//
// Metrics "Loss": mean over the batches of a part, each counting once. "Accuracy": right rows over all rows, in [0, 1];
//         none where there were no rows. "LR": the rate that an epoch was trained with.
// Source  ColossalAI's hooks of the same names.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/trainer/learning_rate.hpp"
#include "harness/trainer/trainer.hpp"

namespace plumbline::training {

/// Takes a text for people.
using Sink = std::function<void(const std::string& text)>;

class LossHook final : public Hook {
 public:
  void before_part(Part, const Position&) override;
  void after_batch(Part, const Position&, const BatchResult& batch) override;
  void after_part(Part part, const Position&, EpochResult& result) override;

 private:
  double sum_ = 0;
  std::int64_t batches_ = 0;
};

class AccuracyHook final : public Hook {
 public:
  void before_part(Part, const Position&) override;
  void after_batch(Part, const Position&, const BatchResult& batch) override;
  void after_part(Part part, const Position&, EpochResult& result) override;

 private:
  std::int64_t right_ = 0;
  std::int64_t rows_ = 0;
};

/// Gathers the most memory that each rank took in a batch.
class MemoryHook final : public Hook {
 public:
  void before_part(Part, const Position&) override { most_.clear(); }
  void after_batch(Part part, const Position&, const BatchResult& batch) override;
  void after_part(Part part, const Position&, EpochResult& result) override;

 private:
  std::vector<RankMemory> most_;
};

/// Sets the rate before the first batch, and then by epoch or, where so asked, by step.
class LearningRateHook final : public Hook {
 public:
  LearningRateHook(RateSchedule schedule, std::function<void(double rate)> set, bool by_epoch = true);
  [[nodiscard]] int rank() const override { return 1; }
  void before_training(const Position& at) override;
  void after_batch(Part part, const Position& at, const BatchResult&) override;
  void after_part(Part part, const Position&, EpochResult& result) override;
  void after_epoch(const Position& at, const EpochResult&) override;

 private:
  void set(int number);
  RateSchedule schedule_;
  std::function<void(double rate)> set_;
  bool by_epoch_;
  double rate_ = 0;
};

/// Tells the metrics of each part that was run, a line each: "epoch 3, training: Accuracy 0.5000, Loss 1.2300 (12.3 s,
/// 45.6 MB)": the memory of the rank that took most, in 10^6 bytes, where it is known.
class LogByEpochHook final : public Hook {
 public:
  explicit LogByEpochHook(Sink sink) : sink_(std::move(sink)) {}
  [[nodiscard]] int rank() const override { return 100; }
  void after_epoch(const Position& at, const EpochResult& result) override;

 private:
  Sink sink_;
};

/// Tells how far a part is: "\repoch 3, training: batch 12 of 40, loss 1.2300", and ends the line with the part.
class ProgressHook final : public Hook {
 public:
  /// `training` and `test` are the numbers of batches.
  ProgressHook(Sink sink, std::int64_t training, std::int64_t test);
  [[nodiscard]] int rank() const override { return 90; }
  void before_part(Part part, const Position& at) override;
  void after_batch(Part part, const Position& at, const BatchResult& batch) override;
  void after_part(Part part, const Position&, EpochResult&) override;

 private:
  Sink sink_;
  std::int64_t training_, test_;
  std::int64_t done_ = 0;
};

/// Saves after every so many epochs and, where so asked, steps.
class CheckpointHook final : public Hook {
 public:
  /// 0: never. Throws InvalidArgument for an interval below 0, and where both are 0.
  CheckpointHook(std::function<void(const Position& at)> save, int every_epochs, std::int64_t every_steps = 0);
  [[nodiscard]] int rank() const override { return 50; }
  void after_batch(Part part, const Position& at, const BatchResult&) override;
  void after_epoch(const Position& at, const EpochResult&) override;

 private:
  std::function<void(const Position& at)> save_;
  int every_epochs_;
  std::int64_t every_steps_;
};

}  // namespace plumbline::training
