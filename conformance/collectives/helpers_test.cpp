// The helpers of the checks: what they must notice, and what they must not.
#include <array>
#include <cmath>
#include <complex>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/data.hpp"
#include "conformance/collectives/exercise.hpp"
#include "conformance/collectives/guarded.hpp"
#include "conformance/collectives/guarded_buffer.hpp"
#include "conformance/collectives/trials.hpp"
#include "conformance/support/element.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::conformance {
namespace {

using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using testing::HasSubstr;
using testing::StartsWith;

// ---- elements ----

TEST(Element, DecodesFloatAndDoubleAsTheProcessorDoes) {
  for (std::uint64_t step = 0; step < 100000; ++step) {
    const std::uint64_t bits = mixed(1, 0, step);
    const float single = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    const double wide = std::bit_cast<double>(bits);
    const auto same = [](long double got, long double right) {
      return got == right || (std::isnan(got) && std::isnan(right));
    };
    ASSERT_TRUE(same(number_of(DType::f32, bits & 0xffffffffu), single)) << bits;
    ASSERT_TRUE(same(number_of(DType::f64, bits), wide)) << bits;
  }
}

TEST(Element, DecodesEveryHalfAsTheCompilerDoes) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto compiler = static_cast<long double>(std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits)));
    const long double got = number_of(DType::f16, bits);
    ASSERT_TRUE(std::isnan(compiler) ? std::isnan(got) : got == compiler && std::signbit(got) == std::signbit(compiler))
        << bits;
    const float widened = std::bit_cast<float>(bits << 16);
    const long double brain = number_of(DType::bf16, bits);
    ASSERT_TRUE(std::isnan(widened) ? std::isnan(brain) : brain == widened) << bits;
  }
}

TEST(Element, EncodesWhatItDecoded) {
  for (const DType dtype : comm::kAllDTypes)
    for (std::uint64_t step = 0; step < 70000; ++step) {
      std::array<std::byte, 8> memory{};
      put_bits(dtype, memory.data(), step < 65536 && size_of(dtype) == 2 ? step : mixed(2, 0, step));
      const std::uint64_t bits = bits_at(dtype, memory.data());
      if (std::isnan(number_of(dtype, bits))) continue;
      ASSERT_EQ(nearest_bits(dtype, number_of(dtype, bits)), bits) << name_of(dtype);
    }
}

// Of the formats of 8 bits by the values that their specification states.
TEST(Element, DecodesFormatsOf8Bits) {
  EXPECT_EQ(number_of(DType::f8_e4m3, 0x7e), 448);
  EXPECT_EQ(number_of(DType::f8_e4m3, 0x08), 0x1p-6L);
  EXPECT_EQ(number_of(DType::f8_e4m3, 0x81), -0x1p-9L);
  EXPECT_TRUE(std::isnan(number_of(DType::f8_e4m3, 0x7f)) && std::isnan(number_of(DType::f8_e4m3, 0xff)));
  EXPECT_EQ(number_of(DType::f8_e5m2, 0x7b), 57344);
  EXPECT_EQ(number_of(DType::f8_e5m2, 0x04), 0x1p-14L);
  EXPECT_EQ(number_of(DType::f8_e5m2, 0x01), 0x1p-16L);
  EXPECT_TRUE(std::isinf(number_of(DType::f8_e5m2, 0xfc)) && std::isnan(number_of(DType::f8_e5m2, 0x7d)));
  EXPECT_EQ(nearest_bits(DType::f8_e4m3, 464), 0x7eu) << "a tie";
  EXPECT_EQ(nearest_bits(DType::f8_e4m3, 464.01L), 0x7fu);
  EXPECT_EQ(nearest_bits(DType::f8_e5m2, -61440), 0xfcu);
  EXPECT_EQ(largest(DType::f8_e4m3), 448);
  EXPECT_EQ(largest(DType::f8_e5m2), 57344);
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2})
    for (std::uint64_t bits = 0; bits < 256; ++bits)
      if (!std::isnan(number_of(dtype, bits))) {
        EXPECT_EQ(nearest_bits(dtype, number_of(dtype, bits)), bits) << bits;
      }
}

