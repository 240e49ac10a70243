// topology.grid: a pipeline grid and every getter of each rank.
#include <span>

#include <fmt/format.h>

#include "reference/topology/detail/operations.hpp"
#include "reference/topology/grid.hpp"

namespace plumbline::topology::operations {
namespace {

PipelineGrid read_grid(const Arguments& arguments, Convention convention) {
  const auto world_size = arguments.get<int>("world_size");
  if (arguments.has("axes") != arguments.has("dims"))
    arguments.refuse("axes and dims must both be there, or both be null");
  if (!arguments.has("axes")) return PipelineGrid(world_size);
  return {world_size, read_topology(arguments, convention)};
}

// Nothing in the source asks these: they are what its recorder chose to ask, and a check reads what was asked. The
// first and the last position of each other axis, from the first stage; then the last of all, from the last stage.
json stages_elsewhere(const GridRank& me, const PipelineGrid& grid) {
  json rows = json::array();
  const auto add = [&](int stage, const NamedCoordinate& overrides) {
    json named = json::object();
    for (const auto& [axis, position] : overrides) named[axis] = position;
    rows.push_back({{"stage_id", stage}, {"override", named}, {"rank", me.stage_to_global(stage, overrides)}});
  };
  NamedCoordinate last;
  for (const topology::Axis& axis : grid.topology().axes()) {
    if (axis.name == "pipe") continue;
    add(0, {{axis.name, 0}});
    if (axis.size > 1) add(0, {{axis.name, axis.size - 1}});
    last[axis.name] = axis.size - 1;
  }
  add(grid.pipe_parallel_size() - 1, last);
  return rows;
}

json grid_rank(const PipelineGrid& grid, int rank) {
  const GridRank me(grid, rank);
  json row{{"rank", rank},
           {"get_global_rank", me.get_global_rank()},
           {"get_stage_id", me.get_stage_id()},
           {"get_data_parallel_id", me.get_data_parallel_id()},
           {"get_pipe_parallel_rank", me.get_pipe_parallel_rank()},
           {"get_pipe_parallel_world_size", me.get_pipe_parallel_world_size()},
           {"get_data_parallel_rank", me.get_data_parallel_rank()},
           {"get_data_parallel_world_size", me.get_data_parallel_world_size()},
           {"get_model_parallel_rank", me.get_model_parallel_rank()},
           {"get_model_parallel_world_size", me.get_model_parallel_world_size()},
           {"get_slice_parallel_rank", me.get_slice_parallel_rank()},
           {"get_slice_parallel_world_size", me.get_slice_parallel_world_size()},
           {"get_pipeline_model_parallel_rank", me.get_pipeline_model_parallel_rank()},
           {"get_pipeline_model_parallel_world_size", me.get_pipeline_model_parallel_world_size()},
           {"get_tensor_model_parallel_rank", me.get_tensor_model_parallel_rank()},
           {"get_tensor_model_parallel_world_size", me.get_tensor_model_parallel_world_size()},
           {"is_first_stage", me.is_first_stage()},
           {"is_last_stage", me.is_last_stage()},
           {"dp_group", me.get_data_parallel_group_ranks()},
           {"pp_group", me.get_pipe_parallel_group_ranks()},
           {"slice_group", me.get_slice_parallel_group_ranks()},
           {"get_data_parallel_group_ranks", me.get_data_parallel_group_ranks()},
           {"stage_to_global", json::array()},
           {"stage_to_global_overrides", stages_elsewhere(me, grid)},
           {"group_handles",
            {{"get_pipe_parallel_group", me.get_pipe_parallel_group()},
             {"get_data_parallel_group", me.get_data_parallel_group()},
             {"get_model_parallel_group", me.get_model_parallel_group()},
             {"get_slice_parallel_group", me.get_slice_parallel_group()}}}};
  for (int stage = 0; stage < grid.pipe_parallel_size(); ++stage)
    row["stage_to_global"].push_back(me.stage_to_global(stage));
  return row;
}

// A row is about as long as the last rank's, whose numbers are the longest; it is only made where it is short itself.
void expect_short_rows(const PipelineGrid& grid) {
  const double ranks = grid.world_size();
  const double in_a_row =
      2.0 * grid.pipe_parallel_size() + 2.0 * grid.data_parallel_size() + grid.slice_parallel_size();
  expect_short(bytes_of(ranks * in_a_row, ranks));
  double bytes = ranks * static_cast<double>(grid_rank(grid, grid.world_size() - 1).dump().size() + 2);
  bytes += bytes_of(2 * ranks, ranks, ranks);  // pairs
  for (const GroupList& groups : grid.creation_order()) bytes += bytes_of(ranks, ranks, groups.size());
  expect_short(bytes);
}

json grid(const Arguments& arguments) {
  const PipelineGrid grid = read_grid(arguments, arguments.convention());
  expect_short_rows(grid);
  json result{{"pipe_parallel_size", grid.pipe_parallel_size()},
              {"data_parallel_size", grid.data_parallel_size()},
              {"model_parallel_size", grid.slice_parallel_size()},  // the source's two words for one axis
              {"slice_parallel_size", grid.slice_parallel_size()},
              {"p2p_groups", grid.p2p_pairs()},
              {"new_group_calls", json::array()},
              {"ranks", json::array()}};
  for (const GroupList& groups : grid.creation_order())
    groups.for_each([&](std::span<const int> ranks) { result["new_group_calls"].push_back(ranks); });
  for (int rank = 0; rank < grid.world_size(); ++rank) result["ranks"].push_back(grid_rank(grid, rank));
  return result;
}

}  // namespace

void add_grid(AdapterService& service) {
  const SharedRows shared;
  service.add({"topology.grid",
               "describes a pipeline grid: its groups and every getter of each rank",
               Words{"plumbline", "deepspeed"},
               {{"world_size", "integer", "number of ranks"},
                {"axes", "list of text",
                 "axis names, the slowest-varying first; null: pipe and data, sized by prime factors", kOptional},
                {"dims", "list of integer [axes]", "size of each axis; null exactly where axes is null", kOptional}},
               {{"pipe_parallel_size", "integer", "pipeline stages"},
                {"data_parallel_size", "integer", "data-parallel replicas"},
                {"model_parallel_size", "integer", "model-parallel ranks"},
                {"slice_parallel_size", "integer", "model_parallel_size under its other name"},
                {"p2p_groups", "list of list of integer", "each rank with the rank of the next stage"},
                {"new_group_calls", "list of list of integer", "groups in creation order"},
                {"ranks",
                 "list of object [world_size]",
                 "of each rank every getter of the grid by name, dp_group, pp_group and slice_group",
                 {{"rank", "integer", "the rank"},
                  {"stage_to_global", "list of integer", "rank of each stage in this rank's pipeline"},
                  {"stage_to_global_overrides", "list of object",
                   "the same at corners of the other axes: stage_id, override, rank"},
                  {"group_handles", "map of integer", "index in new_group_calls by getter"},
                  {"*", "any", "return value of the getter of that name"}}}},
               R"({"world_size": 2, "axes": ["pipe", "data"], "dims": [2, 1]})",
               {shared.bad_grid,
                {"invalid_argument", "the axes do not have world_size ranks, or only one of axes and dims is null"},
                {"not_found", "the grid lacks the axis pipe or data"},
                shared.no_position,
                shared.too_long}},
              grid);
}

}  // namespace plumbline::topology::operations
