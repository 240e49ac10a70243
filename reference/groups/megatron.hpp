// reference/groups/megatron.hpp: the groups that Megatron-core makes, in its order, under its names.
//
// Model   Two grids over the same ranks, each a topology::RankGenerator: the dense one (tensor, context, data,
//         pipeline) and the experts' (expert tensor, expert, expert data, pipeline). The first name of `order` varies
//         fastest; the weight axis follows tp in the dense grid, ep in the experts', unless the order has a place for
//         it. Groups are those of named axes, alone or merged, of one grid or the other; embedding groups are the ends
//         of a pipeline and do not cover the world.
// Quirks  The last kind, INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP, strings the experts' model groups together in the
//         order in which they come, so its ranks do not ascend. An order may leave out axes of size 1, but never tp.
// Sources megatron-core 0.19, core/parallel_state.py (initialize_model_parallel, RankGenerator).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/groups/plan.hpp"

namespace plumbline::groups {

/// The arguments of initialize_model_parallel that decide about groups, under their names.
struct MegatronArguments {
  int tensor_model_parallel_size = 1;
  int pipeline_model_parallel_size = 1;
  std::optional<int> virtual_pipeline_model_parallel_size{};
  int context_parallel_size = 1;
  std::vector<int> hierarchical_context_parallel_sizes{};  // empty: none
  bool hybrid_context_parallel = false;
  int expert_model_parallel_size = 1;
  std::optional<int> expert_tensor_parallel_size{};  // nothing: as the dense grid
  int gtp_remat_size = 1;
  int expert_gtp_remat_size = 1;
  int num_distributed_optimizer_instances = 1;
  std::string order = "tp-cp-ep-dp-pp";
  bool create_gloo_process_groups = false;  // a second group, for the CPU, beside some; off, unlike Megatron's default
  int rank_offset = 0;
};

/// The creations of every rank, in order; modes are Megatron's descriptions. Throws InvalidArgument, with the values,
/// where Megatron raises an error: sizes that do not divide the world, virtual stages without a pipeline, an order that
/// lacks tp or an axis larger than one, grids whose pipelines differ. With a rank offset, ranks go from it to it +
/// world_size, and the plan's world size is that end.
[[nodiscard]] Plan megatron_plan(int world_size, const MegatronArguments& arguments);

/// What Megatron's getters say on a rank.
struct MegatronRank {
  int rank = 0;
  int tensor_rank = 0, tensor_size = 1, tensor_source = 0;  // source: the first member, in world ranks
  int pipeline_rank = 0, pipeline_size = 1;
  int pipeline_first = 0, pipeline_last = 0, pipeline_next = 0, pipeline_previous = 0;  // world ranks
  int data_rank = 0, data_size = 1, data_source = 0;
  int context_rank = 0, context_size = 1;
  int model_source = 0;
  int expert_rank = 0, expert_size = 1, expert_tensor_rank = 0;
  bool first_stage = true, last_stage = true;
  bool in_embedding_group = true, in_position_embedding_group = true;
  bool operator==(const MegatronRank&) const = default;
};
/// The place of each rank of a plan that megatron_plan() made. Throws NotFound for a plan without Megatron's modes.
[[nodiscard]] std::vector<MegatronRank> megatron_ranks(const Plan& plan);

}  // namespace plumbline::groups
