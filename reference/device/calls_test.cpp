// Backend local on memory of emulated devices: what the conformance checks do not see, since they know no backend's inside.
#include "reference/device/calls.hpp"

#include <chrono>
#include <latch>
#include <list>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/emulated.hpp"
#include "reference/device/fold.hpp"
#include "reference/device/handles.hpp"
#include "reference/device/move.hpp"

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
      if (i % 10 == 9) EXPECT_THAT(numbers.get(), Each(4.0F));
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
