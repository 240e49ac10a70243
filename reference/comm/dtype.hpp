// reference/comm/dtype.hpp: the element types that a communicator moves and adds, and the ways of adding them.
//
// Model   A buffer holds `count` elements of one DType. A reduction folds the ranks' elements with a ReduceOp in an
//         accumulator type; f16 and bf16 have no arithmetic of their own here, they are formats (see half.hpp).
// Units   size_of() is bytes per element.
#pragma once

#include <array>
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

struct Float16;  // half.hpp
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

}  // namespace plumbline::comm
