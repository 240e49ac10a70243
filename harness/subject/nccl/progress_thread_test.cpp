// When the thread that moves calls on looks: how often, and how soon.
#include "harness/subject/nccl/progress_thread.hpp"

#include <atomic>

#include <gtest/gtest.h>

namespace plumbline::subject::nccl {
namespace {

using namespace std::chrono_literals;

// So long a pause that none ends by itself.
constexpr Pauses kForever{.shortest = 60s, .longest_for_nccl = 60s, .longest = 60s};

bool comes_true(const std::function<bool()>& is_so, std::chrono::seconds limit = 20s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!is_so() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return is_so();
}

TEST(ProgressThread, AWakeEndsAPause) {
  std::atomic<int> steps = 0;
  ProgressThread thread([&] { return ++steps, Step{Left::nccl}; }, kForever);
  for (int wakes = 1; wakes <= 100; ++wakes) {
    ASSERT_TRUE(comes_true([&] { return steps == wakes; })) << "the thread has not made step " << wakes;
    thread.wake(Left::others);
  }
}

TEST(ProgressThread, AWakeDuringAStepIsMetByTheNext) {
  std::atomic<int> begun = 0;
  std::atomic<bool> may_end = false;
  ProgressThread thread(
      [&] {
        ++begun;
        return Step{comes_true([&] { return may_end.load(); }) ? Left::others : Left::nothing};
      },
      kForever);
  ASSERT_TRUE(comes_true([&] { return begun == 1; })) << "the thread has not begun";
  thread.wake(Left::nccl);
  may_end = true;
  EXPECT_TRUE(comes_true([&] { return begun == 2; })) << "the thread has forgotten the wake";
}

// Steps that are made in half a second.
int steps_of(Step step) {
  std::atomic<int> steps = 0;
  const ProgressThread thread([&] { return ++steps, step; });
  std::this_thread::sleep_for(500ms);
  return steps;
}

TEST(ProgressThread, LooksRarelyForWhatOthersLeaveUndone) {
  // 10 while the pauses grow to 50 ms, then 20 a second.
  EXPECT_LE(steps_of({Left::others}), 25);
}

TEST(ProgressThread, LooksOftenWhileSomethingMoves) {
  // A pause is 50 us, or 1 ms; on a busy machine it may take much longer.
  EXPECT_GE(steps_of({Left::others, true}), 50);
  EXPECT_GE(steps_of({Left::nccl}), 50);
}

TEST(ProgressThread, SleepsWhileNothingIsLeft) {
  std::atomic<int> steps = 0;
  ProgressThread thread([&] { return ++steps, Step{}; }, {.shortest = 1ms, .longest = 1ms});
  ASSERT_TRUE(comes_true([&] { return steps == 1; })) << "the thread has not begun";
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(steps, 1);
  thread.wake(Left::nothing);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(steps, 1);
  thread.wake(Left::running);
  EXPECT_TRUE(comes_true([&] { return steps == 2; })) << "the thread sleeps on";
}

TEST(ProgressThread, IsNotHeldUpByEachCallThatRuns) {
  std::atomic<int> steps = 0;
  ProgressThread thread([&] { return ++steps, Step{Left::running}; }, kForever);
  ASSERT_TRUE(comes_true([&] { return steps == 1; })) << "the thread has not begun";
  for (int calls = 0; calls < 100; ++calls) thread.wake(Left::running);
  std::this_thread::sleep_for(50ms);
  EXPECT_LE(steps, 2);  // one where the first call came before the pause
  thread.wake(Left::nccl);
  EXPECT_TRUE(comes_true([&] { return steps >= 2; })) << "the thread has forgotten the wake";
}

}  // namespace
}  // namespace plumbline::subject::nccl
