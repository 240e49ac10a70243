// harness/subject/adapter/process.hpp: a program connected by three pipes, which never outlives us.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "harness/subject/guarded_process.hpp"

namespace plumbline::subject {

/// A guarded shell command, its standard input, output and error being pipes to us.
class PipedProcess {
 public:
  /// Runs `sh -c command`. Throws RuntimeFailure when no process can be made.
  explicit PipedProcess(const std::string& command);
  /// Closes its input and gives it `grace` to end; then SIGTERM, `grace` again, SIGKILL to it and all that it started.
  ~PipedProcess();
  PipedProcess(const PipedProcess&) = delete;
  PipedProcess& operator=(const PipedProcess&) = delete;

  // Our ends; reading and writing them does not block.
  Descriptor input;   // its standard input
  Descriptor output;  // its standard output
  Descriptor errors;  // its standard error

  /// "exited with status 3", "was killed by signal 9 (Killed)"; nothing while it still runs after `wait`.
  [[nodiscard]] std::optional<std::string> ended(std::chrono::milliseconds wait) const;

  /// How long the destructor waits for an end on its own, and after SIGTERM.
  std::chrono::milliseconds grace{500};

 private:
  std::unique_ptr<GuardedProcess> process_;
};

}  // namespace plumbline::subject
