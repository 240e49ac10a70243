// reference/bucketing/detail/megatron_buffers.hpp: which parameters share a buffer in Megatron-core, and where they lie
// in it.
//
// Model   A parameter's group is kDense or kExperts: gradients of experts are reduced over a data-parallel group of
//         their own, which is smaller where experts differ between replicas. A buffer has the parameters of one type
//         and group, and is padded for the ranks of that group.
// Source  Megatron-core 0.19.2: group_params_for_buffers, DistributedOptimizer.compute_full_param_layout.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "reference/bucketing/plan.hpp"

namespace plumbline::bucketing {

inline constexpr int kDense = 0, kExperts = 1;

struct MegatronBuffer {
  std::vector<int> parameters;  // indices, ascending
  MegatronLayout layout;        // of these parameters
};

/// The buffers in the order of their first parameters. `expert_ranks` are those of the experts' group, the same as the
/// others' unless given. Throws what megatron_layout() throws.
[[nodiscard]] std::vector<MegatronBuffer> megatron_buffers(std::span<const Gradient> parameters,
                                                           const MegatronOptions& options,
                                                           std::optional<int> expert_ranks = {});

}  // namespace plumbline::bucketing
