// Calls on a device's memory by way of the host: their results, their order, and how long memory is kept.
#include "reference/device/host_staging.hpp"

#include <algorithm>
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/emulated.hpp"

namespace plumbline::device {
namespace {

using namespace std::chrono_literals;
using comm::Buffer;
using comm::Call;
using comm::Communicator;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using testing::Each;

constexpr int kRanks = 3;
constexpr std::int64_t kCount = 40;

// What a rank has on its device, and the stream that orders it.
class There {
 public:
  There(std::shared_ptr<Runtime> runtime, int rank)
      : runtime_(std::move(runtime)),
        device_(rank % runtime_->count()),
        stream_(runtime_, device_),
        memory_(runtime_, device_, kRanks * kCount * 4) {}
  ~There() { stream_.synchronize(); }
  There(const There&) = delete;
  There& operator=(const There&) = delete;

  [[nodiscard]] DeviceUse use() const { return {runtime_, stream_.get()}; }
  [[nodiscard]] Buffer buffer(std::int64_t count = kCount, std::int64_t begin = 0) const {
    return {memory_.data() + begin * 4,
            count,
            DType::f32,
            {comm::Device::Kind::emulated, static_cast<std::int16_t>(device_)}};
  }
  // Once, by a producer that takes its time.
  void produce(std::vector<float> values) {
    given_ = std::move(values);
    runtime_->pause(device_, 10ms, stream_.get());
    runtime_->copy(device_, memory_.data(), given_.data(), given_.size() * 4, stream_.get());
  }
  [[nodiscard]] std::vector<float> get(std::int64_t count = kCount) const {
    std::vector<float> values(static_cast<std::size_t>(count));
    runtime_->copy(device_, values.data(), memory_.data(), values.size() * 4, stream_.get());
    stream_.synchronize();
    return values;
  }

