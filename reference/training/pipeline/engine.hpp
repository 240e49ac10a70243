// reference/training/pipeline/engine.hpp: trains a model that lies on several ranks, by a schedule.
//
// Model   A rank has some of the model's stages. A call runs all micro-batches of a batch through them: forward over
//         detached inputs, at the last stage criterion(outputs, labels) divided by the number of micro-batches of the
//         step, backward from the gradient of the outputs. Gradients gather in the parameters' grad over micro-batches
//         and calls; the caller averages them over data ranks, updates and clears them.
// Shapes  The rank of the first stage sees whether the inputs' shapes are those of the call before, and tells the
//         others: where they have changed, each stage describes its outputs before the first message, where they
//         differ between the micro-batches, before each; else no description is sent. With promised shapes none is
//         ever sent, and a stage that breaks the promise is an error. Gradients have the shapes of what they are of.
// Messages wire.hpp: one a boundary and micro-batch, in the memory on which calls are made (rank_device.hpp).
// Memory  What a backward pass needs is given up when it is over: with the weight gradient where the schedule splits
//         them.
//         A result counts the most (stage, micro-batch) pairs that were kept at once and, where asked, the most bytes.
// Bits    With a schedule that back-propagates the micro-batches of each stage in their order, a step's gradients have
//         the bits of a single device that runs micro-batch after micro-batch.
// Threads Back-propagation runs on the calling thread, on GPUs, too: layers may talk to other ranks in it.
// Errors  InvalidArgument, with the numbers. What a stage or a message throws comes through; the group is unusable
//         then.
// Source  ColossalAI's PipelineSchedule (the contract of a call); torch.distributed.pipelining's stages.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/training/detail/rank_device.hpp"
#include "reference/training/pipeline/batch.hpp"
#include "reference/training/pipeline/stage.hpp"
#include "reference/training/pipeline/wire.hpp"

namespace plumbline::training {

/// The computations of all ranks for the given micro-batches: generate(), or a schedule of the caller's own. Every rank
/// makes the same one.
using ScheduleFor = std::function<schedules::Schedule(int micro_batches)>;
/// The mean loss over the rows, a scalar.
using Criterion = std::function<at::Tensor(const Tensors& outputs, const Tensors& labels)>;

struct EngineOptions {
  Criterion criterion;  // of the rank of the last stage
  RankDevice device = {};
  /// What goes from each stage to the next, always: no description is sent then.
  std::optional<Description> promised = {};
  WireType wire = {};
  schedules::ExecutorOptions executor = {};
};

/// What a call shall do; the same on all ranks but for the data.
struct EngineCall {
  int micro_batches = 1;
  /// Views of rows (micro_batches_of()); they are copied to the device when they are used. Looked at on the rank of the
  /// first stage, and on that of the last.
  std::vector<Tensors> inputs = {};
  std::vector<Tensors> labels = {};
  bool forward_only = false;  // evaluation: nothing is kept, no gradient changes
  bool return_loss = true;    // else, where forward_only, labels are not needed
  bool return_outputs = false;
  int calls = 1;          // whose gradients make a step
  double divisor = 0;     // of each loss before back-propagation; 0: micro_batches x calls
  double loss_scale = 1;  // what losses are multiplied by before back-propagation; results have them as they are
  bool measure_memory = false;
};

/// Losses, outputs and labels only on the rank of the last stage.
struct EngineResult {
  std::vector<double> losses;    // of each micro-batch
  std::vector<Tensors> outputs;  // of each micro-batch; joined() makes them a batch
  std::vector<Tensors> labels;
  int peak_activations = 0;
  std::int64_t peak_bytes = 0;             // of tensors that the call made, at once; 0 unless requested
  std::vector<schedules::Action> actions;  // of this rank, as it ran them
  std::vector<schedules::Period> periods;  // when
};

class PipelineEngine {
 public:
  /// `stages` are those that the schedule puts on this rank, by number. The group and the stages must outlive
  /// the engine. Throws InvalidArgument for other stages than the schedule's, and for a group of another size.
  PipelineEngine(comm::Communicator& group, ScheduleFor schedule_for, std::map<int, Stage*> stages,
                 EngineOptions options);
  ~PipelineEngine();

  /// Runs a batch. Collective over the group. Throws InvalidArgument for a call that trains and does not return its
  /// loss, and for another number of micro-batches than announced, here or on another rank.
  EngineResult run(const EngineCall& call);

  /// Of the rank's stages, in their order; one that several stages share, once.
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  /// Forgets all gradients.
  void clear_gradients();

 private:
  class Call;
  // When stages tell their shapes in a call.
  enum class Telling : std::int32_t { never, once, each };

  [[nodiscard]] Telling telling(const EngineCall& call);
  Telling agree(const EngineCall& call);
  const schedules::Schedule& lowered(const EngineCall& call, Telling telling);

  comm::Communicator& group_;
  ScheduleFor schedule_for_;
  std::map<int, Stage*> stages_;
  EngineOptions options_;
  std::vector<NamedTensor> parameters_;
  std::map<std::tuple<int, bool, Telling>, schedules::Schedule> lowered_;
  Description inputs_;  // of the call before, where all of its micro-batches had one form
  bool trained_ = false;
  std::map<int, schedules::DescriptionExchange> boundaries_;  // by the stage whose outputs cross it; as last told
};

}  // namespace plumbline::training
