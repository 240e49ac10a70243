#include "harness/cli/topology_view.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/arguments.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"
#include "reference/topology/deepspeed.hpp"

namespace plumbline::cli {
namespace {

using topology::PipelineGrid;
using topology::Topology;
using Names = std::vector<std::string>;

// An axis' part in pipeline, data and tensor parallelism, by the name that PipelineGrid has for it.
std::optional<std::string> role_of(std::string_view axis, std::string_view convention) {
  if (axis == "pipe" || axis == "data" || axis == "model") return std::string(axis);
  if (convention == "deepspeed") return std::nullopt;
  if (axis == "pipeline" || axis == "pp") return "pipe";
  if (axis == "dp") return "data";
  if (axis == "tensor" || axis == "tp") return "model";
  return std::nullopt;
}

// The axis that has a role; none where there is none, or more than one.
std::optional<std::string> axis_of(std::string_view role, const Names& axes, std::string_view convention) {
  std::optional<std::string> found;
  for (const std::string& axis : axes)
    if (role_of(axis, convention) == role) {
      if (found) return std::nullopt;
      found = axis;
    }
  return found;
}

// Whether the axes are roles alone, each at most once.
bool are_roles(const Names& axes, std::string_view convention) {
  return std::ranges::all_of(axes, [&](const std::string& axis) {
    const auto role = role_of(axis, convention);
    return role && axis_of(*role, axes, convention);
  });
}

void require_roles(const Names& axes, std::string_view convention) {
  if (!are_roles(axes, convention))
    throw InvalidArgument(
        fmt::format("--axes {}: convention {} has pipe (or pipeline, pp), data (dp) and model (tensor, tp), each once",
                    fmt::join(axes, ","), convention));
}

bool has_own_order(std::string_view convention) { return convention == "megatron" || convention == "colossalai"; }

void check_convention(const std::string& convention) {
  const auto names = groups::convention_names();
  if (std::ranges::count(names, convention) == 0)
    throw Unsupported(fmt::format("--convention '{}'; it must be {}{}", convention, fmt::join(names, ", "),
                                  did_you_mean(convention, {names.begin(), names.end()})));
}

Topology given_topology(const TopologyRequest& request) {
  const std::string options =
      fmt::format("--axes {} --dims {}", fmt::join(request.axes, ","), fmt::join(request.dims, ","));
  return on_behalf_of(options, [&] {
    if (request.convention == "deepspeed" && request.axes.size() == request.dims.size())
      (void)topology::ProcessTopology(request.axes, request.dims);  // refuses names that its coordinates cannot have
    return Topology::row_major(request.axes, request.dims);
  });
}

Topology topology_of(const TopologyRequest& request) {
  const Topology given = given_topology(request);
  if (given.world_size() > kMostViewedRanks)
    throw InvalidArgument(fmt::format("--dims: {} has {} ranks; at most {} are shown", given.to_string(),
                                      given.world_size(), kMostViewedRanks));
  if (!has_own_order(request.convention)) return given;
  require_roles(request.axes, request.convention);
  const std::array<const char*, 3> slowest_first =
      request.convention == "colossalai" ? std::array{"data", "pipe", "model"} : std::array{"pipe", "data", "model"};
  Names names;
  std::vector<int> sizes;
  for (const char* role : slowest_first)
    if (const auto axis = axis_of(role, request.axes, request.convention)) {
      names.push_back(*axis);
      sizes.push_back(given.dimension(*axis));
    }
  return Topology::row_major(names, sizes);
}

GroupKind kind_along(const Topology& topology, Names axes) {
  topology::GroupList groups = axes.size() == 1 ? topology.groups(axes.front()) : topology.merged_groups(axes);
  return {.axes = std::move(axes), .groups = std::move(groups)};
}

Names all_but(const Names& axes, const std::optional<std::string>& left_out) {
  Names names = axes;
  if (left_out) std::erase(names, *left_out);
  return names;
}

// The axes along which the groups of a mode of conventions.hpp lie.
Names axes_of_mode(std::string_view mode, const Names& axes, std::string_view convention) {
  if (mode == "model") return all_but(axes, axis_of("data", axes, convention));
  const auto axis = axis_of(mode == "pipeline" ? "pipe" : mode == "tensor" ? "model" : "data", axes, convention);
  return axis ? Names{*axis} : Names{};
}

// The order of modes depends on a size only in that it may be 1: the smallest world of the kind tells it.
std::vector<GroupKind> creations_by_mode(const Topology& topology, const std::string& convention) {
  const Names axes = topology.axis_names();
  const auto small = [&](const char* role) {
    const auto axis = axis_of(role, axes, convention);
    return axis ? std::min(topology.dimension(*axis), 2) : 1;
  };
  const groups::Sizes sizes{.pipeline = small("pipe"), .data = small("data"), .tensor = small("model")};
  std::vector<GroupKind> kinds;
  for (const std::string& mode : modes_of(groups::convention_plan(convention, sizes)))
    kinds.push_back(kind_along(topology, axes_of_mode(mode, axes, convention)));
  return kinds;
}

std::vector<GroupKind> creations_of_grid(const Topology& topology) {
  const auto order = PipelineGrid(topology.world_size(), topology).creation_order();
  const Names slice = topology.has_axis("model") && topology.dimension("model") > 1 ? Names{"model"} : Names{};
  return {{all_but(topology.axis_names(), "data"), order[0]},
          {{"data"}, order[1]},
          {{"pipe"}, order[2]},
          {slice, order[3]}};
}

std::vector<GroupKind> groups_of_axes(const Topology& topology) {
  std::vector<GroupKind> kinds;
  for (const std::string& axis : topology.axis_names()) kinds.push_back(kind_along(topology, {axis}));
  return kinds;
}

std::vector<GroupKind> creations_of(const Topology& topology, const std::string& convention) {
  if (has_own_order(convention)) return creations_by_mode(topology, convention);
  if (convention == "deepspeed" && topology.has_axis("pipe") && topology.has_axis("data"))
    return creations_of_grid(topology);
  const Names axes = topology.axis_names();
  const bool whole = axes.size() == 3 && are_roles(axes, convention);
  if (convention == "plumbline" && whole) return creations_by_mode(topology, convention);
  std::vector<GroupKind> kinds = groups_of_axes(topology);
  if (convention == "torch" && whole)
    kinds.push_back(kind_along(topology, all_but(axes, axis_of("data", axes, convention))));
  return kinds;
}

// The same world with the names that a grid's axes have.
std::optional<PipelineGrid> grid_of(const Topology& topology, const std::string& convention) {
  Names names = topology.axis_names();
  std::vector<int> sizes;
  for (const std::string& axis : names) sizes.push_back(topology.dimension(axis));
  for (std::string& name : names)
    if (const auto role = role_of(name, convention); role && axis_of(*role, topology.axis_names(), convention))
      name = *role;
  if (std::ranges::count(names, "pipe") != 1 || std::ranges::count(names, "data") != 1) return std::nullopt;
  return PipelineGrid(topology.world_size(), Topology::row_major(names, sizes));
}

std::optional<topology::Nodes> nodes_of(const TopologyRequest& request, const Topology& topology) {
  if (!request.ranks_per_node) {
    if (!request.bytes.empty()) throw InvalidArgument("--bytes: which bytes cross nodes needs --ranks-per-node");
    return std::nullopt;
  }
  if (*request.ranks_per_node < 1 || *request.ranks_per_node > topology.world_size())
    throw InvalidArgument(fmt::format("--ranks-per-node {}: must be 1 to {}, the number of ranks",
                                      *request.ranks_per_node, topology.world_size()));
  return topology::Nodes::uniform(*request.ranks_per_node, topology.world_size());
}

std::optional<PlacementView> placement_of(const TopologyRequest& request, const TopologyView& view) {
  if (request.bytes.empty()) return std::nullopt;
  PlacementView placement{.volume = request.bytes,
                          .given = topology::placement(view.topology, *view.nodes, request.bytes)};
  if (view.topology.axes().size() <= topology::kMostOrderedAxes)
    placement.best = topology::best_order(view.topology, *view.nodes, request.bytes);
  return placement;
}

}  // namespace

std::string GroupKind::title() const {
  return axes.empty() ? "each rank alone" : fmt::format("{}", fmt::join(axes, " x "));
}

TopologyView view_of(const TopologyRequest& request) {
  check_convention(request.convention);
  if (request.axes.empty()) throw InvalidArgument("--axes: it names no axis");
  const Topology topology = topology_of(request);
  TopologyView view{.convention = request.convention,
                    .topology = topology,
                    .nodes = nodes_of(request, topology),
                    .ranks_per_node = request.ranks_per_node.value_or(0),
                    .along = groups_of_axes(topology),
                    .creations = creations_of(topology, request.convention),
                    .grid = grid_of(topology, request.convention)};
  view.placement = on_behalf_of("--bytes", [&] { return placement_of(request, view); });
  if (request.rank)
    (void)on_behalf_of(fmt::format("--rank {}", *request.rank), [&] { return topology.coordinate(*request.rank); });
  return view;
}

groups::Sizes sizes_of(const TopologyRequest& request) {
  const Topology given = given_topology(request);
  require_roles(request.axes, "plumbline");
  const auto size = [&](const char* role) {
    const auto axis = axis_of(role, request.axes, "plumbline");
    return axis ? given.dimension(*axis) : 1;
  };
  return {.pipeline = size("pipe"), .data = size("data"), .tensor = size("model")};
}

std::string title_of(const TopologyView& view) {
  std::string text =
      fmt::format("{}: {} rank{}, {} fastest, convention {}", view.topology.to_string(), view.topology.world_size(),
                  view.topology.world_size() == 1 ? "" : "s", view.topology.axes().back().name, view.convention);
  if (!view.nodes) return text;
  const int nodes = node_count(view), last = view.topology.world_size() - (nodes - 1) * view.ranks_per_node;
  text += fmt::format("; {} node{} of {}", nodes, nodes == 1 ? "" : "s", view.ranks_per_node);
  return last == view.ranks_per_node ? text : text + fmt::format(", the last of {}", last);
}

bool crosses_nodes(const TopologyView& view, std::span<const int> group) {
  return std::ranges::any_of(group, [&](int rank) { return node_of(view, rank) != node_of(view, group.front()); });
}

int crossing_groups(const TopologyView& view, const GroupKind& kind) {
  if (kind.axes.size() == 1)
    return topology::placement(view.topology, *view.nodes, {}).crossing_groups.at(kind.axes.front());
  int crossing = 0;
  kind.groups.for_each([&](std::span<const int> ranks) { crossing += crosses_nodes(view, ranks); });
  return crossing;
}

std::vector<int> model_parallel_ranks(const PipelineGrid& grid, int rank) {
  return grid.topology().merged_group_of(rank, all_but(grid.topology().axis_names(), "data"));
}

int index_in(const GroupKind& kind, const Topology& topology, int rank) {
  // Groups come by their positions on the other axes, of which the last varies fastest.
  int index = 0;
  for (const topology::Axis& axis : topology.axes())
    if (std::ranges::count(kind.axes, axis.name) == 0) index = index * axis.size + topology.position(rank, axis.name);
  return index;
}

}  // namespace plumbline::cli
