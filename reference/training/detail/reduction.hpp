// reference/training/detail/reduction.hpp: a run's gradients over its data group, when back-propagation is over: of a
// rank of a pipeline, and of what goes from a GPU through the host's memory.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/training/bucketing/tensors.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::training {

class DataReduction {
 public:
  /// The group, the specification and the steps must outlive it. `parameters` are those of `list`, in its order.
  DataReduction(comm::Communicator& group, const job::RunSpec& spec, const ExecutorSteps& steps,
                std::vector<job::Parameter> list, const std::vector<at::Tensor>& parameters,
                const RankDevice& where = {});
  /// Makes of the rank's own gradients those that it uses: as steps.reduce says, all in one bucket; their averages
  /// where it is empty, in buckets of run.bucket_bytes. Collective.
  void reduce(std::vector<at::Tensor>& gradients);

 private:
  [[nodiscard]] bucketing::Plan plan_of(comm::Communicator& group, const std::vector<GroupedTensor>& leaves) const;
  [[nodiscard]] bucketing::ReducerOptions options(const std::vector<GroupedTensor>& leaves);
  void reduce_by_step(comm::Communicator& group, const comm::Buffer& values) const;

  const job::RunSpec& spec_;
  const ExecutorSteps& steps_;
  RankDevice where_;
  std::vector<job::Parameter> list_;
  std::vector<bool> copied_;                // of this step's gradients
  std::unique_ptr<TensorReducer> reducer_;  // none without parameters
};

}  // namespace plumbline::training
