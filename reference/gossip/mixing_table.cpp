#include <fmt/format.h>

#include "reference/gossip/mixing_kernel.hpp"

namespace plumbline::gossip {

std::vector<MixWork> mix_work(std::span<const Arrivals> tensors, Kept kept, comm::Device device) {
  device::TensorTables<1 + kMostArrivals> tables;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [x, came] = tensors[i];
    const std::string what = fmt::format("mixing: tensor {}", i);
    device::require_together(what, {x}, device);
    if (!comm::is_floating(x.dtype)) throw Unsupported(fmt::format("{} of {}", what, comm::name_of(x.dtype)));
    device::TensorEntry<1 + kMostArrivals> entry{
        .address = {x.data}, .count = x.count, .types = static_cast<std::int32_t>(x.dtype)};
    for (std::size_t k = 0; k < came.size() && came[k].data != nullptr; ++k) {
      device::require_together(what, {x, came[k]}, device);
      if (came[k].dtype != x.dtype)
        throw InvalidArgument(
            fmt::format("{} of {}: {} came for it", what, comm::name_of(x.dtype), comm::name_of(came[k].dtype)));
      entry.address[1 + k] = const_cast<void*>(came[k].data);
    }
    if (entry.address[1] != nullptr || kept.is_lazy) tables.add(entry);
  }
  std::vector<MixWork> work;
  for (const auto& table : tables.all()) work.push_back({table, {kept.factor, kept.is_lazy}});
  return work;
}

}  // namespace plumbline::gossip
