// reference/groups/deepspeed.hpp: DeepSpeed's groups of experts: who exchanges tokens, and who averages an expert's
// gradients.
//
// Model   In each pipeline stage, ranks are tensor-parallel neighbours first, then data-parallel replicas. The replicas
//         of a stage hold different experts: an expert-parallel group of `expert` replicas has all of them, and tokens
//         go all-to-all in it. Those that hold the same experts form an expert-data-parallel group, in which the
//         gradients of experts are reduced; those of all else are reduced over all replicas.
// Order   Experts first (E + D): replicas next to each other form an expert-parallel group, so that tokens stay near.
//         Data first (D + E, use_data_before_expert_parallel): those next to each other hold the same experts, so that
//         gradients stay near.
// Source  DeepSpeed 0.19.8, utils/groups.py: _get_expert_parallel_ranks, _create_expert_and_data_parallel.
#pragma once

#include <vector>

namespace plumbline::groups {

struct ExpertSizes {
  int world = 1;
  int tensor = 1, pipeline = 1;
  int expert = 1;  // replicas that hold different experts
  bool data_first = false;
};

struct ExpertGroups {
  std::vector<std::vector<int>> expert_parallel, expert_data_parallel;  // each a partition of the world, ascending
};

/// Throws InvalidArgument unless all sizes are at least 1, tensor x pipeline divides the world, and expert the replicas
/// that this leaves.
[[nodiscard]] ExpertGroups expert_groups(const ExpertSizes& sizes);

}  // namespace plumbline::groups
