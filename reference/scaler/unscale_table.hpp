// reference/scaler/unscale_table.hpp: many gradients as one row of chunks, for a device that takes them all in one launch.
//
// Model   A table is handed to a kernel by value: the stream keeps it, nothing is copied to the device before and nobody waits. Each
//         of its chunks is the work of one block: up to kChunk elements of one gradient. find_entry() says of which.
// Size    A kernel has 32764 bytes of parameters: a thousand gradients. More of them make more tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/device/both_sides.hpp"
#include "reference/scaler/unscale.hpp"

namespace plumbline::scaler {

enum class UnscaleTypes : std::int32_t { f16_to_f32, bf16_to_f32, f16, bf16, f32, f64 };

constexpr std::int64_t kChunk = 16384;  // elements
constexpr std::int32_t kMostEntries = 1000;

struct UnscaleEntry {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t count = 0;
  std::int32_t first_chunk = 0;
  UnscaleTypes types = UnscaleTypes::f32;
};

struct UnscaleTable {
  std::int32_t entries = 0, chunks = 0;
  float inverse = 1;
  UnscaleEntry entry[kMostEntries];
};
static_assert(sizeof(UnscaleTable) <= 32764, "a kernel takes no more by value");

/// The tables of these gradients, in order; none of gradients without elements. All must be in memory of `device`. Throws
/// InvalidArgument for other counts than each other's and for memory of another device, Unsupported for types that do not go
/// together.
[[nodiscard]] std::vector<UnscaleTable> unscale_tables(std::span<const Unscaling> gradients, float inverse,
                                                       comm::Device device);

/// The gradient that a chunk is of: the last one that begins at it or before it.
PLUMBLINE_ON_BOTH_SIDES inline std::int32_t find_entry(const UnscaleTable& table, std::int32_t chunk) {
  std::int32_t low = 0, high = table.entries;
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    if (table.entry[middle].first_chunk <= chunk)
      low = middle;
    else
      high = middle;
  }
  return low;
}

}  // namespace plumbline::scaler
