// When the thread that moves calls on looks: how often, and how soon.
#include "harness/subject/nccl/progress_thread.hpp"

#include <atomic>

#include <gtest/gtest.h>

namespace plumbline::subject::nccl {
namespace {

using namespace std::chrono_literals;

// So long a pause that none ends by itself.
constexpr Pauses kForever{.shortest = 60s, .longest = 60s};

bool comes_true(const std::function<bool()>& is_so, std::chrono::seconds limit = 20s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!is_so() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return is_so();
}

TEST(ProgressThread, AWakeEndsAPause) {
  std::atomic<int> steps = 0;
  ProgressThread thread([&] { return ++steps > 0; }, kForever);
  for (int wakes = 1; wakes <= 100; ++wakes) {
    ASSERT_TRUE(comes_true([&] { return steps == wakes; })) << "the thread has not made step " << wakes;
    thread.wake();
  }
}

TEST(ProgressThread, AWakeDuringAStepIsMetByTheNext) {
  std::atomic<int> begun = 0;
  std::atomic<bool> may_end = false;
  ProgressThread thread(
      [&] {
        ++begun;
        return comes_true([&] { return may_end.load(); });
      },
      kForever);
  ASSERT_TRUE(comes_true([&] { return begun == 1; })) << "the thread has not begun";
  thread.wake();
  may_end = true;
  EXPECT_TRUE(comes_true([&] { return begun == 2; })) << "the thread has forgotten the wake";
}

TEST(ProgressThread, SleepsWhileNothingIsLeft) {
  std::atomic<int> steps = 0;
  ProgressThread thread([&] { return ++steps < 0; }, {.shortest = 1ms, .longest = 1ms});
  ASSERT_TRUE(comes_true([&] { return steps == 1; })) << "the thread has not begun";
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(steps, 1);
  thread.wake();
  EXPECT_TRUE(comes_true([&] { return steps == 2; })) << "the thread sleeps on";
}

}  // namespace
}  // namespace plumbline::subject::nccl
