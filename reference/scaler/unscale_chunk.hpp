// reference/scaler/unscale_chunk.hpp: what one thread of a block does of a chunk, written once for the device and for tests without
// one.
//
// Model   A chunk is cut into a head up to the first 16 bytes' boundary, whole vectors of 16 bytes read, and a tail. Threads take
//         vectors in turn, so that neighbours read neighbours; head and tail go to the first threads. Where both sides have no
//         common boundary all is done element by element.
#pragma once

#include <cstring>
#include <type_traits>

#include "reference/comm/half.hpp"
#include "reference/scaler/unscale_table.hpp"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace plumbline::scaler {

/// An element as it is computed with.
template <class T>
PLUMBLINE_ON_BOTH_SIDES inline auto unscale_widened(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, comm::Float16>)
      return __half2float(__ushort_as_half(value.bits));
    else
      return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
#else
    return comm::to_float(value);
#endif
  }
}

/// A product as it is stored, rounded once.
template <class T, class Wide>
PLUMBLINE_ON_BOTH_SIDES inline T unscale_narrowed(Wide value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, comm::Float16>)
      return T{__half_as_ushort(__float2half_rn(value))};
    else
      return T{__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
    if constexpr (std::is_same_v<T, comm::Float16>)
      return comm::to_float16(value);
    else
      return comm::to_bfloat16(value);
#endif
  }
}

/// The exponent of an infinity and of NaN has all bits set: then the difference with itself is no number.
template <class Wide>
PLUMBLINE_ON_BOTH_SIDES inline bool unscale_is_found(Wide value) {
  return !(value - value == Wide(0));
}

template <class T, int count>
struct alignas(16) UnscaleVector {
  T value[count];
};

/// This thread's part of `count` elements. Returns whether it found something.
template <class From, class To>
PLUMBLINE_ON_BOTH_SIDES inline bool unscale_part(const From* from, To* to, std::int64_t count, float inverse,
                                                 int thread, int threads) {
  constexpr int width = 16 / static_cast<int>(sizeof(From));
  using Wide = decltype(unscale_widened(From{}));
  const auto by = static_cast<Wide>(inverse);
  bool found = false;
  const auto one = [&](std::int64_t i) {
    const Wide value = unscale_widened(from[i]);
    found |= unscale_is_found(value);
    to[i] = unscale_narrowed<To>(value * by);
  };
  const auto address = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
  std::int64_t head = static_cast<std::int64_t>((16 - address(from) % 16) % 16 / sizeof(From));
  if (head > count || address(to + head) % 16 != 0) head = count;
  const std::int64_t vectors = (count - head) / width, tail = head + vectors * width;
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
  for (std::int64_t i = thread; i < vectors; i += threads) {
    const auto read = reinterpret_cast<const UnscaleVector<From, width>*>(from + head)[i];
    UnscaleVector<To, width> written;
    for (int k = 0; k < width; ++k) {
      const Wide value = unscale_widened(read.value[k]);
      found |= unscale_is_found(value);
      written.value[k] = unscale_narrowed<To>(value * by);
    }
    reinterpret_cast<UnscaleVector<To, width>*>(to + head)[i] = written;
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
