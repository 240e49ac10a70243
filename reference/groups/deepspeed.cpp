#include "reference/groups/deepspeed.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/topology/topology.hpp"

namespace plumbline::groups {

ExpertGroups expert_groups(const ExpertSizes& sizes) {
  for (const auto& [name, size] : {std::pair("world_size", sizes.world), std::pair("tensor", sizes.tensor),
                                   std::pair("pipeline", sizes.pipeline), std::pair("expert", sizes.expert)})
    if (size < 1) throw InvalidArgument(fmt::format("expert_groups: {} is {}; it must be at least 1", name, size));
  const std::int64_t model = std::int64_t{sizes.tensor} * sizes.pipeline;
  if (sizes.world % model != 0)
    throw InvalidArgument(fmt::format("expert_groups: {} tensor x {} pipeline ranks do not divide the world of {}",
                                      sizes.tensor, sizes.pipeline, sizes.world));
  const int replicas = static_cast<int>(sizes.world / model);
  if (replicas % sizes.expert != 0)
    throw InvalidArgument(
        fmt::format("expert_groups: {} expert-parallel ranks do not divide {} replicas", sizes.expert, replicas));
  const int same = replicas / sizes.expert;
  std::vector<std::string> axes{"pipe", "data", "expert", "tensor"};
  std::vector<int> dims{sizes.pipeline, same, sizes.expert, sizes.tensor};
  if (sizes.data_first) {
    std::swap(axes[1], axes[2]);
    std::swap(dims[1], dims[2]);
  }
  const auto topology = topology::Topology::row_major(axes, dims);
  return {.expert_parallel = topology.groups("expert").lists(),
          .expert_data_parallel = topology.groups("data").lists()};
}

}  // namespace plumbline::groups
