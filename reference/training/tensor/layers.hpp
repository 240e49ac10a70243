// reference/training/tensor/layers.hpp: linear layers whose weight is cut over the ranks of a tensor group, and tokens
// that travel to the ranks of their experts.
//
// Model   Every rank of the group calls the same layers in the same order, with the same input where it is whole and
//         its own part where it is cut. Functions that are each other's backward: copied is the identity forward and
//         adds up gradients backward, summed adds up forward and is the identity backward; gathered joins parts forward
//         and takes the rank's own part of the gradient backward.
// Bits    What is whole is bit-equal on all ranks, and so are gradients of whole parameters, without being exchanged.
// Order   The group's collectives come in the order of layers, forward, and the reverse, backward: ranks that run the
//         same schedule meet in them. On GPUs, back-propagation must run on the calling thread (engine.hpp).
// Memory  What is exchanged is copied to where calls are made (rank_device.hpp).
// Source  Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3: f and g.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/comm/communicator.hpp"
#include "reference/training/detail/rank_device.hpp"
#include "reference/training/pipeline/stage.hpp"
#include "reference/training/tensor/sharding.hpp"

namespace plumbline::training {

/// The group must outlive the layers that are run over it, and their graphs.
struct TensorGroup {
  comm::Communicator* group = nullptr;
  RankDevice where = {};
  [[nodiscard]] int rank() const { return group->rank(); }
  [[nodiscard]] int size() const { return group->size(); }
};

[[nodiscard]] at::Tensor copied_to(const TensorGroup& group, const at::Tensor& whole);
[[nodiscard]] at::Tensor summed_over(const TensorGroup& group, const at::Tensor& part);
/// Parts of the last dimension, cut as extent_of() cuts `features`.
[[nodiscard]] at::Tensor gathered_from(const TensorGroup& group, const at::Tensor& part, std::int64_t features);
/// The first to[0] rows go to rank 0, the next to[1] to rank 1, and so on. Returns the from[r] rows that come from each
/// rank r, in rank order; backward, gradients travel the other way.
[[nodiscard]] at::Tensor exchanged_rows(const TensorGroup& group, const at::Tensor& rows,
                                        const std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from);
/// Equally many counts for each rank, in rank order: those that come from each rank, in rank order.
[[nodiscard]] std::vector<std::int64_t> counts_from_all(const TensorGroup& group,
                                                        const std::vector<std::int64_t>& counts);
/// The reverse: this rank's part of the last dimension; backward, the parts of the gradient are joined.
[[nodiscard]] at::Tensor scattered_to(const TensorGroup& group, const at::Tensor& whole);

/// Whole x [..., in], weight [out of this rank, in], bias [out of this rank] or undefined: this rank's outputs.
[[nodiscard]] at::Tensor column_linear(const TensorGroup& group, const at::Tensor& x, const at::Tensor& weight,
                                       const at::Tensor& bias, const Pass& pass);
/// This rank's x [..., in of this rank], weight [out, in of this rank], whole bias [out] or undefined: whole outputs.
[[nodiscard]] at::Tensor row_linear(const TensorGroup& group, const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias, const Pass& pass);

/// A rank's part of a whole parameter, in memory of its own.
[[nodiscard]] at::Tensor narrowed(const at::Tensor& whole, const Shard& shard);

}  // namespace plumbline::training
