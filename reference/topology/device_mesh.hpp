// reference/topology/device_mesh.hpp: torch's DeviceMesh: an n-dimensional array of ranks with named dimensions.
//
// Model   A DeviceMesh is a Topology in row-major order. A slice by names is the sub-mesh that holds a rank: the other
//         dimensions stay where the rank is. Names of a slice come in the mesh's own order. Flattened, a slice is one
//         dimension: its ranks ascending.
//         A RankMesh has any ranks of the world in any order: a permutation, or a subset. Slices keep the order of the
//         mesh. A communicator of c10d has its ranks ascending: so a rank's position in its group may differ from its
//         coordinate.
// Cost    As a Topology; a slice: O(its ranks). A RankMesh keeps its ranks and an index of them.
// Source  torch distributed/device_mesh.py, 2.13.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
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

/// DeviceMesh(mesh=…): the ranks that it is given.
class RankMesh {
 public:
  /// `ranks` in row-major order. Throws InvalidArgument for what no Topology takes, another number of ranks than the
  /// shape's, and a rank twice; OutOfRange for a rank outside of the world.
  RankMesh(std::span<const int> shape, std::span<const std::string> names, std::span<const int> ranks, int world_size);

  /// Of the positions in the mesh, from 0 on.
  [[nodiscard]] const Topology& topology() const { return positions_.topology(); }
  [[nodiscard]] int world_size() const { return world_size_; }
  [[nodiscard]] SubMesh mesh() const { return at_positions(positions_.mesh()); }

  /// The position of a rank on each dimension; nothing of a rank that the mesh does not have.
  [[nodiscard]] std::optional<Coordinate> coordinate(int rank) const;
  /// The rank's group along `dimension`, ascending. Throws NotFound, also for a rank that the mesh does not have.
  [[nodiscard]] std::vector<int> group_of(int rank, std::string_view dimension) const;
  /// The rank's position in that group; as group_of().
  [[nodiscard]] int local_rank(int rank, std::string_view dimension) const;
  /// All groups along a dimension, each ascending, sorted. Throws NotFound.
  [[nodiscard]] std::vector<std::vector<int>> groups(std::string_view dimension) const;
  /// The sub-mesh over `names` that holds `rank`, in the mesh's order. Throws NotFound, and as DeviceMesh::slice().
  [[nodiscard]] SubMesh slice(int rank, std::span<const std::string> names) const;
  /// The ranks of that slice as one dimension.
  [[nodiscard]] std::vector<int> flatten(int rank, std::span<const std::string> names) const {
    return slice(rank, names).ranks;
  }

 private:
  [[nodiscard]] int position_of(int rank) const;
  [[nodiscard]] SubMesh at_positions(SubMesh mesh) const;

  DeviceMesh positions_;
  std::vector<int> ranks_;  // by position
  std::unordered_map<int, int> position_;
  int world_size_;
};

}  // namespace plumbline::topology
