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

}  // namespace plumbline::topology
