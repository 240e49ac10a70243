// reference/gossip/element_types.hpp: what the elements of floating tensors are computed in.
//
// Numbers f32 and f64 compute in their own type, f16 and bf16 in f32, rounded once an operation.
#pragma once

#include <string>
#include <type_traits>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/half.hpp"

namespace plumbline::gossip {

/// What T computes in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
Wide<T> widened(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value;
  else
    return comm::to_float(value);
}

template <class T, class From>
T narrowed(From value) {
  if constexpr (std::is_same_v<T, comm::Float16>)
    return comm::to_float16(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, comm::BFloat16>)
    return comm::to_bfloat16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

/// Calls take(T{}) with the type of a floating dtype. Throws Unsupported for others.
template <class Take>
void with_type(comm::DType dtype, const Take& take) {
  switch (dtype) {
    case comm::DType::f16:
      return take(comm::Float16{});
    case comm::DType::bf16:
      return take(comm::BFloat16{});
    case comm::DType::f32:
      return take(float{});
    case comm::DType::f64:
      return take(double{});
    default:
      throw Unsupported("elements of " + std::string(comm::name_of(dtype)) + "; there are f16, bf16, f32 and f64");
  }
}

}  // namespace plumbline::gossip
