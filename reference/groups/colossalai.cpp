#include "reference/groups/colossalai.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/topology/topology.hpp"

namespace plumbline::groups {
namespace {

using topology::Topology;
using Names = std::vector<std::string>;

constexpr std::array<std::pair<TensorMode, std::string_view>, 6> kTensorModes{
    {{TensorMode::none, "none"},
     {TensorMode::one_dimensional, "1d"},
     {TensorMode::two_dimensional, "2d"},
     {TensorMode::two_and_a_half_dimensional, "2.5d"},
     {TensorMode::three_dimensional, "3d"},
     {TensorMode::sequence, "sequence"}}};

// The largest number whose power is not above `value`.
int root_of(int value, int power) {
  const auto raised = [power](std::int64_t number) {
    std::int64_t product = 1;
    for (int i = 0; i < power; ++i) product *= number;
    return product;
  };
  int low = 0;
  int high = 46341;  // its square is above any int
  while (high - low > 1) {
    const int middle = std::midpoint(low, high);
    (raised(middle) <= value ? low : high) = middle;
  }
  return low;
}

// The edge of the square or cube in which a mode lays out its tensor ranks. Throws if the size has none.
int edge_of(const ParallelConfiguration& configuration) {
  const int size = configuration.tensor;
  if (configuration.mode == TensorMode::two_dimensional) {
    const int edge = root_of(size, 2);
    if (edge * edge != size)
      throw InvalidArgument(fmt::format("groups: mode 2d needs a square of tensor ranks; {} is not one", size));
    return edge;
  }
  if (configuration.mode == TensorMode::three_dimensional) {
    const int edge = root_of(size, 3);
    if (edge * edge * edge != size)
      throw InvalidArgument(fmt::format("groups: mode 3d needs a cube of tensor ranks; {} is not one", size));
    return edge;
  }
  const int depth = *configuration.depth;
  const int edge = root_of(size / depth, 2);
  if (edge * edge * depth != size)
    throw InvalidArgument(fmt::format(
        "groups: mode 2.5d needs depth x edge x edge tensor ranks; {} with depth {} has no such edge", size, depth));
  return edge;
}

void check_depth(const ParallelConfiguration& configuration) {
  const bool wanted = configuration.mode == TensorMode::two_and_a_half_dimensional;
  if (wanted && !configuration.depth) throw InvalidArgument("groups: mode 2.5d needs a depth, got none");
  if (!wanted && configuration.depth)
    throw InvalidArgument(fmt::format("groups: depth is of mode 2.5d alone; mode {} has depth {}",
                                      name_of(configuration.mode), *configuration.depth));
  if (wanted && *configuration.depth < 1)
    throw InvalidArgument(fmt::format("groups: depth must be 1 or more, got {}", *configuration.depth));
}

// Creations of a mode: for each coordinate on the axes `across`, the first slowest, the ranks along the axes `along`,
// in the same way. This order is not that of first ranks, so it is walked rather than taken from the topology.
void append(Plan& plan, std::string_view mode, const Topology& grid, const Names& across, const Names& along) {
  const auto walk = [&grid](const Names& names, auto&& visit) {
    std::vector<int> sizes, strides;
    for (const std::string& name : names) {
      const auto axis = std::ranges::find(grid.axes(), name, &topology::Axis::name);
      sizes.push_back(axis->size);
      strides.push_back(axis->stride);
    }
    Topology::row_major(names, sizes).for_each_coordinate([&](int, std::span<const int> positions) {
      visit(std::inner_product(positions.begin(), positions.end(), strides.begin(), 0));
    });
  };
  walk(across, [&](int first) {
    Creation creation{.mode = std::string(mode)};
    walk(along, [&](int distance) { creation.ranks.push_back(first + distance); });
    plan.creations.push_back(std::move(creation));
  });
}

void append_2d(Plan& plan, int replicas, int edge) {
  const Topology grid = Topology::row_major(Names{"replica", "row", "column"}, std::vector{replicas, edge, edge});
  append(plan, "PARALLEL_2D_ROW", grid, {"replica", "row"}, {"column"});
  append(plan, "PARALLEL_2D_COL", grid, {"replica", "column"}, {"row"});
}

void append_2p5d(Plan& plan, int replicas, int depth, int edge) {
  const Topology grid =
      Topology::row_major(Names{"replica", "depth", "row", "column"}, std::vector{replicas, depth, edge, edge});
  append(plan, "PARALLEL_2P5D_COL", grid, {"replica", "column", "depth"}, {"row"});
  append(plan, "PARALLEL_2P5D_ROW", grid, {"replica", "row", "depth"}, {"column"});
  append(plan, "PARALLEL_2P5D_DEP", grid, {"replica", "column", "row"}, {"depth"});
  append(plan, "PARALLEL_2P5D_XZ", grid, {"replica", "column"}, {"depth", "row"});
}

void append_3d(Plan& plan, int replicas, int edge) {
  const Topology grid =
      Topology::row_major(Names{"replica", "output", "input", "weight"}, std::vector{replicas, edge, edge, edge});
  append(plan, "PARALLEL_3D_INPUT", grid, {"replica", "weight", "output"}, {"input"});
  append(plan, "PARALLEL_3D_WEIGHT", grid, {"replica", "output", "input"}, {"weight"});
  append(plan, "PARALLEL_3D_OUTPUT", grid, {"replica", "weight", "input"}, {"output"});
}

void append_tensor_mode(Plan& plan, const Topology& grid, const ParallelConfiguration& configuration) {
  const int replicas = plan.world_size / configuration.tensor;
  switch (configuration.mode) {
    case TensorMode::none:
      return;
    case TensorMode::one_dimensional:
      return append(plan, "PARALLEL_1D", grid, {"data", "pipeline"}, {"tensor"});
    case TensorMode::two_dimensional:
      return append_2d(plan, replicas, edge_of(configuration));
    case TensorMode::two_and_a_half_dimensional:
      return append_2p5d(plan, replicas, *configuration.depth, edge_of(configuration));
    case TensorMode::three_dimensional:
      return append_3d(plan, replicas, edge_of(configuration));
    case TensorMode::sequence:
      return append(plan, "SEQUENCE", grid, {"data", "pipeline"}, {"tensor"});
  }
}

bool has_edge(TensorMode mode) {
  return mode == TensorMode::two_dimensional || mode == TensorMode::two_and_a_half_dimensional ||
         mode == TensorMode::three_dimensional;
}

// Throws for whatever the initializers of the world or of the tensor mode refuse.
void check(int world_size, const ParallelConfiguration& configuration) {
  (void)data_parallel_size(world_size, configuration);
  check_depth(configuration);
  if (has_edge(configuration.mode)) (void)edge_of(configuration);
}

Topology grid_of(int world_size, const ParallelConfiguration& configuration) {
  return Topology::row_major(
      Names{"data", "pipeline", "tensor"},
      std::vector{data_parallel_size(world_size, configuration), configuration.pipeline, configuration.tensor});
}

void check_stages(std::span<const int> stages, int pipeline) {
  if (stages.size() < 2)
    throw InvalidArgument(fmt::format("groups: a shared module needs two stages or more, got {} [{}]", stages.size(),
                                      fmt::join(stages, " ")));
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (stages[i] < 0 || stages[i] >= pipeline)
      throw OutOfRange(fmt::format("groups: a shared module on stage {}; there are {} stages", stages[i], pipeline));
    if (std::ranges::count(stages.first(i), stages[i]) > 0)
      throw InvalidArgument(
          fmt::format("groups: a shared module has stage {} twice in [{}]", stages[i], fmt::join(stages, " ")));
  }
}

}  // namespace

