#include <array>
#include <chrono>
#include <thread>

#include "harness/subject/mpi/job_test.hpp"
#include "reference/comm/errors.hpp"

// These leave calls under way. Memory that MPI may still touch is never freed here, as the backend asks of
// its callers.
namespace plumbline::subject::mpi {
namespace {

using namespace comm;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

using MpiFaults = MpiTest;

Buffer kept(std::size_t count) {
  auto* values = new std::vector<float>(count, 1);
  return {values->data(), static_cast<std::int64_t>(count), DType::f32};
}

// The message of the Failure that body throws.
template <class Failure>
std::string message_of(const auto& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  } catch (const std::exception& other) {
    return std::string("another error: ") + other.what();
  }
  return "no error";
}

std::string others(int n, int me) {
  std::string text;
  for (int rank = 0; rank < n; ++rank)
    if (rank != me) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return text;
}

TEST_F(MpiFaults, ABlockingCallKeepsItsLimitWhenARankDoesNotCome) {
  if (n == 1 || me == n - 1) return;
  const Buffer data = kept(5);
  const auto begin = std::chrono::steady_clock::now();
  const std::string message = message_of<TimeoutError>([&] { world.all_reduce(data, data, ReduceOp::sum, 100ms); });
  const auto taken = std::chrono::steady_clock::now() - begin;
  EXPECT_THAT(message, StartsWith("all_reduce(f32 x 5, sum) on world [0 1"));
  EXPECT_THAT(message, testing::EndsWith(", rank " + std::to_string(me) + ": waited 100 ms for rank " + others(n, me)));
  EXPECT_GE(taken, 100ms);
  EXPECT_LT(taken, 2s);
  EXPECT_THAT(message_of<PeerFailed>([&] { world.barrier(); }), HasSubstr("the group has failed: all_reduce(f32 x 5"));
  EXPECT_THAT(message_of<PeerFailed>([&] { (void)world.start({.operation = Operation::barrier}); }),
              HasSubstr("has failed"));
  EXPECT_THAT(message_of<PeerFailed>([&] { (void)world.duplicate(); }), HasSubstr("has failed"));
}

TEST_F(MpiFaults, AWaitKeepsItsLimitAndAReceiveNamesItsPeer) {
  const Buffer data = kept(7);
  Work work = world.start({.operation = Operation::recv, .root = n - 1, .tag = 8, .out = data});
  EXPECT_FALSE(work.test());
  const std::string message = message_of<TimeoutError>([&] { work.wait(50ms); });
  EXPECT_THAT(message, StartsWith("recv(f32 x 7 from " + std::to_string(n - 1) + ", tag 8) on world"));
  EXPECT_THAT(message, HasSubstr("waited 50 ms for rank " + std::to_string(n - 1)));
  EXPECT_THAT(message_of<PeerFailed>([&] { work.wait(); }), HasSubstr("has failed"));
}

TEST_F(MpiFaults, AnAverageOfHalvesThatNobodyCompletesDoesNoHarm) {
  if (n == 1 || me == 0) return;
  std::vector<std::uint16_t> halves(3000, 0x3c00);  // the sum is made in memory of the backend: ours may go
  const Buffer data{halves.data(), 3000, DType::f16};
  EXPECT_THAT(message_of<TimeoutError>([&] { world.all_reduce(data, data, ReduceOp::avg, 20ms); }), HasSubstr("avg"));
}

TEST_F(MpiFaults, ADroppedReceiveIsTakenBackAndFailsItsGroup) {
  const auto messages = world.duplicate();
  std::vector<float> values(4, -1);
  const Buffer data{values.data(), 4, DType::f32};
  if (me == n - 1) {
    {
      Work work = messages->start({.operation = Operation::recv, .root = 0, .out = data});
    }
    EXPECT_THAT(message_of<PeerFailed>([&] { messages->barrier(); }), HasSubstr("dropped an unfinished call"));
  }
  world.barrier();  // other groups go on
  if (n == 1) return;
  const std::vector<float> late(4, 5);
  if (me == 0) messages->send({late.data(), 4, DType::f32}, n - 1);
  world.barrier();
  EXPECT_THAT(values, testing::Each(-1.0f));
}

TEST_F(MpiFaults, ADroppedCallThatHadEndedFailsNothing) {
  const float value = 1;
  float received = 0;
  {
    Work send = world.start({.operation = Operation::send, .root = me, .in = {&value, 1, DType::f32}});
    world.recv({&received, 1, DType::f32}, me);
  }
  EXPECT_EQ(received, 1);
  world.barrier();
}

TEST_F(MpiFaults, AMessageThatIsTooLongOrTooShortIsAnErrorOfTheReceiver) {
  std::vector<float> values(10, static_cast<float>(me));
  std::vector<float> room(10);
  for (const std::int64_t expected : {4, 6})
    for (const bool blocking : {true, false}) {
      const auto group = world.duplicate();
      const Call receive{.operation = Operation::recv, .root = me, .out = {room.data(), expected, DType::f32}};
      Work send = group->start({.operation = Operation::send, .root = me, .in = {values.data(), 5, DType::f32}});
      const std::string message = message_of<RuntimeFailure>([&] {
        if (blocking) return group->run(receive);
        group->start(receive).wait();
      });
      EXPECT_THAT(message, StartsWith(describe(receive, n) + " on " + group->group().name + ", rank "));
      EXPECT_THAT(message,
                  testing::ContainsRegex(expected == 4 ? "[Mm]essage truncated$" : ": the message has 5 elements$"));
      EXPECT_THROW(group->barrier(), PeerFailed);
    }
}

TEST_F(MpiFaults, AMessageThatEndsInsideAnElementIsDescribedInBytes) {
  std::array<std::uint8_t, 3> bytes{};
  float room = 0;
  Work send = world.start({.operation = Operation::send, .root = me, .in = {bytes.data(), 3, DType::u8}});
  const std::string message = message_of<RuntimeFailure>([&] { world.recv({&room, 1, DType::f32}, me); });
  EXPECT_THAT(message, testing::EndsWith(": the message has 3 bytes, no whole number of f32 elements"));
}

TEST_F(MpiFaults, WaitingAgainAfterAnErrorIsNoSuccess) {
  float value = 1;
  Elements room(DType::f32, 2);
  Work send = world.start({.operation = Operation::send, .root = me, .in = {&value, 1, DType::f32}});
  Work receive = world.start({.operation = Operation::recv, .root = me, .out = room.view()});
  EXPECT_THROW(receive.wait(), RuntimeFailure);
  EXPECT_THROW(receive.wait(), PeerFailed);
}

TEST_F(MpiFaults, AbortReachesGroupsMadeFromThisOneAndEndsAWait) {
  const auto parent = world.duplicate();
  const auto child = parent->duplicate();
  const auto grandchild = child->duplicate();
  const Buffer data = kept(3);
  Work work = grandchild->start({.operation = Operation::recv, .root = me, .out = data});
  std::jthread other([&] {
    std::this_thread::sleep_for(30ms);
    parent->abort("a test says so");
  });
  EXPECT_THAT(message_of<PeerFailed>([&] { work.wait(); }), HasSubstr("the group has failed: a test says so"));
  EXPECT_THROW(child->barrier(), PeerFailed);
  EXPECT_THROW(parent->barrier(), PeerFailed);
  world.barrier();
}

}  // namespace
}  // namespace plumbline::subject::mpi
