#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "reference/comm/dtype.hpp"

namespace plumbline::comm {
namespace {

// The oracle for binary16 is the compiler's own _Float16, for bfloat16 the definition: the nearest of the two
// neighbours, decided in double.
TEST(Float16, WidensEveryValueAsTheCompilerDoes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    _Float16 compiler;
    std::memcpy(&compiler, &half.bits, 2);
    const float expected = static_cast<float>(compiler);
    const float got = to_float(half);
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(got)) << bits;
    else
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(expected)) << bits;
  }
}

TEST(Float16, NarrowsAsTheCompilerDoesAroundEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = to_float(Float16{static_cast<std::uint16_t>(bits)});
    const double high = bits == 0x7bff ? 65536.0 : to_float(Float16{static_cast<std::uint16_t>(bits + 1)});
    const double middle = (low + high) / 2;
    for (const double value : {low, middle, std::nextafter(middle, low), std::nextafter(middle, high), high}) {
      for (const float x : {static_cast<float>(value), static_cast<float>(-value)}) {
        const auto expected = static_cast<_Float16>(x);
        std::uint16_t expected_bits;
        std::memcpy(&expected_bits, &expected, 2);
        ASSERT_EQ(to_float16(x).bits, expected_bits) << x;
      }
    }
  }
}

TEST(Float16, OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(to_float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_float16(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(to_float(to_float16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(BFloat16, RoundsToNearestTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const double low = to_float(BFloat16{static_cast<std::uint16_t>(bits)});
    const double high =
        bits == 0x7f7f ? std::ldexp(1.0, 128) : to_float(BFloat16{static_cast<std::uint16_t>(bits + 1)});
    const double middle = (low + high) / 2;
    EXPECT_EQ(to_bfloat16(static_cast<float>(low)).bits, bits);
    // The middle of two bfloat16 is a float.
    EXPECT_EQ(to_bfloat16(static_cast<float>(middle)).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(to_bfloat16(std::nextafter(static_cast<float>(middle), 0.0f)).bits, bits);
  }
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(to_bfloat16(-0.0f).bits, 0x8000);
}

TEST(RoundedTo, IsWhatAnElementHolds) {
  EXPECT_EQ(rounded_to(DType::f16, 1.0 + 0x1p-11), 1.0) << "ties to even";
  EXPECT_EQ(rounded_to(DType::f16, 1.0f + 0x1p-10f), 1.0f + 0x1p-10f);
  EXPECT_EQ(rounded_to(DType::f16, 65520.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(rounded_to(DType::bf16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);
  EXPECT_EQ(rounded_to(DType::f32, 1.0 + 0x1p-24), 1.0);
  EXPECT_EQ(rounded_to(DType::f64, 1.0 + 0x1p-50), 1.0 + 0x1p-50);
}

// ---- the formats of 8 bits: the oracle is the specification's table of values

// The value of the magnitude `bits`: (1 + fraction) * 2^(exponent - bias), and fraction * 2^(1 - bias) where the
// exponent is 0.
double of_fields(std::uint32_t bits, int fraction_bits, int bias) {
  const double fraction = std::ldexp(bits & ((1u << fraction_bits) - 1), -fraction_bits);
  const int exponent = static_cast<int>(bits >> fraction_bits);
  return exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
}

template <class Format>
void expect_nearest(Format (*narrow)(float), std::uint32_t largest, int fraction_bits, int bias, std::uint8_t beyond) {
  for (std::uint32_t bits = 0; bits <= largest; ++bits) {
    const double low = of_fields(bits, fraction_bits, bias), high = of_fields(bits + 1, fraction_bits, bias);
    ASSERT_EQ(to_float(Format{static_cast<std::uint8_t>(bits)}), static_cast<float>(low)) << bits;
    ASSERT_EQ(to_float(Format{static_cast<std::uint8_t>(bits | 0x80)}), static_cast<float>(-low)) << bits;
    const std::uint32_t next = bits == largest ? beyond : bits + 1;
    const auto middle = static_cast<float>((low + high) / 2);  // a float
    for (const auto& [value, expected] : {std::pair{static_cast<float>(low), bits},
                                          {std::nextafter(middle, 0.0f), bits},
                                          {middle, bits % 2 == 0 ? bits : next},
                                          {std::nextafter(middle, 1e9f), next}}) {
      ASSERT_EQ(narrow(value).bits, expected) << value;
      ASSERT_EQ(narrow(-value).bits, expected | 0x80) << value;
    }
  }
  ASSERT_EQ(narrow(std::numeric_limits<float>::infinity()).bits, beyond);
  ASSERT_EQ(narrow(-std::numeric_limits<float>::max()).bits, beyond | 0x80);
  ASSERT_TRUE(std::isnan(to_float(narrow(std::numeric_limits<float>::quiet_NaN()))));
  ASSERT_TRUE(std::isnan(to_float(narrow(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Float8E4M3, HasNoInfinityAndRoundsToNearest) {
  expect_nearest(to_float8_e4m3, 0x7e, 3, 7, 0x7f);
  EXPECT_EQ(to_float(Float8E4M3{0x7e}), 448);
  EXPECT_TRUE(std::isnan(to_float(Float8E4M3{0x7f})));
  EXPECT_TRUE(std::isnan(to_float(Float8E4M3{0xff})));
}

TEST(Float8E5M2, IsRoundedOnceAndOverflowsToInfinity) {
  expect_nearest(to_float8_e5m2, 0x7b, 2, 15, 0x7c);
  EXPECT_EQ(to_float(Float8E5M2{0x7b}), 57344);
  EXPECT_EQ(to_float(Float8E5M2{0xfc}), -std::numeric_limits<float>::infinity());
  for (const std::uint8_t bits : {0x7d, 0x7e, 0x7f, 0xfd}) EXPECT_TRUE(std::isnan(to_float(Float8E5M2{bits})));
  // By way of Float16 this would be a tie, and 1.
  EXPECT_EQ(to_float8_e5m2(std::nextafter(1.125f, 2.0f)).bits, 0x3d);
}

}  // namespace
}  // namespace plumbline::comm
