#include "benchmarks/windows.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::bench {

using Clock = std::chrono::steady_clock;

namespace {
// Who sleeps has its core sooner than who yields, where ranks and others are more than cores.
void wait_until(Clock::time_point due) {
  constexpr std::chrono::microseconds kWorthSleeping{300}, kToWake{150}, kWorthYielding{50};
  for (auto left = due - Clock::now(); left > Clock::duration::zero(); left = due - Clock::now())
    if (left > kWorthSleeping)
      std::this_thread::sleep_for(left - kToWake);
    else if (left > kWorthYielding)
      std::this_thread::yield();
}
}  // namespace

std::vector<double> run_in_windows(Operation& operation, std::int64_t iterations, Clock::time_point first,
                                   Clock::duration window) {
  std::vector<double> seconds(static_cast<std::size_t>(iterations), kMissed);
  for (double& one : seconds) {
    wait_until(first);
    // Late is also a rank whose core was taken while it waited.
    const bool is_met = Clock::now() - first <= kLatestBegin;
    operation.run();
    if (is_met) one = std::chrono::duration<double>(Clock::now() - first).count();
    first += window;
  }
  return seconds;
}

WindowTimes times_of_met(const std::vector<double>& slowest) {
  WindowTimes times;
  for (const double seconds : slowest) {
    if (seconds >= kMissed) continue;
    times.mean += seconds;
    ++times.met;
  }
  if (times.met > 0) times.mean /= static_cast<double>(times.met);
  return times;
}

namespace {
constexpr double kShortest = 10e-6, kLongest = 0.5, kAtOnce = 0.5;  // seconds: of a window, and of all of a try
constexpr double kRoom = 3;                                         // times an iteration
}  // namespace

WindowPlan::WindowPlan(double iteration_seconds) {
  constexpr double kMostGrowth = 4;
  if (kRoom * iteration_seconds > kLongest)
    throw Unsupported(
        fmt::format("--sync window: an iteration takes {:.3g} s, and windows are for those of {:.3g} s at most; use "
                    "--sync barrier",
                    iteration_seconds, kLongest / kRoom));
  seconds_ = std::max(kRoom * iteration_seconds, kShortest);
  longest_ = std::min(kMostGrowth * seconds_, kLongest);
}

std::int64_t WindowPlan::count(std::int64_t iterations) const {
  constexpr std::int64_t kMost = 2000;
  const std::int64_t fewest = tries_ == 0 ? 20 : kMost;  // where few are met, many are needed
  const auto fitting = static_cast<std::int64_t>(kAtOnce / seconds_);
  return std::clamp<std::int64_t>(std::min(fitting, std::max(iterations, fewest)), 1, kMost);
}

bool WindowPlan::is_enough(std::int64_t met, std::int64_t count) {
  constexpr int kMostTries = 20;
  windows_ += count;
  missed_ += count - met;
  const bool is_longest = seconds_ >= longest_;
  if (met * 2 >= count || (is_longest && met > 0)) {
    tries_ = 0;
    return true;
  }
  if (++tries_ == kMostTries)
    throw RuntimeFailure(
        fmt::format("--sync window: in none of the last {} windows, of {:.3g} s, did all ranks begin in time: the host "
                    "is too busy, or has fewer cores than ranks; use --sync barrier",
                    count, seconds_));
  seconds_ = std::min(2 * seconds_, longest_);
  return false;
}

double WindowPlan::missed_ratio() const {
  return windows_ > 0 ? static_cast<double>(missed_) / static_cast<double>(windows_) : 0;
}

}  // namespace plumbline::bench
