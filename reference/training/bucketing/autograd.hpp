// reference/training/bucketing/autograd.hpp: a reducer of gradients that LibTorch's back-propagation drives.
//
// Model   Each leaf has a hook after its accumulation: when its gradient has been added up, it is ready. A pass is a
//         forward and a backward; begin() comes between the two. With GradientMemory::views a leaf's gradient becomes
//         its place in the bucket, in the leaf's own order in memory (channels last, say), so that an optimizer reads
//         what was reduced without a copy; ranks must lay their leaves out in the same way.
// Unused  With Unused::find_unused the graph of the pass's outputs is searched for the leaves that it does not reach.
// Sparse  Leaves that are named so, as torch.nn.Embedding's with sparse=True, have gradients of some rows along the
//         first dimension. Their sums are sparse tensors, coalesced, whichever rank has any.
// Devices Leaves lie where LibTorch computes, and buckets in memory of the same device, which the group serves:
//         AutogradOptions::where. On a GPU back-propagation must run on the calling thread (on_this_thread.hpp).
// Frozen  Leaves that do not require a gradient, and those that are left alone, are in no bucket.
// Memory  Gradients that are views are copied to memory of their own when this goes.
// Source  torch.nn.parallel.DistributedDataParallel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/bucketing/reducer.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/training/bucketing/tensors.hpp"
#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

struct AutogradOptions {
  RankDevice where{};                    // leaves' and buckets' memory
  bucketing::ReducerOptions reducer{};   // names are the leaves', buffers those below, and the place is that memory
  std::int64_t bucket_bytes = 25 << 20;  // closes a bucket; the first one closes at 1 MiB at most
  /// Leaves by name: gradients that are not reduced, and stay each rank's own; and those that are reduced after all
  /// others, in buckets of their own.
  std::vector<std::string> left_alone{}, delayed{};
  /// Leaves whose gradients are sparse tensors.
  std::vector<std::string> sparse{};
  /// Plans again, once, in the order in which rank 0's gradients were ready.
  bool rebuild = false;
  /// Made rank 0's when a pass that synchronises begins, running statistics say.
  std::vector<at::Tensor> buffers{};
  /// Told of each gradient of a pass that synchronises, before it is reduced.
  std::function<void(std::size_t leaf, const at::Tensor& gradient)> before_reduction{};
};

class AutogradReducer {
 public:
  /// The group must outlive it. Leaves are numbered as they come; their buckets are filled from the last to the first.
  /// Throws InvalidArgument, naming it, for a tensor that is no leaf and for the name of none, or of a scalar that is
  /// to be sparse, and for lazy buckets, Unsupported for a type that is not added, for a leaf that lies elsewhere, for
  /// gradients that stay in memory which the group does not serve, and what Reducer throws.
  AutogradReducer(comm::Communicator& group, std::vector<NamedTensor> leaves, AutogradOptions options = {});
  ~AutogradReducer();
  AutogradReducer(const AutogradReducer&) = delete;
  AutogradReducer& operator=(const AutogradReducer&) = delete;

  /// Between forward and backward, or with buffers before both. `outputs` are what will be back-propagated: looked at
  /// with Unused::find_unused. Throws as Reducer::begin().
  void begin(bool synchronise = true, const std::vector<at::Tensor>& outputs = {});
  /// After backward. Gradients that some rank has are then there on every leaf. Throws as Reducer::finish().
  /// Back-propagation itself throws InvalidArgument for a gradient that is sparse where it should be dense, or the
  /// other way round, or sparse in more than the first dimension.
  const bucketing::Outcome& finish();
  /// The step is over: no leaf has a gradient.
  void clear();

  [[nodiscard]] const bucketing::Plan& plan() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plumbline::training
