#include "reference/scaler/unscale_table.hpp"

#include <optional>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::scaler {

using comm::DType;

namespace {

std::optional<UnscaleTypes> types_of(DType from, DType to) {
  if (from == DType::f16 && to == DType::f32) return UnscaleTypes::f16_to_f32;
  if (from == DType::bf16 && to == DType::f32) return UnscaleTypes::bf16_to_f32;
  if (from != to) return std::nullopt;
  switch (from) {
    case DType::f16:
      return UnscaleTypes::f16;
    case DType::bf16:
      return UnscaleTypes::bf16;
    case DType::f32:
      return UnscaleTypes::f32;
    case DType::f64:
      return UnscaleTypes::f64;
    default:
      return std::nullopt;
  }
}

UnscaleTypes checked_types(const Unscaling& one, std::size_t index, comm::Device device) {
  device::require_together(fmt::format("gradient {}", index), {one.from, one.to}, device);
  const auto types = types_of(one.from.dtype, one.to.dtype);
  if (!types)
    throw Unsupported(
        fmt::format("gradient {} of {} cannot be unscaled to {}; there are one floating type, and f16 or bf16 to f32",
                    index, comm::name_of(one.from.dtype), comm::name_of(one.to.dtype)));
  return *types;
}

}  // namespace

std::vector<UnscaleWork> unscale_work(std::span<const Unscaling> gradients, float inverse, float* found_inf,
                                      comm::Device device) {
  device::TensorTables<2> tables;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Unscaling& one = gradients[i];
    const UnscaleTypes types = checked_types(one, i, device);
    tables.add({.address = {const_cast<void*>(one.from.data), one.to.data},
                .count = one.from.count,
                .types = static_cast<std::int32_t>(types)});
  }
  std::vector<UnscaleWork> work;
  for (const auto& table : tables.all()) work.push_back({table, inverse, found_inf});
  return work;
}

}  // namespace plumbline::scaler
