#include "reference/training/detail/rank_groups.hpp"

#include <array>
#include <string>
#include <vector>

#include "reference/record/layout.hpp"

namespace plumbline::training {

namespace {

// The grid with its data axis as two: expert ranks, and beside them the ranks that hold the same experts.
topology::Topology with_expert_axis(const job::Parallel& parallel) {
  std::vector<std::string> axes;
  std::vector<int> sizes;
  const auto add = [&](const std::string& axis, int size) {
    axes.push_back(axis);
    sizes.push_back(size);
  };
  for (const std::string& axis : parallel.order) {
    if (axis != "data") {
      add(axis, axis == "pipeline" ? parallel.pipeline : parallel.tensor);
      continue;
    }
    add("expert_data", parallel.data / parallel.expert);
    add("expert", parallel.expert);
  }
  return topology::Topology::row_major(axes, sizes);
}

}  // namespace

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
  if (parallel.expert > 1) {
    const topology::Topology cut = with_expert_axis(parallel);
    add_groups(plan, "expert", cut.groups("expert"));
    add_groups(plan, "expert_data", cut.groups("expert_data"));
  }
  if (with_model) add_groups(plan, "model", grid.merged_groups(std::array<std::string, 2>{"pipeline", "tensor"}));
  return plan;
}

}  // namespace plumbline::training
