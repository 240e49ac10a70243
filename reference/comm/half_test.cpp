#include <cmath>
#include <cstring>
#include <limits>

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

}  // namespace
}  // namespace plumbline::comm
