#include "reference/slowmo/detail/step_log.hpp"

#include <utility>

#include <fmt/format.h>

namespace plumbline::slowmo {

void StepLog::tell(const std::string& line) const {
  if (options_.log) options_.log(line);
}

void StepLog::warn(Warning::What what, std::string message) {
  tell(message);
  setting_.warnings.push_back({what, std::move(message)});
}

StepLog::Timer::Timer(StepLog& log, Phase phase) : log_(log), phase_(phase) {
  if (log_.options_.profile) begin_ = Clock::now();
}

StepLog::Timer::~Timer() {
  if (log_.options_.profile)
    log_.seconds_[static_cast<std::size_t>(phase_)] += std::chrono::duration<double>(Clock::now() - begin_).count();
  if (log_.options_.verbose)
    log_.tell(fmt::format("rank {}, step {}: {} done", log_.setting_.rank, log_.step_, name_of(phase_)));
}

}  // namespace plumbline::slowmo
