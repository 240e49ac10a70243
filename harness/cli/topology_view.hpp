// harness/cli/topology_view.hpp: what `plumbline topology` shows: a world's axes, nodes and groups, under a convention.
//
// Model   Conventions plumbline, deepspeed and torch lay ranks out row-major over the axes as they are given; megatron
//         and colossalai know pipe, data and model alone, and put them in their own order. Groups are computed when
//         they are requested, so that a view of a million ranks is as small as one of four.
// Roles   pipe (also pipeline, pp), data (dp) and model (tensor, tp); deepspeed goes by its own names alone.
// Sources reference/groups/conventions.hpp has the order of creation under each convention.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/groups/conventions.hpp"
#include "reference/topology/grid.hpp"
#include "reference/topology/nodes.hpp"
#include "reference/topology/topology.hpp"

namespace plumbline::cli {

/// More ranks than any machine has, and few enough that one group fits into memory.
inline constexpr int kMostViewedRanks = 1 << 24;

/// The request of the command line.
struct TopologyRequest {
  std::vector<std::string> axes;
  std::vector<int> dims;
  std::string convention = "plumbline";
  std::optional<int> ranks_per_node;
  topology::Volume bytes;
  std::optional<int> rank;
};

/// Groups that are made one after the other: those along `axes`; each rank alone without axes.
struct GroupKind {
  std::vector<std::string> axes;
  topology::GroupList groups;
  /// "pipe x model".
  [[nodiscard]] std::string title() const;
};

/// Bytes that cross nodes, in the given order of axes and in the best.
struct PlacementView {
  topology::Volume volume;
  topology::Placement given;
  std::optional<topology::OrderScore> best;  // none: too many axes to try all their orders
};

struct TopologyView {
  std::string convention;
  topology::Topology topology;
  std::optional<topology::Nodes> nodes;
  int ranks_per_node = 0;                      // 0: nothing is known of nodes
  std::vector<GroupKind> along;                // one for each axis, in the topology's order
  std::vector<GroupKind> creations;            // in the order in which every rank makes them
  std::optional<topology::PipelineGrid> grid;  // by the roles of the axes; none without a pipe and a data axis
  std::optional<PlacementView> placement;
};

/// Throws InvalidArgument for what no Topology takes, more than kMostViewedRanks ranks, nodes larger than the world,
/// volumes without nodes and axes that the convention has not; Unsupported for an unknown convention; NotFound for a
/// volume of an unknown axis; OutOfRange for the rank.
[[nodiscard]] TopologyView view_of(const TopologyRequest& request);

/// Pipeline, data and tensor size of axes that are roles. Throws InvalidArgument for other axes and for a role that is
/// twice there.
[[nodiscard]] groups::Sizes sizes_of(const TopologyRequest& request);

// Of a view with nodes.
[[nodiscard]] inline int node_of(const TopologyView& view, int rank) { return rank / view.ranks_per_node; }
[[nodiscard]] inline int node_count(const TopologyView& view) {
  return node_of(view, view.topology.world_size() - 1) + 1;
}
/// Whether ranks of a group are on different nodes.
[[nodiscard]] bool crosses_nodes(const TopologyView& view, std::span<const int> group);
/// The number of groups of a kind that cross nodes.
[[nodiscard]] int crossing_groups(const TopologyView& view, const GroupKind& kind);

/// The ranks of the same data index: what the grid's getter calls the model-parallel group.
[[nodiscard]] std::vector<int> model_parallel_ranks(const topology::PipelineGrid& grid, int rank);

/// The position of the group of `rank` among those of a kind.
[[nodiscard]] int index_in(const GroupKind& kind, const topology::Topology& topology, int rank);

/// "pipe=2 data=4 model=2: 16 ranks, model fastest, convention plumbline; 2 nodes of 8".
[[nodiscard]] std::string title_of(const TopologyView& view);

// The formats, each a whole file.

/// For people, in a terminal: lists in full up to kFullRanks ranks, a drawn grid up to kDrawnRanks, counts and ends
/// beyond.
inline constexpr int kFullRanks = 64;
inline constexpr int kDrawnRanks = 256;
[[nodiscard]] std::string topology_text(const TopologyView& view);
/// One rank's place.
[[nodiscard]] std::string rank_text(const TopologyView& view, int rank);

/// Everything, every group of every kind. Throws InvalidArgument above kMostJsonRanks ranks.
inline constexpr int kMostJsonRanks = 1 << 20;
[[nodiscard]] std::string topology_json(const TopologyView& view);
/// One rank's place.
[[nodiscard]] std::string rank_json(const TopologyView& view, int rank);
/// The conventions side by side, every group of each.
inline constexpr int kMostComparedRanks = 1 << 20;
[[nodiscard]] std::string comparison_json(const groups::Comparison& comparison);
/// A line for each mode and set of conventions that agree, then the orders of creation.
[[nodiscard]] std::string comparison_text(const groups::Comparison& comparison);

/// A panel for each axis: a cell for each rank, in the colour of its group; borders of nodes. With a rank, its groups
/// alone are in colour. Throws InvalidArgument above kMostPicturedRanks ranks.
inline constexpr int kMostPicturedRanks = 512;
[[nodiscard]] std::string topology_svg(const TopologyView& view, std::optional<int> rank);

}  // namespace plumbline::cli
