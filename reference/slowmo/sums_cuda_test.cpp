// SumWork on a GPU, put into a stream through the runtime, held to the loops of the host.
#include "reference/device/gpu_test.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/device/scaled_copies.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/kernels_cuda.hpp"

namespace plumbline::slowmo {
namespace {

using comm::DType;
using device::OnBothSides;

using ListsOnDevice = device::OnGpu;

// Every function on lists, through the kernels' names.
TEST_F(ListsOnDevice, HaveTheBitsOfTheHost) {
  const std::shared_ptr<device::Runtime> runtime =
      device::make_cuda({device::copies_kernel(), gossip::mixing_kernel(), sums_kernel()});
  const device::TestStream stream;
  const device::MemorySpace gpu({runtime, static_cast<cudaStream_t>(stream)}, 0), host;
  for (const DType from_type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const DType to_type : {DType::f16, DType::bf16, DType::f32, DType::f64})
      for (const std::int64_t count : {1, 257, 100003}) {
        const OnBothSides from(from_type, count, 1, 1), to(to_type, count, 1, 2);
        const std::array there{TensorPair{from.on_gpu(), to.on_gpu()}}, here{TensorPair{from.on_host(), to.on_host()}};
        const std::array x_there{to.on_gpu()}, x_here{to.on_host()};
        const auto both = [&](const auto& change) {
          change(gpu, there, x_there);
          change(host, here, x_here);
        };
        both([](const MemorySpace& place, const auto& pairs, const auto&) { add(place, pairs); });
        both([](const MemorySpace& place, const auto&, const auto& x) { multiply(place, x, 1.0 / 3); });
        both([](const MemorySpace& place, const auto& pairs, const auto&) { subtract(place, pairs); });
        both([](const MemorySpace& place, const auto&, const auto& x) { divide(place, x, 3); });
        ASSERT_TRUE(to.is_same()) << comm::name_of(from_type) << " and " << comm::name_of(to_type) << ", " << count
                                  << " elements";
        both([](const MemorySpace& place, const auto& pairs, const auto&) { copy(place, pairs); });
        ASSERT_TRUE(to.is_same()) << comm::name_of(from_type) << " to " << comm::name_of(to_type) << ", " << count
                                  << " elements";
      }
}

TEST_F(ListsOnDevice, SayWhichKernelIsMissing) {
  const std::shared_ptr<device::Runtime> runtime = device::make_cuda();
  const device::MemorySpace gpu({runtime}, 0);
  const OnBothSides from(DType::f32, 10, 0), to(DType::f32, 10, 0);
  EXPECT_THROW(add(gpu, std::array{TensorPair{from.on_gpu(), to.on_gpu()}}), Unsupported);
}

}  // namespace
}  // namespace plumbline::slowmo
