// The kernel's work, thread by thread on this processor: every element of every gradient once, whatever its alignment
// and length, with the bits of unscale().
#include "reference/scaler/unscale_table.hpp"

#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/device/tensor_samples_test.hpp"

namespace plumbline::scaler {
namespace {

using comm::DType;
using device::ShiftedTensor;

bool run_on_host(std::span<const Unscaling> gradients, float inverse) {
  float found = 0;
  device::run_on_host(unscale_work(gradients, inverse, &found, {}));
  return found != 0;
}

struct Types {
  DType from, to;
};
constexpr std::array kTypes{Types{DType::f16, DType::f32}, Types{DType::bf16, DType::f32},
                            Types{DType::f16, DType::f16}, Types{DType::bf16, DType::bf16},
                            Types{DType::f32, DType::f32}, Types{DType::f64, DType::f64}};

TEST(UnscaleChunks, HaveTheBitsOfThePlainForm) {
  for (const Types& types : kTypes)
    for (const std::int64_t count :
         {std::int64_t{1}, std::int64_t{7}, std::int64_t{33}, std::int64_t{1000}, 2 * device::kChunk + 5})
      for (const std::size_t from_shift : {0, 1, 3})
        for (const std::size_t to_shift : {0, 1, 2}) {
          const ShiftedTensor from(types.from, count, from_shift, static_cast<int>(count)),
              to(types.to, count, to_shift), expected(to);
          const std::array here{Unscaling{from.buffer(), to.buffer()}},
              plain{Unscaling{from.buffer(), expected.buffer()}};
          ASSERT_EQ(run_on_host(here, 0.3F), unscale(plain, 0.3F));
          ASSERT_TRUE(to == expected) << comm::name_of(types.from) << " to " << comm::name_of(types.to) << ", " << count
                                      << " elements, shifted by " << from_shift << " and " << to_shift;
        }
}

TEST(UnscaleChunks, FindInEveryPlace) {
  for (const Types& types : kTypes)
    for (std::int64_t place = 0; place < 40; ++place)
      for (const float bad : {INFINITY, -INFINITY, NAN}) {
        ShiftedTensor from(types.from, 40, 1);
        const ShiftedTensor to(types.to, 40, 1);
        const std::array work{Unscaling{from.buffer(), to.buffer()}};
        ASSERT_FALSE(run_on_host(work, 3e38F)) << "what the product makes infinite is not found";
        from.set(place, bad);
        ASSERT_TRUE(run_on_host(work, 0.5F)) << comm::name_of(types.from) << " " << place;
      }
}

TEST(UnscaleTables, HoldEveryChunkOfEveryGradient) {
  // Lengths around a chunk's, and some without elements: more gradients than a table holds.
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < 2100; ++i)
    values.emplace_back(i % 5 == 3     ? 0
                        : i % 300 == 0 ? static_cast<std::size_t>(device::kChunk) + i % 2
                                       : 1 + i % 3,
                        4.0F);
  std::vector<Unscaling> work;
  for (auto& list : values) {
    const comm::Buffer buffer{list.data(), static_cast<std::int64_t>(list.size()), DType::f32};
    work.push_back({buffer, buffer});
  }
  EXPECT_THAT(unscale_work(work, 0.25F, nullptr, {}), testing::SizeIs(2));
  EXPECT_FALSE(run_on_host(work, 0.25F));
  for (const auto& list : values) EXPECT_THAT(list, testing::Each(1.0F)) << "each element once";
  EXPECT_THAT(unscale_work({}, 1, nullptr, {}), testing::IsEmpty());
}

// As a runtime launches it, which finds it by its name.
TEST(UnscaleTables, AreWorkForARuntime) {
  const auto runtime = device::make_emulated({.devices = 2});
  const device::OwnStream stream(runtime, 1);
  const device::MemorySpace place({runtime, stream.get()}, 1);
  constexpr std::size_t count = 40;
  const device::Memory memory(runtime, 1, (count + 1) * sizeof(float));
  std::array<float, count + 1> values{};  // the last one is the flag
  values.fill(8);
  for (const float bad : {8.0F, INFINITY}) {
    values[count - 1] = bad;
    values[count] = 0;
    place.copy(memory.data(), values.data(), memory.bytes());
    const comm::Buffer gradient{memory.data(), count, DType::f32, place.device()};
    auto* const found = reinterpret_cast<float*>(memory.data()) + count;
    place.launch(unscale_work(std::array{Unscaling{gradient, gradient}}, 0.25F, found, place.device()));
    std::array<float, count + 1> unscaled{};
    place.copy(unscaled.data(), memory.data(), memory.bytes());
    place.synchronize();
    EXPECT_EQ(unscaled[0], 2);
    EXPECT_EQ(unscaled[count - 1], bad / 4);
    EXPECT_EQ(unscaled[count], bad == INFINITY ? 1 : 0);
  }
}

TEST(UnscaleTables, HaveTheirFlagWhereTheKernelMayWrite) {
  const auto runtime = device::make_emulated({.devices = 2});
  const device::MemorySpace place({runtime}, 0);
  const device::Memory memory(runtime, 0, sizeof(float)), elsewhere(runtime, 1, sizeof(float));
  const comm::Buffer gradient{memory.data(), 1, DType::f32, place.device()};
  float on_host = 0;
  for (float* const found : {&on_host, reinterpret_cast<float*>(elsewhere.data())})
    EXPECT_THROW(place.launch(unscale_work(std::array{Unscaling{gradient, gradient}}, 1, found, place.device())),
                 InvalidArgument);
}

TEST(UnscaleTables, RefuseWhatDoesNotGoTogether) {
  std::array<float, 2> values{1, 2};
  const comm::Buffer two{values.data(), 2, DType::f32}, one{values.data(), 1, DType::f32};
  const comm::Buffer elsewhere{values.data(), 2, DType::f32, {comm::Device::Kind::cuda, 1}};
  const comm::Buffer numbers{values.data(), 2, DType::i32};
  EXPECT_THROW((void)unscale_work(std::array{Unscaling{two, one}}, 1, nullptr, {}), InvalidArgument);
  EXPECT_THROW((void)unscale_work(std::array{Unscaling{two, two}, Unscaling{two, elsewhere}}, 1, nullptr, {}),
               InvalidArgument);
  EXPECT_THROW((void)unscale_work(std::array{Unscaling{numbers, numbers}}, 1, nullptr, {}), Unsupported);
  EXPECT_THROW((void)unscale_work(std::array{Unscaling{two, numbers}}, 1, nullptr, {}), Unsupported);
}

}  // namespace
}  // namespace plumbline::scaler
