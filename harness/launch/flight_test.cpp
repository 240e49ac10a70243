#include "harness/launch/flight.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/launch/flight_compare.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::launch {
namespace {

using comm::Call;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;

constexpr std::uint64_t kWorld = 7, kPair = 8;

FlightEvent group(std::uint64_t id, const std::string& name) {
  FlightEvent event{.group = id, .kind = FlightEvent::Kind::group};
  std::copy(name.begin(), name.end(), event.text.begin());
  return event;
}

FlightEvent collective(std::uint64_t number, Operation operation, std::int64_t elements = 4,
                       std::uint64_t id = kWorld) {
  return {.group = id, .call = number, .collective = number, .elements = elements, .operation = operation};
}

FlightEvent of(FlightEvent::Kind kind, FlightEvent event) {
  event.kind = kind;
  return event;
}

FlightLog log_of(std::vector<FlightEvent> events) {
  events.insert(events.begin(), group(kWorld, "world"));
  return {.found = true, .events = std::move(events)};
}

// What rank 1 of three does instead of the f32 sum of 4 elements that the others make.
std::string difference(FlightEvent other) {
  const FlightEvent usual = collective(2, Operation::all_reduce);
  const FlightEvent first = collective(1, Operation::barrier);
  return first_difference({log_of({first, usual}), log_of({first, other}), log_of({first, usual})});
}

// HARNESS-012@feaf
TEST(FirstDifferenceTest, NamesCollectiveGroupRanksAndValues) {
  const std::string usual = "collective #2 on world: ranks 0, 2 all_reduce(f32 x 4, sum), rank 1 ";
  EXPECT_EQ(difference(collective(2, Operation::all_reduce)), "");
  EXPECT_EQ(difference(collective(2, Operation::all_reduce, 5)), usual + "all_reduce(f32 x 5, sum)");
  EXPECT_EQ(difference(collective(2, Operation::barrier)), usual + "barrier()");
  FlightEvent other = collective(2, Operation::all_reduce);
  other.dtype = DType::f64;
  EXPECT_EQ(difference(other), usual + "all_reduce(f64 x 4, sum)");
  other = collective(2, Operation::all_reduce);
  other.op = ReduceOp::max;
  EXPECT_EQ(difference(other), usual + "all_reduce(f32 x 4, max)");
  // A non-blocking call matches a blocking one.
  EXPECT_EQ(difference(of(FlightEvent::Kind::start, collective(2, Operation::all_reduce))), "");
}

TEST(FirstDifferenceTest, ComparesRootsOfWhatHasOne) {
  const auto rooted = [](Operation operation, int root) {
    FlightEvent event = collective(1, operation);
    event.root = root;
    return log_of({event});
  };
  EXPECT_EQ(first_difference({rooted(Operation::broadcast, 0), rooted(Operation::broadcast, 1)}),
            "collective #1 on world: rank 0 broadcast(f32 x 4, root 0), rank 1 broadcast(f32 x 4, root 1)");
  EXPECT_EQ(first_difference({rooted(Operation::all_gather, 0), rooted(Operation::all_gather, 1)}), "");
}

TEST(FirstDifferenceTest, AnotherOrderIsADifferenceAndTheFirstIsNamed) {
  EXPECT_EQ(first_difference({log_of({collective(1, Operation::barrier), collective(2, Operation::all_reduce)}),
                              log_of({collective(1, Operation::all_reduce), collective(2, Operation::barrier)})}),
            "collective #1 on world: rank 0 barrier(), rank 1 all_reduce(f32 x 4, sum)");
}

TEST(FirstDifferenceTest, OnlyMembersOfTheSameGroupAreCompared) {
  const FlightEvent here = collective(1, Operation::barrier), there = collective(1, Operation::all_reduce, 4, kPair);
  EXPECT_EQ(first_difference({log_of({here}), log_of({group(kPair, "[1 2]"), there}), log_of({})}), "");
  EXPECT_EQ(first_difference({log_of({here}), log_of({group(kPair, "[1 2]"), there}),
                              log_of({group(kPair, "[1 2]"), collective(1, Operation::barrier, 4, kPair)})}),
            "collective #1 on [1 2]: rank 1 all_reduce(f32 x 4, sum), rank 2 barrier()");
}

TEST(FirstDifferenceTest, WhoIsBehindOrHasForgottenDoesNotDisagree) {
  const FlightEvent one = collective(1, Operation::all_reduce), two = collective(2, Operation::barrier);
  EXPECT_EQ(first_difference({log_of({one, two}), log_of({one}), log_of({two}), log_of({}), {}}), "");
  FlightEvent send{.group = kWorld, .call = 1, .operation = Operation::send};
  EXPECT_EQ(first_difference({log_of({send, one}), log_of({one})}), "");
}

TEST(FirstDifferenceTest, ACollectiveThatWasRefusedIsNotCounted) {
  const FlightEvent refused = collective(1, Operation::all_reduce, 9), made = collective(1, Operation::all_reduce);
  EXPECT_EQ(first_difference(
                {log_of({refused, of(FlightEvent::Kind::failed, refused), made}), log_of({made}), log_of({made})}),
            "");
}

// HARNESS-010@06e2
TEST(PositionTest, IsTheNewestCallThatIsOpenWhateverEndedAfterIt) {
  const FlightEvent one = of(FlightEvent::Kind::start, collective(1, Operation::all_reduce));
  const FlightEvent two = of(FlightEvent::Kind::start, collective(2, Operation::barrier));
  EXPECT_EQ(log_of({one, two, of(FlightEvent::Kind::done, two)}).position(),
            "started all_reduce(f32 x 4, sum) #1 on world, after it completed barrier() #2 on world");
  EXPECT_EQ(log_of({one, two, of(FlightEvent::Kind::done, two), of(FlightEvent::Kind::done, one)}).position(),
            "last completed all_reduce(f32 x 4, sum) #1 on world");
}

// HARNESS-010@06e2
TEST(PositionTest, HasThePeerOfAMessage) {
  FlightEvent receive{.group = kWorld,
                      .call = 3,
                      .elements = 4,
                      .root = 2,
                      .kind = FlightEvent::Kind::enter,
                      .operation = Operation::recv};
  EXPECT_EQ(log_of({receive}).position(), "entered recv(f32 x 4 from 2, tag 0) #3 on world");
}

// ---- two groups ----

FlightEvent entered(std::uint64_t number, std::uint64_t id, std::int32_t thread = 1) {
  FlightEvent event = collective(number, Operation::barrier, 4, id);
  event.thread = thread;
  return event;
}
FlightLog log_of_two(std::vector<FlightEvent> events) {
  events.insert(events.begin(), group(kPair, "[0 1]"));
  return log_of(std::move(events));
}

// HARNESS-011@c6ae
TEST(CrossedOrderTest, NamesRanksAndCalls) {
  const FlightLog one = log_of_two({entered(1, kWorld), entered(1, kPair), entered(2, kWorld)});
  const FlightLog two = log_of_two({entered(1, kWorld), entered(2, kWorld), entered(1, kPair)});
  EXPECT_EQ(crossed_order({one, one, one}), "");
  EXPECT_EQ(crossed_order({one, two}),
            "ranks 0 and 1 enter blocking collectives of two groups in different orders: rank 0 barrier() #1 on [0 1], "
            "rank 1 barrier() #2 on world");
}

TEST(CrossedOrderTest, OnlyWhatBothRanksUseAndRememberIsCompared) {
  const FlightLog member = log_of_two({entered(1, kPair), entered(1, kWorld)});
  EXPECT_EQ(crossed_order({member, log_of({entered(1, kWorld)})}), "") << "rank 1 is no member of the pair";
  EXPECT_EQ(crossed_order({member, log_of_two({entered(1, kPair)})}), "") << "rank 1 has not come so far";
  const FlightLog forgetful = log_of_two({entered(2, kWorld), entered(2, kPair)});
  EXPECT_EQ(crossed_order({log_of_two({entered(1, kPair), entered(1, kWorld), entered(2, kWorld), entered(2, kPair)}),
                           forgetful}),
            "");
}

TEST(CrossedOrderTest, CallsThatDoNotBlockOrFailedMayCross) {
  const auto crossing = [](FlightEvent::Kind kind) {
    const FlightEvent pair = of(kind, entered(1, kPair)), world = of(kind, entered(1, kWorld));
    return crossed_order({log_of_two({pair, world}), log_of_two({world, pair})});
  };
  EXPECT_NE(crossing(FlightEvent::Kind::enter), "");
  EXPECT_EQ(crossing(FlightEvent::Kind::start), "");
  const FlightEvent pair = entered(1, kPair), world = entered(1, kWorld);
  EXPECT_EQ(crossed_order({log_of_two({pair, of(FlightEvent::Kind::failed, pair), world}), log_of_two({world, pair})}),
            "");
}

TEST(CrossedOrderTest, ACallThatOneRankOnlyStartedOrThatFailedOnOneIsOfNeither) {
  const FlightEvent one = entered(1, kWorld), two = entered(2, kWorld), pair = entered(1, kPair);
  const FlightLog blocking = log_of_two({one, two, pair});
  EXPECT_EQ(crossed_order({blocking, log_of_two({one, of(FlightEvent::Kind::start, two), pair})}), "");
  EXPECT_EQ(crossed_order({blocking, log_of_two({one, two, of(FlightEvent::Kind::failed, two), pair})}), "");
}

TEST(FirstDifferenceTest, OfWhatCompletedLeavesOutWhatFailedOnAnyRank) {
  const FlightEvent sum = collective(1, Operation::all_reduce), barrier = collective(1, Operation::barrier);
  EXPECT_NE(first_difference({log_of({sum}), log_of({barrier})}, Compared::completed), "");
  EXPECT_EQ(
      first_difference({log_of({sum}), log_of({barrier, of(FlightEvent::Kind::failed, barrier)})}, Compared::completed),
      "");
}

TEST(CrossedOrderTest, ThreadsOfARankHaveNoOrderAmongThemselves) {
  const FlightLog two_threads = log_of_two({entered(1, kPair, 1), entered(1, kWorld, 2)});
  EXPECT_EQ(crossed_order({two_threads, log_of_two({entered(1, kWorld, 2), entered(1, kPair, 1)})}), "");
  EXPECT_EQ(crossed_order({two_threads, log_of_two({entered(1, kWorld, 1), entered(1, kPair, 1)})}), "");
  const FlightLog mixed = log_of_two({entered(1, kWorld, 1), entered(1, kPair, 1), entered(2, kWorld, 2)});
  EXPECT_EQ(crossed_order({mixed, log_of_two({entered(1, kPair), entered(1, kWorld), entered(2, kWorld)})}), "");
}

TEST(CrosswiseWaitTest, NamesTwoRanksOfWhichEachWaitsForTheOther) {
  const FlightEvent made = collective(1, Operation::barrier, 4, kPair);
  const FlightLog one = log_of_two({entered(1, kPair)}), two = log_of_two({entered(1, kWorld)});
  EXPECT_EQ(
      crosswise_wait({one, two}),
      "ranks 0 and 1 wait for each other in two groups: rank 0 barrier() #1 on [0 1], rank 1 barrier() #1 on world");
  EXPECT_EQ(crosswise_wait({one, log_of({entered(1, kWorld)})}), "") << "rank 1 is no member of the pair";
  EXPECT_EQ(crosswise_wait({one, one}), "") << "both wait in the same group";
  EXPECT_EQ(
      crosswise_wait({one, log_of_two({entered(1, kPair), of(FlightEvent::Kind::leave, made), entered(1, kWorld)})}),
      "")
      << "rank 1 has been where rank 0 is";
  EXPECT_EQ(crosswise_wait({one, log_of_two({})}), "");
}

class RingTest : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(file_); }
  // The events of rank 0 of one, which does `what`.
  std::vector<FlightEvent> recorded(const std::function<void(comm::Communicator&)>& what) {
    FlightRing ring(file_);
    comm::LocalWorld world(1);
    const auto communicator = record_flight(world.communicator(0), ring);
    what(*communicator);
    return read_flight(file_).events;
  }
  static std::vector<FlightEvent::Kind> kinds(const std::vector<FlightEvent>& events) {
    std::vector<FlightEvent::Kind> list;
    for (const FlightEvent& event : events) list.push_back(event.kind);
    return list;
  }
  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("plumbline-flight-test-" + std::to_string(::getpid()));
  std::array<float, 2> in_{}, out_{};
};

