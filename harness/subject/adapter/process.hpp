// harness/subject/adapter/process.hpp: a program behind three pipes, which never outlives us.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <sys/types.h>

namespace plumbline::subject {

/// A file descriptor that is closed when this ends.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  void reset();
  [[nodiscard]] int get() const { return number_; }  // -1: closed

 private:
  int number_;
};

/// A shell command in a process group of its own, its standard input, output and error being pipes to us.
///
/// The group's leader is a guard, a fork of us that does nothing but wait until we are gone, be it by SIGKILL: then it
/// kills the group, with all that the command has started and itself. A keeper thread starts both and waits for the
/// command's end, so that threads of callers may come and go.
class PipedProcess {
 public:
  /// Runs `sh -c command`. Throws RuntimeFailure when no process can be made.
  explicit PipedProcess(const std::string& command);
  /// Closes its input and gives it `grace` to end; then SIGTERM, `grace` again, SIGKILL to its group. Leaves
  /// no zombie.
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
  void end_group() const;

  Descriptor life_;   // the guard waits for its end; nobody else has it
  pid_t guard_ = -1;  // the group's number, too
  pid_t pid_ = -1;
  std::shared_future<std::string> end_;
  std::thread keeper_;
};

}  // namespace plumbline::subject
