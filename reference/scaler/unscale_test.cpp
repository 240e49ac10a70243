// Every instruction set, type, length and place of what is not finite gives the same products and finds the same.
#include "reference/scaler/unscale.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/scaler/detail/unscale_kernels.hpp"
#include "reference/scaler/found_inf.hpp"

namespace plumbline::scaler {
namespace {

using comm::DType;

template <class T>
T from_float(float value) {
  if constexpr (std::is_same_v<T, comm::Float16>)
    return comm::to_float16(value);
  else if constexpr (std::is_same_v<T, comm::BFloat16>)
    return comm::to_bfloat16(value);
  else
    return static_cast<T>(value);
}
template <class T>
auto widened(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value;
  else
    return comm::to_float(value);
}

// What the loop makes of each value, one at a time and by plain arithmetic.
template <class From, class To>
void expect_products(UnscaleLoop loop, float inverse, const char* name) {
  for (const std::int64_t count : {0, 1, 7, 8, 9, 31, 64, 100}) {
    std::vector<From> from(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < from.size(); ++i)
      from[i] = from_float<From>((static_cast<float>(i) - 20) * 0.37F * std::exp2(static_cast<float>(i % 20) - 15));
    std::vector<To> to(from.size());
    EXPECT_FALSE(loop(from.data(), to.data(), count, inverse)) << name << " of " << count;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const To expected = from_float<To>(static_cast<float>(widened(from[i]) * inverse));
      if constexpr (std::is_same_v<To, double>)
        EXPECT_EQ(to[i], from[i] * static_cast<double>(inverse)) << name << " " << i;
      else
        EXPECT_EQ(std::memcmp(&to[i], &expected, sizeof expected), 0) << name << " " << i << " of " << count;
    }
    for (std::size_t place = 0; place < from.size(); ++place)
      for (const float odd : {INFINITY, -INFINITY, NAN}) {
        std::vector<From> spoiled = from;
        spoiled[place] = from_float<From>(odd);
        EXPECT_TRUE(loop(spoiled.data(), to.data(), count, inverse)) << name << ": " << odd << " at " << place;
      }
  }
}

std::size_t of(UnscaleTypes types) { return static_cast<std::size_t>(types); }

TEST(Unscale, IsTheSameWithEveryInstructionSet) {
  for (const UnscaleKernels* kernels : unscale_kernels())
    for (const float inverse : {1.0F, 1.0F / 3, 0x1p-20F, 3.5F}) {
      for (const UnscaleLoops& loops : {kernels->loops, kernels->around_cache}) {
        expect_products<comm::Float16, float>(loops[of(UnscaleTypes::f16_to_f32)], inverse, kernels->name);
        expect_products<comm::BFloat16, float>(loops[of(UnscaleTypes::bf16_to_f32)], inverse, kernels->name);
        expect_products<comm::Float16, comm::Float16>(loops[of(UnscaleTypes::f16)], inverse, kernels->name);
        expect_products<comm::BFloat16, comm::BFloat16>(loops[of(UnscaleTypes::bf16)], inverse, kernels->name);
        expect_products<float, float>(loops[of(UnscaleTypes::f32)], inverse, kernels->name);
        expect_products<double, double>(loops[of(UnscaleTypes::f64)], inverse, kernels->name);
      }
    }
}

// Whatever the alignment of both sides, nothing beside the result is written.
TEST(Unscale, KeepsToItsPlaceAroundTheCache) {
  for (const UnscaleKernels* kernels : unscale_kernels()) {
    const UnscaleLoop loop = kernels->around_cache[of(UnscaleTypes::bf16_to_f32)];
    for (std::int64_t shift = 0; shift < 17; ++shift) {
      std::vector<comm::BFloat16> from(80, comm::to_bfloat16(3));
      std::vector<float> to(80, -1);
      EXPECT_FALSE(loop(from.data() + shift % 3, to.data() + shift, 40, 0.5F));
      for (std::int64_t i = 0; i < 80; ++i)
        ASSERT_EQ(to[static_cast<std::size_t>(i)], i >= shift && i < shift + 40 ? 1.5F : -1) << shift << " " << i;
    }
  }
}

// Enough for the loops that write around the cache.
TEST(Unscale, FindsTheLastOfManyLargeGradients) {
  constexpr std::size_t count = 3, elements = (std::size_t{12} << 20) / sizeof(float) + 5;
  std::vector<std::vector<float>> from(count, std::vector<float>(elements, 2)), to(count, std::vector<float>(elements));
  std::vector<Unscaling> work;
  for (std::size_t i = 0; i < count; ++i)
    work.push_back({{from[i].data(), static_cast<std::int64_t>(elements), DType::f32},
                    {to[i].data(), static_cast<std::int64_t>(elements), DType::f32}});
  EXPECT_FALSE(unscale(work, 0.25F));
  for (const auto& values : to) EXPECT_TRUE(std::ranges::all_of(values, [](float value) { return value == 0.5F; }));
  from[2][elements - 20] = INFINITY;
  EXPECT_TRUE(unscale(work, 0.25F));
}

TEST(Unscale, LooksAtWhatItReads) {
  std::array<float, 2> values{std::numeric_limits<float>::max(), 1};
  const comm::Buffer buffer{values.data(), 2, DType::f32};
  EXPECT_FALSE(unscale(std::array{Unscaling{buffer, buffer}}, 4)) << "the product is infinite";
  EXPECT_TRUE(std::isinf(values[0]));
  EXPECT_TRUE(unscale(std::array{Unscaling{buffer, buffer}}, 4));
}

TEST(Unscale, WritesNothingOfWhatItRefuses) {
  std::array<float, 2> values{1, 2};
  std::array<std::int32_t, 2> numbers{1, 2};
  const comm::Buffer fine{values.data(), 2, DType::f32}, integers{numbers.data(), 2, DType::i32};
  EXPECT_THROW((void)unscale(std::array{Unscaling{fine, fine}, Unscaling{integers, integers}}, 2), Unsupported);
  const comm::Buffer shorter{values.data(), 1, DType::f32};
  EXPECT_THROW((void)unscale(std::array{Unscaling{fine, fine}, Unscaling{fine, shorter}}, 2), InvalidArgument);
  const comm::Buffer elsewhere{values.data(), 2, DType::f32, {comm::Device::Kind::cuda}};
  EXPECT_THROW((void)unscale(std::array{Unscaling{elsewhere, elsewhere}}, 2), Unsupported);
  EXPECT_EQ(values[0], 1);
}

// ---- who skips ----

std::vector<int> ranks_of(const std::vector<bool>& flags) {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i]) ranks.push_back(static_cast<int>(i));
  return ranks;
}

TEST(Skipping, FollowsTheDecidingGroup) {
  const ModelGroups groups = model_groups(2, 3, 2);
  std::vector<bool> found(12);
  found[3] = true;  // replica 0, stage 1, column 1
  const auto skips = [&](Deciding deciding) { return ranks_of(skipping(deciding, groups, found)); };
  using testing::ElementsAre;
  EXPECT_THAT(skips(Deciding::local), ElementsAre(3));
  EXPECT_THAT(skips(Deciding::tensor), ElementsAre(2, 3));
  EXPECT_THAT(skips(Deciding::tensor_then_pipeline), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(skips(Deciding::model), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(skips(Deciding::model_and_data), testing::SizeIs(12));
  EXPECT_THAT(ranks_of(after_reduction(groups.data, found)), ElementsAre(3, 9));
  EXPECT_THROW((void)model_groups(0, 1, 1), InvalidArgument);
  EXPECT_THROW((void)model_groups(1 << 12, 1 << 12, 1 << 12), InvalidArgument);
  EXPECT_THROW((void)spread({{0, 12}}, found), OutOfRange);
}

}  // namespace
}  // namespace plumbline::scaler
