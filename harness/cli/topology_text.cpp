// `plumbline topology --format text`: tables and a drawn grid for a terminal.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/topology_view.hpp"

namespace plumbline::cli {
namespace {

using topology::Axis;
using topology::Topology;

constexpr std::size_t kLine = 110;      // characters
constexpr std::size_t kShownRanks = 8;  // of a group of a large world, and the last

std::string group_text(std::span<const int> ranks, bool in_full) {
  if (in_full || ranks.size() <= kShownRanks) return fmt::format("[{}]", fmt::join(ranks, " "));
  return fmt::format("[{} … {}]", fmt::join(ranks.first(kShownRanks / 2), " "), ranks.back());
}

// Groups one after the other, in lines that begin with `indent` blanks. Those that cross nodes have a star.
std::string list_text(const TopologyView& view, const GroupKind& kind, bool in_full, std::size_t indent) {
  std::string text, line;
  const auto add = [&](const std::string& word) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kLine) {
      text += fmt::format("{:{}}{}\n", "", indent, line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  };
  const auto add_group = [&](int index) {
    const std::vector<int> ranks = kind.groups[index];
    const bool crosses = view.nodes && crosses_nodes(view, ranks);
    add(group_text(ranks, in_full) + (crosses ? "*" : ""));
  };
  const int count = kind.groups.size();
  const int shown = in_full || count <= 5 ? count : 3;
  for (int index = 0; index < shown; ++index) add_group(index);
  if (shown < count) {
    add("…");
    add_group(count - 1);
  }
  return text + fmt::format("{:{}}{}\n", "", indent, line);
}

std::string count_text(const GroupKind& kind) {
  return fmt::format("{} group{} of {}", kind.groups.size(), kind.groups.size() == 1 ? "" : "s",
                     kind.groups.group_size());
}

std::string axes_text(const TopologyView& view) {
  std::string text = view.nodes ? "groups along each axis (* crosses nodes)\n" : "groups along each axis\n";
  for (const GroupKind& kind : view.along) {
    text += fmt::format("  {}: {}", kind.title(), count_text(kind));
    if (view.nodes) text += fmt::format(", {} cross nodes", crossing_groups(view, kind));
    text += '\n' + list_text(view, kind, view.topology.world_size() <= kFullRanks, 4);
  }
  return text;
}

std::string creations_text(const TopologyView& view) {
  std::size_t width = 0;
  int total = 0;
  for (const GroupKind& kind : view.creations) {
    width = std::max(width, kind.title().size());
    total += kind.groups.size();
  }
  const std::size_t digits = std::to_string(total - 1).size();
  std::string text = "new groups, in the order in which every rank makes them\n";
  int first = 0;
  for (const GroupKind& kind : view.creations) {
    const int last = first + kind.groups.size() - 1;
    text += fmt::format("  {:>{}} to {:>{}}  {:<{}}  {}, ", first, digits, last, digits, kind.title(), width,
                        count_text(kind));
    const bool in_full = kind.groups.group_size() <= static_cast<int>(kShownRanks);
    text += group_text(kind.groups[0], in_full);
    if (kind.groups.size() > 1) text += " … " + group_text(kind.groups[kind.groups.size() - 1], in_full);
    text += '\n';
    first = last + 1;
  }
  return text;
}

std::string placement_text(const TopologyView& view) {
  const PlacementView& placement = *view.placement;
  std::string text = fmt::format(
      "placement: bytes that each rank sends along the ring of its group, and what of them crosses nodes\n"
      "  {:<11} {:>16} {:>21}\n",
      "axis", "a rank sends", "cross, all ranks");
  for (const auto& [axis, bytes] : placement.volume)
    text += fmt::format("  {:<11} {:>16} {:>21}\n", axis, bytes, placement.given.crossing_bytes.at(axis));
  text += fmt::format("  {:<27} {:>22}\n", "total", placement.given.total);
  if (!placement.best)
    return text + fmt::format("  best order: not sought beyond {} axes\n", topology::kMostOrderedAxes);
  const bool is_best = placement.best->total == placement.given.total;
  return text + fmt::format("  best order, the slowest axis first: {}, {} bytes{}\n",
                            fmt::join(placement.best->axes, ","), placement.best->total,
                            is_best ? "; no order has fewer than this one" : "");
}

// The ranks in reading order, the last axes side by side, so that a node is a run of cells.
class Grid {
 public:
  explicit Grid(const TopologyView& view) : view_(view), axes_(view.topology.axes()) {
    cell_ = std::to_string(view.topology.world_size() - 1).size();
    for (const Axis& axis : axes_) cell_ = std::max(cell_, std::to_string(axis.size - 1).size());
    first_column_axis_ = axes_.size() - 1;
    columns_ = axes_.back().size;
    while (first_column_axis_ > 0 && width_of(first_column_axis_ - 1) <= kLine * 3 / 4) {
      --first_column_axis_;
      columns_ *= axes_[first_column_axis_].size;
    }
    for (const Axis& axis : axes_) margin_ = std::max(margin_, axis.name.size() + 2);
    for (int row = 0; row < rows(); ++row) margin_ = std::max(margin_, row_label(row).size() + 2);
  }

