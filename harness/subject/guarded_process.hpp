// harness/subject/guarded_process.hpp: a subject's program, of which nothing outlives us.
//
// Model   Between us and the program stands a guard, a fork of us that starts it, says how it ended, and waits until we
//         let go, be it because we died by SIGKILL. Then it kills the program and all that the program has started,
//         also what has moved to a session of its own: orphans of its descendants become the guard's children.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

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

struct Pipe {
  Descriptor reading;
  Descriptor writing;
};
/// A pipe that programs which we start do not inherit. Throws RuntimeFailure.
[[nodiscard]] Pipe make_pipe();

/// How a program ended: by exit or by a signal, and with which number.
struct ProcessEnd {
  bool by_signal = false;
  int number = 0;
  [[nodiscard]] bool is_success() const { return !by_signal && number == 0; }
  /// "exited with status 3", "was killed by signal 9 (Killed)".
  [[nodiscard]] std::string words() const;
};

class GuardedProcess {
 public:
  struct Options {
    std::string command;                   // for sh -c
    std::vector<std::string> environment;  // all of it: NAME=value
    int input = -1, output = -1, errors = -1;
  };
  /// Starts it, in our working directory and in a process group of its own. Throws RuntimeFailure when no process can be
  /// made.
  explicit GuardedProcess(const Options& options);
  /// Kills what is left, and returns when it is gone.
  ~GuardedProcess();
  GuardedProcess(const GuardedProcess&) = delete;
  GuardedProcess& operator=(const GuardedProcess&) = delete;

  /// How it ended; nothing while it still runs after `wait`. What it has started may run on.
  [[nodiscard]] std::optional<ProcessEnd> ended(std::chrono::milliseconds wait);
  /// Readable when ended() has something new to say.
  [[nodiscard]] int news() const { return news_.get(); }
  /// To its process group.
  void signal(int number) const;

 private:
  Descriptor life_;  // the guard waits for its end; nobody else has it
  Descriptor news_;  // from the guard
  pid_t guard_ = -1;
  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

/// Our environment as GuardedProcess takes it.
[[nodiscard]] std::vector<std::string> our_environment();

}  // namespace plumbline::subject
