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

std::string_view DeviceMesh::dimension_of(std::optional<std::string_view> dimension) const {
  if (dimension) return *dimension;
  if (topology_.axes().size() == 1) return topology_.axes()[0].name;
  throw InvalidArgument(fmt::format("DeviceMesh: of the {} dimensions [{}], one must be named", topology_.axes().size(),
                                    fmt::join(topology_.axis_names(), ", ")));
}

int DeviceMesh::local_rank(int rank, std::optional<std::string_view> dimension) const {
  return topology_.position(rank, dimension_of(dimension));
}

std::vector<int> DeviceMesh::group_of(int rank, std::optional<std::string_view> dimension) const {
  return topology_.group_of(rank, dimension_of(dimension));
}

SubMesh DeviceMesh::slice(int rank, std::span<const std::string> names) const {
  SubMesh mesh{.names = {names.begin(), names.end()}, .shape = {}, .ranks = {}};
  for (const std::string& name : names) mesh.shape.push_back(topology_.dimension(name));
  auto place = topology_.axes().begin();
  for (const std::string& name : names) {
    place = std::find_if(place, topology_.axes().end(), [&](const Axis& axis) { return axis.name == name; });
    if (place == topology_.axes().end())
      throw InvalidArgument(fmt::format("DeviceMesh: slice [{}] must have its names in the order of [{}], each once",
                                        fmt::join(names, ", "), fmt::join(topology_.axis_names(), ", ")));
    ++place;
  }
  mesh.ranks = topology_.merged_group_of(rank, names);
  return mesh;
}

std::vector<int> DeviceMesh::flatten(int rank, std::span<const std::string> names) const {
  return slice(rank, names).ranks;
}

}  // namespace plumbline::topology
