// harness/subject/guarded_process.hpp: a subject's program, of which nothing outlives us.
//
// Model   Between us and the program stands a guard, a fork of us that starts it, says how it ended, and waits until we
//         let go, be it because we died by SIGKILL. Then it kills the program and all that the program has started,
//         also what has moved to a session of its own: orphans of its descendants become the guard's children.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
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
  std::chrono::steady_clock::time_point at{};  // when its guard noticed
  [[nodiscard]] bool by_exit(int status) const { return !by_signal && number == status; }
  [[nodiscard]] bool is_success() const { return by_exit(0); }
  /// The signal, also where a shell reports one of its command as its own status.
  [[nodiscard]] std::optional<int> killed_by() const;
  /// "exited with status 3", "was killed by signal 9 (Killed)".
  [[nodiscard]] std::string words() const;
};

/// A program of a subject's, or a rank of one.
class Process {
 public:
  virtual ~Process() = default;
  Process() = default;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// How it ended; nothing while it still runs after `wait`. What it has started may run on.
  [[nodiscard]] virtual std::optional<ProcessEnd> ended(std::chrono::milliseconds wait) = 0;
  /// Readable when ended() has something new to say.
  [[nodiscard]] virtual int news() const = 0;
  /// To its process group.
  virtual void signal(int number) const = 0;
  /// The program and all that it has started, in whatever session, as long as they live.
  [[nodiscard]] virtual std::vector<pid_t> processes() const = 0;
};

class GuardedProcess final : public Process {
 public:
  struct Options {
    std::string command;                   // for sh -c
    std::vector<std::string> environment;  // all of it: NAME=value
    int input = -1, output = -1, errors = -1;
  };
  /// Starts it, in our working directory and in a process group of its own. Throws RuntimeFailure when no process can
  /// be made.
  explicit GuardedProcess(const Options& options);
  /// Kills what is left, and returns when it is gone.
  ~GuardedProcess() override;

  std::optional<ProcessEnd> ended(std::chrono::milliseconds wait) override;
  [[nodiscard]] int news() const override { return news_.get(); }
  void signal(int number) const override;
  [[nodiscard]] std::vector<pid_t> processes() const override;

 private:
  Descriptor life_;  // the guard waits for its end; nobody else has it
  Descriptor news_;  // from the guard
  pid_t guard_ = -1;
  pid_t pid_ = -1;
  std::optional<ProcessEnd> end_;
};

/// The processes that descend from one, as long as they live.
[[nodiscard]] std::vector<pid_t> descendants_of(pid_t ancestor);

/// Our environment as GuardedProcess takes it.
[[nodiscard]] std::vector<std::string> our_environment();

/// Whether one of these lines of a process' status has the signal: "SigCgt:", "SigPnd:". `folder` is "/proc/42", or
/// that of one of its threads.
[[nodiscard]] bool status_has(const std::string& folder, std::initializer_list<std::string_view> lines, int signal);

}  // namespace plumbline::subject
