// reference/device/host_device.hpp: what bodies of kernels have in common that are written once, for a GPU and for the host.
//
// Model   A body does one thread's part of one block's work, of any number of threads: nvcc compiles it for the device, the host's
//         compiler for the emulated device and for tests.
#pragma once

#include <cstring>
#include <type_traits>

#include "reference/comm/half.hpp"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define PLUMBLINE_HOST_DEVICE __host__ __device__
#else
#define PLUMBLINE_HOST_DEVICE
#endif

namespace plumbline::device {

/// Bytes that a thread reads or writes at once, at a multiple of them.
constexpr int kVectorBytes = 16;

template <class T, int count = kVectorBytes / static_cast<int>(sizeof(T))>
struct alignas(kVectorBytes) Vector {
  T value[count];
};

template <class T>
inline constexpr bool is_half = std::is_same_v<T, comm::Float16> || std::is_same_v<T, comm::BFloat16>;

/// An element as it is computed with: float of a half format, else itself.
template <class T>
PLUMBLINE_HOST_DEVICE inline auto widened(T value) {
  if constexpr (!is_half<T>) {
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

/// A result as it is stored, rounded once.
template <class T, class Wide>
PLUMBLINE_HOST_DEVICE inline T narrowed(Wide value) {
  if constexpr (!is_half<T>) {
    return static_cast<T>(value);
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

/// What T is computed in.
template <class T>
using Wide = decltype(widened(T()));

}  // namespace plumbline::device
