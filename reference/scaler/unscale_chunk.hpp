// reference/scaler/unscale_chunk.hpp: what one thread of a block does of a chunk, written once for the device and for tests without
// one.
//
// Model   A chunk is cut into a head up to the first 16 bytes' boundary, whole vectors of 16 bytes read, and a tail. Threads take
//         vectors in turn, so that neighbours read neighbours; head and tail go to the first threads. Where both sides have no
//         common boundary all is done element by element.
#pragma once

#include "reference/device/both_sides.hpp"
#include "reference/scaler/unscale_table.hpp"

namespace plumbline::scaler {

/// The exponent of an infinity and of NaN has all bits set: then the difference with itself is no number.
template <class Wide>
PLUMBLINE_ON_BOTH_SIDES inline bool unscale_is_found(Wide value) {
  return !(value - value == Wide(0));
}

/// This thread's part of `count` elements. Returns whether it found something.
template <class From, class To>
PLUMBLINE_ON_BOTH_SIDES inline bool unscale_part(const From* from, To* to, std::int64_t count, float inverse,
                                                 int thread, int threads) {
  constexpr int width = 16 / static_cast<int>(sizeof(From));
  using Wide = decltype(device::widened(From{}));
  const auto by = static_cast<Wide>(inverse);
  bool found = false;
  const auto one = [&](std::int64_t i) {
    const Wide value = device::widened(from[i]);
    found |= unscale_is_found(value);
    to[i] = device::narrowed<To>(value * by);
  };
  const auto address = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
  std::int64_t head = static_cast<std::int64_t>((16 - address(from) % 16) % 16 / sizeof(From));
  if (head > count || address(to + head) % 16 != 0) head = count;
  const std::int64_t vectors = (count - head) / width, tail = head + vectors * width;
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
  for (std::int64_t i = thread; i < vectors; i += threads) {
    const auto read = reinterpret_cast<const device::Vector<From, width>*>(from + head)[i];
    device::Vector<To, width> written;
    for (int k = 0; k < width; ++k) {
      const Wide value = device::widened(read.value[k]);
      found |= unscale_is_found(value);
      written.value[k] = device::narrowed<To>(value * by);
    }
    reinterpret_cast<device::Vector<To, width>*>(to + head)[i] = written;
  }
  for (std::int64_t i = thread; i < head; i += threads) one(i);
  for (std::int64_t i = tail + thread; i < count; i += threads) one(i);
  return found;
}

/// This thread's part of a table's chunk.
PLUMBLINE_ON_BOTH_SIDES inline bool unscale_chunk(const UnscaleTable& table, std::int32_t chunk, int thread,
                                                  int threads) {
  const UnscaleEntry& entry = table.entry[find_entry(table, chunk)];
  const std::int64_t first = (chunk - entry.first_chunk) * kChunk;
  const std::int64_t count = entry.count - first < kChunk ? entry.count - first : kChunk;
  const auto part = [&](auto from, auto to) {
    return unscale_part(static_cast<const decltype(from)*>(entry.from) + first,
                        static_cast<decltype(to)*>(entry.to) + first, count, table.inverse, thread, threads);
  };
  switch (entry.types) {
    case UnscaleTypes::f16_to_f32:
      return part(comm::Float16(), float());
    case UnscaleTypes::bf16_to_f32:
      return part(comm::BFloat16(), float());
    case UnscaleTypes::f16:
      return part(comm::Float16(), comm::Float16());
    case UnscaleTypes::bf16:
      return part(comm::BFloat16(), comm::BFloat16());
    case UnscaleTypes::f32:
      return part(float(), float());
    case UnscaleTypes::f64:
      return part(double(), double());
  }
  return false;
}

}  // namespace plumbline::scaler
