// reference/topology/nodes.hpp: which groups cross nodes, the bytes that do, and which order of axes has the fewest.
//
// Model   Nodes are runs of consecutive ranks, of one size or of given ones. A group crosses nodes when two of its
//         ranks are on different ones.
// Volume  bytes[axis] is what each rank sends along the ring of its group: to the next rank in the group's order, the
//         last to the first. In a group of two both send; alone, a rank sends nothing. What is sent to another node
//         counts. A ring all-reduce of S bytes is bytes = 2 S (n - 1) / n; the activations of a pipeline, sent forward,
//         are a ring without its last edge and count as one. A score is exact, and says nothing of time.
// Cost    Of uneven nodes O(nodes) an axis, whatever the number of ranks: in one node, the ranks whose neighbour is
//         there as well are counted by a formula. Uniform ones are not stored, and repeat: O(sqrt(ranks)) an axis at
//         most. best_order() needs each axis at each stride once: at most axes x 2^(axes - 1) counts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/topology/topology.hpp"

namespace plumbline::topology {

class Nodes {
 public:
  /// Nodes of `ranks_per_node`; where it does not divide the world, the last one has fewer. Throws InvalidArgument
  /// below 1.
  static Nodes uniform(int ranks_per_node, int world_size);
  /// Nodes of these sizes. Throws InvalidArgument for a size below 1 and more ranks than an int holds.
  static Nodes uneven(std::span<const int> sizes);

  [[nodiscard]] int world_size() const { return world_size_; }
  /// What uniform() was given; nothing for nodes of given sizes.
  [[nodiscard]] std::optional<int> ranks_per_node() const { return ranks_per_node_; }
  /// Of nodes of given sizes the first rank of each, and after the last one's the world size; empty for uniform ones.
  [[nodiscard]] std::span<const int> bounds() const { return bounds_; }

 private:
  Nodes(std::vector<int> bounds, std::optional<int> ranks_per_node, int world_size)
      : bounds_(std::move(bounds)), ranks_per_node_(ranks_per_node), world_size_(world_size) {}
  std::vector<int> bounds_;
  std::optional<int> ranks_per_node_;
  int world_size_;
};

/// What each rank sends along each axis, in bytes. Axes that are left out send nothing.
using Volume = std::map<std::string, std::int64_t>;

struct Placement {
  std::map<std::string, int> crossing_groups;  // of each axis
  std::map<std::string, std::int64_t> crossing_bytes;
  std::int64_t total = 0;
};
/// Throws NotFound for a volume of an unknown axis, InvalidArgument for a negative one or unless nodes and topology are
/// of the same ranks, from 0 on, OutOfRange for bytes that 63 bits do not count.
[[nodiscard]] Placement placement(const Topology& topology, const Nodes& nodes, const Volume& bytes);

/// The axes from the slowest to the fastest, and the bytes that cross nodes.
struct OrderScore {
  std::vector<std::string> axes;
  std::int64_t total = 0;
  bool operator==(const OrderScore&) const = default;
};
inline constexpr std::size_t kMostOrderedAxes = 8;
/// The order of the axes with the fewest bytes: of equal ones the topology's own, or the first by names. Another order
/// whose bytes 63 bits do not count is left out. Throws as placement(), and InvalidArgument beyond kMostOrderedAxes
/// axes.
[[nodiscard]] OrderScore best_order(const Topology& topology, const Nodes& nodes, const Volume& bytes);

}  // namespace plumbline::topology
