// LocalSGD, stochastic gradient push and slow steps of ranks that share a GPU have the bits of the host.
#include <optional>

#include "reference/comm/local.hpp"
#include "reference/device/gpu_test.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/kernels_cuda.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::DType;
using device::OnBothSides;

// What the ranks have after some steps, in which each rank's parameters move as it likes.
std::vector<std::vector<std::byte>> trained(const Options& options, const std::shared_ptr<device::Runtime>& runtime) {
  constexpr int ranks = 3, steps = 7;
  std::vector<std::vector<std::byte>> results(ranks);
  comm::LocalOptions local;
  if (runtime != nullptr) local.device_calls = device::make_calls(runtime);
  comm::run_ranks(
      ranks,
      [&](comm::Communicator& world) {
        const device::ShiftedTensor values(DType::f32, 1001, 1, world.rank());
        std::optional<device::OwnStream> stream;
        std::optional<device::Memory> memory;
        Buffer x = values.buffer();
        Options own = options;
        if (runtime != nullptr) {
          stream.emplace(runtime, 0);
          memory.emplace(runtime, 0, x.bytes());
          own.device = {runtime, stream->get()};
          x = {memory->data(), x.count, x.dtype, device::kGpu};
        }
        const device::MemorySpace place(own.device, 0);
        place.copy(x.data, values.buffer().data, x.bytes());
        SlowMo slowmo(world, {.parameters = {x}}, [&] { return std::vector<ParameterGroup>{{{x}, 0.1}}; }, own);
        for (int step = 0; step < steps; ++step) {
          slowmo.before_forward();
          slowmo.after_backward({});
          multiply(place, std::array{x}, 0.9 + 0.01 * world.rank());
          slowmo.step();
        }
        auto& result = results[static_cast<std::size_t>(world.rank())];
        result.resize(x.bytes());
        place.copy(result.data(), x.data, x.bytes());
        place.synchronize();
        world.barrier();
      },
      local);
  return results;
}

using SlowMoOnDevice = device::OnGpu;

TEST_F(SlowMoOnDevice, HasTheBitsOfTheHost) {
  const std::shared_ptr<device::Runtime> runtime = device::make_cuda(kernels());
  const gossip::Graph star({.kind = gossip::GraphKind::star, .nodes = 3});
  for (const bool efficient : {false, true})
    for (const Options& options :
         {Options{.slow_frequency = 3, .memory_efficient = efficient, .local_sgd_frequency = 2},
          Options{.base = BaseAlgorithm::sgp, .slow_frequency = 3, .memory_efficient = efficient, .graph = star},
          Options{
              .base = BaseAlgorithm::sgp, .slow_momentum = 0, .graph = star, .overlap = true, .accepts_stale = true}})
      EXPECT_EQ(trained(options, runtime), trained(options, nullptr)) << name_of(options.base) << ", " << efficient;
}

TEST_F(SlowMoOnDevice, HasTheBitsOfTheHostByWayOfIt) {
  const std::shared_ptr<device::Runtime> runtime = device::make_cuda(kernels());
  Options options{.slow_frequency = 3, .local_sgd_frequency = 2};
  const auto right = trained(options, nullptr);
  options.communication_device = comm::Device{};
  EXPECT_EQ(trained(options, runtime), right);
}

}  // namespace
}  // namespace plumbline::slowmo
