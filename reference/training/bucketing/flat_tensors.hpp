// reference/training/bucketing/flat_tensors.hpp: tensors side by side, for collectives.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/training/detail/rank_device.hpp"

namespace plumbline::training {

/// One buffer for each type of the tensors, where calls are made; each tensor row-major in it.
class FlatTensors {
 public:
  /// Throws Unsupported for a type that is not added.
  explicit FlatTensors(const std::vector<at::Tensor>& tensors, const RankDevice& where = {});

  [[nodiscard]] std::vector<comm::Buffer> buffers() const;
  /// From the tensors into the buffers, and back.
  void gather();
  void scatter();

 private:
  RankDevice where_;
  std::vector<at::Tensor> tensors_, parts_, memory_;
};

/// Gives all tensors rank 0's values: one broadcast a type. Collective. Throws Unsupported as FlatTensors does.
void broadcast_from_rank_0(comm::Communicator& group, const std::vector<at::Tensor>& tensors,
                           const RankDevice& where = {});

}  // namespace plumbline::training