// In whatever order members are added, and whoever is left out yet.
TEST(ExactNumbers, OfFormatsOf8BitsHaveRepresentableSums) {
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
      for (int ranks = 1; ranks <= 8; ++ranks) {
        const ExactNumbers numbers(dtype, op, ranks, 3);
        std::vector<std::vector<std::byte>> given(static_cast<std::size_t>(ranks), std::vector<std::byte>(100));
        for (int rank = 0; rank < ranks; ++rank) numbers.give(rank, 0, given[static_cast<std::size_t>(rank)]);
        for (std::size_t i = 0; i < 100; ++i)
          for (int members = 1; members < 1 << ranks; ++members) {
            long double sum = 0;
            for (int rank = 0; rank < ranks; ++rank)
              if ((members >> rank & 1) != 0)
                sum += number_of(dtype, bits_at(dtype, &given[static_cast<std::size_t>(rank)][i]));
            ASSERT_EQ(number_of(dtype, nearest_bits(dtype, sum)), sum) << name_of(dtype) << ' ' << ranks;
          }
      }
}

TEST(Element, RoundsToNearestAndTiesToEven) {
  const auto round = [](long double number) { return number_of(DType::f16, nearest_bits(DType::f16, number)); };
  EXPECT_EQ(round(2049), 2048);
  EXPECT_EQ(round(2049.001L), 2050);
  EXPECT_EQ(round(2051), 2052);
  EXPECT_EQ(round(65519.9L), 65504);
  EXPECT_EQ(round(65520), std::numeric_limits<long double>::infinity());
  EXPECT_EQ(round(std::ldexp(1.0L, -25)), 0);
  EXPECT_EQ(round(std::ldexp(1.5L, -25)), std::ldexp(1.0L, -24));
  EXPECT_EQ(round(smallest_normal(DType::f16) - std::ldexp(1.0L, -26)), smallest_normal(DType::f16));
  EXPECT_TRUE(std::signbit(round(-0.0L)));
}

