#include "reference/topology/grid.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/topology/deepspeed.hpp"

namespace plumbline::topology {
namespace {

// The names of all axes but one.
std::vector<std::string> others(const Topology& topology, std::string_view axis) {
  std::vector<std::string> names = topology.axis_names();
  std::erase(names, axis);
  return names;
}

}  // namespace

PipelineGrid::PipelineGrid(int world_size) : PipelineGrid(world_size, default_grid(world_size)) {}

PipelineGrid::PipelineGrid(int world_size, Topology topology) : topology_(std::move(topology)) {
  for (const char* axis : {"pipe", "data"})
    if (!topology_.has_axis(axis))
      throw InvalidArgument(fmt::format("grid: no axis '{}' in [{}]; a grid needs pipe and data", axis,
                                        fmt::join(topology_.axis_names(), ", ")));
  if (topology_.world_size() != world_size || topology_.offset() != 0)
    throw InvalidArgument(fmt::format("grid: Invalid Grid: {} has {} ranks from {} on, the world has {}",
                                      topology_.to_string(), topology_.world_size(), topology_.offset(), world_size));
}

GroupList PipelineGrid::model_groups() const { return topology_.merged_groups(others(topology_, "data")); }

GroupList PipelineGrid::slice_groups() const {
  return has_slices() ? topology_.groups("model") : topology_.merged_groups({});
}

std::array<GroupList, 4> PipelineGrid::creation_order() const {
  return {model_groups(), data_groups(), pipe_groups(), slice_groups()};
}

int PipelineGrid::stages_on(int rank, int stages) const {
  const std::int64_t stage = topology_.position(rank, "pipe");
  return topology_.moved(rank, "pipe", static_cast<int>((stage + stages) % pipe_parallel_size()));
}

std::vector<std::array<int, 2>> PipelineGrid::p2p_pairs() const {
  std::vector<std::array<int, 2>> pairs(static_cast<std::size_t>(world_size()));
  pipe_groups().for_each([&](std::span<const int> pipeline) {
    for (std::size_t stage = 0; stage < pipeline.size(); ++stage)
      pairs[static_cast<std::size_t>(pipeline[stage])] = {pipeline[stage], pipeline[(stage + 1) % pipeline.size()]};
  });
  return pairs;
}

int PipelineGrid::stage_to_global(int rank, int stage, const NamedCoordinate& overrides) const {
  if (const auto pipe = overrides.find("pipe"); pipe != overrides.end())
    throw InvalidArgument(
        fmt::format("grid: stage_to_global of stage {} may not override pipe, got pipe={}", stage, pipe->second));
  int there = topology_.moved(rank, "pipe", stage);
  for (const auto& [axis, position] : overrides) there = topology_.moved(there, axis, position);
  return there;
}

GridRank::GridRank(PipelineGrid grid, int rank) : grid_(std::move(grid)), rank_(rank) {
  (void)position("pipe");  // refuses a rank that is not in it
}

std::int64_t GridRank::get_data_parallel_group() const {
  return std::int64_t{grid_.data_parallel_size()} + topology().group_index(rank_, "data");
}

std::int64_t GridRank::get_pipe_parallel_group() const {
  return std::int64_t{grid_.data_parallel_size()} + grid_.data_groups().size() + topology().group_index(rank_, "pipe");
}

std::int64_t GridRank::get_slice_parallel_group() const {
  const std::int64_t before =
      std::int64_t{grid_.data_parallel_size()} + grid_.data_groups().size() + grid_.pipe_groups().size();
  return before + (grid_.has_slices() ? topology().group_index(rank_, "model") : rank_);
}

// Ranks of other data indices are left out of the count: blocks of `stride` ranks, one in `size`.
int GridRank::get_model_parallel_rank() const {
  const auto data = std::ranges::find(topology().axes(), "data", &Axis::name);
  return rank_ / (data->stride * data->size) * data->stride + rank_ % data->stride;
}

std::vector<int> GridRank::get_slice_parallel_group_ranks() const {
  return grid_.has_slices() ? topology().group_of(rank_, "model") : std::vector<int>{rank_};
}

}  // namespace plumbline::topology