std::string_view name_of(TensorMode mode) {
  return std::ranges::find(kTensorModes, mode, &decltype(kTensorModes)::value_type::first)->second;
}

TensorMode parse_tensor_mode(std::string_view name) {
  const auto found = std::ranges::find(kTensorModes, name, &decltype(kTensorModes)::value_type::second);
  if (found != kTensorModes.end()) return found->first;
  std::string known;
  for (const auto& [mode, word] : kTensorModes) known.append(known.empty() ? "" : ", ").append(word);
  throw NotFound(fmt::format("groups: there is no tensor mode '{}'; there are [{}]", name, known));
}

int data_parallel_size(int world_size, const ParallelConfiguration& configuration) {
  const std::int64_t model = std::int64_t{configuration.pipeline} * configuration.tensor;
  if (world_size < 1 || configuration.pipeline < 1 || configuration.tensor < 1)
    throw InvalidArgument(fmt::format("groups: sizes must be 1 or more, got world {}, pipeline {}, tensor {}",
                                      world_size, configuration.pipeline, configuration.tensor));
  if (world_size % model != 0)
    throw InvalidArgument(fmt::format("groups: data {} x pipeline {} x tensor {} = {} ranks, but the world has {}",
                                      world_size / model, configuration.pipeline, configuration.tensor,
                                      world_size / model * model, world_size));
  return static_cast<int>(world_size / model);
}

Plan colossalai_plan(int world_size, const ParallelConfiguration& configuration) {
  check(world_size, configuration);
  const Topology grid = grid_of(world_size, configuration);
  Plan plan{.convention = "colossalai", .world_size = world_size};
  append(plan, "DATA", grid, {"pipeline", "tensor"}, {"data"});
  append(plan, "MODEL", grid, {"data"}, {"pipeline", "tensor"});
  if (configuration.pipeline > 1) append(plan, "PIPELINE", grid, {"data", "tensor"}, {"pipeline"});
  append(plan, "TENSOR", grid, {"data", "pipeline"}, {"tensor"});
  append_tensor_mode(plan, grid, configuration);
  return plan;
}

Plan shared_module_plan(int world_size, const ParallelConfiguration& configuration, std::span<const int> stages) {
  check(world_size, configuration);
  const Topology grid = grid_of(world_size, configuration);
  check_stages(stages, configuration.pipeline);
  Plan plan{.convention = "colossalai", .world_size = world_size};
  grid.groups("pipeline").for_each([&](std::span<const int> pipeline) {
    Creation creation{.mode = "SHARED_MODULE"};
    for (const int stage : stages) creation.ranks.push_back(pipeline[static_cast<std::size_t>(stage)]);
    plan.creations.push_back(std::move(creation));
  });
  return plan;
}

int broadcast_source(std::span<const int> members, std::span<const int> stages, BroadcastSource rule) {
  if (members.empty() || members.size() != stages.size())
    throw InvalidArgument(fmt::format("groups: a shared module on stages {} has a group of one rank per stage, got {}",
                                      shown(stages), shown(members)));
  const std::size_t place = rule == BroadcastSource::first_member ? 0 : static_cast<std::size_t>(stages.front());
  if (place >= members.size())
    throw OutOfRange(fmt::format("groups: stage {} as an index into the group {}, which has {} members", stages.front(),
                                 shown(members), members.size()));
  return members[place];
}

}  // namespace plumbline::groups