  [[nodiscard]] std::string text() const {
    std::string text = view_.nodes ? "grid of ranks (| and - are borders of nodes)\n" : "grid of ranks\n";
    for (std::size_t axis = first_column_axis_; axis < axes_.size(); ++axis) text += header(axis);
    for (int row = 0; row < rows(); ++row) text += border_above(row) + cells(row);
    return text;
  }

 private:
  [[nodiscard]] int rows() const { return view_.topology.world_size() / columns_; }
  [[nodiscard]] std::size_t width_of(std::size_t first) const {
    std::size_t cells = 1;
    for (std::size_t axis = first; axis < axes_.size(); ++axis) cells *= static_cast<std::size_t>(axes_[axis].size);
    return cells * (cell_ + 1) + cells / static_cast<std::size_t>(axes_.back().size) * 2;
  }
  [[nodiscard]] int position(std::size_t axis, int rank) const { return rank / axes_[axis].stride % axes_[axis].size; }
  [[nodiscard]] bool begins_block(int column) const { return column > 0 && column % axes_.back().size == 0; }
  [[nodiscard]] bool begins_node(int rank) const {
    return view_.nodes && rank > 0 && node_of(view_, rank) != node_of(view_, rank - 1);
  }

  [[nodiscard]] std::string row_label(int row) const {
    std::string label;
    for (std::size_t axis = 0; axis < first_column_axis_; ++axis)
      label += fmt::format("{}{} {}", axis == 0 ? "" : ", ", axes_[axis].name, position(axis, row * columns_));
    return label;
  }
  [[nodiscard]] std::string line(const std::string& label, const std::function<std::string(int column)>& cell) const {
    std::string text = fmt::format("  {:<{}}", label, margin_);
    for (int column = 0; column < columns_; ++column) {
      const std::string word = cell(column);  // with its border before it
      text += (begins_block(column) ? "  " : "") + word;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + '\n';
  }
  [[nodiscard]] std::string header(std::size_t axis) const {
    return line(axes_[axis].name, [&](int column) {
      const bool shown = column % axes_[axis].stride == 0;
      return fmt::format(" {:>{}}", shown ? std::to_string(position(axis, column)) : "", cell_);
    });
  }
  [[nodiscard]] std::string cells(int row) const {
    return line(row_label(row), [&](int column) {
      const int rank = row * columns_ + column;
      return fmt::format("{}{:>{}}", column > 0 && begins_node(rank) ? '|' : ' ', rank, cell_);
    });
  }
  [[nodiscard]] std::string border_above(int row) const {
    if (!begins_node(row * columns_)) return {};
    return fmt::format("  {:{}} {:-<{}}\n", "", margin_, "", width_of(first_column_axis_) - 3);
  }

  const TopologyView& view_;
  const std::vector<Axis>& axes_;
  std::size_t cell_ = 1, margin_ = 0;
  std::size_t first_column_axis_ = 0;
  int columns_ = 1;
};

std::string coordinate_text(const Topology& topology, int rank) {
  const topology::Coordinate at = topology.coordinate(rank);
  std::string text;
  for (std::size_t i = 0; i < topology.axes().size(); ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", topology.axes()[i].name, at[i]);
  return text;
}

std::string coordinates_text(const TopologyView& view) {
  const auto& axes = view.topology.axes();
  std::string text = "coordinates\n  rank";
  for (const Axis& axis : axes) text += fmt::format("  {:>5}", axis.name);
  text += view.nodes ? "   node\n" : "\n";
  for (int rank = 0; rank < view.topology.world_size(); ++rank) {
    text += fmt::format("  {:>4}", rank);
    const topology::Coordinate at = view.topology.coordinate(rank);
    for (std::size_t i = 0; i < axes.size(); ++i)
      text += fmt::format("  {:>{}}", at[i], std::max<std::size_t>(5, axes[i].name.size()));
    text += view.nodes ? fmt::format("  {:>5}\n", node_of(view, rank)) : "\n";
  }
  return text;
}

// Neighbours on an axis, around its ends.
std::string neighbours_text(const TopologyView& view, int rank) {
  std::string text = fmt::format("  {:<13} {:>8} {:>7} {:>9} {:>9} {:>7}  {}\n", "along", "place", "of", "previous",
                                 "next", "group", "ranks");
  for (const GroupKind& kind : view.along) {
    const std::vector<int> ranks = view.topology.group_of(rank, kind.axes.front());
    const auto place = static_cast<std::size_t>(view.topology.position(rank, kind.axes.front()));
    const bool crosses = view.nodes && crosses_nodes(view, ranks);
    text += fmt::format("  {:<13} {:>8} {:>7} {:>9} {:>9} {:>7}  {}{}\n", kind.title(), place, ranks.size(),
                        ranks[(place + ranks.size() - 1) % ranks.size()], ranks[(place + 1) % ranks.size()],
                        view.topology.group_index(rank, kind.axes.front()), group_text(ranks, ranks.size() <= 16),
                        crosses ? " crosses nodes" : "");
  }
  return text;
}

std::string memberships_text(const TopologyView& view, int rank) {
  std::string text = "new groups that it is in, by their numbers in the order of creation\n";
  int first = 0;
  for (const GroupKind& kind : view.creations) {
    const int index = index_in(kind, view.topology, rank);
    const std::vector<int> ranks = kind.groups[index];
    const auto place = std::ranges::find(ranks, rank) - ranks.begin();
    text += fmt::format("  {:>7}  {:<18}  rank {} of {}: {}\n", first + index, kind.title(), place, ranks.size(),
                        group_text(ranks, ranks.size() <= 16));
    first += kind.groups.size();
  }
  return text;
}

std::string getters_text(const topology::GridRank& place, const std::vector<int>& model) {
  std::string text = fmt::format("getters of a model parallel unit\n  {:<25} {:>8} {:>14}  {}\n", "get_…", "_rank()",
                                 "_world_size()", "group");
  const auto add = [&](const char* name, int rank, int size, const std::vector<int>& ranks) {
    text += fmt::format("  {:<25} {:>8} {:>14}  {}\n", name, rank, size, group_text(ranks, ranks.size() <= 16));
  };
  const auto pipe = place.get_pipe_parallel_group_ranks();
  const auto slice = place.get_slice_parallel_group_ranks();
  add("pipe_parallel", place.get_pipe_parallel_rank(), place.get_pipe_parallel_world_size(), pipe);
  add("pipeline_model_parallel", place.get_pipeline_model_parallel_rank(),
      place.get_pipeline_model_parallel_world_size(), pipe);
  add("data_parallel", place.get_data_parallel_rank(), place.get_data_parallel_world_size(),
      place.get_data_parallel_group_ranks());
  add("model_parallel", place.get_model_parallel_rank(), place.get_model_parallel_world_size(), model);
  add("slice_parallel", place.get_slice_parallel_rank(), place.get_slice_parallel_world_size(), slice);
  add("tensor_model_parallel", place.get_tensor_model_parallel_rank(), place.get_tensor_model_parallel_world_size(),
      slice);
  return text;
}

std::string stage_text(const topology::GridRank& place) {
  const char* end = place.is_first_stage() && place.is_last_stage() ? ", the only one"
                    : place.is_first_stage()                        ? ", the first"
                    : place.is_last_stage()                         ? ", the last"
                                                                    : "";
  return fmt::format(
      "  stage        {} of {}{}\n  p2p pairs    ({}, {}) to the next stage, ({}, {}) from the one before\n",
      place.get_stage_id(), place.get_pipe_parallel_world_size(), end, place.get_global_rank(), place.next_stage_rank(),
      place.previous_stage_rank(), place.get_global_rank());
}

std::string lists_text(const std::vector<std::vector<int>>& lists) {
  constexpr std::size_t kShownGroups = 12;
  std::string text = lists.empty() ? "none" : group_text(lists.front(), false);
  for (std::size_t i = 1; i < std::min(lists.size(), kShownGroups); ++i) text += ' ' + group_text(lists[i], false);
  if (lists.size() > kShownGroups) text += fmt::format(" … ({} groups)", lists.size());
  return text;
}

}  // namespace

std::string topology_text(const TopologyView& view) {
  std::string text = title_of(view) + "\n\n";
  const int world = view.topology.world_size();
  if (world <= kDrawnRanks) text += Grid(view).text() + '\n';
  if (world <= kFullRanks) text += coordinates_text(view) + '\n';
  if (world > kDrawnRanks)
    text += fmt::format("ranks 0 ({}) to {} ({})\n\n", coordinate_text(view.topology, 0), world - 1,
                        coordinate_text(view.topology, world - 1));
  text += axes_text(view) + '\n' + creations_text(view);
  if (view.placement) text += '\n' + placement_text(view);
  return text;
}

std::string rank_text(const TopologyView& view, int rank) {
  std::string text =
      fmt::format("rank {} of {}\n  coordinates  {}\n", rank, title_of(view), coordinate_text(view.topology, rank));
  if (view.nodes) {
    const int node = node_of(view, rank), first = node * view.ranks_per_node;
    const int last = std::min(first + (view.ranks_per_node - 1), view.topology.world_size() - 1);
    text += fmt::format("  node         {} (ranks {} to {})\n", node, first, last);
  }
  if (const std::string name = topology::rank_name(view.topology, rank); !name.empty())
    text += fmt::format("  checkpoint   {}\n", name);
  if (!view.grid)
    return text + '\n' + neighbours_text(view, rank) + '\n' + memberships_text(view, rank) +
           "\nno stage and no getters: they need an axis pipe and an axis data\n";
  const topology::GridRank place(*view.grid, rank);
  return text + stage_text(place) + '\n' + neighbours_text(view, rank) + '\n' + memberships_text(view, rank) + '\n' +
         getters_text(place, model_parallel_ranks(*view.grid, rank));
}

std::string comparison_text(const groups::Comparison& comparison) {
  const auto names = [](const groups::Agreement& agreement) {
    return fmt::format("{}", fmt::join(agreement.conventions, " "));
  };
  std::size_t width = std::string_view("conventions").size();
  for (const groups::ModeComparison& mode : comparison.modes)
    for (const groups::Agreement& agreement : mode.agreements) width = std::max(width, names(agreement).size());
  std::string text = fmt::format("{:<10} {:<{}}  {}\n", "mode", "conventions", width, "groups");
  for (const groups::ModeComparison& mode : comparison.modes)
    for (const groups::Agreement& agreement : mode.agreements)
      text += fmt::format("{:<10} {:<{}}  {}\n", &agreement == &mode.agreements.front() ? mode.mode : "",
                          names(agreement), width, lists_text(agreement.groups));
  text += "\norder of creation\n";
  for (const groups::Plan& plan : comparison.plans)
    text += fmt::format("{:<10} {}\n", plan.convention, fmt::join(modes_of(plan), ", "));
  return text;
}

}  // namespace plumbline::cli
