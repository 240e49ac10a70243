// reference/bucketing/detail/used_gradients.hpp: which gradients some rank has in a step (PyTorch's
// find_unused_parameters).
#pragma once

#include <cstdint>
#include <vector>

#include "reference/bucketing/detail/bucket_store.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::bucketing {

class UsedGradients {
 public:
  explicit UsedGradients(const ReducerSetup& setup) : setup_(&setup) {}

  /// Whether the ranks tell each other: in every step with Unused::find_unused, in the first with static_graph.
  [[nodiscard]] bool exchanges() const;
  /// Adds up how many ranks have each gradient, group by group, beside the last buckets.
  void start(const std::vector<bool>& held);
  /// The number of gradients in a group.
  [[nodiscard]] std::int64_t count_in(std::size_t group) const { return std::ssize(ranks_[group]); }
  /// When that is complete: by gradient, whether any rank has it.
  [[nodiscard]] const std::vector<bool>& finish(const BucketStore& buckets);

 private:
  const ReducerSetup* setup_;
  std::vector<std::vector<std::int32_t>> ranks_{};  // that have a gradient, by group
  std::vector<comm::Work> works_{};
  std::vector<bool> produced_{};
};

}  // namespace plumbline::bucketing
