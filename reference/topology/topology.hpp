// reference/topology/topology.hpp: named axes of ranks: who sits where, and who belongs together.
//
// Model   A Topology maps coordinates on named axes to ranks: rank = offset + sum of coordinate x stride. Row-major
//         (the last axis fastest) is DeepSpeed's order and torch DeviceMesh's; Megatron-LM's lets the first name vary
//         fastest. Both are strides, so nothing below knows of either: there is no table of ranks, at any world size.
// Cost    Coordinate and rank: O(axes). A group: O(its size). All groups of an axis are streamed, never stored: one
//         addition a rank, no division. So are all coordinates: they are counted on.
// Sources DeepSpeed runtime/pipe/topology.py (ProcessTopology); Megatron-LM core/parallel_state.py (RankGenerator);
//         torch distributed/device_mesh.py.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::topology {

struct Axis {
  std::string name;
  int size = 1;
  int stride = 1;  // how far apart, in ranks, neighbours on this axis are
  bool operator==(const Axis&) const = default;
};

/// A position on each axis, in the order of the topology's axes.
using Coordinate = std::vector<int>;
/// A position on some axes, by name.
using NamedCoordinate = std::map<std::string, int, std::less<>>;

/// The groups of ranks that differ on some axes alone, computed one at a time. A plain value: the topology need not
/// live on.
class GroupList {
 public:
  /// The number of groups; together they hold each rank once.
  [[nodiscard]] int size() const { return count_; }
  /// Ranks in each group.
  [[nodiscard]] int group_size() const { return group_size_; }
  /// The ranks of group `index`. Throws OutOfRange.
  [[nodiscard]] std::vector<int> operator[](int index) const;
  /// Calls visit(std::span<const int> ranks) for each group, in order, with one buffer for all.
  template <class Visit>
  void for_each(Visit&& visit) const {
    std::vector<int> ranks(static_cast<std::size_t>(group_size_));
    Odometer first(across_, offset_);
    for (int index = 0; index < count_; ++index, first.advance()) {
      fill(first.rank(), ranks);
      visit(std::span<const int>(ranks));
    }
  }
  /// Writes all groups to `ranks`, one after the other. Throws InvalidArgument unless it has size() x group_size().
  void write_all(std::span<int> ranks) const;
  /// All groups, one after the other: size() x group_size() ranks.
  [[nodiscard]] std::vector<int> flat() const;
  /// The same as lists. For small worlds.
  [[nodiscard]] std::vector<std::vector<int>> lists() const;

 private:
  friend class Topology;
  struct Steps {  // `count` positions, `stride` ranks apart
    int count = 1;
    int stride = 1;
  };
  // The rank at each combination of positions, one after the other, the last steps fastest.
  class Odometer {
   public:
    Odometer(std::span<const Steps> steps, int rank) : steps_(steps), positions_(steps.size()), rank_(rank) {}
    [[nodiscard]] int rank() const { return rank_; }
    void advance() {
      for (std::size_t i = steps_.size(); i-- > 0;) {
        if (++positions_[i] < steps_[i].count) {
          rank_ += steps_[i].stride;
          return;
        }
        positions_[i] = 0;
        rank_ -= (steps_[i].count - 1) * steps_[i].stride;
      }
    }

   private:
    std::span<const Steps> steps_;
    std::vector<int> positions_;
    int rank_;
  };

  // Steps from the slowest to the fastest.
  GroupList(std::span<const Steps> across, std::span<const Steps> inside, int offset);
  static std::vector<Steps> joined(std::span<const Steps> steps);
  void fill(int first, std::span<int> ranks) const;

  std::vector<Steps> across_;  // what tells the groups apart, the slowest first
  std::vector<Steps> inside_;  // along what a group lies, the slowest first
  int offset_;
  int count_ = 1;
  int group_size_ = 1;
};

class Topology {
 public:
  /// Ranks offset, offset + 1, … in row-major order: the last axis varies fastest. Throws InvalidArgument for no axes,
  /// an empty or repeated name, lists of different lengths, a size below 1, an offset below 0, and a product of sizes
  /// that no int holds; each with its values.
  static Topology row_major(std::span<const std::string> names, std::span<const int> sizes, int offset = 0);
  /// The same with the first axis fastest.
  static Topology first_fastest(std::span<const std::string> names, std::span<const int> sizes, int offset = 0);
  /// Rank 0 alone, on no axes: what DeepSpeed makes of an empty list.
  static Topology without_axes() { return {{}, 0}; }

  [[nodiscard]] const std::vector<Axis>& axes() const { return axes_; }
  [[nodiscard]] std::vector<std::string> axis_names() const;
  [[nodiscard]] bool has_axis(std::string_view name) const;
  /// Ranks in it.
  [[nodiscard]] int world_size() const { return world_size_; }
  /// The first rank.
  [[nodiscard]] int offset() const { return offset_; }
  /// The size of an axis. Throws NotFound, naming the axes.
  [[nodiscard]] int dimension(std::string_view axis) const;

