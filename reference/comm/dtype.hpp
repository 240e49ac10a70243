// reference/comm/dtype.hpp: the element types that a communicator moves and adds, and the ways of adding them.
//
// Model   A buffer holds `count` elements of one DType. A reduction folds the ranks' elements with a ReduceOp in an
//         accumulator type; f16 and bf16 have no arithmetic of their own here, they are formats.
// Units   size_of() is bytes per element.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plumbline::comm {

enum class DType : std::uint8_t { f16, bf16, f32, f64, i32, i64, u8 };
inline constexpr std::array kAllDTypes{DType::f16, DType::bf16, DType::f32, DType::f64,
                                       DType::i32, DType::i64,  DType::u8};

enum class ReduceOp : std::uint8_t { sum, avg, min, max, product };
inline constexpr std::array kAllReduceOps{ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max,
                                          ReduceOp::product};

/// Bytes per element: 2, 2, 4, 8, 4, 8, 1.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  constexpr std::array<std::size_t, 7> bytes{2, 2, 4, 8, 4, 8, 1};
  return bytes[static_cast<std::size_t>(dtype)];
}

/// True for f16, bf16, f32 and f64.
[[nodiscard]] constexpr bool is_floating(DType dtype) { return dtype <= DType::f64; }

struct Float16;  // below
struct BFloat16;

/// The element type of a C++ type.
template <class T>
inline constexpr DType kDTypeOf = [] {
  static_assert(sizeof(T) == 0, "no buffer has such elements");
  return DType::u8;
}();
template <>
inline constexpr DType kDTypeOf<Float16> = DType::f16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::bf16;
template <>
inline constexpr DType kDTypeOf<float> = DType::f32;
template <>
inline constexpr DType kDTypeOf<double> = DType::f64;
template <>
inline constexpr DType kDTypeOf<std::int32_t> = DType::i32;
template <>
inline constexpr DType kDTypeOf<std::int64_t> = DType::i64;
template <>
inline constexpr DType kDTypeOf<std::uint8_t> = DType::u8;

/// "f16", "bf16", "f32", "f64", "i32", "i64", "u8".
[[nodiscard]] constexpr std::string_view name_of(DType dtype) {
  constexpr std::array<std::string_view, 7> names{"f16", "bf16", "f32", "f64", "i32", "i64", "u8"};
  return names[static_cast<std::size_t>(dtype)];
}

/// "sum", "avg", "min", "max", "product".
[[nodiscard]] constexpr std::string_view name_of(ReduceOp op) {
  constexpr std::array<std::string_view, 5> names{"sum", "avg", "min", "max", "product"};
  return names[static_cast<std::size_t>(op)];
}

/// The DType of that name, or nothing.
[[nodiscard]] constexpr std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : kAllDTypes)
    if (name_of(dtype) == name) return dtype;
  return std::nullopt;
}

/// The ReduceOp of that name, or nothing.
[[nodiscard]] constexpr std::optional<ReduceOp> parse_reduce_op(std::string_view name) {
  for (const ReduceOp op : kAllReduceOps)
    if (name_of(op) == name) return op;
  return std::nullopt;
}

/// Whether `op` means anything on `dtype`: an average of integers does not.
[[nodiscard]] constexpr bool is_defined(DType dtype, ReduceOp op) { return op != ReduceOp::avg || is_floating(dtype); }

// ---- The two 16-bit floating formats, as bits, with conversions to and from float.
//
// Model   Float16 is IEEE 754 binary16 (1 sign, 5 exponent, 10 fraction bits); BFloat16 is the upper half of a float
//         (1, 8, 7). Values are widened exactly; narrowing rounds to nearest, ties to even, overflows to infinity,
//         keeps subnormals and keeps NaN a NaN (quiet).

struct Float16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(Float16, Float16) = default;  // of bits: -0 differs from +0
};

struct BFloat16 {
  std::uint16_t bits = 0;
  friend constexpr bool operator==(BFloat16, BFloat16) = default;
};

[[nodiscard]] constexpr float to_float(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

[[nodiscard]] constexpr BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  const std::uint32_t ties_to_even = 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>((bits + ties_to_even) >> 16)};
}

[[nodiscard]] constexpr float to_float(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000u) << 16;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t fraction = value.bits & 0x3ffu;
  if (exponent == 0x1f)  // infinity, or a NaN made quiet
    return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13) | (fraction ? 0x400000u : 0u));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // subnormal: an exact product
  return sign != 0 ? -magnitude : magnitude;
}

[[nodiscard]] constexpr Float16 to_float16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)  // NaN: keep the payload's upper bits, make it quiet
    return {static_cast<std::uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // rounds past 65504
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t ties_to_even = 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((magnitude + ties_to_even - 0x38000000u) >> 13))};
}

// ---- A number as an element of a floating type holds it.

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
