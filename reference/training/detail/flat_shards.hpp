// reference/training/detail/flat_shards.hpp: parameters whose shards lie on the data ranks of a replica.
//
// Model   Each parameter's elements, row-major, are cut into equal consecutive parts, one for each rank of a replica;
//         the last ones are shorter, or empty. Collectives have equal counts: the parts are padded with zeros, which
//         nobody reads. The gradient is added up over a replica's ranks first, each of which is left with its part of
//         the sum, and then over the replicas; it is divided once, by the number of all data ranks.
// Memory  What is exchanged goes through the host's.
// Source  Zhao et al., PyTorch FSDP, VLDB 2023, sections 3.2.1 and 3.2.2; Rajbhandari et al., ZeRO, SC 2020.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/groups/parallel_context.hpp"
#include "reference/record/layout.hpp"
#include "reference/training/tensor/sharding.hpp"

namespace plumbline::training {

class FlatShards {
 public:
  /// Collective over `world`, whose ranks are the data ranks. The specification must outlive it.
  FlatShards(const job::RunSpec& spec, comm::Communicator& world);

  /// This rank's parts, as a record has them: "0.weight@flat".
  [[nodiscard]] const std::vector<job::Parameter>& parts() const { return parts_; }
  /// Where in the i-th parameter its part lies.
  [[nodiscard]] Shard shard(std::size_t i) const { return {.dim = kFlatShard, .part = extents_[i]}; }
  /// A copy of this rank's part of the i-th parameter.
  [[nodiscard]] at::Tensor cut(std::size_t i, const at::Tensor& whole) const;
  /// All of it. Collective over the replica.
  [[nodiscard]] at::Tensor gathered(std::size_t i, const at::Tensor& part);
  /// This rank's part of the mean over all data ranks of what each has. Collective over all of them.
  [[nodiscard]] at::Tensor reduced(std::size_t i, const at::Tensor& gradient);

 private:
  const job::RunSpec& spec_;
  std::vector<job::Parameter> whole_, parts_;
  std::vector<Extent> extents_;
  std::vector<std::int64_t> padded_;  // elements of a part with its padding
  groups::ParallelContext groups_;
};

}  // namespace plumbline::training
