#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::slowmo {

std::vector<SumWork> sum_work(std::span<const device::ScaledCopy> pairs, bool subtracts, comm::Device device) {
  device::TensorTables<2> tables;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto& [from, to] = pairs[i];
    const std::string what = fmt::format("sum {}", i);
    device::require_together(what, {from, to}, device);
    if (!comm::is_floating(from.dtype) || !comm::is_floating(to.dtype))
      throw Unsupported(fmt::format("{} of {} and {}; there are sums of floating types", what,
                                    comm::name_of(from.dtype), comm::name_of(to.dtype)));
    tables.add({.address = {const_cast<void*>(from.data), to.data},
                .count = to.count,
                .types = static_cast<std::int32_t>(from.dtype) * 4 + static_cast<std::int32_t>(to.dtype)});
  }
  std::vector<SumWork> work;
  for (const auto& table : tables.all()) work.push_back({table, {subtracts}});
  return work;
}

}  // namespace plumbline::slowmo
