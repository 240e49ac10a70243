// benchmarks/windows.hpp: iterations that begin at times which all ranks agreed on before.
//
// Model   After a barrier ranks leave one after another, and an iteration that follows another begins on each rank when
//         that rank is done: a small call's time is then partly that of its neighbours. In windows every rank begins
//         iteration i at first + i * window, by a clock that all share, and its time is from there to the end on the
//         slowest rank. A rank without a core then, or not ready, has missed the window, which counts for no rank.
// Source  S. Hunold and A. Carpen-Amarie, "Reproducible MPI Benchmarking is Still Not as Easy as You Think" (ReproMPI).
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

/// What a missed window has in the place of seconds. Finite, since not every backend is asked to reduce infinity.
inline constexpr double kMissed = 1e300;
/// How much later than its window an iteration may begin. It is part of the time; no rank that lost its core is back
/// so early.
inline constexpr std::chrono::microseconds kLatestBegin{2};

/// Runs so many iterations on this rank. Returns for each the seconds from its window's begin to its end here, or
/// kMissed where this rank came too late to begin it in time.
[[nodiscard]] std::vector<double> run_in_windows(Operation& operation, std::int64_t iterations,
                                                 std::chrono::steady_clock::time_point first,
                                                 std::chrono::steady_clock::duration window);

struct WindowTimes {
  double mean = 0;  // seconds of an iteration, over the windows that were met
  std::int64_t met = 0;
};
/// `slowest`: of each window the greatest of all ranks' seconds.
[[nodiscard]] WindowTimes times_of_met(const std::vector<double>& slowest);

/// How long windows are and how many there are at once. All ranks that are told the same have the same plan.
class WindowPlan {
 public:
  /// Throws Unsupported where an iteration takes too long for windows.
  explicit WindowPlan(double iteration_seconds);

  [[nodiscard]] double seconds() const { return seconds_; }
  /// For so many iterations: enough that some are met, and no more than half a second of them.
  [[nodiscard]] std::int64_t count(std::int64_t iterations) const;
  /// Takes what became of `count` windows. False: they grew, or none was met, and are to be tried again. Throws
  /// RuntimeFailure where that was tried often.
  [[nodiscard]] bool is_enough(std::int64_t met, std::int64_t count);
  /// Of all windows, those of tries that were not enough too.
  [[nodiscard]] double missed_ratio() const;

 private:
  double seconds_ = 0, longest_ = 0;
  int tries_ = 0;
  std::int64_t windows_ = 0, missed_ = 0;
};

}  // namespace plumbline::bench
