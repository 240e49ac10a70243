#include <fmt/format.h>

#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::slowmo {

device::TensorTables<3> slow_step_tables(std::span<const SlowTensor> tensors, comm::Device device) {
  device::TensorTables<3> tables;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [x, old, momentum] = tensors[i];
    const std::string what = fmt::format("slow step: tensor {}", i);
    device::require_together(what, {x, old, momentum}, device);
    for (const comm::DType dtype : {old.dtype, momentum.dtype})
      if (dtype != x.dtype)
        throw InvalidArgument(
            fmt::format("{} of {} with a slow buffer of {}", what, comm::name_of(x.dtype), comm::name_of(dtype)));
    if (x.dtype != comm::DType::f32 && x.dtype != comm::DType::f64)
      throw Unsupported(fmt::format("{} of {}; slow momentum is of f32 or f64", what, comm::name_of(x.dtype)));
    tables.add(
        {.address = {x.data, old.data, momentum.data}, .count = x.count, .types = static_cast<std::int32_t>(x.dtype)});
  }
  return tables;
}

}  // namespace plumbline::slowmo
