// The kernel on a GPU, held to slow_step(): bits, many tensors in one launch, another stream.
#include <array>

#include "reference/device/gpu_test.hpp"
#include "reference/slowmo/kernels_cuda.hpp"

namespace plumbline::slowmo {
namespace {

using comm::DType;
using device::OnBothSides;

using SlowStepOnDevice = device::OnGpu;

TEST_F(SlowStepOnDevice, HasTheBitsOfTheHost) {
  const device::TestStream stream;
  for (const SlowRule& rule : {SlowRule{slowmo_rule(0.5, 1), 0.1}, SlowRule{diloco_rule(), 0.1},
                               SlowRule{slowmo_rule(0.5, 0.7), 0.03, gossip::Convention::fairscale}})
    for (const DType type : {DType::f32, DType::f64}) {
      std::vector<std::array<OnBothSides, 3>> tensors;  // more of them than a launch takes
      std::vector<SlowTensor> work;
      for (int i = 0; i < 1000; ++i) {
        const std::int64_t count = i % 100 == 0 ? 40003 + i : 1 + i % 70;
        const std::size_t shift = static_cast<std::size_t>(i) % 2;
        const auto& [x, old, momentum] =
            tensors.emplace_back(std::array{OnBothSides(type, count, shift, i), OnBothSides(type, count, shift, i + 1),
                                            OnBothSides(type, count, shift, i + 2)});
        work.push_back({x.on_gpu(), old.on_gpu(), momentum.on_gpu()});
      }
      slow_step_on_device(rule, work, stream);
      for (const auto& [x, old, momentum] : tensors) {
        slow_step(rule, x.on_host(), old.on_host(), momentum.on_host());
        ASSERT_TRUE(x.is_same() && old.is_same() && momentum.is_same())
            << comm::name_of(type) << ", " << x.on_host().count << " elements";
      }
    }
}

// Needs no GPU.
TEST(SlowStepOnDeviceArguments, AreLookedAtFirst) {
  float value = 0;
  const comm::Buffer of_host{&value, 1, DType::f32};
  const SlowRule rule{slowmo_rule(0.5, 1), 0.1};
  EXPECT_THROW(slow_step_on_device(rule, std::array{SlowTensor{of_host, of_host, of_host}}), InvalidArgument);
  EXPECT_NO_THROW(slow_step_on_device(rule, {}));
}

}  // namespace
}  // namespace plumbline::slowmo
