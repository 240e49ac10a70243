// reference/comm/dtype.hpp: the element types that a communicator moves and adds, and the ways of adding them.
//
// Model   A buffer holds `count` elements of one DType. A reduction folds the ranks' elements with a ReduceOp in an
//         accumulator type; f16, bf16 and the two formats of 8 bits have no arithmetic of their own here.
//         bool is a byte, 0 or 1: its min is AND, its max OR, and it has no other reduction.
//         c64 and c128 are complex numbers: the real part, then the imaginary one, as f32 or f64 (C's float _Complex,
//         torch.complex64). They have no order, so no min and max.
// Units   size_of() is bytes per element.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plumbline::comm {

enum class DType : std::uint8_t { f16, bf16, f32, f64, i32, i64, u8, boolean, f8_e4m3, f8_e5m2, c64, c128 };
inline constexpr std::size_t kDTypeCount = 12;
/// The types of tensors that are trained, indexed and reduced.
inline constexpr std::array kAllDTypes{DType::f16, DType::bf16, DType::f32, DType::f64,
                                       DType::i32, DType::i64,  DType::u8};
/// The types that a communicator has only where it claims them (Capabilities::dtypes), and reduces only where it claims
/// that, too.
inline constexpr std::array kOptionalDTypes{DType::boolean, DType::f8_e4m3, DType::f8_e5m2, DType::c64, DType::c128};

enum class ReduceOp : std::uint8_t { sum, avg, min, max, product };
inline constexpr std::array kAllReduceOps{ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max,
                                          ReduceOp::product};

/// Bytes per element: 2, 2, 4, 8, 4, 8, 1, 1, 1, 1, 8, 16.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  constexpr std::array<std::size_t, kDTypeCount> bytes{2, 2, 4, 8, 4, 8, 1, 1, 1, 1, 8, 16};
  return bytes[static_cast<std::size_t>(dtype)];
}

/// True for f16, bf16, f32 and f64.
[[nodiscard]] constexpr bool is_floating(DType dtype) { return dtype <= DType::f64; }

/// True for the two formats of 8 bits.
[[nodiscard]] constexpr bool is_float8(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2; }

/// True for c64 and c128.
[[nodiscard]] constexpr bool is_complex(DType dtype) { return dtype == DType::c64 || dtype == DType::c128; }

/// The type of an element's parts: f32 of c64 and f64 of c128, which have two; of others the type itself.
[[nodiscard]] constexpr DType component_of(DType dtype) {
  if (dtype == DType::c64) return DType::f32;
  return dtype == DType::c128 ? DType::f64 : dtype;
}
/// The number of an element's parts.
[[nodiscard]] constexpr int components_of(DType dtype) { return is_complex(dtype) ? 2 : 1; }

struct Float16;  // below
struct BFloat16;
struct Float8E4M3;
struct Float8E5M2;

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
template <>
inline constexpr DType kDTypeOf<bool> = DType::boolean;
template <>
inline constexpr DType kDTypeOf<Float8E4M3> = DType::f8_e4m3;
template <>
inline constexpr DType kDTypeOf<Float8E5M2> = DType::f8_e5m2;

/// "f16", "bf16", "f32", "f64", "i32", "i64", "u8", "bool", "f8_e4m3", "f8_e5m2", "c64", "c128".
[[nodiscard]] constexpr std::string_view name_of(DType dtype) {
  constexpr std::array<std::string_view, kDTypeCount> names{"f16", "bf16", "f32",     "f64",     "i32", "i64",
                                                            "u8",  "bool", "f8_e4m3", "f8_e5m2", "c64", "c128"};
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
  for (const DType dtype : kOptionalDTypes)
    if (name_of(dtype) == name) return dtype;
  return std::nullopt;
}

/// The ReduceOp of that name, or nothing.
[[nodiscard]] constexpr std::optional<ReduceOp> parse_reduce_op(std::string_view name) {
  for (const ReduceOp op : kAllReduceOps)
    if (name_of(op) == name) return op;
  return std::nullopt;
}

/// Whether `op` means anything on `dtype`: an average of integers does not, of bool only min and
/// max do, and of complex numbers those do not.
[[nodiscard]] constexpr bool is_defined(DType dtype, ReduceOp op) {
  if (dtype == DType::boolean) return op == ReduceOp::min || op == ReduceOp::max;
  if (is_complex(dtype)) return op != ReduceOp::min && op != ReduceOp::max;
  return op != ReduceOp::avg || is_floating(dtype) || is_float8(dtype);
}

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

// ---- The two floating formats of 8 bits.
//
// Model   Float8E4M3 is PyTorch's float8_e4m3fn (1 sign, 4 exponent, 3 fraction bits): no infinity, one NaN of each
//         sign, 448 is the largest number. Float8E5M2 is the upper half of a Float16 (1, 5, 2). Narrowing rounds to
//         nearest, ties to even, and does not saturate: what rounds past the largest number is NaN in the first
//         format and infinity in the second, as in PyTorch.
// Source  OCP 8-bit Floating Point Specification, revision 1.0, sections 5.1 to 5.3

struct Float8E4M3 {
  std::uint8_t bits = 0;
  friend constexpr bool operator==(Float8E4M3, Float8E4M3) = default;
};

struct Float8E5M2 {
  std::uint8_t bits = 0;
  friend constexpr bool operator==(Float8E5M2, Float8E5M2) = default;
};

[[nodiscard]] constexpr float to_float(Float8E5M2 value) {
  return to_float(Float16{static_cast<std::uint16_t>(value.bits << 8)});
}

[[nodiscard]] constexpr float to_float(Float8E4M3 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x80u) << 24;
  const std::uint32_t magnitude = value.bits & 0x7fu;
  if (magnitude == 0x7fu) return std::bit_cast<float>(sign | 0x7fc00000u);
  if (magnitude >= 8) return std::bit_cast<float>(sign | ((magnitude << 20) + (120u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-9f;
  return sign != 0 ? -subnormal : subnormal;
}

/// The bits of the nearest number of a format of 8 bits with these fields. `largest` are those of its largest number,
/// `beyond` those of what is larger.
template <int fraction_bits, int bias>
[[nodiscard]] constexpr std::uint8_t narrowed_to_8_bits(float value, std::uint32_t largest, std::uint32_t beyond,
                                                        std::uint32_t nan) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24) & 0x80u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint8_t>(sign | nan);
  constexpr std::uint32_t rebias = static_cast<std::uint32_t>(127 - bias) << 23;
  if (magnitude < rebias + (1u << 23)) {
    // Below the smallest normal number: this sum leaves the rounded multiple of the smallest subnormal in its low bits.
    constexpr std::uint32_t shift = static_cast<std::uint32_t>(127 + 24 - bias - fraction_bits) << 23;
    const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(shift);
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - shift));
  }
  constexpr int dropped = 23 - fraction_bits;
  const std::uint32_t ties_to_even = (1u << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1u);
  const std::uint32_t rounded = (magnitude + ties_to_even - rebias) >> dropped;
  return static_cast<std::uint8_t>(sign | (rounded > largest ? beyond : rounded));
}

[[nodiscard]] constexpr Float8E4M3 to_float8_e4m3(float value) {
  return {narrowed_to_8_bits<3, 7>(value, 0x7e, 0x7f, 0x7f)};
}

[[nodiscard]] constexpr Float8E5M2 to_float8_e5m2(float value) {
  return {narrowed_to_8_bits<2, 15>(value, 0x7b, 0x7c, 0x7e)};
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