TEST_F(RingTest, EveryCallOfABatchIsDoneOnce) {
  using Kind = FlightEvent::Kind;
  const auto events = recorded([&](comm::Communicator& world) {
    const Call sum{
        .operation = Operation::all_reduce, .in = {in_.data(), 2, DType::f32}, .out = {out_.data(), 2, DType::f32}};
    const std::array<Call, 2> calls{sum, sum};
    comm::Work work = world.start(calls);
    work.wait();
    work.wait();
  });
  EXPECT_THAT(kinds(events), testing::ElementsAre(Kind::group, Kind::start, Kind::start, Kind::done, Kind::done));
  EXPECT_EQ(events.at(3).call, 1u);
  EXPECT_EQ(events.at(4).call, 2u);
}

TEST_F(RingTest, CollectivesAreCountedWithoutSendsAndReceives) {
  const auto events = recorded([&](comm::Communicator& world) {
    world.barrier();
    const std::array<Call, 2> exchange{
        Call{.operation = Operation::send, .root = 0, .in = {in_.data(), 2, DType::f32}},
        Call{.operation = Operation::recv, .root = 0, .out = {out_.data(), 2, DType::f32}}};
    world.start(exchange).wait();
    world.barrier();
  });
  const FlightEvent& last = events.back();
  EXPECT_EQ(last.call, 4u);
  EXPECT_EQ(last.collective, 2u);
}

