#include "harness/trainer/timers.hpp"

#include <chrono>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {

Timers::Timers(Clock clock) : clock_(std::move(clock)) {
  if (clock_) return;
  clock_ = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
}

void Timers::start(const std::string& phase) {
  if (!started_.try_emplace(phase, clock_()).second) throw StateError(fmt::format("phase '{}' is running", phase));
}

double Timers::stop(const std::string& phase) {
  const auto running = started_.find(phase);
  if (running == started_.end()) throw StateError(fmt::format("phase '{}' is not running", phase));
  PhaseTime& time = phases_[phase];
  time.last = clock_() - running->second;
  time.total += time.last;
  ++time.count;
  started_.erase(running);
  return time.last;
}

}  // namespace plumbline::training