TEST(Element, KnowsTheLimitsOfItsFormats) {
  EXPECT_EQ(largest(DType::f16), 65504);
  EXPECT_EQ(largest(DType::f32), std::numeric_limits<float>::max());
  EXPECT_EQ(smallest_normal(DType::f64), std::numeric_limits<double>::min());
  EXPECT_EQ(smallest_subnormal(DType::f32), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(round_off(DType::bf16), std::ldexp(1.0L, -8));
}

TEST(Element, CountsStepsAcrossZero) {
  const auto bits = [](float value) { return std::uint64_t{std::bit_cast<std::uint32_t>(value)}; };
  EXPECT_EQ(steps_between(DType::f32, bits(1.0f), bits(std::nextafter(1.0f, 2.0f))), 1u);
  EXPECT_EQ(steps_between(DType::f32, bits(0.0f), bits(-0.0f)), 0u);
  EXPECT_EQ(steps_between(DType::f32, bits(std::numeric_limits<float>::denorm_min()),
                          bits(-std::numeric_limits<float>::denorm_min())),
            2u);
  EXPECT_EQ(steps_between(DType::i32, 0xffffffffu, 1), 2u);
  EXPECT_EQ(steps_between(DType::u8, 255, 1), 254u);
}

// ---- messages ----

TEST(Messages, NameTheRanksAfterTheLastWordRank) {
  EXPECT_THAT(ranks_at_end("rank 0 waited for ranks 1, 3"), testing::ElementsAre(1, 3));
  EXPECT_THAT(ranks_at_end("rank 1 has ended; the new ranking leaves it out"), testing::ElementsAre(1));
  EXPECT_THAT(ranks_at_end("frank and cranks 7"), testing::IsEmpty());
  EXPECT_THAT(ranks_at_end(""), testing::IsEmpty());
}

// ---- comparisons ----

TEST(Comparison, NamesTheFirstDifference) {
  const std::vector<float> expected{1, 2, 3, 4}, got{1, 2, 3.0000002f, -4};
  EXPECT_EQ(
      first_difference(DType::f32, bytes_of(expected), bytes_of(got)),
      "element 2 of 4: expected 3 (0x40400000), got 3.0000002 (0x40400001), 1 ULP apart; 2 of 4 elements are wrong");
  EXPECT_EQ(first_difference(DType::f32, bytes_of(expected), bytes_of(expected)), "");
  const std::vector<std::int32_t> right{7}, wrong{-7};
  EXPECT_EQ(first_difference(DType::i32, bytes_of(right), bytes_of(wrong)),
            "element 0 of 1: expected 7, got -7, 14 apart; 1 of 1 elements are wrong");
}

TEST(Comparison, TellsTheZerosApartAndNansByTheirBits) {
  const std::vector<float> zero{0.0f}, minus_zero{-0.0f};
  EXPECT_NE(first_difference(DType::f32, bytes_of(zero), bytes_of(minus_zero)), "");
  EXPECT_NE(first_difference_but_nan(DType::f32, bytes_of(zero), bytes_of(minus_zero)), "");
  const std::vector<std::uint32_t> quiet{0x7fc00000u}, other{0xffc00001u}, number{0x3f800000u};
  EXPECT_NE(first_difference(DType::f32, bytes_of(quiet), bytes_of(other)), "");
  EXPECT_EQ(first_difference_but_nan(DType::f32, bytes_of(quiet), bytes_of(other)), "");
  EXPECT_NE(first_difference_but_nan(DType::f32, bytes_of(quiet), bytes_of(number)), "");
  const std::vector<std::uint32_t> complex{0x3f800000u, 0x7fc00000u}, alike{0x3f800000u, 0xffc00001u};
  EXPECT_NE(first_difference(DType::c64, bytes_of(complex), bytes_of(alike)), "");
  EXPECT_EQ(first_difference_but_nan(DType::c64, bytes_of(complex), bytes_of(alike)), "");
  EXPECT_THAT(first_difference_but_nan(DType::c64, bytes_of(complex), bytes_of(std::vector{number[0], number[0]})),
              StartsWith("part 1 of 2"));
}

TEST(Comparison, AllowsABoundAndNoMore) {
  const std::vector<float> got{1.0f, 2.5f, std::nanf("")};
  const std::vector<long double> expected{1.0L, 2.0L, 3.0L};
  EXPECT_EQ(first_excess(DType::f32, std::span(expected).first(2), std::vector<long double>{0, 0.5L}, bytes_of(got)),
            "");
  EXPECT_THAT(first_excess(DType::f32, std::span(expected).first(2), std::vector<long double>{0, 0.49L}, bytes_of(got)),
              StartsWith("element 1 of 2: expected 2, got 2.5 (0x40200000), off by 0.5 where 0.49 is allowed"));
  EXPECT_THAT(first_excess(DType::f32, expected, std::vector<long double>{1, 1, 1e30L}, bytes_of(got)),
              StartsWith("element 2 of 3"));
}

TEST(Comparison, OfRecordedNumbersTellsZerosBySign) {
  using nlohmann::json;
  const json expected{1.5, -0.0, "nan"};
  EXPECT_EQ(first_difference(expected, json{1.5, -0.0, "nan"}), "");
  EXPECT_EQ(first_difference(expected, json{1.5, 0.0, "nan"}), "element 1 of 3: expected -0.0, got 0.0");
  EXPECT_EQ(first_difference(expected, json{1.5, 0, "nan"}), "element 1 of 3: expected -0.0, got 0");
  EXPECT_EQ(first_difference(expected, json{1.5, -0.0}), "expected 3 elements, got [1.5,-0.0]");
  EXPECT_EQ(first_difference(json{1.0}, json{1}), "") << "an integer is a number";
}

// ---- guarded buffers ----

TEST(GuardedBuffer, TellsWhatWasWrittenBesideIt) {
  GuardedBuffer buffer(10, 3);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 3u);
  std::ranges::fill(buffer.bytes(), std::byte{0xee});
  EXPECT_EQ(buffer.damage(), "");
  const auto damage_at = [&buffer](std::ptrdiff_t offset) {
    std::byte& one = buffer.data()[offset];
    one ^= std::byte{1};
    const std::string damage = buffer.damage();
    one ^= std::byte{1};
    return damage;
  };
  EXPECT_THAT(damage_at(10), StartsWith("byte 0 after the end was"));
  EXPECT_THAT(damage_at(-1), StartsWith("byte 1 before the start was"));
  EXPECT_THAT(damage_at(10 + 255), StartsWith("byte 255 after the end was"));
}

TEST(GuardedBuffer, MayBeEmpty) {
  GuardedBuffer buffer(0);
  EXPECT_NE(buffer.data(), nullptr);
  EXPECT_EQ(buffer.damage(), "");
}

