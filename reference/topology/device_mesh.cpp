#include "reference/topology/device_mesh.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::topology {
DeviceMesh::DeviceMesh(std::span<const int> shape, std::span<const std::string> names, std::optional<int> world_size)
    : topology_(Topology::row_major(names, shape)) {
  if (world_size && topology_.world_size() > *world_size)
    throw InvalidArgument(fmt::format("DeviceMesh: {} has {} ranks, the world has {}", topology_.to_string(),
                                      topology_.world_size(), *world_size));
}

SubMesh DeviceMesh::mesh() const {
  const std::vector<std::string> names = topology_.axis_names();
  return slice(topology_.offset(), names);
}

int DeviceMesh::local_rank(int rank, std::string_view dimension) const { return topology_.position(rank, dimension); }

std::vector<int> DeviceMesh::group_of(int rank, std::string_view dimension) const {
  return topology_.group_of(rank, dimension);
}

SubMesh DeviceMesh::slice(int rank, std::span<const std::string> names) const {
  SubMesh mesh{.names = {names.begin(), names.end()}, .shape = {}, .ranks = {}};
  for (const std::string& name : names) mesh.shape.push_back(topology_.dimension(name));
  std::vector<std::string> in_order = topology_.axis_names();
  std::erase_if(in_order, [&](const std::string& name) { return std::ranges::find(names, name) == names.end(); });
  if (mesh.names != in_order)
    throw InvalidArgument(fmt::format("DeviceMesh: slice [{}] must have its names in the order of [{}], each once",
                                      fmt::join(names, ", "), fmt::join(topology_.axis_names(), ", ")));
  mesh.ranks = topology_.merged_group_of(rank, names);
  return mesh;
}

std::vector<int> DeviceMesh::flatten(int rank, std::span<const std::string> names) const {
  return slice(rank, names).ranks;
}

RankMesh::RankMesh(std::span<const int> shape, std::span<const std::string> names, std::span<const int> ranks,
                   int world_size)
    : positions_(shape, names), ranks_(ranks.begin(), ranks.end()), world_size_(world_size) {
  if (std::ssize(ranks_) != topology().world_size())
    throw InvalidArgument(fmt::format("RankMesh: {} has {} positions, {} ranks are given", topology().to_string(),
                                      topology().world_size(), ranks_.size()));
  for (const int rank : ranks_) {
    if (rank < 0 || rank >= world_size)
      throw OutOfRange(fmt::format("RankMesh: rank {} is outside of a world of {} ranks", rank, world_size));
    if (!position_.emplace(rank, static_cast<int>(position_.size())).second)
      throw InvalidArgument(fmt::format("RankMesh: rank {} is given twice; a mesh has each rank once", rank));
  }
}

std::optional<Coordinate> RankMesh::coordinate(int rank) const {
  const auto found = position_.find(rank);
  if (found == position_.end()) return std::nullopt;
  return positions_.coordinate(found->second);
}

std::vector<int> RankMesh::group_of(int rank, std::string_view dimension) const {
  std::vector<int> group = positions_.group_of(position_of(rank), dimension);
  for (int& member : group) member = ranks_[static_cast<std::size_t>(member)];
  std::ranges::sort(group);
  return group;
}

int RankMesh::local_rank(int rank, std::string_view dimension) const {
  const std::vector<int> group = group_of(rank, dimension);
  return static_cast<int>(std::ranges::lower_bound(group, rank) - group.begin());
}

std::vector<std::vector<int>> RankMesh::groups(std::string_view dimension) const {
  std::vector<std::vector<int>> groups = positions_.groups(dimension).lists();
  for (std::vector<int>& group : groups) {
    for (int& member : group) member = ranks_[static_cast<std::size_t>(member)];
    std::ranges::sort(group);
  }
  std::ranges::sort(groups);
  return groups;
}

SubMesh RankMesh::slice(int rank, std::span<const std::string> names) const {
  return at_positions(positions_.slice(position_of(rank), names));
}

int RankMesh::position_of(int rank) const {
  const auto found = position_.find(rank);
  if (found == position_.end())
    throw NotFound(fmt::format("RankMesh: rank {} is not in the mesh [{}]", rank, fmt::join(ranks_, ", ")));
  return found->second;
}

SubMesh RankMesh::at_positions(SubMesh mesh) const {
  for (int& rank : mesh.ranks) rank = ranks_[static_cast<std::size_t>(rank)];
  return mesh;
}

}  // namespace plumbline::topology
