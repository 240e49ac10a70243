// reference/training/bucketing/tensors.hpp: a reducer of gradients that are all there, when back-propagation is over.
//
// Model   Gradients are copied to their places in a reducer's buckets and, reduced, back: row-major whatever their
//         order in memory. Buckets lie where calls are made (rank_device.hpp), which need not be where the gradients
//         are. A bucket is under way while the next one is filled. What this rank lacks counts as zeros.
// Source  ColossalAI's gradient handlers, which flatten, reduce and unflatten.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/bucketing/compression.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/training/detail/rank_device.hpp"
#include "reference/training/gradient_settings.hpp"
#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

/// Bytes at which the first bucket takes no more, where the limit of the others is larger.
inline constexpr std::int64_t kFirstBucketBytes = 1 << 20;

/// A parameter, and which of the groups its gradient is reduced over.
struct GroupedTensor {
  NamedTensor named;
  int group = 0;
};
[[nodiscard]] std::vector<GroupedTensor> in_one_group(const std::vector<NamedTensor>& leaves);

/// What a plan needs to know of the leaves' gradients, whose buckets lie on that device. Throws Unsupported, naming it,
/// for a leaf of a type that is not added.
[[nodiscard]] std::vector<bucketing::Gradient> gradients_of(const std::vector<GroupedTensor>& leaves,
                                                            comm::Device device = {});

/// The matrices as which PowerSGD takes the leaves' gradients: their first dimension, and all others.
[[nodiscard]] std::vector<bucketing::MatrixShape> shapes_of(const std::vector<GroupedTensor>& leaves);

/// Where a rank's gradients are reduced: hooks take them in the host's memory.
[[nodiscard]] RankDevice reduced_on(const RankDevice& rank, const GradientSettings& settings);

/// Buckets in that order, each closed by the gradient with which it reaches the given bytes, the first one by
/// kFirstBucketBytes; after them those of the delayed gradients.
[[nodiscard]] bucketing::Plan plan_by_bytes(std::span<const bucketing::Gradient> gradients, std::span<const int> order,
                                            std::int64_t bucket_bytes, std::span<const int> delayed = {});
/// `bucket_bytes`, or where that is 0, the fastest here: then collective.
[[nodiscard]] std::int64_t bucket_bytes_over(comm::Communicator& group, std::span<const bucketing::Gradient> gradients,
                                             std::int64_t bucket_bytes, const RankDevice& where = {});

class TensorReducer {
 public:
  /// The groups must outlive it. Of the options names, memory and place are set here, results are everywhere, and
  /// buckets are not reported, which gradients are copied out of in the end; what is unused is known without being
  /// told. `buffers` are made rank 0's of the first group when a step begins. Throws what gradients_of() and Reducer
  /// throw.
  TensorReducer(std::vector<comm::Communicator*> groups, std::vector<GroupedTensor> leaves, bucketing::Plan plan,
                bucketing::ReducerOptions options = {}, const std::vector<at::Tensor>& buffers = {},
                const RankDevice& where = {});
  ~TensorReducer();
  TensorReducer(const TensorReducer&) = delete;
  TensorReducer& operator=(const TensorReducer&) = delete;

  /// A step begins. Throws as Reducer::begin().
  void begin();
  /// Ends it: reduces its gradients, one a leaf, in place; one that is undefined is made. Throws as Reducer::finish().
  void reduce(std::vector<at::Tensor>& gradients);
  /// In place of both, of a rank that has no rows for the step. False, and nothing is reduced, where no rank has.
  bool join_step(std::vector<at::Tensor>& gradients);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline::training
