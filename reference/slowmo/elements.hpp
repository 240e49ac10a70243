// reference/slowmo/elements.hpp: arithmetic on buffers of any floating type, an element at a time.
//
// Numbers f32 and f64 compute in their own type, f16 and bf16 in f32, then round once. A scalar is rounded to the type of the
//         computation first.
// Memory  Host memory. Throws Unsupported for types that are not floating, InvalidArgument for other numbers of elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include "reference/comm/call.hpp"
#include "reference/comm/half.hpp"

namespace plumbline::slowmo {

/// values /= divisor, a real division.
void divide(comm::Buffer values, double divisor);
/// values *= factor.
void multiply(comm::Buffer values, double factor);
/// to = from, rounded where the type of `to` is narrower.
void copy(comm::ConstBuffer from, comm::Buffer to);
/// to += from, to -= from, in the type of `to`.
void add(comm::ConstBuffer from, comm::Buffer to);
void subtract(comm::ConstBuffer from, comm::Buffer to);
/// The elements [begin, begin + count).
[[nodiscard]] comm::Buffer part_of(comm::Buffer whole, std::int64_t begin, std::int64_t count);
/// Throws Unsupported, beginning with `what`, unless the type is floating and the memory the host's.
void require_floating(const char* what, comm::ConstBuffer values);

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

/// Calls take(T{}) with the type of a floating dtype.
template <class Take>
void with_type(comm::DType dtype, const Take& take) {
  switch (dtype) {
    case comm::DType::f16:
      return take(comm::Float16{});
    case comm::DType::bf16:
      return take(comm::BFloat16{});
    case comm::DType::f32:
      return take(float{});
    default:
      return take(double{});
  }
}

}  // namespace plumbline::slowmo
