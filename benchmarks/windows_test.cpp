#include "benchmarks/windows.hpp"

#include <barrier>
#include <csignal>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include "reference/comm/errors.hpp"

namespace plumbline::bench {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

class Told final : public Operation {
 public:
  explicit Told(std::function<void(int)> iteration) : iteration_(std::move(iteration)) {}
  void run() override {
    begun.push_back(Clock::now());
    iteration_(count_++);
  }
  std::optional<bool> check() override { return std::nullopt; }
  std::vector<Clock::time_point> begun;

 private:
  std::function<void(int)> iteration_;
  int count_ = 0;
};

// What a met window's begin may be late by, with the time from looking at the clock to looking at it again.
constexpr auto kLate = kLatestBegin + 100us;

// Of three ranks, whatever each did before: none begins early, and all that met a window began it together.
TEST(Windows, BeginAtTheSameTimeOnAllRanks) {
  constexpr int kRanks = 3, kIterations = 20;
  constexpr auto window = 20ms;
  const auto first = Clock::now() + 20ms;
  std::vector<std::vector<double>> seconds(kRanks);
  std::vector<Told> ranks(kRanks, Told([](int) {}));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      ranks[at] = Told([rank](int) { std::this_thread::sleep_for(rank * 2ms); });
      threads.emplace_back([&, at] { seconds[at] = run_in_windows(ranks[at], kIterations, first, window); });
    }
  }
  int met = 0;
  for (std::size_t i = 0; i < kIterations; ++i)
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const auto due = first + i * window;
      EXPECT_GE(ranks[rank].begun[i], due) << "rank " << rank << " began iteration " << i << " early";
      if (seconds[rank][i] == kMissed) continue;
      ++met;
      EXPECT_LE(ranks[rank].begun[i], due + kLate) << "rank " << rank << " met window " << i;
      EXPECT_GE(seconds[rank][i], static_cast<double>(rank) * 2e-3) << "from the window's begin to the end";
    }
  EXPECT_GT(met, 0);
}

TEST(Windows, CountForNoRankWhereOneCameLate) {
  Told operation([](int i) {
    if (i == 1) std::this_thread::sleep_for(250ms);  // until in the fourth window
  });
  const auto seconds = run_in_windows(operation, 5, Clock::now() + 10ms, 100ms);
  ASSERT_EQ(seconds.size(), 5);
  EXPECT_GE(seconds[1], 0.25) << "its own window was met";
  EXPECT_EQ(seconds[2], kMissed) << "its begin had passed";
  EXPECT_EQ(seconds[3], kMissed);
  EXPECT_EQ(operation.begun.size(), 5) << "all ranks make as many calls";
}

Clock::time_point core_is_back;
void be_without_core(int /*signal*/) {
  while (Clock::now() < core_is_back) continue;
}

TEST(Windows, AreNotMetByARankThatLostItsCoreWhileItWaited) {
  constexpr auto window = 200ms;
  const auto first = Clock::now() + window;
  core_is_back = first + 5ms;
  const auto before = std::signal(SIGUSR1, be_without_core);
  Told rank([](int) {});
  std::vector<double> seconds;
  {
    std::jthread waiting([&] { seconds = run_in_windows(rank, 2, first, window); });
    std::this_thread::sleep_until(first - 100ms);
    ASSERT_EQ(::pthread_kill(waiting.native_handle(), SIGUSR1), 0);
  }
  (void)std::signal(SIGUSR1, before);
  EXPECT_GE(rank.begun[0], core_is_back);
  EXPECT_EQ(seconds[0], kMissed) << "it began 5 ms late";
}

TEST(Windows, HaveTheMeanOfThoseThatWereMet) {
  const WindowTimes times = times_of_met({2, kMissed, 4, kMissed});
  EXPECT_EQ(times.met, 2);
  EXPECT_EQ(times.mean, 3);
  EXPECT_EQ(times_of_met({kMissed}).met, 0);
}

TEST(Windows, AreSoManyThatATryIsOver) {
  EXPECT_EQ(WindowPlan(1e-6).seconds(), 10e-6);
  EXPECT_EQ(WindowPlan(1e-6).count(1), 20) << "one that is missed says nothing";
  EXPECT_EQ(WindowPlan(1e-6).count(500), 500);
  EXPECT_EQ(WindowPlan(1e-6).count(1'000'000), 2000);
  for (const double iteration : {1e-6, 1e-4, 1e-3, 0.02, 0.16}) {
    const WindowPlan plan(iteration);
    EXPECT_GE(plan.seconds(), 3 * iteration);
    EXPECT_GE(plan.count(1'000'000), 1);
    EXPECT_LE(static_cast<double>(plan.count(1'000'000)) * plan.seconds(), 0.5) << iteration;
  }
}

TEST(Windows, AreNotForLongIterations) {
  try {
    WindowPlan plan(0.2);
    FAIL() << "windows of " << plan.seconds() << " s";
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(),
                 "--sync window: an iteration takes 0.2 s, and windows are for those of 0.167 s at most; "
                 "use --sync barrier");
  }
}

TEST(Windows, GrowUntilHalfAreMetAndNotForEver) {
  WindowPlan plan(10e-6);
  EXPECT_TRUE(plan.is_enough(10, 20));
  EXPECT_DOUBLE_EQ(plan.seconds(), 30e-6) << "half are enough";
  for (const double seconds : {60e-6, 120e-6}) {
    EXPECT_FALSE(plan.is_enough(9, 20));
    EXPECT_EQ(plan.count(1), std::min<std::int64_t>(2000, static_cast<std::int64_t>(0.5 / plan.seconds())));
    EXPECT_DOUBLE_EQ(plan.seconds(), seconds);
  }
  EXPECT_TRUE(plan.is_enough(1, 20)) << "longer ones are no better";
  EXPECT_DOUBLE_EQ(plan.seconds(), 120e-6);
  EXPECT_DOUBLE_EQ(plan.missed_ratio(), (10 + 2 * 11 + 19) / 80.) << "those of all tries";
}

TEST(Windows, OfWhichNoneIsMetAreTriedTwentyTimes) {
  WindowPlan plan(0.1);
  for (int i = 1; i < 20; ++i) EXPECT_FALSE(plan.is_enough(0, plan.count(1)));
  EXPECT_EQ(plan.seconds(), 0.5);
  EXPECT_THROW((void)plan.is_enough(0, 1), RuntimeFailure);
}

}  // namespace
}  // namespace plumbline::bench
