#include "reference/training/detail/rank_groups.hpp"

#include <array>
#include <string>

#include "reference/record/layout.hpp"

namespace plumbline::training {

groups::Plan groups_plan(const job::Parallel& parallel, bool with_model) {
  const topology::Topology grid = job::grid_of(parallel);
  groups::Plan plan{.convention = "plumbline", .world_size = grid.world_size()};
  add_groups(plan, "pipeline", grid.groups("pipeline"));
  add_groups(plan, "data", grid.groups("data"));
  if (parallel.tensor > 1) add_groups(plan, "tensor", grid.groups("tensor"));
  if (parallel.shard > 1) {  // the world is the data ranks
    const std::array<std::string, 2> axes{"replicate", "shard"};
    const topology::Topology shards =
        topology::Topology::row_major(axes, std::array{parallel.replicas(), parallel.shard});
    for (const std::string& axis : axes) add_groups(plan, axis, shards.groups(axis));
  }
  if (with_model) add_groups(plan, "model", grid.merged_groups(std::array<std::string, 2>{"pipeline", "tensor"}));
  return plan;
}

}  // namespace plumbline::training
