// Backend local on memory of emulated devices: what the conformance checks do not see, since they know no backend's
// inside.
#include <array>
#include <chrono>
#include <latch>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/detail/move.hpp"
#include "reference/device/fold.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::device {
namespace {

using namespace std::chrono_literals;
using comm::Communicator;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using testing::Each;
using testing::HasSubstr;

constexpr std::int64_t kCount = 100;

// Floats of one rank in its device's memory, and a stream that they are ordered by.
class Numbers {
 public:
  Numbers(std::shared_ptr<Runtime> runtime, int rank)
      : runtime_(std::move(runtime)),
        device_(rank % runtime_->count()),
        stream_(runtime_, device_),
        memory_(runtime_, device_, kCount * 4) {}
  ~Numbers() { stream_.synchronize(); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  [[nodiscard]] comm::Buffer buffer() const {
    return {memory_.data(), kCount, DType::f32, {comm::Device::Kind::emulated, static_cast<std::int16_t>(device_)}};
  }
  void set(float value) {
    given_.emplace_back(kCount, value);
    runtime_->copy(device_, memory_.data(), given_.back().data(), kCount * 4, stream_.get());
  }
  void pause(std::chrono::nanoseconds duration) { runtime_->pause(device_, duration, stream_.get()); }
  [[nodiscard]] std::vector<float> get() {
    std::vector<float> values(kCount);
    runtime_->copy(device_, values.data(), memory_.data(), kCount * 4, stream_.get());
    stream_.synchronize();
    return values;
  }
  [[nodiscard]] Stream stream() const { return stream_.get(); }

 private:
  std::shared_ptr<Runtime> runtime_;
  int device_;
  OwnStream stream_;
  Memory memory_;
  std::list<std::vector<float>> given_;  // the stream may be reading them
};

class CallsTest : public testing::Test {
 protected:
  void on_ranks(int ranks, const std::function<void(Communicator&, Numbers&)>& body,
                std::shared_ptr<Runtime> for_calls = nullptr) {
    comm::LocalOptions options;
    options.device_calls = make_calls(for_calls == nullptr ? runtime_ : for_calls);
    comm::run_ranks(
        ranks,
        [&](Communicator& world) {
          Numbers numbers(runtime_, world.rank());
          world.use_stream(numbers.stream());
          body(world, numbers);
        },
        options);
  }
  std::shared_ptr<Runtime> runtime_ = make_emulated({.devices = 2, .longest_delay = 50us});
};

TEST_F(CallsTest, AGroupBeginsWithTheStreamOfItsParent) {
  on_ranks(3, [](Communicator& world, Numbers& numbers) {
    const auto group = world.duplicate();
    numbers.pause(20ms);
    numbers.set(static_cast<float>(group->rank() + 1));
    group->all_reduce(numbers.buffer(), numbers.buffer(), ReduceOp::sum);
    EXPECT_THAT(numbers.get(), Each(6.0F));
  });
}

TEST_F(CallsTest, MessagesAreOrderedByBothStreams) {
  on_ranks(2, [](Communicator& world, Numbers& numbers) {
    for (int round = 0; round < 3; ++round) {
      numbers.set(-1);
      numbers.pause((world.rank() + round) % 2 == 0 ? 20ms : 0ms);
      if (world.rank() == 0) {
        numbers.set(static_cast<float>(round));
        world.send(numbers.buffer(), 1, round);
        numbers.set(-2);  // the stream waits until it is read
      } else {
        world.recv(numbers.buffer(), 0, round);
        EXPECT_THAT(numbers.get(), Each(static_cast<float>(round)));
      }
    }
  });
}

TEST_F(CallsTest, AMessageBetweenKindsOfMemoryIsAMismatch) {
  on_ranks(2, [](Communicator& world, Numbers& numbers) {
    std::vector<float> host(kCount);
    try {
      if (world.rank() == 0)
        world.send({host.data(), kCount, DType::f32}, 1);
      else
        world.recv(numbers.buffer(), 0);
      EXPECT_EQ(world.rank(), 0) << "a small message of the host's may be on its way";
    } catch (const comm::MismatchError& error) {
      EXPECT_THAT(error.what(), HasSubstr("in memory of emulated:1"));
    }
  });
}

// What follows in the stream of who drops a call meets no kernel of that call any more.
TEST_F(CallsTest, ADroppedCallIsOverForTheCallersStream) {
  std::latch posted(2);
  EXPECT_THROW(on_ranks(2,
                        [&](Communicator& world, Numbers& numbers) {
                          numbers.pause(30ms);
                          numbers.set(1);
                          {
                            comm::Work work = world.start(
                                {.operation = Operation::all_reduce, .in = numbers.buffer(), .out = numbers.buffer()});
                            posted.arrive_and_wait();
                            if (world.rank() == 1) work.wait(10s);  // launches it, unless the other has given up
                          }
                          numbers.set(7);
                          EXPECT_THAT(numbers.get(), Each(7.0F));
                          if (world.rank() == 0) throw comm::PeerFailed("as the next call would say");
                        }),
               comm::PeerFailed);
}

// The same of a message that the other side has met: the copy, which waits for the receiver's stream, reads what was
// sent.
TEST_F(CallsTest, ADroppedMessageIsOverForTheCallersStream) {
  for (const bool tested : {false, true}) {
    std::latch met(2);
    on_ranks(2, [&](Communicator& world, Numbers& numbers) {
      if (world.rank() == 0) {
        numbers.set(1);
        {
          comm::Work work =
              world.start({.operation = Operation::send, .root = 1, .in = numbers.buffer(), .out = numbers.buffer()});
          met.arrive_and_wait();
          if (tested) (void)work.test();
        }
        numbers.set(7);
      } else {
        numbers.pause(100ms);
        world.recv(numbers.buffer(), 0);
        met.arrive_and_wait();
        EXPECT_THAT(numbers.get(), Each(1.0F));
      }
    });
  }
}

// Another call completes the first one in another stream: the one that is current at the wait meets the result all the
// same.
TEST_F(CallsTest, TheStreamOfAWaitFollowsACallThatIsComplete) {
  on_ranks(2, [&](Communicator& world, Numbers& numbers) {
    Numbers others(runtime_, world.rank());
    others.set(1);
    numbers.set(1);
    if (world.rank() == 1) numbers.pause(100ms);
    comm::Work work =
        world.start({.operation = Operation::all_reduce, .in = numbers.buffer(), .out = numbers.buffer()});
    world.use_stream(others.stream());
    world.all_reduce(others.buffer(), others.buffer(), ReduceOp::sum);
    world.use_stream(numbers.stream());
    work.wait();
    EXPECT_THAT(numbers.get(), Each(2.0F));
    EXPECT_THAT(others.get(), Each(2.0F));
  });
}

TEST_F(CallsTest, TheStreamOfASecondWaitFollowsToo) {
  on_ranks(2, [&](Communicator& world, Numbers& numbers) {
    const OwnStream other(runtime_, world.rank());
    std::vector<float> seen(kCount);
    numbers.set(1);
    if (world.rank() == 1) numbers.pause(100ms);
    comm::Work work =
        world.start({.operation = Operation::all_reduce, .in = numbers.buffer(), .out = numbers.buffer()});
    work.wait();
    world.use_stream(other.get());
    work.wait();
    runtime_->copy(world.rank(), seen.data(), numbers.buffer().data, kCount * 4, other.get());
    other.synchronize();
    EXPECT_THAT(seen, Each(2.0F));
  });
}

void expect_test_says_when(comm::Work& work, const OwnEvent& produced) {
  const bool told = work.test();  // of a moment before the event is looked at
  EXPECT_FALSE(told && !produced.is_reached()) << "the device is not done";
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!work.test() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(work.test());
}

TEST_F(CallsTest, TestAfterAWaitSaysWhetherTheDeviceIsDone) {
  on_ranks(2, [&](Communicator& world, Numbers& numbers) {
    for (const Operation operation : {Operation::all_reduce, Operation::send}) {
      const bool sends = operation == Operation::send, receives = sends && world.rank() == 1;
      const OwnEvent produced(runtime_, world.rank());
      numbers.set(1);
      numbers.pause(200ms);
      produced.record(numbers.stream());
      comm::Work work = world.start({.operation = receives ? Operation::recv : operation,
                                     .root = sends ? 1 - world.rank() : comm::kNoRoot,
                                     .in = numbers.buffer(),
                                     .out = numbers.buffer()});
      work.wait();
      expect_test_says_when(work, produced);
    }
  });
}

TEST_F(CallsTest, TestOfTheHostsCallsDoesNotAskForTheDevice) {
  on_ranks(2, [](Communicator& world, Numbers& numbers) {
    float value = 1;
    const comm::Buffer host{&value, 1, DType::f32};
    numbers.set(1);
    numbers.pause(5s);
    const auto begin = std::chrono::steady_clock::now();
    comm::Work first =
        world.start({.operation = Operation::all_reduce, .in = numbers.buffer(), .out = numbers.buffer()});
    comm::Work second = world.start({.operation = Operation::all_reduce, .in = host, .out = host});
    second.wait();
    const bool told = second.test();
    const bool in_time = std::chrono::steady_clock::now() < begin + 5s;
    EXPECT_TRUE(told || !in_time) << "a call on the host's memory waits for a device";
    first.wait();
    EXPECT_THAT(numbers.get(), Each(2.0F));
  });
}

// Has streams that wait for nothing: those of a caller.
class RefusesToWait final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  std::atomic<Stream> refused{nullptr};
  void wait(int device, Stream stream, Event event) override {
    if (stream != nullptr && stream == refused) throw RuntimeFailure("CUDA: no wait today");
    RuntimeDecorator::wait(device, stream, event);
  }
};

TEST_F(CallsTest, AStreamThatCannotFollowFailsTheGroup) {
  const auto runtime = std::make_shared<RefusesToWait>(runtime_);
  const auto expect_failure = [](Communicator& group, const std::function<void()>& body) {
    try {
      body();
      ADD_FAILURE() << "nothing was said";
    } catch (const RuntimeFailure& error) {
      EXPECT_THAT(error.what(), HasSubstr("cannot wait for a call: CUDA: no wait today"));
    }
    EXPECT_THROW(group.barrier(), comm::PeerFailed);
  };
  on_ranks(
      2,
      [&](Communicator& world, Numbers& numbers) {
        if (world.rank() == 0) runtime->refused = numbers.stream();
        world.barrier();
        const comm::Call sum{.operation = Operation::all_reduce, .in = numbers.buffer(), .out = numbers.buffer()};
        const comm::Call message{.operation = world.rank() == 0 ? Operation::send : Operation::recv,
                                 .root = 1 - world.rank(),
                                 .in = numbers.buffer(),
                                 .out = numbers.buffer()};
        for (const comm::Call& call : {sum, message})
          for (const bool started : {false, true}) {
            const auto group = world.duplicate();
            const auto body = [&] { started ? group->start(call).wait() : group->run(call); };
            if (world.rank() == 0) {
              expect_failure(*group, body);
            } else {
              EXPECT_NO_THROW(body());
            }
            world.barrier();
          }
      },
      runtime);
}

// The first of two launches of a call takes its time, the second is refused.
class RefusesTheSecond final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void fold(int device, const FoldTable& table, Stream stream) override {
    if (++folds_ == 2) throw RuntimeFailure("CUDA: the launch of a fold: out of luck");
    RuntimeDecorator::pause(device, 100ms, stream);
    RuntimeDecorator::fold(device, table, stream);
  }