// ---- what calls read and write ----

const std::vector<std::int64_t> kNumbers{1, 2, 3};

std::int64_t* numbers_in(const comm::ConstBuffer& view) {
  return const_cast<std::int64_t*>(static_cast<const std::int64_t*>(view.data));
}

TEST(GuardedInput, IsAFailureWhenItGoesChanged) {
  EXPECT_NONFATAL_FAILURE(
      {
        const GuardedInput input(kNumbers);
        numbers_in(input.view())[1] = 7;
      },
      "the input was changed: element 1 of 3: expected 2, got 7");
  EXPECT_NONFATAL_FAILURE(
      {
        const GuardedInput input(kNumbers);
        numbers_in(input.view())[-1] ^= 1;
      },
      "outside the input: byte 8 before the start");
}

TEST(GuardedInput, MayBeOverwrittenByItsOwner) {
  GuardedInput input(kNumbers);
  input.overwrite();
  EXPECT_EQ(numbers_in(input.view())[0], ~std::int64_t{1});
  EXPECT_EQ(input.problem(), "");
  numbers_in(input.view())[0] = 1;
  EXPECT_THAT(input.problem(), HasSubstr("expected -2, got 1"));
  numbers_in(input.view())[0] = -2;
}

TEST(GuardedInput, IsSeenAsElementsOfAnotherDtype) {
  const GuardedInput input(kNumbers);
  EXPECT_EQ(input.view().dtype, DType::i64);
  EXPECT_EQ(input.view().count, 3);
  EXPECT_EQ(input.view_as(DType::f16).count, 12);
  EXPECT_EQ(input.view_as(DType::f16).data, input.view().data);
}

TEST(GuardedOutput, BeginsWithNoByteThatIsExpected) {
  GuardedOutput output(kNumbers);
  for (std::size_t at = 0; at < output.bytes().size(); ++at)
    EXPECT_NE(output.bytes()[at], bytes_of(kNumbers)[at]) << "byte " << at;
  EXPECT_THAT(output.wrong_result(), HasSubstr("3 of 3 elements are wrong"));
  std::ranges::copy(std::span(kNumbers).first(2), static_cast<std::int64_t*>(output.view().data));
  EXPECT_THAT(output.wrong_result(), StartsWith("element 2 of 3: expected 3, got -4"));
  EXPECT_EQ(output.unwritten(), "element 2 of 3 was not written");
  EXPECT_THAT(output.touched(), HasSubstr("element 0 of 3"));
  static_cast<std::int64_t*>(output.view().data)[2] = 3;
  EXPECT_EQ(output.wrong_result() + output.unwritten(), "");
  output.reset();
  EXPECT_EQ(output.touched(), "");
}

TEST(GuardedOutput, BeginsWithNoFiniteNumber) {
  for (const DType dtype : comm::kAllDTypes) {
    const GuardedOutput output(dtype, 5);
    ASSERT_EQ(output.bytes().size(), 5 * size_of(dtype));
    for (std::size_t at = 0; at < output.bytes().size(); at += size_of(dtype)) {
      const std::uint64_t bits = bits_at(dtype, output.bytes().data() + at);
      EXPECT_TRUE(has_float_format(dtype) ? std::isnan(number_of(dtype, bits)) : (bits & 0xff) == 0xa5)
          << name_of(dtype);
    }
    EXPECT_EQ(output.unwritten(), "element 0 of 5 was not written");
  }
}

// The complement of a NaN is none: that any NaN stands for any other must not hide that nothing was written.
TEST(GuardedOutput, BeginsWithoutNanWhereNanIsExpected) {
  std::vector<std::byte> special(40 * size_of(DType::f32));
  fill_with_special_bits(0, DType::f32, 0, special);
  const GuardedOutput output(DType::f32, special);
  EXPECT_THAT(first_difference_but_nan(DType::f32, special, output.bytes()), HasSubstr("40 of 40 elements are wrong"));
}

TEST(GuardedOutput, IsAFailureWhenSomethingWasWrittenOutside) {
  EXPECT_NONFATAL_FAILURE(
      {
        GuardedOutput output(DType::f32, 3);
        static_cast<std::uint8_t*>(output.view().data)[-1] ^= 1;
      },
      "outside the output: byte 1 before the start");
  EXPECT_NONFATAL_FAILURE(
      {
        GuardedOutput output(DType::f32, 3);
        static_cast<std::uint8_t*>(output.view().data)[12] ^= 1;
      },
      "outside the output: byte 0 after the end");
}

