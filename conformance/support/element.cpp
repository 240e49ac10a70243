#include "conformance/support/element.hpp"

#include <cmath>

#include <fmt/format.h>

namespace plumbline::conformance {

using comm::DType;

namespace {

int bias_of(FloatFormat format) { return (1 << (format.exponent_bits - 1)) - 1; }

std::uint64_t mask(int bits) { return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1; }

int width_of(DType dtype) { return static_cast<int>(size_of(dtype)) * 8; }

std::int64_t signed_of(DType dtype, std::uint64_t bits) {
  if (dtype == DType::u8 || dtype == DType::boolean) return static_cast<std::int64_t>(bits);
  const int unused = 64 - width_of(dtype);
  return static_cast<std::int64_t>(bits << unused) >> unused;
}

}  // namespace

FloatFormat format_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return {5, 10};
    case DType::bf16:
      return {8, 7};
    case DType::f32:
      return {8, 23};
    case DType::f8_e4m3:
      return {4, 3};
    case DType::f8_e5m2:
      return {5, 2};
    default:
      return {11, 52};
  }
}

long double round_off(DType dtype) { return std::ldexp(1.0L, -format_of(dtype).fraction_bits - 1); }

long double largest(DType dtype) {
  if (dtype == DType::f8_e4m3) return 448;
  const FloatFormat format = format_of(dtype);
  return std::ldexp(2.0L - 2.0L * round_off(dtype), bias_of(format));
}

long double smallest_normal(DType dtype) { return std::ldexp(1.0L, 1 - bias_of(format_of(dtype))); }

long double smallest_subnormal(DType dtype) {
  return std::ldexp(smallest_normal(dtype), -format_of(dtype).fraction_bits);
}

std::uint64_t bits_at(DType dtype, const std::byte* element) {
  std::uint64_t bits = 0;
  for (std::size_t byte = size_of(dtype); byte-- > 0;) bits = bits << 8 | static_cast<std::uint64_t>(element[byte]);
  return bits;
}

void put_bits(DType dtype, std::byte* element, std::uint64_t bits) {
  for (std::size_t byte = 0; byte < size_of(dtype); ++byte, bits >>= 8)
    element[byte] = static_cast<std::byte>(bits & 0xff);
}

long double number_of(DType dtype, std::uint64_t bits) {
  if (!has_float_format(dtype)) return static_cast<long double>(signed_of(dtype, bits));
  const FloatFormat format = format_of(dtype);
  const auto field = static_cast<int>(bits >> format.fraction_bits & mask(format.exponent_bits));
  const std::uint64_t fraction = bits & mask(format.fraction_bits);
  const long double sign = bits >> (width_of(dtype) - 1) != 0 ? -1.0L : 1.0L;
  // The upper exponent of f8_e4m3 is that of numbers, too, but for one fraction.
  const bool is_special = dtype != DType::f8_e4m3 || fraction == mask(format.fraction_bits);
  if (is_special && field == static_cast<int>(mask(format.exponent_bits)))
    return fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                         : sign * std::numeric_limits<long double>::infinity();
  const std::uint64_t leading = field == 0 ? 0 : std::uint64_t{1} << format.fraction_bits;
  const int exponent = (field == 0 ? 1 : field) - bias_of(format) - format.fraction_bits;
  return sign * std::ldexp(static_cast<long double>(leading | fraction), exponent);
}

std::uint64_t nearest_bits(DType dtype, long double number) {
  if (!has_float_format(dtype))
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(number)) & mask(width_of(dtype));
  const FloatFormat format = format_of(dtype);
  const std::uint64_t sign = std::signbit(number) ? std::uint64_t{1} << (width_of(dtype) - 1) : 0;
  const std::uint64_t infinity = dtype == DType::f8_e4m3 ? 0x7f : mask(format.exponent_bits) << format.fraction_bits;
  if (std::isnan(number)) return sign | infinity | std::uint64_t{1} << (format.fraction_bits - 1);
  if (std::isinf(number)) return sign | infinity;
  if (number == 0) return sign;
  int exponent = std::ilogb(number);
  if (exponent < 1 - bias_of(format)) exponent = 1 - bias_of(format);  // subnormal: the smallest normal's spacing
  // In units of the last place. Rounding up to the next power of two carries into the exponent field, as it should.
  const auto units =
      static_cast<std::uint64_t>(std::nearbyint(std::ldexp(std::fabs(number), format.fraction_bits - exponent)));
  const auto field = static_cast<std::uint64_t>(exponent + bias_of(format) - 1);
  const std::uint64_t bits = (field << format.fraction_bits) + units;
  return sign | (bits > infinity ? infinity : bits);
}

std::uint64_t steps_between(DType dtype, std::uint64_t a, std::uint64_t b) {
  if (!has_float_format(dtype)) {
    const std::int64_t x = signed_of(dtype, a);
    const std::int64_t y = signed_of(dtype, b);
    return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
                 : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
  }
  // Magnitudes count up from zero on both sides of it.
  const std::uint64_t sign = std::uint64_t{1} << (width_of(dtype) - 1);
  const std::uint64_t x = a & ~sign;
  const std::uint64_t y = b & ~sign;
  if ((a & sign) != (b & sign)) return x + y;
  return x > y ? x - y : y - x;
}

std::string text_of(DType dtype, std::uint64_t bits) {
  if (!has_float_format(dtype)) return fmt::format("{}", signed_of(dtype, bits));
  const int digits = width_of(dtype) / 4;
  const auto number = static_cast<double>(number_of(dtype, bits));  // exact: no dtype is wider
  if (dtype == DType::f64) return fmt::format("{} (0x{:0{}x})", number, bits, digits);
  return fmt::format("{} (0x{:0{}x})", static_cast<float>(number), bits, digits);
}

}  // namespace plumbline::conformance
