// reference/training/detail/reduction.hpp: a run's gradients over its data group, when back-propagation is over: of a
// rank of a pipeline, and of what goes from a GPU through the host's memory.
#pragma once

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/training/bucketing/tensors.hpp"
#include "reference/training/run_settings.hpp"

namespace plumbline::training {

class DataReduction {
 public:
  /// The groups must outlive it. `parameters` are those of `list`, in its order. Where there are ranks that hold the
  /// same experts, gradients of experts are summed over them alone, and divided by all data ranks: each is already a
  /// sum over the tokens of several of them.
  DataReduction(comm::Communicator& group, const job::RunSpec& spec, const RunSettings& settings,
                const std::vector<job::Parameter>& list, const std::vector<at::Tensor>& parameters,
                const RankDevice& rank = {}, comm::Communicator* expert_data_group = nullptr);
  /// Makes of the rank's own gradients their averages, in buckets of run.bucket_bytes. Collective.
  void reduce(std::vector<at::Tensor>& gradients);

 private:
  std::unique_ptr<TensorReducer> reducer_;  // none without parameters
};

}  // namespace plumbline::training
