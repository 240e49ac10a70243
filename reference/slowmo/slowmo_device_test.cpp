// How often steps on a device let the host wait: never, once their memory is there; and what is left where there is
// none. What steps come to is the conformance checks'.
#include <array>
#include <atomic>
#include <chrono>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/comm/ring_sum.hpp"
#include "reference/device/lost_device_test.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/slowmo/averaging.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::DType;
using device::OwnStream;

/// Counts what may let the host wait for a device (reference/device/runtime.hpp).
class CountsWaits final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void synchronize(int device, device::Stream stream) override {
    ++waits;
    RuntimeDecorator::synchronize(device, stream);
  }
  void release(int device, void* memory) noexcept override {
    ++waits;
    RuntimeDecorator::release(device, memory);
  }
  void copy(int device, void* to, const void* from, std::size_t bytes, device::Stream stream) override {
    if (!holder_of(to) || !holder_of(from)) ++waits;
    RuntimeDecorator::copy(device, to, from, bytes, stream);
  }
  void* allocate(int device, std::size_t bytes) override {
    ++allocations;
    return RuntimeDecorator::allocate(device, bytes);
  }
  std::atomic<int> waits{0}, allocations{0};
};

// Waits and allocations of all ranks together in some steps, after some that are not counted.
std::pair<int, int> counted(const Options& options, DType type) {
  constexpr int ranks = 4, warm = 7, steps = 12;
  const auto runtime = std::make_shared<CountsWaits>(device::make_emulated());
  int waits = -1, allocations = -1;
  comm::run_ranks(
      ranks,
      [&](comm::Communicator& world) {
        const int index = world.rank() % runtime->count();
        const comm::Device here{comm::Device::Kind::emulated, static_cast<std::int16_t>(index)};
        const OwnStream stream(runtime, index);
        const device::Memory memory(runtime, index, 4096);
        const auto tensor = [&](std::size_t begin, DType dtype) {
          return Buffer{memory.data() + begin, 100, dtype, here};
        };
        const std::vector<Buffer> parameters{tensor(0, type), tensor(512, type)};
        const std::vector<Buffer> master_weights{tensor(1024, DType::f32), tensor(1536, DType::f32)};
        const std::vector<Buffer> gradients{tensor(2048, type), tensor(2560, type)};
        runtime->fill(index, memory.data(), std::byte{0}, 4096, stream.get());
        Tensors tensors{.parameters = parameters, .buffers = {tensor(3072, DType::f32)}};
        const bool has_master_weights = comm::size_of(type) == 2;
        if (has_master_weights) tensors.master_weights = master_weights;
        Options here_options = options;
        here_options.device = {runtime, stream.get()};
        SlowMo slowmo(
            world, tensors,
            [&] { return std::vector<ParameterGroup>{{has_master_weights ? master_weights : parameters, 0.1}}; },
            here_options);
        for (int step = 0; step < warm + steps; ++step) {
          if (step == warm) {
            world.barrier();
            if (world.rank() == 0) runtime->waits = runtime->allocations = 0;
            world.barrier();
          }
          slowmo.before_forward();
          slowmo.after_backward(gradients);
          slowmo.step();
        }
        world.barrier();
        if (world.rank() == 0) waits = runtime->waits, allocations = runtime->allocations;
        world.barrier();
      },
      {.device_calls = device::make_calls(runtime)});
  return {waits, allocations};
}

TEST(StepsOnADevice, NeverLetTheHostWait) {
  const gossip::Graph star({.kind = gossip::GraphKind::star, .nodes = 4});
  Options local_sgd{.slow_frequency = 3, .local_sgd_frequency = 2}, whole = local_sgd, plain = local_sgd;
  whole.memory_efficient = false;
  plain.slow_momentum = 0;
  Options in_nodes = local_sgd;
  in_nodes.ranks_per_node = 2;
  const Options sgp{.base = BaseAlgorithm::sgp, .slow_momentum = 0},
      irregular{.base = BaseAlgorithm::sgp, .slow_frequency = 3, .memory_efficient = false, .graph = star},
      overlap{.base = BaseAlgorithm::sgp, .slow_momentum = 0, .graph = star, .overlap = true, .accepts_stale = true};
  for (const Options& options : {local_sgd, whole, plain, in_nodes, sgp, irregular, overlap})
    for (const DType type : {DType::f32, DType::f16}) {
      const auto [waits, allocations] = counted(options, type);
      EXPECT_EQ(waits, 0) << name_of(options.base) << ", " << comm::name_of(type) << ", slow momentum "
                          << options.slow_momentum;
      EXPECT_EQ(allocations, 0) << name_of(options.base) << ", " << comm::name_of(type);
    }
}

// Of a rank that gossips on its device, alike on both ranks: halves, and masters that have more digits; or f32 without
// masters.
class Gossiping {
 public:
  Gossiping(comm::Communicator& world, std::shared_ptr<device::Runtime> runtime, Options options, DType type)
      : index_(world.rank()), stream_(runtime, index_), memory_(runtime, index_, kBytes) {
    options.base = BaseAlgorithm::sgp;
    options.slow_momentum = 0;
    options.device = {runtime, stream_.get()};
    const device::MemorySpace place(options.device, index_);
    const Buffer master{memory_.data(), 100, DType::f32, place.device()};
    const Buffer half{memory_.data() + master.bytes(), 100, type, place.device()};
    const bool has_master_weights = type != DType::f32;
    place.copy(master.data, given_.data(), master.bytes());
    if (has_master_weights) copy(place, std::array{TensorPair{master, half}});
    Tensors tensors{.parameters = {has_master_weights ? half : master}};
    if (has_master_weights) tensors.master_weights = std::vector{master};
    slowmo_.emplace(world, tensors, [=] { return std::vector<ParameterGroup>{{{master}, 0.1}}; }, options);
    place_ = place;
  }
  [[nodiscard]] SlowMo& slowmo() { return *slowmo_; }
  [[nodiscard]] std::vector<float> master_weights() const {
    std::vector<float> values(given_.size());
    place_.copy(values.data(), memory_.data(), 4 * values.size());
    place_.synchronize();
    return values;
  }
  static constexpr std::size_t kBytes = 600;

