#include "harness/trainer/hooks.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace plumbline::training {
namespace {

const char* name_of(Part part) { return part == Part::training ? "training" : "test"; }

Metrics& metrics_of(EpochResult& result, Part part) { return part == Part::training ? result.training : result.test; }

std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  return text;
}

// Of the rank that took most; empty where it was not measured.
std::string memory_of(const EpochResult& result, Part part) {
  if (part == Part::test || result.memory.empty()) return "";
  return fmt::format(", {:.1f} MB",
                     static_cast<double>(std::ranges::max(result.memory, {}, &RankMemory::bytes).bytes) / 1e6);
}

double seconds_of(const EpochResult& result, const std::string& phase) {
  const auto found = result.seconds.find(phase);
  return found == result.seconds.end() ? 0 : found->second.total;
}

}  // namespace

void LossHook::before_part(Part, const Position&) {
  sum_ = 0;
  batches_ = 0;
}
void LossHook::after_batch(Part, const Position&, const BatchResult& batch) {
  sum_ += batch.loss;
  ++batches_;
}
void LossHook::after_part(Part part, const Position&, EpochResult& result) {
  if (batches_ > 0) metrics_of(result, part)["Loss"] = sum_ / static_cast<double>(batches_);
}

void AccuracyHook::before_part(Part, const Position&) {
  right_ = 0;
  rows_ = 0;
}
void AccuracyHook::after_batch(Part, const Position&, const BatchResult& batch) {
  right_ += batch.right;
  rows_ += batch.rows;
}
void AccuracyHook::after_part(Part part, const Position&, EpochResult& result) {
  if (rows_ > 0) metrics_of(result, part)["Accuracy"] = static_cast<double>(right_) / static_cast<double>(rows_);
}

void MemoryHook::after_batch(Part part, const Position&, const BatchResult& batch) {
  if (part != Part::training) return;
  most_.resize(std::max(most_.size(), batch.memory.size()));
  for (std::size_t rank = 0; rank < batch.memory.size(); ++rank) {
    most_[rank].bytes = std::max(most_[rank].bytes, batch.memory[rank].bytes);
    most_[rank].activations = std::max(most_[rank].activations, batch.memory[rank].activations);
  }
}
void MemoryHook::after_part(Part part, const Position&, EpochResult& result) {
  if (part != Part::training || most_.empty()) return;
  result.memory = most_;
}

LearningRateHook::LearningRateHook(RateSchedule schedule, std::function<void(double rate)> set, bool by_epoch)
    : schedule_(std::move(schedule)), set_(std::move(set)), by_epoch_(by_epoch) {}
void LearningRateHook::set(int number) {
  rate_ = schedule_(number);
  set_(rate_);
}
void LearningRateHook::before_training(const Position& at) { set(by_epoch_ ? at.epoch : static_cast<int>(at.step)); }
void LearningRateHook::after_batch(Part part, const Position& at, const BatchResult&) {
  if (!by_epoch_ && part == Part::training) set(static_cast<int>(at.step));
}
void LearningRateHook::after_part(Part part, const Position&, EpochResult& result) {
  if (part == Part::training && by_epoch_) result.training["LR"] = rate_;
}
void LearningRateHook::after_epoch(const Position& at, const EpochResult&) {
  if (by_epoch_) set(at.epoch);
}

void LogByEpochHook::after_epoch(const Position&, const EpochResult& result) {
  for (const Part part : {Part::training, Part::test}) {
    const Metrics& metrics = part == Part::training ? result.training : result.test;
    if (metrics.empty()) continue;
    sink_(fmt::format("epoch {}, {}: {} ({:.1f} s{})", result.epoch, name_of(part), metrics_text(metrics),
                      seconds_of(result, part == Part::training ? "train epoch" : "test epoch"),
                      memory_of(result, part)));
  }
}

ProgressHook::ProgressHook(Sink sink, std::int64_t training, std::int64_t test)
    : sink_(std::move(sink)), training_(training), test_(test) {}
void ProgressHook::before_part(Part part, const Position& at) { done_ = part == Part::training ? at.batch : 0; }
void ProgressHook::after_batch(Part part, const Position& at, const BatchResult& batch) {
  ++done_;
  sink_(fmt::format("\repoch {}, {}: batch {} of {}, loss {:.4g}", at.epoch, name_of(part), done_,
                    part == Part::training ? training_ : test_, batch.loss));
}
void ProgressHook::after_part(Part, const Position&, EpochResult&) { sink_("\n"); }

CheckpointHook::CheckpointHook(std::function<void(const Position& at)> save, int every_epochs, std::int64_t every_steps)
    : save_(std::move(save)), every_epochs_(every_epochs), every_steps_(every_steps) {
  if (every_epochs < 0 || every_steps < 0 || (every_epochs == 0 && every_steps == 0))
    throw InvalidArgument(fmt::format("a checkpoint every {} epochs and {} steps; one of them must be at least 1",
                                      every_epochs, every_steps));
}
void CheckpointHook::after_batch(Part part, const Position& at, const BatchResult&) {
  if (part == Part::training && every_steps_ > 0 && at.step % every_steps_ == 0) save_(at);
}
void CheckpointHook::after_epoch(const Position& at, const EpochResult&) {
  if (every_epochs_ > 0 && at.epoch % every_epochs_ == 0) save_(at);
}

}  // namespace plumbline::training
