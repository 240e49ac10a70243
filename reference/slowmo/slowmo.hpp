// reference/slowmo/slowmo.hpp: data-parallel training with SlowMo, LocalSGD or stochastic gradient push, over a
// communicator.
//
// Use     SlowMo slowmo(world, {.parameters = parameters}, optimizer_groups, options);
//         every step: before_forward(); forward and backward; after_backward(gradients); the optimizer's step; step().
// Model   The caller has parameters, gradients and optimizer, this has everything between ranks. Parameters are
//         numerators: before_forward() divides them by the push-sum weight, after_backward() multiplies again, and the
//         optimizer and step() work on numerators (lazy mixing: weights stay 1, and neither is done).
// Weights Parameters of 16 bits may have fp32 master weights, which the optimizer works on. What a rank's 16-bit
//         parameters lose in an average stays in its master weights: master - parameter before communication, master +
//         parameter after it, then parameter = master. Slow momentum works on the master weights.
// Order   Of step(): what 16-bit parameters lose; gossip or average over the nodes' master weights; to the other ranks
//         of the node; what 16-bit parameters lost; slow momentum; 16-bit parameters from master weights.
// Start   plumbline: rank 0's parameters and master weights are broadcast when it is made, and its buffers where they
//         are to be broadcast; slow momentum buffers begin with what all have then. fairscale: nothing is broadcast,
//         and slow momentum buffers begin in the first step(), after the optimizer's step.
// Memory  The caller's, which stays where it is: all of it the host's, or all of it one device's (Options::device),
//         over a communicator that takes it, or by way of the host (Options::communication_device). Slow momentum
//         buffers are kept, too, 2 L elements of a shard of L, or of all. On a device the memory of messages is kept
//         for good (README.md, Memory).
// Devices On a device all of a step is put into one stream, and the host waits for the other ranks' calls, never for
//         the device, but where memory grows, in the first steps; a communication by way of the host waits for it, and
//         so do checkpoint(), load() and slow_state(). The bits are those of the host, but for which NaN a NaN is.
// Errors  InvalidArgument before anything is communicated, with parameter and values: no parameters, several memories,
//         slow momentum on others than f32 (plumbline: or f64), on several types, a learning rate of 0 in a slow step
//         (fairscale: when the parameters are divided already), master weights that do not fit; Unsupported for other
//         types and memory; StateError.
//         The optimizer's tensors are looked at when this is made (fairscale: in the first step()), its rates in each
//         slow step.
//         DeviceFailure, at once: a round of gossip that met it is not made again, and for want of memory (OutOfMemory)
//         one that overlaps is not begun.
//         Of communication: as communicator.hpp says.
// Threads One at a time; with overlap the thread of gossip is this object's own.
// Sources FairScale's SlowMoDistributedDataParallel; SlowMo (ICLR 2020); Assran et al. (ICML 2019); Stich (ICLR 2019).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/slowmo/options.hpp"
#include "reference/slowmo/slow_step.hpp"
#include "reference/slowmo/step_plan.hpp"

namespace plumbline::slowmo {

/// Master weights of f32: one for each parameter, by list; or one flat buffer, in the parameters' order, by itself or
/// as the only entry of a dictionary.
using Masters =
    std::variant<std::monostate, comm::Buffer, std::vector<comm::Buffer>, std::map<std::string, comm::Buffer>>;

struct Tensors {
  std::vector<comm::Buffer> parameters;
  std::vector<comm::Buffer> buffers{};  // running statistics
  Masters master_weights{};
  std::vector<std::string> names{};  // of the parameters, for messages
};

/// The tensors of the optimizer, and its current rates: the parameters, or their fp32 master weights. Requested when
/// needed.
using OptimizerGroups = std::function<std::vector<ParameterGroup>()>;

/// Slow momentum buffers of a rank: elements [begin, end) of the optimizer's. Values of f32 are kept exactly.
struct SlowState {
  Range range;
  std::vector<double> old_parameters, momentum;
  friend bool operator==(const SlowState&, const SlowState&) = default;
};

/// What a rank needs, beside its parameters, master weights and the optimizer's state, to continue as if it had never
/// stopped. fairscale: only weight and numerator flag, and only with SGP.
struct Checkpoint {
  std::optional<double> push_sum_weight{};
  std::optional<bool> is_numerator{};
  std::optional<std::int64_t> steps{};
  std::optional<std::int64_t> round{};  // of gossip
  std::optional<SlowState> slow{};
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

class SlowMo {
 public:
  /// Collective. Throws as said under Errors, and as settle().
  SlowMo(comm::Communicator& world, Tensors tensors, OptimizerGroups optimizer, const Options& options = {});
  ~SlowMo();
  SlowMo(const SlowMo&) = delete;
  SlowMo& operator=(const SlowMo&) = delete;

  /// Buffers of rank 0, and the estimate in place of the numerator. Also in evaluation. Collective.
  void before_forward();
  /// Averages the gradients inside the node, in place, and takes the numerator again. Of those that the backward made,
  /// all ranks of a node have the same. Collective over the node.
  void after_backward(std::span<const comm::Buffer> gradients);
  /// After the optimizer's step. Collective.
  void step();
  /// Makes slow momentum buffers of the current parameters, if none exist; step() does it otherwise.
  void begin_slow_buffers();

  /// Gossip on, or off for evaluation, when all that is under way has been added. Collective with overlap.
  void train();
  void evaluate();
  [[nodiscard]] bool is_training() const;

  /// Collective with overlap, which adds what is under way.
  [[nodiscard]] Checkpoint checkpoint();
  /// After the construction, and after the parameters that belong to it. Throws NotFound for what it lacks,
  /// InvalidArgument for what this does not have (weights without SGP) or has otherwise (shards of another world).
  void load(const Checkpoint& checkpoint);

  [[nodiscard]] const Setting& setting() const;
  [[nodiscard]] std::int64_t steps_done() const;
  /// What step() will do next.
  [[nodiscard]] StepPlan plan() const;
  [[nodiscard]] double push_sum_weight() const;
  [[nodiscard]] bool is_numerator() const;
  [[nodiscard]] bool is_lazy() const;
  /// Nothing where this rank keeps none.
  [[nodiscard]] std::optional<SlowState> slow_state() const;
  [[nodiscard]] std::int64_t slow_buffer_bytes() const;
  [[nodiscard]] const std::vector<Warning>& warnings() const;
  /// Seconds by phase so far, where it is to be profiled: the host's, which on a device are those of putting work into
  /// its stream.
  [[nodiscard]] const std::array<double, kPhases>& seconds() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline::slowmo
