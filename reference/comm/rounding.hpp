// reference/comm/rounding.hpp: a number as an element of a floating type holds it.
#pragma once

#include "reference/comm/dtype.hpp"
#include "reference/comm/half.hpp"

namespace plumbline::comm {

/// The value of an f16, bf16, f32 or f64 element in which `value` was stored: the nearest, ties to even, by way of
/// float for the two 16-bit formats. Other types keep it.
template <class Real>
[[nodiscard]] constexpr Real rounded_to(DType dtype, Real value) {
  switch (dtype) {
    case DType::f16:
      return to_float(to_float16(static_cast<float>(value)));
    case DType::bf16:
      return to_float(to_bfloat16(static_cast<float>(value)));
    case DType::f32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

}  // namespace plumbline::comm
