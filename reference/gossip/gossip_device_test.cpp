// Gossip on emulated devices: what the conformance checks, which know no device's inside, do not see.
#include <array>
#include <atomic>
#include <latch>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/lost_device_test.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/gossip/gossip_thread.hpp"

namespace plumbline::gossip {
namespace {

using namespace std::chrono_literals;
using comm::Buffer;
using comm::Communicator;
using comm::DType;
using device::OwnEvent;
using device::OwnStream;

// A rank's numbers on its device, in the order of a stream.
class Numbers {
 public:
  Numbers(std::shared_ptr<device::Runtime> runtime, int rank, std::vector<float> values)
      : given_(std::move(values)),
        index_(rank % runtime->count()),
        stream_(runtime, index_),
        memory_(runtime, index_, given_.size() * 4),
        place_({runtime, stream_.get()}, index_) {
    place_.copy(memory_.data(), given_.data(), given_.size() * 4);
  }
  ~Numbers() { stream_.synchronize(); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  [[nodiscard]] Buffer buffer() const {
    return {memory_.data(), static_cast<std::int64_t>(given_.size()), DType::f32, place_.device()};
  }
  [[nodiscard]] const device::MemorySpace& place() const { return place_; }
  [[nodiscard]] std::vector<float> get() const {
    std::vector<float> values(given_.size());
    place_.copy(values.data(), memory_.data(), values.size() * 4);
    place_.synchronize();
    return values;
  }

 private:
  std::vector<float> given_;
  int index_;
  OwnStream stream_;
  device::Memory memory_;
  device::MemorySpace place_;
};

// One rank's values come only when the other rank's stream has gone on after its hand-over: the exchange is in no
// caller's way.
TEST(GossipThreadOnADevice, LetsTheCallersStreamGoOn) {
  const auto runtime = device::make_emulated();
  std::latch went_on(1);
  comm::run_ranks(2,
                  [&](Communicator& group) {
                    const Numbers x(runtime, group.rank(),
                                    std::vector<float>(50, 1.0F + 2.0F * static_cast<float>(group.rank())));
                    GossipThread thread(group.duplicate(), Graph({.kind = GraphKind::ring, .nodes = 2}), {},
                                        {.device = x.place().use()});
                    if (group.rank() == 0)
                      static_cast<device::EmulatedQueue*>(x.place().use().stream)->put([&] { went_on.wait(); });
                    const std::array tensors{x.buffer()};
                    EXPECT_TRUE(thread.hand_over(tensors));
                    if (group.rank() == 1) {
                      const OwnEvent after(runtime, x.place().index());
                      after.record(x.place().use().stream);
                      const auto end = std::chrono::steady_clock::now() + 40s;
                      while (!after.is_reached() && std::chrono::steady_clock::now() < end)
                        std::this_thread::sleep_for(1ms);
                      EXPECT_TRUE(after.is_reached()) << "the caller's stream waits for the exchange";
                      went_on.count_down();
                    }
                    EXPECT_EQ(thread.collect(tensors, true), GossipThread::Collected::mixed);
                    EXPECT_THAT(x.get(), testing::Each(2.0F));
                  },
                  {.device_calls = device::make_calls(runtime)});
}

// Closed while a round is under way, whose values no memory may lose.
TEST(GossipThreadOnADevice, IsClosedUnderARound) {
  const auto runtime = device::make_emulated({.longest_delay = 300us});
  comm::run_ranks(3,
                  [&](Communicator& group) {
                    const Numbers x(runtime, group.rank(), std::vector<float>(50, 1));
                    const std::array tensors{x.buffer()};
                    GossipThread thread(group.duplicate(), Graph({.kind = GraphKind::star, .nodes = 3}), {},
                                        {.device = x.place().use()});
                    EXPECT_TRUE(thread.hand_over(tensors));
                  },
                  {.device_calls = device::make_calls(runtime)});
}

// Where there is no memory for the copy that is sent, the round is not begun, and can be handed over later.
TEST(GossipThreadOnADevice, HandsOverAllOrNothing) {
  constexpr std::size_t memory = 1 << 16, elements = 100;
  const auto runtime = device::make_emulated({.memory_bytes = memory});
  comm::run_ranks(2,
                  [&](Communicator& group) {
                    const float own = 1.0F + 2.0F * static_cast<float>(group.rank());
                    const Numbers x(runtime, group.rank(), std::vector<float>(elements, own));
                    const std::array tensors{x.buffer()};
                    GossipThread thread(group.duplicate(), Graph({.kind = GraphKind::ring, .nodes = 2}), {},
                                        {.lazy = false, .device = x.place().use()});
                    {
                      const device::Memory others(runtime, x.place().index(), memory - 4 * elements);
                      EXPECT_THROW((void)thread.hand_over(tensors), OutOfMemory);
                    }
                    EXPECT_FALSE(thread.is_gossiping());
                    EXPECT_EQ(thread.weight(), 1);
                    EXPECT_THAT(x.get(), testing::Each(own));
                    EXPECT_TRUE(thread.hand_over(tensors));
                    EXPECT_EQ(thread.collect(tensors, true), GossipThread::Collected::mixed);
                    EXPECT_THAT(x.get(), testing::Each(2.0F));
                    EXPECT_EQ(thread.weight(), 1);
                  },
                  {.device_calls = device::make_calls(runtime)});
}

// Memory does not come back while a round is made again and again.
TEST(GossipThreadOnADevice, DoesNotRetryForWantOfMemory) {
  constexpr std::size_t elements = 100;
  const auto runtime = device::make_emulated({.memory_bytes = 4 * 2 * elements});  // no room for what comes
  comm::run_ranks(2,
                  [&](Communicator& group) {
                    const Numbers x(runtime, group.rank(), std::vector<float>(elements, 1));
                    const std::array tensors{x.buffer()};
                    GossipThread thread(group.duplicate(), Graph({.kind = GraphKind::ring, .nodes = 2}), {},
                                        {.heartbeat = 2s, .device = x.place().use()});
                    EXPECT_TRUE(thread.hand_over(tensors));
                    EXPECT_THROW((void)thread.collect(tensors, true), OutOfMemory);
                  },
                  {.device_calls = device::make_calls(runtime)});
}

// A device does not recover while a round is made again and again.
TEST(GossipThreadOnADevice, DoesNotRetryOnALostDevice) {
  constexpr int handed_over = 2;  // allocations: of the values, and of the copy that is sent
  const auto runtime = std::make_shared<device::LosesDevices>(device::make_emulated(), handed_over);
  comm::run_ranks(2,
                  [&](Communicator& group) {
                    const Numbers x(runtime, group.rank(), std::vector<float>(50, 1));
                    const std::array tensors{x.buffer()};
                    GossipThread thread(group.duplicate(), Graph({.kind = GraphKind::ring, .nodes = 2}), {},
                                        {.heartbeat = 2s, .device = x.place().use()});
                    EXPECT_TRUE(thread.hand_over(tensors));
                    EXPECT_THROW((void)thread.collect(tensors, true), DeviceFailure);
                  },
                  {.device_calls = device::make_calls(runtime)});
  EXPECT_EQ(runtime->refused(), 1);
}

// Values of another memory are refused, and closing waits for the caller's stream on the device as ever.
TEST(GossipThreadOnADevice, IsClosedBehindARefusal) {
  const auto runtime = device::make_emulated();
  comm::run_ranks(2,
                  [&](Communicator& group) {
                    const Numbers x(runtime, group.rank(), std::vector<float>(50, 1));
                    const std::array tensors{x.buffer()};
                    std::array<float, 50> on_host{};
                    GossipThread thread(group.duplicate(), Graph({.kind = GraphKind::ring, .nodes = 2}), {},
                                        {.device = x.place().use()});
                    EXPECT_TRUE(thread.hand_over(tensors));
                    EXPECT_EQ(thread.collect(tensors, true), GossipThread::Collected::mixed);
                    const std::array others{Buffer{on_host.data(), 50, DType::f32}};
                    EXPECT_THROW((void)thread.hand_over(others), InvalidArgument);
                    std::atomic<bool> is_over = false;
                    static_cast<device::EmulatedQueue*>(x.place().use().stream)->put([&] {
                      std::this_thread::sleep_for(50ms);
                      is_over = true;
                    });
                    thread.close();
                    EXPECT_TRUE(is_over);
                  },
                  {.device_calls = device::make_calls(runtime)});
}

/// Counts launches of push-sum's mixing.
class CountsMixing final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void launch(int device, const device::Kernel& kernel, const void* work, std::int32_t chunks,
              device::Stream stream) override {
    if (kernel.name == MixWork::kName) ++launches;
    RuntimeDecorator::launch(device, kernel, work, chunks, stream);
  }
  std::atomic<int> launches{0};
};

// Three peers' messages in one launch; of four, the first two are added up before.
TEST(PushSumOnADevice, AddsMessagesInFewLaunches) {
  for (const auto& [ranks, launches] : {std::pair{4, 1}, std::pair{5, 2}}) {
    const auto runtime = std::make_shared<CountsMixing>(device::make_emulated({.devices = ranks}));
    comm::run_ranks(ranks,
                    [&](Communicator& group) {
                      const Numbers x(runtime, group.rank(),
                                      std::vector<float>(50, static_cast<float>(ranks * group.rank())));
                      PushSum push_sum(group, Graph({.kind = GraphKind::complete, .nodes = group.size()}), {},
                                       {.device = x.place().use()});
                      push_sum.mix(x.buffer());
                      EXPECT_THAT(x.get(), testing::Each(static_cast<float>(ranks * (ranks - 1) / 2)));
                      group.barrier();
                    },
                    {.device_calls = device::make_calls(runtime)});
    EXPECT_EQ(runtime->launches, ranks * launches) << ranks;
  }
}

TEST(Estimates, AreOfTheHostsMemory) {
  const auto runtime = device::make_emulated();
  const Numbers x(runtime, 1, {1, 2, 3});
  const std::array tensors{x.buffer()};
  EXPECT_THAT([&] { divide(tensors, 2); }, testing::ThrowsMessage<InvalidArgument>(
                                               testing::HasSubstr("divide: tensor 0 is in memory of emulated:1")));
  EXPECT_THROW(multiply(tensors, 2), InvalidArgument);
}

TEST(PushSumOnADevice, ByWayOfTheHostHasItsBits) {
  const auto runtime = device::make_emulated({.longest_delay = 100us});
  comm::run_ranks(3, [&](Communicator& group) {
    std::vector<float> values(777);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 0.37F * static_cast<float>((i * 7 + static_cast<std::size_t>(group.rank())) % 23);
    const Numbers x(runtime, group.rank(), values);
    const auto own = group.duplicate(), other = group.duplicate();
    device::HostStaging staged(*own, x.place().use());
    const Graph star({.kind = GraphKind::star, .nodes = 3});
    PushSum there(staged, star, {}, {.device = x.place().use()}), here(*other, star);
    for (int round = 0; round < 4; ++round) {
      there.mix(x.buffer());
      here.mix(Buffer{values.data(), static_cast<std::int64_t>(values.size()), DType::f32});
    }
    EXPECT_EQ(x.get(), values);
    EXPECT_EQ(there.weight(), here.weight());
  });
}

}  // namespace
}  // namespace plumbline::gossip
