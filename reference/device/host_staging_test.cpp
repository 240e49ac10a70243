// Calls on a device's memory by way of the host: their results, their order, and how long memory is kept.
#include <algorithm>
#include <array>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/device/runtimes.hpp"

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
  [[nodiscard]] std::vector<float> get(std::int64_t count = kCount) const { return get_in(stream_, count); }
  [[nodiscard]] std::vector<float> get_in(const OwnStream& stream, std::int64_t count = kCount) const {
    std::vector<float> values(static_cast<std::size_t>(count));
    runtime_->copy(device_, values.data(), memory_.data(), values.size() * 4, stream.get());
    stream.synchronize();
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

TEST(HostStaging, MultipliesByAFactor) {
  staged([](Communicator& group, There& there) {
    there.produce(all(1.0F + static_cast<float>(group.rank())));
    group.run_scaled({.operation = Operation::all_reduce, .in = there.buffer(), .out = there.buffer()},
                     0.5 * group.rank());
    EXPECT_THAT(there.get(), Each(0.5F * 2 + 3));
    // The same of the host's memory.
    const std::vector<float> mine = all(2);
    std::vector<float> sum = all(0);
    group.run_scaled({.operation = Operation::all_reduce, .in = comm::ConstBuffer::of(mine), .out = Buffer::of(sum)},
                     1.5);
    EXPECT_THAT(sum, Each(9.0F));
  });
}

// Rank r gives r + 1 elements, in place; then a block of each, of as many elements, is added for its member.
TEST(HostStaging, MovesBlocksOfDifferentLengths) {
  staged([](Communicator& group, There& there) {
    const std::vector<std::int64_t> counts{1, 2, 3};
    const std::int64_t begin = comm::begin_of_block(counts, group.rank());
    std::vector<float> mine(6, -1);
    for (std::int64_t i = begin; i < begin + group.rank() + 1; ++i)
      mine[static_cast<std::size_t>(i)] = 10.0F * static_cast<float>(i);
    there.produce(mine);
    const Buffer block = there.buffer(group.rank() + 1, begin);
    group.run_uneven({.operation = Operation::all_gather, .in = block, .out = there.buffer(6), .out_counts = counts});
    EXPECT_THAT(there.get(6), testing::ElementsAre(0, 10, 20, 30, 40, 50));
    group.run_uneven(
        {.operation = Operation::reduce_scatter, .in = there.buffer(6), .out = block, .in_counts = counts});
    std::vector<float> added{0, 10, 20, 30, 40, 50};
    for (std::int64_t i = begin; i < begin + group.rank() + 1; ++i) added[static_cast<std::size_t>(i)] *= kRanks;
    EXPECT_EQ(there.get(6), added);
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

// A stream whose work takes its time, and others in which calls are waited for: DEVICE-050.
TEST(HostStaging, EachWaitOrdersTheStreamThatIsTheCallersThen) {
  staged([](Communicator& group, There& there) {
    const OwnStream first(there.use().runtime, there.buffer().device.index),
        second(there.use().runtime, first.device());
    there.produce(all(1.0F + static_cast<float>(group.rank())));
    comm::Work work = group.start({.operation = Operation::all_reduce, .in = there.buffer(), .out = there.buffer()});
    for (const OwnStream* const stream : {&first, &second}) {
      group.use_stream(stream->get());
      work.wait();
      EXPECT_THAT(there.get_in(*stream), Each(6.0F));
    }
    group.use_stream(there.use().stream);
  });
}

TEST(HostStaging, WhatACallGetsComesAfterTheStreamOfItsStart) {
  staged([](Communicator& group, There& there) {
    const OwnStream other(there.use().runtime, there.buffer().device.index);
    const bool is_root = group.rank() == 0;
    if (is_root) there.produce(all(7));
    for (const bool is_tested : {false, true}) {
      if (!is_root) there.produce(all(3));  // the buffer's contents before the call
      comm::Work work = group.start({.operation = Operation::broadcast, .root = 0, .out = there.buffer()});
      group.use_stream(other.get());
      const auto end = std::chrono::steady_clock::now() + 40s;
      while (is_tested && !work.test() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
      work.wait();
      other.synchronize();
      there.use().runtime->synchronize(other.device(), there.use().stream);
      EXPECT_THAT(there.get_in(other), Each(7.0F));
      group.use_stream(there.use().stream);
    }
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

// Many calls, each after the last one: memory of the host is not used again before it was read.
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

// Lets the second copy to the device fail.
class FailsToBringBack final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void copy(int device, void* to, const void* from, std::size_t bytes, Stream stream) override {
    if (holder_of(to) && ++brought_back == 2) {
      after_first = create_event(device, false);
      record(device, after_first, stream);
      throw DeviceFailure("CUDA: cudaMemcpyAsync: it failed");
    }
    RuntimeDecorator::copy(device, to, from, bytes, stream);
  }
  int brought_back = 0;
  Event after_first = nullptr;
};

// The first copy still reads the host's memory when the second one cannot be made: none is used again, or freed, before
// it has ended, whichever stream is the caller's by then.
TEST(HostStaging, KeepsWhatAFailedWaitReads) {
  const auto emulated = make_emulated();
  const auto runtime = std::make_shared<FailsToBringBack>(emulated);
  comm::LocalWorld world(1);
  const auto group = world.communicator(0);
  const OwnStream busy(emulated, 0), idle(emulated, 0);
  const Memory memory(emulated, 0, 2 * kCount * 4);
  const auto half = [&](std::int64_t begin) {
    return Buffer{memory.data() + begin * 4, kCount, DType::f32, {comm::Device::Kind::emulated, 0}};
  };
  emulated->fill(0, memory.data(), std::byte{1}, memory.bytes(), busy.get());
  HostStaging staging(*group, {runtime, busy.get()});
  {
    const std::array calls{Call{.operation = Operation::all_reduce, .in = half(0), .out = half(0)},
                           Call{.operation = Operation::all_reduce, .in = half(kCount), .out = half(kCount)}};
    comm::Work work = staging.start(calls);
    emulated->pause(0, 50ms, busy.get());
    EXPECT_THROW(work.wait(), DeviceFailure);
    staging.use_stream(idle.get());
  }
  EXPECT_TRUE(emulated->is_reached(0, runtime->after_first)) << "a copy may still read memory that is free";
  busy.synchronize();
  emulated->destroy_event(0, runtime->after_first);
}

TEST(HostStaging, SaysThatItTakesTheDevicesMemory) {
  const auto runtime = make_emulated();
  comm::LocalWorld world(1);
  const auto group = world.communicator(0);
  const HostStaging staging(*group, {runtime});
  EXPECT_NO_THROW(require_served("it", staging, MemorySpace({runtime}, 0)));
  EXPECT_THROW(HostStaging(*group, {}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::device
