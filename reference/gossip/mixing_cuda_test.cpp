// The kernel on a GPU, held to the loops of the host.
#include "reference/device/gpu_test.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {
namespace {

using comm::DType;
using device::OnBothSides;

using MixingOnDevice = device::OnGpu;

TEST_F(MixingOnDevice, HasTheBitsOfTheHost) {
  const device::TestStream stream;
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const std::int64_t count : {1, 257, 100003})
      for (const bool lazy : {false, true})
        for (int arrivals = 0; arrivals <= kMostArrivals; ++arrivals) {
          const OnBothSides x(type, count, 1, 1);
          std::vector<OnBothSides> came;
          Arrivals tensor{.x = x.on_gpu(), .came = {}};
          for (int k = 0; k < arrivals; ++k) came.emplace_back(type, count, k == 2 ? 0 : 1, 2 + k);
          for (std::size_t k = 0; k < came.size(); ++k) tensor.came[k] = came[k].on_gpu();
          const Kept kept{1.0 / (arrivals + 2), lazy};
          mix_on_device(std::array{tensor}, kept, stream);
          for (std::size_t k = 1; k < came.size(); ++k) add(came[0].on_host(), came[k].on_host());
          if (!came.empty()) add(x.on_host(), came[0].on_host());
          if (lazy) scale(x.on_host(), kept.factor);
          ASSERT_TRUE(x.is_same()) << comm::name_of(type) << ", " << count << " elements, from " << arrivals;
        }
}

// Needs no GPU.
TEST(MixingOnDeviceArguments, AreLookedAtFirst) {
  float value = 0;
  const comm::Buffer of_host{&value, 1, DType::f32};
  EXPECT_THROW(mix_on_device(std::array{Arrivals{of_host, {of_host}}}, {}), InvalidArgument);
  EXPECT_NO_THROW(mix_on_device({}, {}));
}

}  // namespace
}  // namespace plumbline::gossip