 private:
  std::atomic<int> folds_{0};
};

TEST_F(CallsTest, WhatIsUnderWayOfALaunchThatFailedIsOverForTheCallersStream) {
  on_ranks(
      2,
      [&](Communicator& world, Numbers& numbers) {
        const auto group = world.duplicate();
        numbers.set(1);
        EXPECT_ANY_THROW(group->all_reduce(numbers.buffer(), numbers.buffer(), ReduceOp::sum));
        numbers.set(7);
        numbers.pause(400ms);
        EXPECT_THAT(numbers.get(), Each(7.0F));
        world.barrier();
      },
      std::make_shared<RefusesTheSecond>(runtime_));
}

class HasNoPeers final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void connect(int, int) override { throw Unsupported("cuda:0 cannot read the memory of cuda:1"); }
};

// Unsupported would say that nothing happened, and the group has failed.
TEST_F(CallsTest, WhatADeviceCannotDoOfACallUnderWayIsARuntimeFailure) {
  std::atomic<int> refused{0}, told{0};
  on_ranks(
      2,
      [&](Communicator& world, Numbers& numbers) {
        const auto group = world.duplicate();
        try {
          group->all_reduce(numbers.buffer(), numbers.buffer(), ReduceOp::sum);
        } catch (const comm::PeerFailed& error) {
          ++told;
        } catch (const RuntimeFailure& error) {
          EXPECT_THAT(error.what(), HasSubstr("could not launch all_reduce: cuda:0 cannot read the memory"));
          ++refused;
        }
        EXPECT_THROW(group->barrier(), comm::PeerFailed);
      },
      std::make_shared<HasNoPeers>(runtime_));
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(told, 1);
}