TEST_F(RingTest, CallsOnAWindowAreNotedByTheirWords) {
  const auto events = recorded([&](comm::Communicator& world) {
    const auto window = world.create_window(comm::Buffer::of(out_));
    window->put({in_.data(), 1, DType::f32}, 0, 4);
    window->signal(0);
    EXPECT_THROW(window->wait(0, 2, 0, std::chrono::milliseconds(1)), comm::TimeoutError);
  });
  std::vector<std::string> begun;
  for (const FlightEvent& event : events)
    if (event.begins()) begun.push_back(event.describe_call());
  EXPECT_THAT(begun, testing::ElementsAre("create_window", "put(f32 x 1 to rank 0 at byte 4, context 0)",
                                          "signal(rank 0, context 0)", "wait(2 signals of rank 0, context 0)"));
  EXPECT_EQ(events.back().kind, FlightEvent::Kind::failed);
  EXPECT_EQ(events.back().collective, 0u);
}

TEST(FirstDifferenceTest, TellsTheCreationOfAWindowFromABarrier) {
  FlightEvent window = collective(2, Operation::barrier);
  window.text = {'c', 'r', 'e', 'a', 't', 'e', '_', 'w', 'i', 'n', 'd', 'o', 'w'};
  EXPECT_EQ(difference(window), "collective #2 on world: ranks 0, 2 all_reduce(f32 x 4, sum), rank 1 create_window");
  EXPECT_NE(first_difference({log_of({window}), log_of({collective(2, Operation::barrier)})}), "");
}

