#include "reference/scaler/unscale_table.hpp"

#include <fmt/format.h>

namespace plumbline::scaler {

std::vector<UnscaleWork> unscale_work(std::span<const Unscaling> gradients, float inverse, float* found_inf,
                                      comm::Device device) {
  device::TensorTables<2> tables;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Unscaling& one = gradients[i];
    device::require_together(fmt::format("gradient {}", i), {one.from, one.to}, device);
    tables.add({.address = {const_cast<void*>(one.from.data), one.to.data},
                .count = one.from.count,
                .types = static_cast<std::int32_t>(types_of(one, i))});
  }
  std::vector<UnscaleWork> work;
  for (const auto& table : tables.all()) work.push_back({table, inverse, found_inf});
  return work;
}

}  // namespace plumbline::scaler
