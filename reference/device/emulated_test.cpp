// Streams, events and memory of the emulated device: what is ordered, and what is not.
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/device/detail/move.hpp"
#include "reference/device/fold.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::device {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string words_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Emulated, TellsItsMemoryFromTheHosts) {
  const auto runtime = make_emulated({.devices = 2});
  const Memory first(runtime, 0, 100), second(runtime, 1, 1);
  EXPECT_EQ(runtime->holder_of(first.data()), 0);
  EXPECT_EQ(runtime->holder_of(first.data() + 99), 0);
  EXPECT_EQ(runtime->holder_of(first.data() + 100), std::nullopt);
  EXPECT_EQ(runtime->holder_of(second.data()), 1);
  EXPECT_EQ(runtime->holder_of(&first), std::nullopt);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 256, 0U);
  EXPECT_EQ(runtime->allocate(0, 0), nullptr);
}

TEST(Emulated, SaysWhatIsFreeWhereThereIsNoRoom) {
  const auto runtime = make_emulated({.devices = 1, .memory_bytes = 1000});
  {
    const Memory some(runtime, 0, 600);
    EXPECT_EQ(words_of([&] { (void)runtime->allocate(0, 401); }),
              "emulated:0: no memory for 401 bytes; 400 of 1000 bytes are free");
    EXPECT_THROW((void)runtime->allocate(0, 401), OutOfMemory);
  }
  const Memory all(runtime, 0, 1000);
  EXPECT_EQ(words_of([&] { (void)runtime->allocate(0, 1); }),
            "emulated:0: no memory for 1 bytes; 0 of 1000 bytes are free");
}

TEST(Emulated, DoesAStreamsWorkInOrderWhileTheHostGoesOn) {
  const auto runtime = make_emulated({.devices = 1, .longest_delay = 300us});
  const Memory memory(runtime, 0, 4);
  const OwnStream stream(runtime, 0);
  int value = 0;
  std::atomic<int> copied{-1};
  const OwnEvent end(runtime, 0);
  EXPECT_TRUE(end.is_reached()) << "one that was never recorded";
  runtime->pause(0, 200ms, stream.get());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i <= 20; ++i) runtime->fill(0, memory.data(), std::byte(i), 4, stream.get());
  runtime->copy(0, &value, memory.data(), 4, stream.get());
  end.record(stream.get());
  EXPECT_FALSE(end.is_reached());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 150ms) << "the host waited";
  stream.synchronize();
  EXPECT_TRUE(end.is_reached());
  EXPECT_EQ(value, 0x14141414);
}

TEST(Emulated, AnEventStaysWhereItWasWhenItCannotBeRecorded) {
  const auto runtime = make_emulated({.devices = 2});
  const OwnStream elsewhere(runtime, 1);
  const OwnEvent event(runtime, 0);
  EXPECT_THROW(event.record(elsewhere.get()), InvalidArgument);
  EXPECT_TRUE(event.is_reached()) << "who waits for it would wait for ever";
}

TEST(Emulated, OrdersStreamsByEventsAsRecordedWhenTheyAreWaitedFor) {
  const auto runtime = make_emulated({.devices = 2});
  const Memory memory(runtime, 0, 1);
  const OwnStream slow(runtime, 0), reader(runtime, 1);
  const OwnEvent written(runtime, 0);
  std::byte seen{};
  runtime->pause(0, 50ms, slow.get());
  runtime->fill(0, memory.data(), std::byte{1}, 1, slow.get());
  written.record(slow.get());
  runtime->wait(1, reader.get(), written.get());
  written.record(nullptr);  // elsewhere, and at once: the reader waits for what was recorded before
  runtime->copy(1, &seen, memory.data(), 1, reader.get());
  reader.synchronize();
  EXPECT_EQ(seen, std::byte{1});
}

TEST(Emulated, MeasuresTheTimeBetweenEvents) {
  const auto runtime = make_emulated({.devices = 1});
  const OwnEvent begin(runtime, 0, true), end(runtime, 0, true);
  EXPECT_THROW((void)runtime->seconds_between(begin.get(), end.get()), StateError);
  begin.record(nullptr);
  runtime->pause(0, 20ms, nullptr);
  end.record(nullptr);
  runtime->synchronize(0, nullptr);
  EXPECT_GE(runtime->seconds_between(begin.get(), end.get()), 0.02);
}

TEST(Emulated, FinishesTheWorkOfAStreamThatIsGone) {
  const auto runtime = make_emulated({.devices = 1});
  const Memory memory(runtime, 0, 1);
  const OwnEvent end(runtime, 0);
  {
    const OwnStream stream(runtime, 0);
    runtime->pause(0, 20ms, stream.get());
    runtime->fill(0, memory.data(), std::byte{7}, 1, stream.get());
    end.record(stream.get());
  }
  runtime->wait(0, nullptr, end.get());
  runtime->synchronize(0, nullptr);
  EXPECT_EQ(*memory.data(), std::byte{7});
}

TEST(Emulated, SaysThatMemoryWasGivenBackBeforeItWasUsed) {
  const auto runtime = make_emulated({.devices = 1});
  const OwnStream stream(runtime, 0);
  {
    const Memory memory(runtime, 0, 8);
    runtime->pause(0, 20ms, stream.get());
    runtime->fill(0, memory.data(), std::byte{1}, 8, stream.get());
  }
  EXPECT_THAT(words_of([&] { stream.synchronize(); }),
              AllOf(HasSubstr("8 bytes at 0x"), HasSubstr("are used when they are memory of emulated:0 no more")));
  EXPECT_EQ(words_of([&] { stream.synchronize(); }), "no error");
}

TEST(Emulated, UsesMemoryOfAnotherDeviceOnceItIsConnected) {
  const auto runtime = make_emulated({.devices = 2});
  const Memory memory(runtime, 1, 16);
  const Moves moves = [&] {
    Moves made;
    std::byte* const to = memory.data() + 8;
    made.copy(memory.data(), std::span(&to, 1), 8);
    return made;
  }();
  EXPECT_THAT(words_of([&] { runtime->move(0, moves.tables().front(), nullptr); }),
              HasSubstr("a kernel of emulated:0 is given memory of emulated:1, to which it is not connected"));
  runtime->connect(0, 1);
  EXPECT_EQ(words_of([&] { runtime->move(0, moves.tables().front(), nullptr); }), "no error");
  runtime->synchronize(0, nullptr);
}

TEST(Emulated, RefusesWhatIsOfAnotherDevice) {
  const auto runtime = make_emulated({.devices = 2});
  const OwnStream stream(runtime, 1);
  const OwnEvent event(runtime, 1);
  EXPECT_THAT(words_of([&] { runtime->pause(0, 1ns, stream.get()); }),
              HasSubstr("a stream of emulated:1 is used as one of emulated:0"));
  EXPECT_THAT(words_of([&] { runtime->record(0, event.get(), nullptr); }), HasSubstr("an event of emulated:1"));
  EXPECT_EQ(words_of([&] { (void)runtime->allocate(2, 1); }),
            "there is no emulated:2; this process has 2, from emulated:0");
  FoldTable table;
  std::byte on_host{};
  table.inputs = 1;
  table.input[0] = &on_host;
  EXPECT_THAT(words_of([&] { runtime->fold(0, table, nullptr); }), HasSubstr("which is no device's memory"));
  EXPECT_THROW((void)make_emulated({.devices = 0}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::device
