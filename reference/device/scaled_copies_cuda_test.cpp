// The kernel on a GPU, held to the loops of the host.
#include <array>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/device/gpu_test.hpp"
#include "reference/device/scaled_copies.hpp"

namespace plumbline::device {
namespace {

using comm::DType;

using CopiesOnDevice = OnGpu;

constexpr std::array kFloating{DType::f16, DType::bf16, DType::f32, DType::f64};

TEST_F(CopiesOnDevice, DivideAsBucketsDo) {
  const TestStream stream;
  for (const DType from_type : kFloating)
    for (const DType to_type : kFloating)
      for (const std::int64_t count : {1, 33, 100003})
        for (const std::size_t shift : {0, 1}) {
          const OnBothSides from(from_type, count, shift, 3), to(to_type, count, 0);
          copy_on_device(std::array{ScaledCopy{from.on_gpu(), to.on_gpu()}}, over(3), stream);
          bucketing::copy_divided(from.on_host(), to.on_host(), 3);
          ASSERT_TRUE(to.is_same()) << comm::name_of(from_type) << " to " << comm::name_of(to_type) << ", " << count;
        }
}

TEST_F(CopiesOnDevice, MoveBytesOfManyTensorsAtOnce) {
  const TestStream stream;
  std::vector<std::pair<OnBothSides, OnBothSides>> memory;  // more of them than a launch takes
  std::vector<ScaledCopy> copies;
  for (int i = 0; i < 2500; ++i) {
    const DType type = comm::kAllDTypes[static_cast<std::size_t>(i) % comm::kAllDTypes.size()];
    const auto& [from, to] = memory.emplace_back(OnBothSides(type, 1 + i % 70, static_cast<std::size_t>(i) % 3, i),
                                                 OnBothSides(type, 1 + i % 70, 0));
    copies.push_back({from.on_gpu(), to.on_gpu()});
  }
  copy_on_device(copies, over(1), stream);
  for (const auto& [from, to] : memory) {
    std::memcpy(to.on_host().data, from.on_host().data, to.on_host().bytes());
    ASSERT_TRUE(to.is_same()) << comm::name_of(to.on_host().dtype) << ", " << to.on_host().count << " elements";
  }
}

// Needs no GPU.
TEST(CopiesOnDeviceArguments, AreLookedAtFirst) {
  float value = 0;
  const comm::Buffer of_host{&value, 1, DType::f32};
  EXPECT_THROW(copy_on_device(std::array{ScaledCopy{of_host, of_host}}, over(2)), InvalidArgument);
  EXPECT_NO_THROW(copy_on_device({}, over(2)));
}

}  // namespace
}  // namespace plumbline::device