// Notes what is reached from where, or says that it cannot be.
class Reaches final : public RuntimeDecorator {
 public:
  Reaches(std::shared_ptr<Runtime> inner, bool refuses) : RuntimeDecorator(std::move(inner)), refuses_(refuses) {}
  void reach(int device, const void* address) override {
    const std::lock_guard hold(mutex_);
    if (refuses_) throw Unsupported("cuda:0 may not use the memory of another GPU");
    reached.emplace(device, address);
  }
  std::set<std::pair<int, const void*>> reached;

 private:
  std::mutex mutex_;
  bool refuses_;
};

// Memory of a pool or a mapping has access of its own: each address of another device is asked for, before a kernel
// gets it.
TEST_F(CallsTest, MemoryOfAnotherDeviceIsReachedFirst) {
  const auto runtime = std::make_shared<Reaches>(runtime_, false);
  std::array<const void*, 3> data{};
  on_ranks(
      3,
      [&](Communicator& world, Numbers& numbers) {
        data[static_cast<std::size_t>(world.rank())] = numbers.buffer().data;
        numbers.set(1);
        world.all_reduce(numbers.buffer(), numbers.buffer(), ReduceOp::sum);
        EXPECT_THAT(numbers.get(), Each(3.0F));
      },
      runtime);
  // Ranks 0 and 2 are on device 0, rank 1 on device 1.
  const std::set<std::pair<int, const void*>> expected{{0, data[1]}, {1, data[0]}, {1, data[2]}};
  EXPECT_EQ(runtime->reached, expected);
}

