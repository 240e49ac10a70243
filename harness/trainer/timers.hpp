// harness/trainer/timers.hpp: how long the phases of a run took. Free of LibTorch.
//
// Units   Seconds of a clock that never goes back, or of the caller's.
// Threads Timers serve one rank.
// Source  ColossalAI's MultiTimer.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace plumbline::training {

struct PhaseTime {
  std::int64_t count = 0;
  double total = 0;
  double last = 0;
  [[nodiscard]] double mean() const { return count == 0 ? 0 : total / static_cast<double>(count); }
};

class Timers {
 public:
  using Clock = std::function<double()>;
  explicit Timers(Clock clock = {});

  /// Throws StateError for a phase that is running.
  void start(const std::string& phase);
  /// Returns how long it ran. Throws StateError for a phase that is not running.
  double stop(const std::string& phase);
  /// Phases that were stopped at least once.
  [[nodiscard]] const std::map<std::string, PhaseTime>& phases() const { return phases_; }
  /// Forgets what was measured; what is running goes on.
  void reset() { phases_.clear(); }

 private:
  Clock clock_;
  std::map<std::string, double> started_;
  std::map<std::string, PhaseTime> phases_;
};

/// A phase as long as this lives.
class TimedPhase {
 public:
  TimedPhase(Timers& timers, std::string phase) : timers_(timers), phase_(std::move(phase)) { timers_.start(phase_); }
  ~TimedPhase() { timers_.stop(phase_); }
  TimedPhase(const TimedPhase&) = delete;
  TimedPhase& operator=(const TimedPhase&) = delete;

 private:
  Timers& timers_;
  std::string phase_;
};

}  // namespace plumbline::training
