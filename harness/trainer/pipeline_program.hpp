// harness/trainer/pipeline_program.hpp: a model that several ranks train as a pipeline, as a program of the
// trainer's.
//
// Model   The world is pipeline x data ranks, row-major. Each pipeline trains on batches of its own; gradients of
//         shared parameters are summed over the stages that hold them, then all gradients averaged over the data ranks
//         in buckets, then every rank updates what it has. Where no schedule is named: with one chunk 1F1B, with
//         several ColossalAI's interleaved one.
// Result  All ranks get the same: the mean loss over the data ranks, and counts over all of them.
// Threads One intra-operation thread on the thread that makes it, which is the one that uses it.
// Uneven  With task.gradients.join, a data rank without rows for a batch takes part in what is collective, with zeros;
//         its gradients are the mean of the batches of the update that it has.
// Updates After gradient_accumulation batches, whose gradients are their mean, and at the end of an epoch.
// Loss    Where it is no number on any rank, no rank updates anything.
// Errors  Unsupported for parallel.tensor other than 1; InvalidArgument for a world of another size, and for batches
//         that the micro-batches do not divide.
// Source  ColossalAI's pipeline example.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/trainer/batch_tensors.hpp"
#include "harness/trainer/data/batches.hpp"
#include "harness/trainer/data/text.hpp"
#include "harness/trainer/models/blocks.hpp"
#include "harness/trainer/pipeline_run.hpp"
#include "harness/trainer/settings.hpp"
#include "harness/trainer/timers.hpp"
#include "harness/trainer/trainer.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/groups/parallel_context.hpp"
#include "reference/record/layout.hpp"
#include "reference/training/bucketing/autograd.hpp"
#include "reference/training/bucketing/tensors.hpp"
#include "reference/training/checkpoint.hpp"
#include "reference/training/detail/optimizer.hpp"
#include "reference/training/gradient_settings.hpp"
#include "reference/training/pipeline/engine.hpp"
#include "reference/training/pipeline/shared.hpp"

namespace plumbline::training {

/// Batches of one data rank.
struct TrainingData {
  std::int64_t training_batches = 0;  // of an epoch, of the data rank that has the most
  std::int64_t test_batches = 0;
  std::int64_t own_batches = 0;  // of this data rank, the first ones of the epoch
  std::function<BatchTensors(int epoch, std::int64_t batch)> training;
  std::function<BatchTensors(std::int64_t batch)> test;
};
/// Of images, which must outlive it: augmented ones to train on. The test is not sharded: every data rank does all
/// of it.
/// The last batch of either has as many rows as the micro-batches divide, and is left out where a shape is promised.
/// Data ranks have equally many batches, or, where they are uneven, as their rows give.
[[nodiscard]] TrainingData image_data(const data::Cifar10& images, const TrainerSettings& settings, int data_rank,
                                      bool uneven = false);
/// Of a text, in windows of `length` tokens: so many batches an epoch, a tenth as many, and at least one, to test. The
/// text must outlive it.
[[nodiscard]] TrainingData text_data(const data::Text& text, const TrainerSettings& settings, int data_rank,
                                     std::int64_t length, std::int64_t batches);

/// What is trained, on what.
struct PipelineTask {
  Blocks blocks;
  Cut cut = Cut::uniform;
  std::string schedule{};                            // schedule_named()'s; empty: what the settings say
  job::Optimizer optimizer = job::Adam{.lr = 1e-3};  // the settings' rate holds
  std::string device = "cpu";
  std::shared_ptr<device::Runtime> devices{};  // of Training::use_devices()
  std::function<TrainingData(int data_rank)> data;
  GradientSettings gradients{};
};

/// The batches of the update that a batch of an epoch is part of.
struct UpdateBatches {
  std::int64_t first = 0;
  std::int64_t count = 1;
};
/// An epoch's batches are taken by so many; the last update may have fewer.
[[nodiscard]] UpdateBatches update_of(std::int64_t batch, std::int64_t batches, int accumulation);
/// How many of them a data rank has rows for, that has the first `own` batches of the epoch.
[[nodiscard]] std::int64_t own_batches_of(const UpdateBatches& update, std::int64_t own);

/// One rank of it.
class PipelineProgram {
 public:
  /// Collective over `world`, which must outlive it. `timers`, where there are some, measure "forward and backward",
  /// "reduce" and "update".
  PipelineProgram(const TrainerSettings& settings, const PipelineTask& task, comm::Communicator& world,
                  Timers* timers = nullptr);
  ~PipelineProgram();

  /// Its functions are collective, and refer to this.
  [[nodiscard]] TrainingProgram program();
  void set_learning_rate(double rate);
  [[nodiscard]] double learning_rate() const { return learning_rate_; }

  /// Is told, from then on, of the gradients that each update uses, those of parameters() in their order.
  void tell_gradients(std::function<void(std::span<const at::Tensor> gradients)> tell) { told_ = std::move(tell); }
  /// What this rank did when in the last batch that it trained on.
  [[nodiscard]] const RankTimeline& last_timeline() const { return timeline_; }

  /// This rank's state; the configuration is what the caller adds to the settings' (the model's name, say).
  [[nodiscard]] Checkpoint checkpoint(const Configuration& configuration, const Position& at) const;
  /// Throws InvalidArgument for a state that is not of this model.
  void restore(const Checkpoint& checkpoint);

  /// What this rank holds.
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return engine_->parameters(); }
  [[nodiscard]] std::vector<NamedTensor> buffers() const;
  [[nodiscard]] const OptimizerState& optimizer() const { return *optimizer_; }

 private:
  void make_stages(const PipelineTask& task);
  void share(const Blocks& blocks, const std::vector<schedules::Interval>& parts,
             const std::vector<int>& ranks_of_parts);
  void make_reducer(const GradientSettings& settings);
  BatchResult train(int epoch, std::int64_t batch);
  EngineResult back_propagate(int epoch, std::int64_t batch, const UpdateBatches& update);
  EngineResult run(const BatchTensors& batch, int calls, bool training);
  BatchResult agree(const EngineResult& ran);
  void begin_reduction(bool ends_update);
  void reduce(bool joins);
  void update();

  TrainerSettings settings_;
  comm::Communicator& world_;
  Timers* timers_;
  groups::ParallelContext groups_;  // modes "pipeline" and "data"
  TrainingData data_;
  RankDevice device_;
  TensorStore store_;
  std::map<int, std::unique_ptr<Stage>> stages_;
  std::unique_ptr<PipelineEngine> engine_;
  std::unique_ptr<SharedParameters> shared_;
  // Over the data ranks, where there are several: while back-propagation runs, or when it is over.
  std::unique_ptr<AutogradReducer> overlapped_;
  std::unique_ptr<TensorReducer> reducer_;
  std::vector<at::Tensor> gradients_;  // that the update uses
  std::unique_ptr<OptimizerState> optimizer_;
  double learning_rate_ = 0;
  std::function<void(std::span<const at::Tensor>)> told_;
  RankTimeline timeline_;
};

}  // namespace plumbline::training
