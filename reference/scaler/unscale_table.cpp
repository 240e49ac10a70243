#include "reference/scaler/unscale_table.hpp"

#include <limits>
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
  if (one.from.count != one.to.count)
    throw InvalidArgument(
        fmt::format("gradient {}: {} elements go to a place for {}", index, one.from.count, one.to.count));
  for (const comm::Device of : {one.from.device, one.to.device})
    if (of != device)
      throw InvalidArgument(fmt::format("gradient {} is in memory of {}; all of one call must be on {}", index,
                                        name_of(of), name_of(device)));
  const auto types = types_of(one.from.dtype, one.to.dtype);
  if (!types)
    throw Unsupported(
        fmt::format("gradient {} of {} cannot be unscaled to {}; there are one floating type, and f16 or bf16 to f32",
                    index, comm::name_of(one.from.dtype), comm::name_of(one.to.dtype)));
  return *types;
}

}  // namespace

std::vector<UnscaleTable> unscale_tables(std::span<const Unscaling> gradients, float inverse, comm::Device device) {
  std::vector<UnscaleTable> tables;
  constexpr std::int64_t most_chunks = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Unscaling& one = gradients[i];
    const UnscaleTypes types = checked_types(one, i, device);
    if (one.from.count == 0) continue;
    const std::int64_t chunks = (one.from.count + kChunk - 1) / kChunk;
    if (chunks > most_chunks) throw Unsupported(fmt::format("gradient {} has {} elements", i, one.from.count));
    if (tables.empty() || tables.back().entries == kMostEntries || tables.back().chunks > most_chunks - chunks)
      tables.emplace_back().inverse = inverse;
    UnscaleTable& table = tables.back();
    table.entry[table.entries++] = {
        .from = one.from.data, .to = one.to.data, .count = one.from.count, .first_chunk = table.chunks, .types = types};
    table.chunks += static_cast<std::int32_t>(chunks);
  }
  return tables;
}

}  // namespace plumbline::scaler
