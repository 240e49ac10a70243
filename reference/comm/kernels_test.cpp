#include "reference/comm/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "reference/comm/dtype.hpp"

namespace plumbline::comm::local {
namespace {

// A scalar statement of what the loops must give, in the accumulator, element by element.
template <class T>
T folded(ReduceOp op, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceOp::min || op == ReduceOp::max) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
      if (a == b) return std::signbit(a) == (op == ReduceOp::min) ? a : b;
      return op == ReduceOp::min ? std::fmin(a, b) : std::fmax(a, b);
    }
    return op == ReduceOp::product ? a * b : a + b;
  } else {
    if (op == ReduceOp::min) return std::min(a, b);
    if (op == ReduceOp::max) return std::max(a, b);
    const unsigned __int128 wide = op == ReduceOp::product
                                       ? static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)
                                       : static_cast<unsigned __int128>(a) + static_cast<unsigned __int128>(b);
    return static_cast<T>(wide);
  }
}

template <class T>
struct Element {
  using Acc = T;
  static T widen(T value) { return value; }
  static T narrow(T value) { return value; }
};
template <>
struct Element<Float16> {
  using Acc = float;
  static float widen(Float16 value) { return to_float(value); }
  static Float16 narrow(float value) { return to_float16(value); }
};
template <>
struct Element<BFloat16> {
  using Acc = float;
  static float widen(BFloat16 value) { return to_float(value); }
  static BFloat16 narrow(float value) { return to_bfloat16(value); }
};

template <>
struct Element<Float8E4M3> {
  using Acc = float;
  static float widen(Float8E4M3 value) { return to_float(value); }
  static Float8E4M3 narrow(float value) { return to_float8_e4m3(value); }
};
template <>
struct Element<Float8E5M2> {
  using Acc = float;
  static float widen(Float8E5M2 value) { return to_float(value); }
  static Float8E5M2 narrow(float value) { return to_float8_e5m2(value); }
};

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return std::isnan(Element<T>::widen(value));
}

template <class T>
void check(DType dtype, ReduceOp op, int ranks, std::size_t count, std::size_t offset, bool streaming) {
  std::mt19937_64 random(count * 31 + static_cast<std::size_t>(ranks));
  std::vector<std::vector<T>> inputs;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<T> input(offset + count + 1);
    for (T& value : input) {
      if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(random());
      } else {
        const double special[] = {
            0.0, -0.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e-40, 3e-6};
        const double number = random() % 5 == 0 ? special[random() % std::size(special)]
                                                : std::ldexp(static_cast<double>(random() % 2000) - 1000, -5);
        value = Element<T>::narrow(static_cast<typename Element<T>::Acc>(number));
      }
    }
    inputs.push_back(std::move(input));
  }
  for (const Kernels* set : all_kernels()) {
    SCOPED_TRACE(testing::Message() << set->instruction_set << ' ' << name_of(dtype) << ' ' << name_of(op) << " ranks "
                                    << ranks << " count " << count << " offset " << offset << " streaming "
                                    << streaming);
    std::vector<std::vector<T>> outputs(2, std::vector<T>(offset + count + 1, T{}));
    std::vector<const std::byte*> in;
    for (auto& input : inputs) in.push_back(reinterpret_cast<const std::byte*>(input.data()));
    std::byte* out[] = {reinterpret_cast<std::byte*>(outputs[0].data()),
                        reinterpret_cast<std::byte*>(outputs[1].data())};
    set->reduction(dtype, op)({.inputs = in, .outputs = out, .begin = offset, .count = count, .streaming = streaming});
    for (std::size_t i = 0; i < offset + count + 1; ++i) {
      T expected{};
      if (i >= offset && i < offset + count) {
        auto value = Element<T>::widen(inputs[0][i]);
        for (int rank = 1; rank < ranks; ++rank)
          value = folded(op, value, Element<T>::widen(inputs[static_cast<std::size_t>(rank)][i]));
        if (op == ReduceOp::avg) value = static_cast<decltype(value)>(value / static_cast<decltype(value)>(ranks));
        expected = Element<T>::narrow(value);
      }
      for (const auto& output : outputs) {
        if (is_nan(expected))
          ASSERT_TRUE(is_nan(output[i])) << i;
        else
          ASSERT_EQ(std::memcmp(&output[i], &expected, sizeof(T)), 0) << i;
      }
    }
  }
}

template <class T>
void check_all(DType dtype) {
  for (const ReduceOp op : kAllReduceOps) {
    if (!is_defined(dtype, op)) continue;
    for (const int ranks : {1, 2, 3, 5})
      for (const std::size_t count : {0, 1, 3, 15, 16, 17, 63, 64, 65, 257, 1000})
        for (const std::size_t offset : {0, 1})
          for (const bool streaming : {false, true}) check<T>(dtype, op, ranks, count, offset, streaming);
  }
}

