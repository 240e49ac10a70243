// What an arm changes, and what it does not.
#include "harness/modes/modes.hpp"

#include <array>
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/modes/posting_board.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::modes {
namespace {

using comm::Call;
using comm::Communicator;
using comm::Operation;
using comm::Work;
using suite::ExecutionMode;
using namespace std::chrono_literals;

constexpr ExecutionMode kRendezvous{.kind = ExecutionMode::Kind::rendezvous};

Call send(const std::int64_t& number, int to, int tag = 0) {
  return {.operation = Operation::send, .root = to, .tag = tag, .in = {&number, 1, comm::DType::i64}};
}
Call receive(std::int64_t& number, int from, int tag = 0) {
  return {.operation = Operation::recv, .root = from, .tag = tag, .out = {&number, 1, comm::DType::i64}};
}

// Runs `body` on every rank of a local world under an arm.
class Arms : public testing::Test {
 protected:
  void run(const ExecutionMode& mode, int ranks, const std::function<void(Communicator&)>& body) {
    comm::LocalWorld world(ranks, {.timeout = 5s});
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        const auto communicator = under(mode, world.communicator(rank), folder_.path(), 5s);
        body(*communicator);
      });
  }
  job::TemporaryFolder folder_;
};

TEST_F(Arms, PlainIsTheCommunicatorItself) {
  comm::LocalWorld world(1, {});
  auto communicator = world.communicator(0);
  const Communicator* const before = communicator.get();
  EXPECT_EQ(under({}, std::move(communicator), folder_.path(), 1s).get(), before);
}

TEST_F(Arms, ABlockingSendWaitsForItsReceive) {
  std::atomic<bool> posting = false;
  run(kRendezvous, 2, [&](Communicator& world) {
    std::int64_t number = 7;
    if (world.rank() == 0) {
      world.run(send(number, 1));  // eight bytes, which local would have kept
      EXPECT_TRUE(posting) << "it returned before the receive was posted";
      return;
    }
    std::this_thread::sleep_for(20ms);
    posting = true;
    world.run(receive(number, 0));
    EXPECT_EQ(number, 7);
  });
}

TEST_F(Arms, AStartedSendIsCompleteWhenItsReceiveIsPosted) {
  std::atomic<bool> looked = false;
  run(kRendezvous, 2, [&](Communicator& world) {
    std::int64_t number = 7;
    if (world.rank() == 0) {
      Work work = world.start(send(number, 1));
      for (int look = 0; look < 3; ++look) EXPECT_FALSE(work.test());
      looked = true;
      work.wait();
      EXPECT_TRUE(work.test());
      return;
    }
    while (!looked) std::this_thread::yield();
    world.run(receive(number, 0));
    EXPECT_EQ(number, 7);
  });
}

TEST_F(Arms, AReceiveOfAnotherTagOrGroupFreesNoSend) {
  run(kRendezvous, 2, [&](Communicator& world) {
    const auto other = world.duplicate();
    std::int64_t number = 7, second = 0;
    if (world.rank() == 0) {
      Work unrelated = other->start(send(number, 1, 3));
      Work tagged = world.start(send(number, 1, 4));
      unrelated.wait();
      tagged.wait();
      world.barrier();  // both receives of rank 1 were posted, and it is through
      EXPECT_THROW(world.run(send(number, 1, 3), 20ms), comm::TimeoutError);
      EXPECT_THROW(world.barrier(), comm::PeerFailed) << "a call was given up";
      return;
    }
    Work first = other->start(receive(number, 0, 3));
    Work tagged = world.start(receive(second, 0, 4));
    first.wait();
    tagged.wait();
    world.barrier();
  });
}

TEST_F(Arms, ASendThatIsNeverReceivedSaysForWhomItWaited) {
  for (const bool started : {false, true})
    run(kRendezvous, 2, [&](Communicator& world) {
      if (world.rank() != 0) return;
      const std::int64_t number = 7;
      try {
        if (started)
          world.start(send(number, 1)).wait(20ms);
        else
          world.run(send(number, 1), 20ms);
        FAIL() << "it returned";
      } catch (const comm::TimeoutError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("no receive was posted by rank 1"));
      }
    });
}

// A communicator that refuses f64, as a backend that does not claim it.
class RefusesF64 final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  static void look(const Call& call) {
    if (call.dtype() == comm::DType::f64) throw Unsupported("no f64 here");
  }
  void do_run(const Call& call, comm::Timeout timeout) override {
    look(call);
    CommunicatorDecorator::do_run(call, timeout);
  }
  Work do_start(std::span<const Call> calls) override {
    for (const Call& call : calls) look(call);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<RefusesF64>(std::move(group));
  }
};

TEST_F(Arms, WhatTheBackendRefusesIsRefusedAtOnceAndCountsForNothing) {
  comm::LocalWorld local(2, {.timeout = 5s});
  const auto body = [&](int rank) {
    const auto world = under(kRendezvous, std::make_unique<RefusesF64>(local.communicator(rank)), folder_.path(), 5s);
    double refused = 1;
    std::int64_t number = 7;
    const int peer = 1 - rank;
    EXPECT_THROW(world->send({&refused, 1, comm::DType::f64}, peer), Unsupported);
    EXPECT_THROW(world->recv({&refused, 1, comm::DType::f64}, peer), Unsupported);
    world->barrier();
    if (rank == 0) {
      EXPECT_THROW(world->start(send(number, 1)).wait(20ms), comm::TimeoutError) << "a refused receive freed it";
    }
  };
  const std::jthread other([&] { body(1); });
  body(0);
}

