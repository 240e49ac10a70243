#include "benchmarks/windows.hpp"

#include <thread>

namespace plumbline::bench {

using Clock = std::chrono::steady_clock;

std::vector<double> run_in_windows(Operation& operation, std::int64_t iterations, Clock::time_point first,
                                   Clock::duration window) {
  constexpr std::chrono::microseconds kWorthYielding{50};  // ranks may be more than cores
  std::vector<double> seconds(static_cast<std::size_t>(iterations), kMissed);
  for (double& one : seconds) {
    const bool is_late = Clock::now() > first;
    while (Clock::now() < first)
      if (first - Clock::now() > kWorthYielding) std::this_thread::yield();
    operation.run();
    if (!is_late) one = std::chrono::duration<double>(Clock::now() - first).count();
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

}  // namespace plumbline::bench