TEST(Kernels, EveryInstructionSetGivesTheBitsOfTheScalarRule) {
  check_all<Float16>(DType::f16);
  check_all<BFloat16>(DType::bf16);
  check_all<float>(DType::f32);
  check_all<double>(DType::f64);
  check_all<std::int32_t>(DType::i32);
  check_all<std::int64_t>(DType::i64);
  check_all<std::uint8_t>(DType::u8);
  check_all<Float8E4M3>(DType::f8_e4m3);
  check_all<Float8E5M2>(DType::f8_e5m2);
}

TEST(Kernels, OfBoolAreAndAndOr) {
  for (const Kernels* set : all_kernels())
    for (std::size_t count : {1, 15, 64, 333}) {
      std::vector<std::uint8_t> a(count), b(count), out(count);
      for (std::size_t i = 0; i < count; ++i) a[i] = i % 2, b[i] = i / 2 % 2;
      const std::byte* in[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data())};
      std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
      set->reduction(DType::boolean, ReduceOp::min)({.inputs = in, .outputs = to, .count = count});
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], i % 4 == 3 ? 1 : 0) << set->instruction_set << ' ' << i;
      set->reduction(DType::boolean, ReduceOp::max)({.inputs = in, .outputs = to, .count = count});
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], i % 4 == 0 ? 0 : 1) << set->instruction_set << ' ' << i;
      EXPECT_EQ(set->reduction(DType::boolean, ReduceOp::sum), nullptr);
    }
}

// Against C++'s own complex numbers, of which these products are exact; sums are those of the parts.
template <class Real>
void check_complex(DType dtype) {
  using Complex = std::complex<Real>;
  for (const Kernels* set : all_kernels())
    for (const std::size_t count : {0, 1, 7, 64, 333}) {
      std::vector<std::vector<Complex>> inputs(3, std::vector<Complex>(count + 1));
      for (std::size_t rank = 0; rank < 3; ++rank)
        for (std::size_t i = 0; i <= count; ++i)
          inputs[rank][i] = {static_cast<Real>(i % 7 + rank), static_cast<Real>(3 - static_cast<int>(i % 5))};
      std::vector<const std::byte*> in;
      for (const auto& input : inputs) in.push_back(reinterpret_cast<const std::byte*>(input.data()));
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product}) {
        std::vector<Complex> out(count + 2, Complex{-1, -1});
        std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
        set->reduction(dtype, op)({.inputs = in, .outputs = to, .begin = 1, .count = count});
        EXPECT_EQ(out.front(), (Complex{-1, -1}));
        EXPECT_EQ(out.back(), (Complex{-1, -1}));
        for (std::size_t i = 1; i <= count; ++i) {
          const Complex &a = inputs[0][i], &b = inputs[1][i], &c = inputs[2][i];
          const Complex right =
              op == ReduceOp::product ? a * b * c : (a + b + c) / static_cast<Real>(op == ReduceOp::avg ? 3 : 1);
          ASSERT_EQ(out[i], right) << set->instruction_set << ' ' << name_of(op) << ' ' << i;
        }
      }
      EXPECT_EQ(set->reduction(dtype, ReduceOp::min), nullptr);
      EXPECT_EQ(set->reduction(dtype, ReduceOp::max), nullptr);
    }
}

TEST(Kernels, MultiplyComplexNumbersAndAddTheirParts) {
  check_complex<float>(DType::c64);
  check_complex<double>(DType::c128);
}

// Numbers that round at every step, so that a fused or reordered one shows.
template <class Real>
void check_rounding_of_complex(DType dtype) {
  using Complex = std::complex<Real>;
  std::mt19937_64 random(7);
  const auto number = [&] {
    const auto units = static_cast<std::int64_t>(random() >> 10) - (std::int64_t{1} << 53);
    return static_cast<Real>(std::ldexp(static_cast<double>(units), static_cast<int>(random() % 9) - 57));
  };
  for (const std::size_t count : {1, 7, 64, 1001}) {
    std::vector<std::vector<Complex>> inputs(5, std::vector<Complex>(count));
    std::vector<const std::byte*> in;
    for (auto& input : inputs) {
      for (Complex& one : input) one = {number(), number()};
      in.push_back(reinterpret_cast<const std::byte*>(input.data()));
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product}) {
      std::vector<Complex> right = inputs[0];
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t rank = 1; rank < 5; ++rank)
          right[i] = op == ReduceOp::product ? right[i] * inputs[rank][i] : right[i] + inputs[rank][i];
        if (op == ReduceOp::avg) right[i] /= Real{5};
      }
      for (const Kernels* set : all_kernels()) {
        std::vector<Complex> out(count);
        std::byte* to[] = {reinterpret_cast<std::byte*>(out.data())};
        set->reduction(dtype, op)({.inputs = in, .outputs = to, .count = count});
        EXPECT_EQ(std::memcmp(out.data(), right.data(), count * sizeof(Complex)), 0)
            << set->instruction_set << ' ' << name_of(dtype) << ' ' << name_of(op) << " of " << count;
      }
    }
  }
}

