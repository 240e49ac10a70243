// harness/suite/job_error.hpp: a training program that did not end well, as exceptions that become verdicts.
#pragma once

#include <string>
#include <utility>

#include "reference/comm/errors.hpp"

namespace plumbline::suite {

/// what() says which rank, how it ended, and what it last wrote; output() has the ends of what all ranks wrote.
class JobFailure : public RuntimeFailure {
 public:
  JobFailure(const std::string& message, std::string output) : RuntimeFailure(message), output_(std::move(output)) {}
  [[nodiscard]] const std::string& output() const noexcept { return output_; }

 private:
  std::string output_;
};

/// A rank ended with another status than 0, or by a signal: verdict `crash`.
class JobCrashed : public JobFailure {
 public:
  using JobFailure::JobFailure;
};

/// On every rank the shell did not find the program, or could not execute it, or the program ended with an error before
/// it opened its specification. Where that is so of the first run, nothing is known of any program.
class JobAbsent : public JobCrashed {
 public:
  JobAbsent(const std::string& message, std::string output, bool is_misnamed = false)
      : JobCrashed(message, std::move(output)), is_misnamed_(is_misnamed) {}
  /// Whether its command names a script that is no file.
  [[nodiscard]] bool is_misnamed() const noexcept { return is_misnamed_; }

 private:
  bool is_misnamed_;
};

/// The program declared that it does not support the run: verdict `skip`, and what() has its reason.
class JobUnsupported : public JobFailure {
 public:
  using JobFailure::JobFailure;
};

/// The time was up: verdict `hang`.
class JobHung : public JobFailure {
 public:
  using JobFailure::JobFailure;
};

}  // namespace plumbline::suite