TEST(GuardedOutput, KeepsItsPlaceWhenMoved) {
  std::vector<GuardedOutput> outputs;
  outputs.emplace_back(kNumbers);
  const void* const place = outputs.front().view().data;
  for (int more = 0; more < 20; ++more) outputs.emplace_back(kNumbers);
  EXPECT_EQ(outputs.front().view().data, place);
}

// ---- data ----

TEST(ExactNumbers, AreExactInEveryOrderAndPrecision) {
  // Folded backwards in f32 and rounded to bf16 at each step: the coarsest that a backend may do.
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 12})
    for (const ReduceOp op : comm::kAllReduceOps) {
      constexpr std::int64_t kCount = 200;
      const ExactNumbers numbers(DType::bf16, op, ranks, 5);
      std::vector<std::vector<std::byte>> given(static_cast<std::size_t>(ranks), std::vector<std::byte>(2 * kCount));
      for (int rank = 0; rank < ranks; ++rank) numbers.give(rank, 0, given[static_cast<std::size_t>(rank)]);
      std::vector<std::byte> expected(2 * kCount), got(2 * kCount);
      numbers.result(0, expected);
      for (std::size_t at = 0; at < got.size(); at += 2) {
        std::uint64_t value = bits_at(DType::bf16, given.back().data() + at);
        for (std::size_t rank = given.size() - 1; rank-- > 0;) {
          const std::vector<long double> pair{number_of(DType::bf16, value),
                                              number_of(DType::bf16, bits_at(DType::bf16, given[rank].data() + at))};
          value = nearest_bits(DType::bf16, reduce_numbers(op == ReduceOp::avg ? ReduceOp::sum : op, pair));
        }
        if (op == ReduceOp::avg) value = nearest_bits(DType::bf16, number_of(DType::bf16, value) / ranks);
        put_bits(DType::bf16, got.data() + at, value);
      }
      EXPECT_EQ(first_difference(DType::bf16, expected, got), "") << ranks << " ranks, " << name_of(op);
    }
}

TEST(ExactNumbers, DependOnRankAndPositionAndSeed) {
  for (const DType dtype : comm::kAllDTypes)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::product}) {
      const ExactNumbers numbers(dtype, op, 4, 0), seeded(dtype, op, 4, 1);
      std::vector<std::byte> one(64 * size_of(dtype)), two(one.size()), later(one.size()), other(one.size());
      numbers.give(1, 0, one);
      numbers.give(2, 0, two);
      numbers.give(1, 1, later);
      seeded.give(1, 0, other);
      const auto share = [&](const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
        int equal = 0;
        for (std::size_t at = 0; at < a.size(); at += size_of(dtype))
          equal += bits_at(dtype, a.data() + at) == bits_at(dtype, b.data() + at);
        return equal;
      };
      EXPECT_EQ(share(one, two), 0) << name_of(dtype) << name_of(op);
      EXPECT_EQ(share(one, later), 0) << name_of(dtype) << name_of(op);
      EXPECT_EQ(share(one, other), 0) << name_of(dtype) << name_of(op);
    }
}

TEST(Reductions, OfIntegersWrapAndOrderBySign) {
  using Bits = std::vector<std::uint64_t>;
  EXPECT_EQ(reduce_integers(DType::u8, ReduceOp::sum, Bits{200, 100}), 44u);
  EXPECT_EQ(reduce_integers(DType::i32, ReduceOp::sum, Bits{0x7fffffffu, 1}), 0x80000000u);
  EXPECT_EQ(reduce_integers(DType::i32, ReduceOp::product, Bits{0xffffffffu, 3}), 0xfffffffdu);
  EXPECT_EQ(reduce_integers(DType::i32, ReduceOp::min, Bits{0xffffffffu, 1}), 0xffffffffu);
  EXPECT_EQ(reduce_integers(DType::u8, ReduceOp::max, Bits{0xff, 1}), 0xffu);
  EXPECT_EQ(reduce_integers(DType::i64, ReduceOp::max, Bits{~std::uint64_t{0}, 1}), 1u);
}