TEST(PairExchangeInARing, IsNotedAsTheMessagesThatItStandsFor) {
  comm::run_ranks(2, [](comm::Communicator& world) {
    const auto file = std::filesystem::temp_directory_path() /
                      ("plumbline-flight-test-" + std::to_string(::getpid()) + "-" + std::to_string(world.rank()));
    FlightRing ring(file);
    const auto recorder = record_flight(world.duplicate(), ring);
    std::array<float, 2> values{};
    const comm::PairPart part{{values.data(), 2, DType::f32}};
    const comm::PairExchange exchange{
        .peer = 1 - world.rank(),
        .tag = 3,
        .parts = {&part, 1},
        .update = [](comm::DType, void*, const comm::PairFactors&, void*, const comm::PairFactors&, std::int64_t) {}};
    recorder->pair_exchanges()->start(exchange).wait();
    std::vector<std::string> said;
    for (const FlightEvent& event : read_flight(file).events)
      if (event.kind != FlightEvent::Kind::group)
        said.push_back((event.begins() ? "started " : "completed ") + event.describe_call());
    const std::string peer = std::to_string(1 - world.rank());
    const std::string send = "send(f32 x 2 to " + peer + ", tag 3)", receive = "recv(f32 x 2 from " + peer + ", tag 3)";
    EXPECT_THAT(said, testing::ElementsAre("started " + send, "started " + receive, "completed " + send,
                                           "completed " + receive));
    std::filesystem::remove(file);
  });
}

TEST_F(RingTest, EventsOfAnEarlierCheckAreLeftOut) {
  const auto events = recorded([&](comm::Communicator& world) { world.barrier(); });
  FlightRing ring(file_);
  for (const FlightEvent& event : events) ring.write(event);
  EXPECT_EQ(read_flight(file_, events.back().nanoseconds).events.size(), 1u);
  EXPECT_EQ(read_flight(file_, events.back().nanoseconds + 1).position(), "made no call");
  EXPECT_EQ(read_flight(file_.string() + ".nothere").position(), "left no notes of its calls on this host");
}

}  // namespace
}  // namespace plumbline::launch
