// conformance/support/element.hpp: an element as bits and as a number, from the formats' definitions.
//
// Model   The bits of an element are a 64-bit word, upper bits zero. The floating formats are described by the widths
//         of their fields (IEEE 754-2019 section 3.4; OCP 8-bit Floating Point Specification 1.0, section 5) and
//         decoded by arithmetic; nothing here is shared with the code under test, whose conversions work on bits.
// Units   Numbers are long double, which holds every element of every dtype exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "reference/comm/dtype.hpp"

namespace plumbline::conformance {

static_assert(std::numeric_limits<long double>::digits >= 64, "long double must hold every i64 and f64");

/// Whether elements have a sign, an exponent and a fraction: also those of 8 bits.
[[nodiscard]] constexpr bool has_float_format(comm::DType dtype) { return is_floating(dtype) || is_float8(dtype); }

/// Widths of the fields of a floating dtype; the third is the sign, one bit.
struct FloatFormat {
  int exponent_bits;
  int fraction_bits;
};
[[nodiscard]] FloatFormat format_of(comm::DType dtype);

/// The unit round-off u of a floating dtype: half the distance from 1 to the next number.
[[nodiscard]] long double round_off(comm::DType dtype);
/// The largest finite, the smallest normal and the smallest positive number of a floating dtype.
[[nodiscard]] long double largest(comm::DType dtype);
[[nodiscard]] long double smallest_normal(comm::DType dtype);
[[nodiscard]] long double smallest_subnormal(comm::DType dtype);

[[nodiscard]] std::uint64_t bits_at(comm::DType dtype, const std::byte* element);
void put_bits(comm::DType dtype, std::byte* element, std::uint64_t bits);

/// The number that the bits stand for.
[[nodiscard]] long double number_of(comm::DType dtype, std::uint64_t bits);
/// The bits of the nearest element, ties to even; what is past the largest number of f8_e4m3, which has no infinity, is
/// NaN; of an integer dtype, `number` must be one of its values.
[[nodiscard]] std::uint64_t nearest_bits(comm::DType dtype, long double number);

/// How many elements of the dtype lie between the two, plus one; 0 for equal ones and for +0 and -0. NaN is at the far
/// end of its sign. Of integers, the absolute difference.
[[nodiscard]] std::uint64_t steps_between(comm::DType dtype, std::uint64_t a, std::uint64_t b);

/// "1.5 (0x3fc00000)", "-inf (0xfc00)", "17" for an integer.
[[nodiscard]] std::string text_of(comm::DType dtype, std::uint64_t bits);

}  // namespace plumbline::conformance