// What is neither given nor got may point anywhere.
TEST_F(CallsTest, NobodyLooksAtWhatIsNotUsed) {
  on_ranks(2, [](Communicator& world, Numbers& numbers) {
    comm::Buffer none = numbers.buffer(), stale = numbers.buffer();
    none.data = static_cast<std::byte*>(none.data) + kCount * 4;
    none.count = 0;
    world.all_reduce(none, none, ReduceOp::sum);
    if (world.rank() == 0)
      world.send(none, 1);
    else
      world.recv(none, 0);
    float of_the_host = 0;
    stale.data = &of_the_host;
    numbers.set(1);
    world.reduce(numbers.buffer(), world.rank() == 0 ? numbers.buffer() : stale, ReduceOp::sum, 0);
    EXPECT_THAT(numbers.get(), Each(world.rank() == 0 ? 2.0F : 1.0F));
  });
}

TEST_F(CallsTest, MemoryThatStaysClosedIsARuntimeFailureWithTheReason) {
  std::atomic<int> refused{0};
  on_ranks(
      2,
      [&](Communicator& world, Numbers& numbers) {
        const auto group = world.duplicate();
        try {
          group->broadcast(numbers.buffer(), 0);
          ADD_FAILURE() << "it was launched";
        } catch (const comm::PeerFailed& error) {
          EXPECT_THAT(error.what(), HasSubstr("may not use the memory of another GPU"));
        } catch (const RuntimeFailure& error) {
          EXPECT_THAT(error.what(), HasSubstr("could not launch broadcast: cuda:0 may not use the memory"));
          ++refused;
        }
      },
      std::make_shared<Reaches>(runtime_, true));
  EXPECT_EQ(refused, 1);
}

