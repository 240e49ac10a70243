// reference/training/detail/rank_groups.hpp: the groups of ranks that a run communicates in. Free of LibTorch.
#pragma once

#include "reference/groups/plan.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::training {

/// What every rank of a run makes, by mode: "pipeline", "data", "tensor" where it has several ranks, "replicate" and
/// "shard" where data ranks hold shards, "expert" and "expert_data", the ranks that hold all experts and those that
/// hold the same ones, where there are several expert ranks, and, on request, "model": all ranks of one data index.
[[nodiscard]] groups::Plan groups_plan(const job::Parallel& parallel, bool with_model = false);

}  // namespace plumbline::training
