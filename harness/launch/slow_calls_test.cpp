// A call that takes far longer than its like is named, with its rank; who waits for it, or for a late member, is not.
#include "harness/launch/slow_calls.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "reference/comm/local.hpp"

namespace plumbline::launch {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;

constexpr int kCalls = 20, kOdd = 12;

// Calls of two ranks, a microsecond each, of which the odd one of rank 1 takes `took`; rank 1 comes to it `late`.
std::vector<FlightLog> logs_with(std::chrono::nanoseconds took, std::chrono::nanoseconds late = 0ns,
                                 std::int64_t elements = 5) {
  std::vector<FlightLog> logs(2);
  for (std::size_t rank = 0; rank < logs.size(); ++rank) {
    FlightEvent world{.group = 7, .kind = FlightEvent::Kind::group, .text = {'w', 'o', 'r', 'l', 'd'}};
    logs[rank] = {.found = true, .events = {world}};
    std::uint64_t now = 1000;
    for (std::uint64_t call = 1; call <= kCalls; ++call) {
      const bool odd = call == kOdd;
      FlightEvent event{.nanoseconds = now + (odd && rank == 1 ? static_cast<std::uint64_t>(late.count()) : 0),
                        .group = 7,
                        .call = call,
                        .collective = call,
                        .elements = odd ? elements : 5,
                        .kind = FlightEvent::Kind::enter,
                        .operation = comm::Operation::all_reduce};
      logs[rank].events.push_back(event);
      now += odd ? static_cast<std::uint64_t>((late + took).count()) : 1000;
      event.kind = FlightEvent::Kind::leave;
      event.nanoseconds = rank == 0 && odd ? now - static_cast<std::uint64_t>(took.count()) + 1000 : now;
      logs[rank].events.push_back(event);
    }
  }
  return logs;
}

TEST(SlowCallsTest, AreNamedWithRankCallAndMedian) {
  EXPECT_THAT(
      slow_calls(logs_with(1500ms)),
      testing::ElementsAre("rank 1: all_reduce(f32 x 5, sum) #12 on world took 1.50 s, 1500000 times the median "
                           "of 19 such calls (0.000001 s)"));
}

TEST(SlowCallsTest, ThatAreNotFarFromOthersOrShortAreNot) {
  EXPECT_THAT(slow_calls(logs_with(1us)), IsEmpty());
  EXPECT_THAT(slow_calls(logs_with(999ms)), IsEmpty()) << "a million times the median, in less than a second";
  EXPECT_THAT(slow_calls(logs_with(1500ms, 0ns, 6)), IsEmpty()) << "longer than all others";
  std::vector<FlightLog> few = logs_with(1500ms);
  for (FlightLog& log : few) log.events.erase(log.events.begin() + 1, log.events.begin() + 1 + 2 * 8);
  EXPECT_THAT(slow_calls(few), testing::SizeIs(1));
  for (FlightLog& log : few) log.events.erase(log.events.begin() + 1, log.events.begin() + 1 + 2 * 3);
  for (FlightLog& log : few) log.events.resize(1 + 2 * 8);
  EXPECT_THAT(slow_calls(few), IsEmpty()) << "seven others";
}

TEST(SlowCallsTest, WaitingForALateMemberIsNot) { EXPECT_THAT(slow_calls(logs_with(1us, 5s)), IsEmpty()); }

TEST(SlowCallsTest, AreNotJudgedWhereALogIsMissing) {
  std::vector<FlightLog> logs = logs_with(1500ms);
  logs[0].events.erase(logs[0].events.begin() + 1, logs[0].events.begin() + 1 + 2 * kOdd);
  EXPECT_THAT(slow_calls(logs), IsEmpty()) << "rank 0's ring no longer says when it came";
  logs[0].found = false;
  EXPECT_THAT(slow_calls(logs), IsEmpty());
}

// Stands still in its call after the others are through, once: 5,000 times as long as its calls before took, however
// busy the machine.
class StallsOnce final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    const auto before = std::chrono::steady_clock::now();
    CommunicatorDecorator::do_run(call, timeout);
    if (rank() != 1) return;
    took_.push_back(std::chrono::steady_clock::now() - before);
    if (took_.size() < static_cast<std::size_t>(kOdd)) return;
    std::ranges::sort(took_);
    if (!std::exchange(stalled_, true))
      std::this_thread::sleep_for(std::max<std::chrono::nanoseconds>(400ms, 5000 * took_[kOdd / 2]));
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<StallsOnce>(std::move(group));
  }
  std::vector<std::chrono::nanoseconds> took_;
  bool stalled_ = false;
};

// With a floor that a busy machine may pass, too: what is asked for is that rank 1's call is among them.
TEST(SlowCallsTest, AreFoundInTheRingsOfRanks) {
  const auto folder = std::filesystem::temp_directory_path() / ("plumbline-slow-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  comm::run_ranks(3, [&](comm::Communicator& own) {
    FlightRing ring(folder / std::to_string(own.rank()));
    const auto world = record_flight(std::make_unique<StallsOnce>(own.duplicate()), ring);
    for (int call = 0; call < kCalls; ++call) world->barrier();
  });
  std::vector<FlightLog> logs;
  for (int rank = 0; rank < 3; ++rank) logs.push_back(read_flight(folder / std::to_string(rank)));
  EXPECT_THAT(slow_calls(logs, 300ms), testing::Contains(testing::HasSubstr("rank 1: barrier() #12 on ")));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace plumbline::launch