TEST(Reductions, BoundAllowsSequentialAdditionAndNotALostElement) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    constexpr int kRanks = 8;
    for (std::int64_t index = 0; index < 300; ++index) {
      std::vector<long double> given;
      for (int rank = 0; rank < kRanks; ++rank)
        given.push_back(number_of(dtype, rounding_bits(dtype, ReduceOp::sum, 9, rank, index)));
      const Bounded bounded = bounded_result(dtype, dtype, ReduceOp::sum, given);
      long double sum = given.front();
      for (int rank = 1; rank < kRanks; ++rank)
        sum = number_of(dtype, nearest_bits(dtype, sum + given[static_cast<std::size_t>(rank)]));
      ASSERT_LE(std::fabs(sum - bounded.expected), bounded.bound);
      // A contribution that is lost must show, but for bf16, whose eight bits make the bound that wide.
      if (dtype != DType::bf16) {
        ASSERT_GT(std::fabs(given.back()), bounded.bound);
      }
    }
  }
}

// Of a backend that rounds each addition to the format, whose bound is the widest.
TEST(Reductions, BoundOfFormatsOf8BitsPassesNoSumOfZeros) {
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2})
    for (int ranks = 2; ranks <= 8; ++ranks) {
      int told = 0;
      for (std::int64_t index = 0; index < 997; ++index) {
        std::vector<std::uint64_t> given;
        for (int rank = 0; rank < ranks; ++rank) given.push_back(rounding_bits(dtype, ReduceOp::sum, 1, rank, index));
        const Bounded right = float8_result(dtype, dtype, ReduceOp::sum, given);
        ASSERT_GE(right.bound, 0);
        if (std::fabs(right.expected) > right.bound) ++told;
      }
      EXPECT_GT(told, 0) << name_of(dtype) << ' ' << ranks;
    }
}

// In both parts' precision and in two orders. A part that is zero would have a sign that depends on the formula.
template <class Real>
void expect_exact_products(DType dtype) {
  constexpr std::size_t kElements = 30;
  for (int ranks = 1; ranks <= 12; ++ranks) {
    const ExactNumbers numbers(dtype, ReduceOp::product, ranks, 5);
    std::vector<std::array<Real, 2 * kElements>> given(static_cast<std::size_t>(ranks));
    std::array<Real, 2 * kElements> result{};
    for (int rank = 0; rank < ranks; ++rank)
      numbers.give(rank, 3, std::as_writable_bytes(std::span(given[static_cast<std::size_t>(rank)])));
    numbers.result(3, std::as_writable_bytes(std::span(result)));
    for (std::size_t i = 0; i < 2 * kElements; i += 2)
      for (const bool from_last : {false, true}) {
        std::complex<Real> product{1, 0};
        for (std::size_t k = 0; k < given.size(); ++k) {
          const auto& factor = given[from_last ? given.size() - 1 - k : k];
          product *= std::complex<Real>(factor[i], factor[i + 1]);
        }
        ASSERT_EQ(product.real(), result[i]) << ranks << ' ' << i;
        ASSERT_EQ(product.imag(), result[i + 1]) << ranks << ' ' << i;
        ASSERT_NE(product.real(), 0);
        ASSERT_NE(product.imag(), 0);
      }
  }
}

TEST(ExactNumbers, ThatAreComplexHaveExactProducts) {
  expect_exact_products<float>(DType::c64);
  expect_exact_products<double>(DType::c128);
}

TEST(ExactNumbers, ThatAreComplexHaveTheSumsOfTheirParts) {
  std::array<float, 40> parts{}, pairs{};
  ExactNumbers(DType::f32, ReduceOp::sum, 3, 2).result(6, std::as_writable_bytes(std::span(parts)));
  ExactNumbers(DType::c64, ReduceOp::sum, 3, 2).result(3, std::as_writable_bytes(std::span(pairs)));
  EXPECT_EQ(pairs, parts);
}

// Which tells zeros from averages, too, whatever the bound.
TEST(ExactNumbers, OfFormatsOf8BitsHaveResultsOtherThanZero) {
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
      for (int ranks = 2; ranks <= 8; ++ranks) {
        std::vector<std::byte> result(100);
        ExactNumbers(dtype, op, ranks, 1).result(0, result);
        EXPECT_TRUE(std::ranges::any_of(
            result, [&](const std::byte& bits) { return number_of(dtype, bits_at(dtype, &bits)) != 0; }))
            << name_of(dtype) << ' ' << ranks;
      }
}