TEST(Kernels, RoundComplexNumbersAsTheScalarRule) {
  check_rounding_of_complex<float>(DType::c64);
  check_rounding_of_complex<double>(DType::c128);
}

template <class From, class To>
void check_conversion(DType from_type, DType to_type) {
  using Wide = typename Element<From>::Acc;
  const double special[] = {0.0,
                            -0.0,
                            1,
                            65504,
                            65520,
                            -1e30,
                            3.4e38,
                            1e-40,
                            5.96e-8,
                            2.9802322387695312e-08,
                            0.33333333333333331,
                            -1.00390625,
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
  for (const Kernels* set : all_kernels())
    for (const double divisor : {1.0, 2.0, 3.0, -0.5, 0x1p-40, 0x1p127, 0x1p-127, 0x1p-149})
      for (const std::size_t count : {0, 1, 7, 8, 15, 16, 17, 100}) {
        SCOPED_TRACE(testing::Message() << set->instruction_set << ' ' << name_of(from_type) << " to "
                                        << name_of(to_type) << ", " << count << " divided by " << divisor);
        std::vector<From> from;
        for (std::size_t i = 0; i < count; ++i)
          from.push_back(Element<From>::narrow(static_cast<Wide>(special[i * 7 % std::size(special)])));
        std::vector<To> to(count + 1, To{});
        const auto convert = set->conversion(from_type, to_type);
        convert(reinterpret_cast<std::byte*>(to.data()), reinterpret_cast<const std::byte*>(from.data()), count,
                divisor);
        for (std::size_t i = 0; i < count; ++i) {
          const Wide divided = Element<From>::widen(from[i]) / static_cast<Wide>(divisor);
          const To expected = Element<To>::narrow(static_cast<typename Element<To>::Acc>(divided));
          if (is_nan(expected))
            ASSERT_TRUE(is_nan(to[i])) << i;
          else
            ASSERT_EQ(std::memcmp(&to[i], &expected, sizeof expected), 0) << i;
        }
        const To untouched{};
        ASSERT_EQ(std::memcmp(&to[count], &untouched, sizeof untouched), 0) << "beyond the end";
      }
}

template <class From>
void check_conversions(DType from) {
  check_conversion<From, Float16>(from, DType::f16);
  check_conversion<From, BFloat16>(from, DType::bf16);
  check_conversion<From, float>(from, DType::f32);
  check_conversion<From, double>(from, DType::f64);
}

TEST(Kernels, EveryInstructionSetConvertsAsTheScalarRule) {
  check_conversions<Float16>(DType::f16);
  check_conversions<BFloat16>(DType::bf16);
  check_conversions<float>(DType::f32);
  check_conversions<double>(DType::f64);
  EXPECT_EQ(kernels().conversion(DType::i32, DType::f32), nullptr);
  EXPECT_EQ(kernels().conversion(DType::f32, DType::u8), nullptr);
}

TEST(Kernels, CopyMovesEveryByteAndNoMore) {
  for (const Kernels* set : all_kernels())
    for (const std::size_t bytes : {0, 1, 63, 64, 1000, 4099})
      for (const std::size_t shift : {0, 1, 7})
        for (const bool streaming : {false, true}) {
          std::vector<std::byte> from(bytes + shift + 1), to(bytes + shift + 1);
          for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
          set->copy(to.data() + shift, from.data() + shift, bytes, streaming);
          ASSERT_TRUE(std::equal(from.begin() + static_cast<long>(shift), from.end() - 1,
                                 to.begin() + static_cast<long>(shift)));
          ASSERT_TRUE(
              std::all_of(to.begin(), to.begin() + static_cast<long>(shift), [](auto b) { return b == std::byte{}; }));
          ASSERT_EQ(to.back(), std::byte{});
        }
}

TEST(Kernels, ExchangeSwapsInPlaceAndOutOfPlace) {
  for (const std::size_t bytes : {0, 1, 4095, 4096, 4097, 10000}) {
    std::vector<std::byte> a(bytes, std::byte{1}), b(bytes, std::byte{2}), c(bytes), d(bytes);
    exchange(c.data(), b.data(), d.data(), a.data(), bytes);
    EXPECT_EQ(c, b);
    EXPECT_EQ(d, a);
    exchange(a.data(), b.data(), b.data(), a.data(), bytes);
    EXPECT_EQ(a, c);
    EXPECT_EQ(b, d);
  }
}

}  // namespace
}  // namespace plumbline::comm::local
