// reference/device/element.hpp: elements of floating tensors as kernels compute with them, on the device and on the host.
//
// Numbers f32 and f64 compute in their own type, f16 and bf16 in f32, rounded once where they are stored. Both sides give the same
//         bits, but for which NaN a NaN becomes in 16 bits.
#pragma once

#include <type_traits>

#include "reference/comm/half.hpp"
#include "reference/device/both_sides.hpp"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace plumbline::device {

/// What T computes in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// An element as it is computed with: exactly its value.
template <class T>
PLUMBLINE_ON_BOTH_SIDES inline Wide<T> widened(T value) {
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

/// A result as it is stored, rounded once to nearest, ties to even.
template <class T, class From>
PLUMBLINE_ON_BOTH_SIDES inline T narrowed(From value) {
  if constexpr (std::is_floating_point_v<T>) {
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

}  // namespace plumbline::device
