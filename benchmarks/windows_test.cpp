#include "benchmarks/windows.hpp"

#include <barrier>
#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Windows, HaveTheMeanOfThoseThatWereMet) {
  const WindowTimes times = times_of_met({2, kMissed, 4, kMissed});
  EXPECT_EQ(times.met, 2);
  EXPECT_EQ(times.mean, 3);
  EXPECT_EQ(times_of_met({kMissed}).met, 0);
}

}  // namespace
}  // namespace plumbline::bench
