// The kernel on a GPU, held to unscale(): bits, every place of what is not finite, many gradients in one launch,
// another stream.
#include "reference/scaler/unscale_cuda.hpp"

#include <array>
#include <cmath>

#include "reference/device/gpu_test.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/scaler/unscale_table.hpp"

namespace plumbline::scaler {
namespace {

using comm::Buffer;
using comm::DType;
using device::kGpu;
using device::OnBothSides;

using UnscaleOnDevice = device::OnGpu;

// Unscales on the device; whether it found something.
bool run(std::span<const Unscaling> work, float inverse, cudaStream_t stream = nullptr) {
  OnBothSides flag(DType::f32, 1, 0);
  flag.set(0, 0);
  flag.upload();
  unscale_on_device(work, inverse, static_cast<float*>(flag.on_gpu().data), stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  return !flag.is_same();
}

struct Types {
  DType from, to;
};
constexpr std::array kTypes{Types{DType::f16, DType::f32}, Types{DType::bf16, DType::f32},
                            Types{DType::f16, DType::f16}, Types{DType::bf16, DType::bf16},
                            Types{DType::f32, DType::f32}, Types{DType::f64, DType::f64}};

TEST_F(UnscaleOnDevice, HasTheBitsOfTheHost) {
  for (const Types& types : kTypes)
    for (const std::int64_t count : {1, 33, 1000, 100003})
      for (const std::size_t shift : {0, 1}) {
        const OnBothSides from(types.from, count, shift, 3), to(types.to, count, shift);
        const std::array on_host{Unscaling{from.on_host(), to.on_host()}};
        const std::array on_gpu{Unscaling{from.on_gpu(), to.on_gpu()}};
        ASSERT_EQ(run(on_gpu, 0.3F), unscale(on_host, 0.3F));
        ASSERT_TRUE(to.is_same()) << comm::name_of(types.from) << " to " << comm::name_of(types.to) << ", " << count;
      }
}

TEST_F(UnscaleOnDevice, FindsInAnyOfManyOnAnyStream) {
  const device::TestStream stream;
  std::vector<OnBothSides> memory;
  std::vector<Unscaling> work;
  for (int i = 0; i < 2500; ++i) {
    const OnBothSides& one = memory.emplace_back(DType::f32, 1 + i % 70, 0);
    work.push_back({one.on_gpu(), one.on_gpu()});
  }
  EXPECT_FALSE(run(work, 2, stream));
  for (const std::size_t bad : {std::size_t{0}, std::size_t{999}, std::size_t{1000}, std::size_t{2499}})
    for (const float value : {INFINITY, NAN}) {
      const std::int64_t last = memory[bad].on_host().count - 1;
      memory[bad].set(last, value);
      memory[bad].upload();
      EXPECT_TRUE(run(work, 2, stream)) << bad;
      memory[bad].set(last, 0);
      memory[bad].upload();
    }
  EXPECT_FALSE(run(work, 2, stream));
}

TEST_F(UnscaleOnDevice, IsLaunchedByTheRuntime) {
  const std::shared_ptr<device::Runtime> runtime = device::make_cuda({unscale_kernel()});
  const device::MemorySpace place({runtime}, device::kGpu.index);
  OnBothSides flag(DType::f32, 1, 0), values(DType::f32, 1000, 1);
  flag.set(0, 0);
  flag.upload();
  const std::array on_host{Unscaling{values.on_host(), values.on_host()}};
  const std::array on_gpu{Unscaling{values.on_gpu(), values.on_gpu()}};
  place.launch(unscale_work(on_gpu, 0.3F, static_cast<float*>(flag.on_gpu().data), device::kGpu));
  EXPECT_FALSE(unscale(on_host, 0.3F));
  EXPECT_TRUE(values.is_same());
  EXPECT_TRUE(flag.is_same());
}

TEST_F(UnscaleOnDevice, RefusesADeviceThatIsNotThere) {
  float value = 0;
  const Buffer nowhere{&value, 1, DType::f32, {comm::Device::Kind::cuda, 1000}};
  EXPECT_THROW(unscale_on_device(std::array{Unscaling{nowhere, nowhere}}, 1, &value), RuntimeFailure);
}

// Needs no GPU.
TEST(UnscaleOnDeviceArguments, AreLookedAtFirst) {
  float value = 0;
  const Buffer of_host{&value, 1, DType::f32};
  EXPECT_THROW(unscale_on_device(std::array{Unscaling{of_host, of_host}}, 1, &value), InvalidArgument);
  EXPECT_NO_THROW(unscale_on_device({}, 1, &value));
}

}  // namespace
}  // namespace plumbline::scaler
