// The kernel on a GPU, held to unscale(): bits, every place of what is not finite, many gradients in one launch, another stream.
// Skipped, with the reason, where there is no GPU.
#include "reference/scaler/unscale_cuda.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/half.hpp"

namespace plumbline::scaler {
namespace {

using comm::Buffer;
using comm::DType;

constexpr comm::Device kGpu{comm::Device::Kind::cuda, 0};

// Memory of the device, and of the host beside it.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : host(bytes) {
    if (cudaMalloc(&data, bytes + 16) != cudaSuccess) throw RuntimeFailure("cudaMalloc");
  }
  ~DeviceMemory() { (void)cudaFree(data); }
  DeviceMemory(DeviceMemory&& other) noexcept : host(std::move(other.host)), data(std::exchange(other.data, nullptr)) {}
  void upload() const { (void)cudaMemcpy(data, host.data(), host.size(), cudaMemcpyHostToDevice); }
  void download() { (void)cudaMemcpy(host.data(), data, host.size(), cudaMemcpyDeviceToHost); }

  std::vector<std::byte> host;
  void* data = nullptr;
};

class UnscaleOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) GTEST_SKIP() << "no GPU can be used: " << cudaGetErrorString(status);
    if (devices == 0) GTEST_SKIP() << "there is no GPU";
  }
  // Unscales on the device; whether it found something.
  static bool run(std::span<const Unscaling> work, float inverse, cudaStream_t stream = nullptr) {
    DeviceMemory flag(sizeof(float));
    flag.upload();  // zero
    (void)cudaDeviceSynchronize();
    unscale_on_device(work, inverse, static_cast<float*>(flag.data), stream);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    flag.download();
    float found = 0;
    std::memcpy(&found, flag.host.data(), sizeof found);
    return found != 0;
  }
};

void fill(std::vector<std::byte>& bytes, DType dtype, int seed) {
  for (std::size_t i = 0; i < bytes.size() / comm::size_of(dtype); ++i) {
    const float value = static_cast<float>((static_cast<int>(i) * 7 + seed) % 23 - 11) * 0.37F;
    const auto put = [&](auto typed) { std::memcpy(bytes.data() + i * sizeof typed, &typed, sizeof typed); };
    if (dtype == DType::f16) put(comm::to_float16(value));
    if (dtype == DType::bf16) put(comm::to_bfloat16(value));
    if (dtype == DType::f32) put(value);
    if (dtype == DType::f64) put(static_cast<double>(value));
  }
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
      for (const std::int64_t shift : {0, 1}) {
        const auto size = static_cast<std::size_t>(count + shift);
        DeviceMemory from(size * comm::size_of(types.from)), to(size * comm::size_of(types.to));
        fill(from.host, types.from, 3);
        from.upload();
        std::vector<std::byte> expected(to.host.size());
        const auto shifted = [shift](auto* data, DType dtype) {
          return static_cast<std::byte*>(static_cast<void*>(data)) +
                 static_cast<std::size_t>(shift) * comm::size_of(dtype);
        };
        to.upload();
        const std::array on_host{Unscaling{{shifted(from.host.data(), types.from), count, types.from},
                                           {shifted(expected.data(), types.to), count, types.to}}};
        const std::array on_device{Unscaling{{shifted(from.data, types.from), count, types.from, kGpu},
                                             {shifted(to.data, types.to), count, types.to, kGpu}}};
        ASSERT_EQ(run(on_device, 0.3F), unscale(on_host, 0.3F));
        to.download();
        ASSERT_EQ(to.host, expected) << comm::name_of(types.from) << " to " << comm::name_of(types.to) << ", " << count;
      }
}

TEST_F(UnscaleOnDevice, FindsInAnyOfManyOnAnyStream) {
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  std::vector<DeviceMemory> memory;
  std::vector<Unscaling> work;
  for (int i = 0; i < 2500; ++i) {
    DeviceMemory& one = memory.emplace_back(static_cast<std::size_t>(4 * (1 + i % 70)));
    one.upload();
    const Buffer buffer{one.data, 1 + i % 70, DType::f32, kGpu};
    work.push_back({buffer, buffer});
  }
  EXPECT_FALSE(run(work, 2, stream));
  for (const std::size_t bad : {std::size_t{0}, std::size_t{999}, std::size_t{1000}, std::size_t{2499}})
    for (const float value : {INFINITY, NAN}) {
      std::memcpy(memory[bad].host.data() + memory[bad].host.size() - 4, &value, 4);
      memory[bad].upload();
      EXPECT_TRUE(run(work, 2, stream)) << bad;
      std::memset(memory[bad].host.data(), 0, memory[bad].host.size());
      memory[bad].upload();
    }
  EXPECT_FALSE(run(work, 2, stream));
  (void)cudaStreamDestroy(stream);
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
