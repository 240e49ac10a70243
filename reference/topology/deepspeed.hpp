// reference/topology/deepspeed.hpp: DeepSpeed's topologies, its default grid, and its own answers where they differ.
//
// Model   ProcessTopology answers as DeepSpeed's class of that name does, in its corners too: the convention
//         `deepspeed`. What it rejects is a typed error here. On legal input it is a Topology in row-major
//         order.
// Corners - An axis that it has not has dimension 0 and no groups; a position off its axis matches no rank.
//         - A size of 0 or below makes an empty world, and get_dim() still tells that size. In an empty world nothing
//           is looked at, so that any filter matches no rank; it may even have more axes than sizes, until it is asked
//           for the size of such an axis.
//         - A filter is read in the order of its keywords up to the first mismatch, so that a name that is no axis
//           after one is never looked at. Keywords have no order here: axes count as named before other names.
//         - No axes make a world of one rank.
//         - More sizes than axes: the surplus ones are counted and forgotten. With e of them together, the k-th
//           coordinate has rank k * e + e - 1, the last of those that share it; the world size is the number of
//           coordinates.
//         - rank_repr with every axis left out is empty for any rank, even one that is not there.
//         - Names are fields of a Python named tuple: identifiers, no keywords, no underscore in front.
//         Topology takes none of this: there each is an error, and any name but an empty one is good.
// Cost    O(axes) a rank or coordinate, where the source searches a table of the world.
// Source  DeepSpeed runtime/pipe/topology.py, versions 0.6.3 and 0.19.8, which differ in one message alone: the older
//         one's error for a coordinate dies while it is written.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/topology/topology.hpp"

namespace plumbline::topology {

class ProcessTopology {
 public:
  /// Throws InvalidArgument for a name that is no field's or that appears twice, for more axes than sizes unless a
  /// size is below 1, and for a world that no int counts.
  ProcessTopology(std::vector<std::string> axes, std::vector<int> sizes);

  [[nodiscard]] const std::vector<std::string>& get_axis_names() const { return names_; }
  [[nodiscard]] int world_size() const { return map_ ? map_->world_size() : 0; }
  /// The size that was given; 0 for an axis that it has not. Throws OutOfRange for one beyond the sizes.
  [[nodiscard]] int get_dim(std::string_view axis) const;

  /// Throws NotFound for an axis that it has not, OutOfRange, InvalidArgument for a coordinate that leaves out an axis.
  [[nodiscard]] int get_rank(const NamedCoordinate& coordinate) const;
  /// Throws OutOfRange.
  [[nodiscard]] Coordinate get_coord(int rank) const;
  /// All ranks, those of one coordinate after the other.
  [[nodiscard]] std::vector<int> ranks() const;

  /// The number of groups that get_axis_comm_lists() gives: in an empty world it may be billions. Throws OutOfRange
  /// where these would have ranks that do not exist, InvalidArgument for more groups than an int counts.
  [[nodiscard]] int count_axis_comm_lists(std::string_view axis) const;
  /// The groups along an axis; none for an axis that it has not. Throws as count_axis_comm_lists().
  [[nodiscard]] std::vector<std::vector<int>> get_axis_comm_lists(std::string_view axis) const;
  /// The ranks at a position of an axis; none for a position off it. Throws NotFound.
  [[nodiscard]] std::vector<int> get_axis_list(std::string_view axis, int position) const;
  /// The ranks at the given positions; none where one is off its axis. Throws NotFound, but neither then nor in an
  /// empty world.
  [[nodiscard]] std::vector<int> filter_match(const NamedCoordinate& filter) const;

  /// Throws OutOfRange unless all axes are left out.
  [[nodiscard]] std::string get_rank_repr(int rank, const RankNameStyle& style = {}) const;
  /// "{ProcessCoord(pipe=0, data=0): 0, …}", in Python's words.
  [[nodiscard]] std::string to_string() const;
  /// The same world without corners. Throws InvalidArgument for an empty one, and for surplus sizes other than 1.
  [[nodiscard]] Topology topology() const;

 private:
  [[nodiscard]] bool has_axis(std::string_view axis) const;
  // Whether a position is off an axis; not for an unknown name.
  [[nodiscard]] bool is_off(std::string_view axis, int position) const;
  [[nodiscard]] int outer(int rank) const {
    return rank * surplus_ + surplus_ - 1;
  }  // a rank of map_ as the source counts
  [[nodiscard]] std::vector<int> outer(std::vector<int> ranks) const;
  [[nodiscard]] int inner(int rank) const;

  std::vector<std::string> names_;
  std::vector<int> sizes_;
  std::optional<Topology> map_;  // none: an empty world
  int surplus_ = 1;              // product of the sizes beyond the axes
};

/// The prime factors of n, ascending; none for 1. O(sqrt(n)). Throws InvalidArgument below 1.
[[nodiscard]] std::vector<int> prime_factors(int n);
/// Pipe and data for a world of any size: its prime factors are dealt alternately to pipe, data, pipe, … (12 is 6 x 2).
/// Throws InvalidArgument below 1.
[[nodiscard]] Topology default_grid(int world_size);

}  // namespace plumbline::topology