 private:
  std::shared_ptr<Runtime> runtime_;
  int device_;
  OwnStream stream_;
  Memory memory_;
  std::vector<float> given_;
};

void staged(const std::function<void(Communicator& group, There& there)>& body) {
  const auto runtime = make_emulated({.longest_delay = 200us});
  comm::run_ranks(kRanks, [&](Communicator& group) {
    There there(runtime, group.rank());
    HostStaging staging(group, there.use());
    body(staging, there);
    group.barrier();
  });
}

std::vector<float> all(float value, std::int64_t count = kCount) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}

TEST(HostStaging, AddsInPlace) {
  staged([](Communicator& group, There& there) {
    there.produce(all(1.0F + static_cast<float>(group.rank())));
    group.all_reduce(there.buffer(), there.buffer(), ReduceOp::sum);
    EXPECT_THAT(there.get(), Each(6.0F));
  });
}

TEST(HostStaging, LeavesAloneWhatARankDoesNotGet) {
  staged([](Communicator& group, There& there) {
    const bool is_root = group.rank() == 1;
    there.produce(all(1.0F + static_cast<float>(group.rank())));
    const Buffer nothing{nullptr, 0, DType::f32, there.buffer().device};
    group.reduce(there.buffer(), is_root ? there.buffer() : nothing, ReduceOp::sum, 1);
    EXPECT_THAT(there.get(), Each(is_root ? 6.0F : 1.0F + static_cast<float>(group.rank())));
    group.broadcast(there.buffer(), 2);
    EXPECT_THAT(there.get(), Each(3.0F));
  });
}

TEST(HostStaging, GathersInPlaceAndScatters) {
  staged([](Communicator& group, There& there) {
    std::vector<float> mine = all(-1, kRanks * kCount);
    std::fill_n(mine.begin() + group.rank() * kCount, kCount, static_cast<float>(group.rank()));
    there.produce(mine);
    group.all_gather(there.buffer(kCount, group.rank() * kCount), there.buffer(kRanks * kCount));
    const std::vector<float> gathered = there.get(kRanks * kCount);
    for (std::int64_t i = 0; i < kRanks * kCount; ++i)
      ASSERT_EQ(gathered[static_cast<std::size_t>(i)], static_cast<float>(i / kCount)) << i;
    group.scatter(there.buffer(kRanks * kCount), there.buffer(), 0);
    EXPECT_THAT(there.get(), Each(static_cast<float>(group.rank())));
  });
}

TEST(HostStaging, StartsAnExchangeAndMeetsItInOrder) {
  staged([](Communicator& group, There& there) {
    there.produce(all(static_cast<float>(group.rank())));
    const int next = (group.rank() + 1) % kRanks, last = (group.rank() + kRanks - 1) % kRanks;
    const std::array calls{Call{.operation = Operation::send, .root = next, .in = there.buffer()},
                           Call{.operation = Operation::recv, .root = last, .out = there.buffer(kCount, kCount)}};
    comm::Work work = group.start(calls);
    work.wait();
    work.wait();  // a second time is no other
    EXPECT_EQ(there.get(2 * kCount).back(), static_cast<float>(last));
    comm::Work tested = group.start(calls);
    const auto end = std::chrono::steady_clock::now() + 40s;
    while (!tested.test() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(tested.test());
  });
}

TEST(HostStaging, PassesTheHostsMemoryOn) {
  staged([](Communicator& group, There&) {
    float value = 1;
    group.all_reduce({&value, 1, DType::f32}, {&value, 1, DType::f32}, ReduceOp::sum);
    EXPECT_EQ(value, kRanks);
    EXPECT_EQ(group.pair_exchanges(), nullptr);
  });
}

TEST(HostStaging, OfGroupsThatAreMadeFromIt) {
  staged([](Communicator& group, There& there) {
    const std::array alone{group.rank()};
    const auto own = group.create_group(alone), all_of = group.duplicate();
    there.produce(all(2));
    own->all_reduce(there.buffer(), there.buffer(), ReduceOp::sum);
    EXPECT_THAT(there.get(), Each(2.0F));
    all_of->all_reduce(there.buffer(), there.buffer(), ReduceOp::sum);
    EXPECT_THAT(there.get(), Each(6.0F));
  });
}

// Many calls, each behind the last one: memory of the host is not used again before it was read.
TEST(HostStaging, KeepsWhatIsUnderWay) {
  staged([](Communicator& group, There& there) {
    there.produce(all(1));
    float expected = 1;
    for (int call = 0; call < 20; ++call) {
      group.all_reduce(there.buffer(), there.buffer(), ReduceOp::avg);
      const Buffer part = there.buffer(kCount / 2);
      group.all_reduce(part, part, ReduceOp::max);
    }
    EXPECT_THAT(there.get(), Each(expected));
  });
}

// A backend whose calls cannot be taken back: they may write to their buffers after they have failed.
class FailingFirst final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  std::vector<const void*> used;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    used.push_back(call.out.data);
    if (used.size() == 1) throw comm::TimeoutError("all_reduce: rank 1 is missing");
    CommunicatorDecorator::do_run(call, timeout);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<FailingFirst>(std::move(group));
  }
};

TEST(HostStaging, GivesMemoryOfAFailedCallToNoOther) {
  const auto runtime = make_emulated();
  comm::LocalWorld world(1);
  auto owned = std::make_unique<FailingFirst>(world.communicator(0));
  FailingFirst& inner = *owned;
  There there(runtime, 0);
  there.produce(all(1));
  HostStaging staging(std::move(owned), there.use());
  EXPECT_THROW(staging.all_reduce(there.buffer(), there.buffer(), ReduceOp::sum), comm::TimeoutError);
  for (int call = 0; call < 3; ++call) {
    staging.all_reduce(there.buffer(), there.buffer(), ReduceOp::sum);
    (void)there.get();
  }
  ASSERT_EQ(inner.used.size(), 4U);
  EXPECT_EQ(std::ranges::count(inner.used, inner.used.front()), 1);
}

TEST(HostStaging, SaysThatItTakesTheDevicesMemory) {
  const auto runtime = make_emulated();
  comm::LocalWorld world(1);
  const auto group = world.communicator(0);
  const HostStaging staging(*group, {runtime});
  EXPECT_NO_THROW(require_served("it", staging, Place({runtime}, 0)));
  EXPECT_THROW(HostStaging(*group, {}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::device
