// reference/training/pipeline/shared.hpp: parameters that stages on several ranks share.
//
// Model   Each rank that holds a shared parameter has a copy, with the gradient of its own uses. Copies start with the
//         values of the lowest rank. Once a step, before anything looks at the gradients, they are summed over the
//         ranks that hold them: one reduction for all parameters of the same ranks and type, row-major whatever the
//         order in memory, zeros from a rank that has no gradient.
// Source  ColossalAI's PipelineSharedModuleGradientHandler; DeepSpeed's TiedLayerSpec.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/training/bucketing/tensors.hpp"
#include "reference/training/detail/rank_device.hpp"

namespace plumbline::training {

struct SharedParameter {
  std::string name;
  at::Tensor tensor;
  std::vector<int> ranks;  // of the group, ascending: those that hold it
};

class SharedParameters {
 public:
  /// Collective over the ranks that hold any: each gives those that it holds, all in the same order; one that is given
  /// twice counts once. Makes the groups and broadcasts the values. Throws InvalidArgument,
  /// naming the parameter, for fewer than two ranks, ranks that are not in the group or do not ascend, a rank that is
  /// not among them, and for a type that a communicator does not add.
  SharedParameters(comm::Communicator& group, const std::vector<SharedParameter>& parameters,
                   const RankDevice& where = {});
  /// Sums the gradients. Collective.
  void reduce();

 private:
  std::vector<std::unique_ptr<comm::Communicator>> holders_;
  std::vector<at::Tensor> tensors_;
  std::unique_ptr<TensorReducer> reducer_;  // none where nothing is shared
};

}  // namespace plumbline::training
