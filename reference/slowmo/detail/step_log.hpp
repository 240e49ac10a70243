// reference/slowmo/detail/step_log.hpp: what a rank says about its steps: warnings, lines of the log, and how long each
// phase takes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "reference/slowmo/options.hpp"

namespace plumbline::slowmo {

class StepLog {
 public:
  /// All three outlive this. Warnings are added to the setting's; `step` is the number of the current step.
  StepLog(const Options& options, Setting& setting, const std::int64_t& step)
      : options_(options), setting_(setting), step_(step) {}

  /// A line of the log, if there is one.
  void tell(const std::string& line) const;
  void warn(Warning::What what, std::string message);

  /// Seconds by phase so far, where they are measured.
  [[nodiscard]] const std::array<double, kPhases>& seconds() const { return seconds_; }

  /// Adds up how long a phase takes, and says that it is over.
  class Timer {
   public:
    Timer(StepLog& log, Phase phase);
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;

   private:
    using Clock = std::chrono::steady_clock;
    StepLog& log_;
    Phase phase_;
    Clock::time_point begin_{};
  };

 private:
  const Options& options_;
  Setting& setting_;
  const std::int64_t& step_;
  std::array<double, kPhases> seconds_{};
};

}  // namespace plumbline::slowmo