  /// The rank at a coordinate. Throws NotFound for an unknown axis, OutOfRange for a position off its axis,
  /// InvalidArgument that names the axes that are missing; in this order.
  [[nodiscard]] int rank(const NamedCoordinate& coordinate) const;
  /// Throws OutOfRange for a rank that is not in it.
  [[nodiscard]] Coordinate coordinate(int rank) const;
  /// The same into a place for each axis, without memory of its own. Throws InvalidArgument for another number of
  /// places.
  void coordinate(int rank, std::span<int> positions) const;
  /// Calls visit(int rank, std::span<const int> positions) for each rank, ascending, with one buffer for all.
  template <class Visit>
  void for_each_coordinate(Visit&& visit) const {
    Coordinate positions(axes_.size());
    const bool last_fastest = is_last_fastest();
    for (int index = 0; index < world_size_; ++index) {
      visit(offset_ + index, std::span<const int>(positions));
      for (std::size_t i = 0; i < axes_.size(); ++i) {  // the fastest axis counts on, a full one carries
        const std::size_t at = last_fastest ? axes_.size() - 1 - i : i;
        if (++positions[at] < axes_[at].size) break;
        positions[at] = 0;
      }
    }
  }
  /// The position of `rank` on one axis. Throws OutOfRange, NotFound.
  [[nodiscard]] int position(int rank, std::string_view axis) const;
  /// The rank at another position of one axis and the same ones of the others. Throws OutOfRange, NotFound.
  [[nodiscard]] int moved(int rank, std::string_view axis, int position) const;

  /// The groups along an axis: one for each coordinate on the others, the first of those slowest; inside, positions
  /// ascend. Throws NotFound.
  [[nodiscard]] GroupList groups(std::string_view axis) const;
  /// The groups along several axes at once: one for each coordinate on the others. Groups come in the order of their
  /// first ranks; inside, ranks ascend. The order of `axes` does not matter. Throws NotFound, and InvalidArgument for
  /// an axis twice.
  [[nodiscard]] GroupList merged_groups(std::span<const std::string> axes) const;
  /// Which of groups(axis) holds `rank`. O(axes). Throws OutOfRange, NotFound.
  [[nodiscard]] int group_index(int rank, std::string_view axis) const;
  /// The group of `rank` along an axis, positions ascending. O(its size). Throws OutOfRange, NotFound.
  [[nodiscard]] std::vector<int> group_of(int rank, std::string_view axis) const;
  /// The same along several axes, ranks ascending.
  [[nodiscard]] std::vector<int> merged_group_of(int rank, std::span<const std::string> axes) const;

  /// The ranks at the given positions, on any number of axes; ascending. Throws NotFound, OutOfRange.
  [[nodiscard]] std::vector<int> matching(const NamedCoordinate& filter) const;

  /// "pipe=2 data=4 model=2", in the axes' order.
  [[nodiscard]] std::string to_string() const;
  bool operator==(const Topology&) const = default;

 private:
  Topology(std::vector<Axis> axes, int offset);
  [[nodiscard]] const Axis& axis(std::string_view name) const;
  [[nodiscard]] std::size_t index_of(std::string_view name) const;
  // Which axes are named. Throws NotFound, and InvalidArgument for one twice.
  [[nodiscard]] std::vector<bool> marked(std::span<const std::string> names) const;
  // Of the axes that are marked, or of those that are not, the largest stride first.
  [[nodiscard]] std::vector<GroupList::Steps> steps_by_stride(const std::vector<bool>& marks, bool wanted) const;
  [[nodiscard]] bool is_last_fastest() const { return axes_.empty() || axes_.front().stride >= axes_.back().stride; }

  std::vector<Axis> axes_;
  int world_size_ = 1;
  int offset_ = 0;
};

/// The names in "tp-dp". "" and "tp-" have an empty one.
[[nodiscard]] std::vector<std::string> split_names(std::string_view words);

/// How rank_name() writes.
struct RankNameStyle {
  std::vector<std::string> omit{"data", "pipe"};  // axes that are left out, whether or not there are such
  std::string inner = "_";                        // between an axis and its position
  std::string outer = "-";                        // between axes
};
/// "model_03-expert_00": what a rank's part of a checkpoint is called. Two digits at least. Empty where all axes are
/// left out. Throws OutOfRange. Source: DeepSpeed's get_rank_repr.
[[nodiscard]] std::string rank_name(const Topology& topology, int rank, const RankNameStyle& style = {});

}  // namespace plumbline::topology