 private:
  const std::vector<float> given_ = std::vector<float>(100, 1.0F + 0x1p-13F);
  int index_;
  OwnStream stream_;
  device::Memory memory_;
  device::MemorySpace place_;
  std::optional<SlowMo> slowmo_;
};

// What the masters keep of their halves is not lost where the copy that is sent finds no memory, and the forward can be
// tried again.
TEST(StepsOnADevice, LeaveMastersForWantOfMemory) {
  constexpr std::size_t memory = 1 << 16;
  const auto runtime = device::make_emulated({.memory_bytes = memory});
  comm::run_ranks(2,
                  [&](comm::Communicator& world) {
                    Gossiping rank(world, runtime, {.overlap = true, .accepts_stale = true}, DType::f16);
                    const std::vector<float> master_weights = rank.master_weights();
                    {
                      const device::Memory others(runtime, world.rank(), memory - Gossiping::kBytes);
                      EXPECT_THROW(rank.slowmo().before_forward(), OutOfMemory);
                    }
                    EXPECT_EQ(rank.master_weights(), master_weights);
                    rank.slowmo().before_forward();
                    rank.slowmo().after_backward({});
                    EXPECT_EQ(rank.master_weights(), master_weights);
                    EXPECT_EQ(rank.slowmo().push_sum_weight(), 1);
                  },
                  {.device_calls = device::make_calls(runtime)});
}

// Memory does not come back while a round is made again and again.
TEST(StepsOnADevice, DoNotRetryForWantOfMemory) {
  const auto runtime = device::make_emulated({.memory_bytes = Gossiping::kBytes + 100});  // no room for what comes
  comm::run_ranks(2,
                  [&](comm::Communicator& world) {
                    Gossiping rank(world, runtime, {.heartbeat = std::chrono::seconds(2)}, DType::f32);
                    rank.slowmo().before_forward();
                    rank.slowmo().after_backward({});
                    EXPECT_THROW(rank.slowmo().step(), OutOfMemory);
                  },
                  {.device_calls = device::make_calls(runtime)});
}

// A device does not recover while a round is made again and again.
TEST(StepsOnADevice, DoNotRetryOnALostDevice) {
  constexpr int made = 1;  // allocations: of the parameters
  const auto runtime = std::make_shared<device::LosesDevices>(device::make_emulated(), made);
  comm::run_ranks(2,
                  [&](comm::Communicator& world) {
                    Gossiping rank(world, runtime, {.heartbeat = std::chrono::seconds(2)}, DType::f32);
                    rank.slowmo().before_forward();
                    rank.slowmo().after_backward({});
                    EXPECT_THROW(rank.slowmo().step(), DeviceFailure);
                  },
                  {.device_calls = device::make_calls(runtime)});
  EXPECT_EQ(runtime->refused(), 1);
}

// In parts for which there is memory, but not for all at once; the order is the whole message's.
TEST(RingSums, AreMadePartByPart) {
  constexpr int ranks = 3;
  constexpr std::size_t elements = 400'001;
  const auto runtime = device::make_emulated({.devices = ranks, .memory_bytes = 5 << 20});
  std::vector<std::vector<float>> given(ranks, std::vector<float>(elements));
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < elements; ++i)
      given[rank][i] = 1.0F / static_cast<float>(1 + (i * (rank + 3) + 5 * rank) % 9973);
  std::vector<std::span<const float>> inputs(given.begin(), given.end());
  const std::vector<float> right = comm::ring_sum<float>(inputs);
  for (const int root : {-1, 1})  // on all ranks, or on one
    comm::run_ranks(ranks,
                    [&](comm::Communicator& world) {
                      const OwnStream stream(runtime, world.rank());
                      const device::Memory memory(runtime, world.rank(), 4 * elements);
                      const device::MemorySpace place({runtime, stream.get()}, world.rank());
                      world.use_stream(stream.get());
                      std::vector<float> values = given[static_cast<std::size_t>(world.rank())];
                      place.copy(memory.data(), values.data(), memory.bytes());
                      const std::array x{Buffer{memory.data(), elements, DType::f32, place.device()}};
                      Workspace workspace(place);
                      if (root < 0)
                        all_reduce_mean(world, x, 1, Convention::fairscale, workspace);
                      else
                        reduce_mean(world, x, 1, root, Convention::fairscale, workspace);
                      place.copy(values.data(), memory.data(), memory.bytes());
                      place.synchronize();
                      if (root < 0 || world.rank() == root) {
                        EXPECT_TRUE(values == right) << "root " << root;
                      }
                      world.barrier();
                    },
                    {.device_calls = device::make_calls(runtime)});
}

TEST(StepsByWayOfTheHost, WaitForTheDevice) {
  EXPECT_GT(counted({.slow_momentum = 0, .communication_device = comm::Device{}}, DType::f32).first, 0);
}

}  // namespace
}  // namespace plumbline::slowmo
