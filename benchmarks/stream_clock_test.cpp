// When events happened by the machine's clock, on emulated devices, whose events are noted by that clock themselves.
#include "benchmarks/stream_clock.hpp"

#include <chrono>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/device/runtimes.hpp"

namespace plumbline::bench {
namespace {

using namespace std::chrono_literals;
using device::OwnEvent;
using device::OwnStream;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

TEST(StreamClock, SaysWhenAnEventWasReached) {
  const auto runtime = device::make_emulated({.devices = 2});
  const OwnStream stream(runtime, 1);
  const device::MemorySpace place({runtime, stream.get()}, 1);
  runtime->pause(1, 3ms, stream.get());
  StreamClock clock(place);
  EXPECT_LT(clock.uncertainty(), 1e-3) << "what was in the stream before is not part of it";
  const OwnEvent event(runtime, 1, true);
  const double before = now();
  runtime->pause(1, 5ms, stream.get());
  event.record(stream.get());
  place.synchronize();
  EXPECT_GE(clock.seconds_at(event), before + 5e-3 - clock.uncertainty());
  EXPECT_LE(clock.seconds_at(event), now() + clock.uncertainty());
}

// The stream goes on only when all computations were put there.
TEST(StreamComputationClock, HasThePeriodsOfTheStreamWithoutAWait) {
  const auto runtime = device::make_emulated({.devices = 1});
  const OwnStream stream(runtime, 0);
  StreamComputationClock clock(device::MemorySpace({runtime, stream.get()}, 0), false);
  for (int run = 0; run < 2; ++run) {
    std::latch all_there(1);
    const auto compute = [&] {
      static_cast<device::EmulatedQueue*>(stream.get())->put([&] { all_there.wait(); });
      runtime->pause(0, 3ms, stream.get());
    };
    clock.begin();
    const schedules::AroundComputation around = clock.around();
    const double before = now();
    for (int i = 0; i < 2; ++i) around({.kind = schedules::ActionKind::forward, .micro_batch = i}, compute);
    const double put = now();
    all_there.count_down();
    const std::vector<schedules::Period> periods = clock.periods();
    ASSERT_EQ(periods.size(), 2U);
    EXPECT_GE(periods[0].start, before - clock.uncertainty());
    EXPECT_GE(periods[0].end, put + 3e-3 - clock.uncertainty());
    EXPECT_GE(periods[1].start, periods[0].end);
    EXPECT_GE(periods[1].end - periods[1].start, 3e-3);
    EXPECT_LE(periods[1].end, now() + clock.uncertainty());
  }
}

TEST(StreamComputationClock, LetsTheHostComputeWhenTheStreamIsThere) {
  const auto runtime = device::make_emulated({.devices = 1});
  const OwnStream stream(runtime, 0);
  StreamComputationClock clock(device::MemorySpace({runtime, stream.get()}, 0), true);
  clock.begin();
  runtime->pause(0, 10ms, stream.get());  // a message that has to come first
  double began = 0;
  const auto compute = [&] {
    began = now();
    std::this_thread::sleep_for(5ms);
  };
  clock.around()({.kind = schedules::ActionKind::forward, .micro_batch = 0}, compute);
  const schedules::Period period = clock.periods().at(0);
  EXPECT_LE(period.start, began + clock.uncertainty());
  EXPECT_GE(period.end - period.start, 5e-3);
  EXPECT_GE(period.end, began + 5e-3 - clock.uncertainty());
}

}  // namespace
}  // namespace plumbline::bench