// ---- exercises ----

TEST(Exercise, IsOfF32OrOfADtypeThatFitsEightBytes) {
  EXPECT_EQ(some_dtype({}), DType::f32);
  EXPECT_EQ(some_dtype({.dtypes = {DType::c128, DType::i64}}), DType::i64);
  EXPECT_EQ(some_dtype({.dtypes = {DType::c128}}), DType::c128);
}

TEST(Exercise, SaysNothingWhenAllIsRight) {
  for (const bool in_place : {false, true})
    comm::run_ranks(3, [in_place](comm::Communicator& world) {
      for (const Operation operation : exercised_operations())
        for (const std::int64_t elements : {0, 1, 100}) {
          const Exercise exercise(world, {.operation = operation,
                                          .root = 1,
                                          .elements = elements,
                                          .in_place = in_place,
                                          .in_offset = 1,
                                          .out_offset = 3});
          exercise.run(world);
          EXPECT_EQ(exercise.problem(), "");
        }
    });
}

TEST(Exercise, BeginsWithNoByteRight) {
  for (const Operation operation : exercised_operations())
    for (int rank = 0; rank < 3; ++rank) {
      const Exercise exercise(rank, 3, {.operation = operation, .dtype = DType::u8, .root = 1, .elements = 200});
      const bool defined_already = (operation == Operation::broadcast && rank == 1) ||
                                   ((operation == Operation::reduce || operation == Operation::gather) && rank != 1);
      if (defined_already)
        EXPECT_EQ(exercise.wrong_result(), "") << name_of(operation);
      else
        EXPECT_THAT(exercise.wrong_result(),
                    HasSubstr(exercise.output().size() == 200 ? "200 of 200 elements are wrong"
                                                              : "600 of 600 elements are wrong"))
            << name_of(operation);
    }
}

TEST(Exercise, TellsWhenARefusedCallMovedData) {
  for (const Operation operation : exercised_operations())
    for (int rank = 0; rank < 3; ++rank) {
      const Exercise exercise(rank, 3, {.operation = operation, .dtype = DType::u8, .root = 1, .elements = 4});
      EXPECT_EQ(exercise.touched(), "") << name_of(operation);
      static_cast<std::uint8_t*>(exercise.calls().back().out.data)[3] ^= 1;
      EXPECT_THAT(exercise.touched(), HasSubstr("data moved: element 3 of ")) << name_of(operation);
    }
}

TEST(Exercise, TellsAllThatIsWrongAtOnce) {
  const Exercise exercise(0, 2, {.operation = Operation::all_gather, .elements = 4});
  const comm::Call& call = exercise.calls().front();
  const_cast<float*>(static_cast<const float*>(call.in.data))[2] = 1e30f;
  static_cast<float*>(call.out.data)[8] = 1.0f;
  EXPECT_THAT(exercise.problem(), testing::AllOf(HasSubstr("8 of 8 elements are wrong"),
                                                 HasSubstr("the input was changed"), HasSubstr("outside the output")));
}

TEST(Exercise, NamesTheCallThatWentWrong) {
  const Exercise exercise(0, 3, {.operation = Operation::all_reduce, .elements = 17, .in_place = true});
  EXPECT_THAT(exercise.wrong_result(),
              StartsWith("rank 0 of 3: all_reduce(f32 x 17, sum), in place: element 0 of 17: expected"));
}

TEST(Exercise, TellsWhenItsInputIsChangedOrItsSurroundings) {
  const Exercise exercise(0, 2, {.operation = Operation::all_gather, .elements = 4});
  const comm::Call& call = exercise.calls().front();
  const_cast<float*>(static_cast<const float*>(call.in.data))[2] = 1e30f;
  EXPECT_THAT(exercise.changed_input(), HasSubstr("the input was changed: element 2 of 4"));
  static_cast<float*>(call.out.data)[8] = 1.0f;
  EXPECT_THAT(exercise.damage(), HasSubstr("outside the output: byte 0 after the end"));
}

}  // namespace
}  // namespace plumbline::conformance