TEST_F(Arms, ARankThatWaitsForAReceiveMakesItsOtherCallsGoOn) {
  run(kRendezvous, 2, [&](Communicator& world) {
    std::int64_t number = world.rank() == 0 ? 7 : 0, mine = 1, sum = 0;
    const Call add{
        .operation = Operation::all_reduce, .in = {&mine, 1, comm::DType::i64}, .out = {&sum, 1, comm::DType::i64}};
    Work work = world.start(add);
    if (world.rank() == 0) {
      world.run(send(number, 1));  // received only after rank 1 has the sum
      work.wait();
    } else {
      work.wait();
      world.run(receive(number, 0));
    }
    EXPECT_EQ(sum, 2);
    EXPECT_EQ(number, 7);
  });
}

TEST_F(Arms, SendsBeforeReceivesOnBothSidesHang) {
  std::atomic<int> timeouts = 0;
  const auto exchange = [&](Communicator& world) {
    std::int64_t mine = world.rank(), theirs = -1;
    const int peer = 1 - world.rank();
    try {
      world.run(send(mine, peer), 100ms);
      world.run(receive(theirs, peer), 100ms);
    } catch (const comm::TimeoutError&) {
      ++timeouts;
    }
  };
  run({}, 2, exchange);
  EXPECT_EQ(timeouts, 0) << "local keeps eight bytes";
  run(kRendezvous, 2, exchange);
  EXPECT_EQ(timeouts, 2);
}

TEST_F(Arms, ABatchOfSendsAndReceivesIsNoDeadlock) {
  run(kRendezvous, 3, [&](Communicator& world) {
    const int to = (world.rank() + 1) % 3, from = (world.rank() + 2) % 3;
    std::int64_t mine = world.rank(), theirs = -1;
    world.start(std::array{send(mine, to), receive(theirs, from)}).wait();
    EXPECT_EQ(theirs, from);
  });
}

TEST_F(Arms, ChaosReadsABufferLateAtLeastSometimes) {
  int changed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    run({.kind = ExecutionMode::Kind::chaos, .seed = seed}, 2, [&](Communicator& world) {
      std::int64_t number = 7;
      if (world.rank() == 0) {
        Work work = world.start(send(number, 1));
        number = 8;  // a fault: the send is not complete
        work.wait();
        return;
      }
      world.run(receive(number, 0));
      changed += number == 8;
    });
  EXPECT_GT(changed, 4);
  EXPECT_LT(changed, 20);
}

TEST_F(Arms, ChaosKeepsTheOrderOfCalls) {
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    run({.kind = ExecutionMode::Kind::chaos, .seed = seed}, 2, [&](Communicator& world) {
      constexpr std::size_t count = 9;
      std::array<std::int64_t, count> numbers{};
      std::vector<Work> works;
      for (std::size_t i = 0; i < count; ++i) {
        if (world.rank() == 0) numbers[i] = static_cast<std::int64_t>(i);
        const Call call = world.rank() == 0 ? send(numbers[i], 1) : receive(numbers[i], 0);
        if (i % 3 == 2)
          world.run(call);
        else
          works.push_back(world.start(call));
      }
      const auto group = world.duplicate();  // what was started before must not wait for what comes after
      for (Work& work : works)
        while (!work.test()) std::this_thread::yield();
      for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(numbers[i], static_cast<std::int64_t>(i));
    });
}

TEST_F(Arms, ACallThatChaosKeptIsMadeThoughNobodyWaits) {
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    run({.kind = ExecutionMode::Kind::chaos, .seed = seed}, 2, [&](Communicator& world) {
      std::int64_t number = world.rank() == 0 ? 7 : 0;
      Work first = world.start(world.rank() == 0 ? send(number, 1) : receive(number, 0));
      world.barrier();  // no progress but through the communicator
      first.wait();
      EXPECT_EQ(number, 7);
    });
}

TEST(PostingBoard, CountsEachKindOfMessageForAllThatOpenIt) {
  const job::TemporaryFolder folder;
  PostingBoard one(folder.path() / "posted"), two(folder.path() / "posted");
  const auto key = PostingBoard::key(1, 0, 1, 5);
  for (int i = 0; i < 3; ++i) one.post(key);
  EXPECT_EQ(two.posted(key), 3u);
  for (const auto other : {PostingBoard::key(2, 0, 1, 5), PostingBoard::key(1, 1, 0, 5), PostingBoard::key(1, 0, 1, 6),
                           PostingBoard::key(1, 0, 5, 1)})
    EXPECT_EQ(two.posted(other), 0u);
}

TEST(ExecutionMode, HasANameThatIsReadBack) {
  for (const ExecutionMode& mode :
       {ExecutionMode{}, kRendezvous, ExecutionMode{.kind = ExecutionMode::Kind::chaos, .seed = 18446744073709551615u}})
    EXPECT_EQ(ExecutionMode::parse(mode.name()), mode);
  for (const char* wrong : {"", "chaos", "chaos:", "chaos:x", "chaos:1 ", "Plain"})
    EXPECT_THROW((void)ExecutionMode::parse(wrong), InvalidArgument) << wrong;
}

}  // namespace
}  // namespace plumbline::modes
