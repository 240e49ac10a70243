// reference/training/slowmo/averaged_module.hpp: SlowMo, LocalSGD and stochastic gradient push around a LibTorch
// module.
//
// Use     AveragedModule module(world, tensors, forward, groups, options);
//         every step: module.forward(x), the loss, its backward(), the optimizer's step, module.perform_slowmo().
// Model   A module is a function over tensors that it shares: leaves that require gradients, buffers, and of leaves of
//         16 bits fp32 master weights. forward() broadcasts rank 0's buffers and puts the estimate in the place of the
//         numerators; a hook at its result has the numerators taken again, and a node's gradients averaged, when the
//         backward through it is over, whatever loss it began at. So saved tensors have in the backward what they had
//         in the forward.
// Devices The tensors lie on the device that is named with them. What the module does there is in the order in which
//         LibTorch computes; over groups that do not take its memory, messages go through the host's. The device of the
//         options follows from that.
// Memory  Nothing is copied: reference/slowmo gets views of the tensors' memory, in whatever order it is, which must be
//         the same on all ranks and without gaps. A caller that gives a tensor other memory gets an error.
// Missing A leaf without a gradient takes part in a node's average with zeros, so that all ranks send the same amount.
// Errors  InvalidArgument: a tensor that is no leaf or has gaps, master weights that do not fit. Unsupported: a tensor
//         on another device, or of a type that is not averaged. StateError: memory that moved. Each with the tensor's
//         name. What slowmo.hpp says besides.
// Threads One at a time, backward included: of tensors on a GPU a backward with several ranks a node has to run on the
//         calling thread (on_this_thread.hpp), since it waits for the others.
// Source  FairScale's SlowMoDistributedDataParallel: its hooks, train(), eval() and perform_slowmo().
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/slowmo/slowmo.hpp"
#include "reference/training/averaging.hpp"
#include "reference/training/detail/rank_device.hpp"
#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

struct ModuleTensors {
  std::vector<NamedTensor> parameters;  // leaves
  std::vector<NamedTensor> buffers{};
  std::vector<at::Tensor> master_weights{};  // none, or one for each parameter
  RankDevice where{};                        // that all of them lie on
};

/// The tensors of an optimizer, parameters or fp32 master weights, and its current rate.
struct OptimizedTensors {
  std::vector<at::Tensor> tensors;
  double learning_rate = 0;
};

class AveragedModule {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor& x, bool training)>;
  using Optimizer = std::function<std::vector<OptimizedTensors>()>;

  /// Collective over `world`, which must outlive it.
  AveragedModule(comm::Communicator& world, ModuleTensors tensors, Forward forward, Optimizer optimizer,
                 const slowmo::Options& options = {});

  /// The module's result. `last`: of the step's forwards, where several make one step; after the backward passes of
  /// others nothing is done. Collective.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, bool last = true);
  /// After the optimizer's step; in evaluation nothing. Collective.
  void perform_slowmo();

  /// Gossip on, or off for evaluation.
  void train();
  void evaluate();

  /// After it the tensors have what was under way.
  [[nodiscard]] slowmo::Checkpoint checkpoint();
  void load(const slowmo::Checkpoint& checkpoint);
  /// What is between ranks.
  [[nodiscard]] const slowmo::SlowMo& averaging() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the hooks of forwards whose backward is to come
};

}  // namespace plumbline::training