TEST_F(CallsTest, ABarrierIsOfTheHostWhateverItsBuffersSay) {
  on_ranks(2, [](Communicator& world, Numbers& numbers) {
    const comm::Device device = numbers.buffer().device;
    const comm::Call barrier{.in = {nullptr, 0, DType::f32, device}, .out = {nullptr, 0, DType::f32, device}};
    for (const int started : {0, 1}) {
      if (world.rank() == started)
        world.start(barrier).wait();
      else
        world.barrier();
    }
  });
}

class RefusesToFold final : public RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void fold(int, const FoldTable&, Stream) override { throw RuntimeFailure("CUDA: the launch of a fold: out of luck"); }
  void move(int, const MoveTable&, Stream) override { throw RuntimeFailure("CUDA: the launch of a move: out of luck"); }
};

TEST_F(CallsTest, ALaunchThatFailsIsToldToAllMembers) {
  std::atomic<int> refused{0}, told{0};
  on_ranks(
      3,
      [&](Communicator& world, Numbers& numbers) {
        const auto group = world.duplicate();
        try {
          group->all_reduce(numbers.buffer(), numbers.buffer(), ReduceOp::sum);
          ADD_FAILURE() << "nothing was said";
        } catch (const comm::PeerFailed& error) {
          EXPECT_THAT(error.what(), HasSubstr("could not launch all_reduce: CUDA: the launch of a fold: out of luck"));
          ++told;
        } catch (const RuntimeFailure&) {
          ++refused;
        }
        const auto pair = world.duplicate();
        if (world.rank() == 2) return world.barrier();
        try {
          if (world.rank() == 0)
            pair->send(numbers.buffer(), 1);
          else
            pair->recv(numbers.buffer(), 0);
          ADD_FAILURE() << "nothing was said";
        } catch (const comm::PeerFailed& error) {
          EXPECT_THAT(error.what(), HasSubstr("the launch of a move: out of luck"));
        }
        world.barrier();
      },
      std::make_shared<RefusesToFold>(runtime_));
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(told, 2);
}

TEST_F(CallsTest, ManyCallsAndGroupsAtOnce) {
  on_ranks(4, [](Communicator& world, Numbers& numbers) {
    const auto other = world.duplicate();
    std::vector<comm::Work> works;
    for (int i = 0; i < 30; ++i) {
      numbers.set(1);
      Communicator& group = i % 2 == 0 ? world : *other;
      comm::Work work =
          group.start({.operation = Operation::all_reduce, .in = numbers.buffer(), .out = numbers.buffer()});
      work.wait();
      if (i % 10 == 9) {
        EXPECT_THAT(numbers.get(), Each(4.0F));
      }
    }
  });
}

TEST_F(CallsTest, MemoryOfADeviceIsUnsupportedWithoutCalls) {
  comm::run_ranks(1, [&](Communicator& world) {
    const Numbers numbers(runtime_, 0);
    try {
      world.all_reduce(numbers.buffer(), numbers.buffer(), ReduceOp::sum);
      FAIL();
    } catch (const Unsupported& error) {
      EXPECT_THAT(error.what(), HasSubstr("memory on emulated:0 is not supported by backend local here, only cpu"));
    }
  });
}

}  // namespace
}  // namespace plumbline::device
