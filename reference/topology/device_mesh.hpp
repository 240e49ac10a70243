// reference/topology/device_mesh.hpp: torch's DeviceMesh: an n-dimensional array of ranks with named dimensions.
//
// Model   A DeviceMesh is a Topology in row-major order. A slice by names is the sub-mesh that holds a rank: the other
//         dimensions stay where the rank is. Names of a slice come in the mesh's own order. Flattened, a slice is one
//         dimension: its ranks ascending.
// Cost    As a Topology; a slice: O(its ranks).
// Source  torch distributed/device_mesh.py, 2.13.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/topology/topology.hpp"

namespace plumbline::topology {

/// Part of a mesh: ranks in row-major order.
struct SubMesh {
  std::vector<std::string> names;
  std::vector<int> shape;
  std::vector<int> ranks;
  bool operator==(const SubMesh&) const = default;
};

class DeviceMesh {
 public:
  /// Without a world size, the world is the mesh; in a larger one, the last ranks are not in it. Throws InvalidArgument
  /// for what no Topology takes and for a mesh beyond the world.
  DeviceMesh(std::span<const int> shape, std::span<const std::string> names, std::optional<int> world_size = {});

  [[nodiscard]] const Topology& topology() const { return topology_; }
  /// All of it.
  [[nodiscard]] SubMesh mesh() const;

  /// The position of a rank on each dimension. Throws OutOfRange.
  [[nodiscard]] Coordinate coordinate(int rank) const { return topology_.coordinate(rank); }
  /// The rank's position in its group along `dimension`. Throws OutOfRange, NotFound.
  [[nodiscard]] int local_rank(int rank, std::string_view dimension) const;
  /// The rank's group along `dimension`; as local_rank().
  [[nodiscard]] std::vector<int> group_of(int rank, std::string_view dimension) const;
  /// All groups along a dimension, sorted. Throws NotFound.
  [[nodiscard]] GroupList groups(std::string_view dimension) const { return topology_.groups(dimension); }

  /// The sub-mesh over `names` that holds `rank`. Throws OutOfRange, NotFound, and InvalidArgument for names that are
  /// not in the mesh's order.
  [[nodiscard]] SubMesh slice(int rank, std::span<const std::string> names) const;
  /// The ranks of that slice as one dimension, ascending.
  [[nodiscard]] std::vector<int> flatten(int rank, std::span<const std::string> names) const;

 private:
  Topology topology_;
};

}  // namespace plumbline::topology
