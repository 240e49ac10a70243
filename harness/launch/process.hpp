// harness/launch/process.hpp: child processes that end with us, and folders that nobody has to clean up.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace plumbline::launch {

/// A child in a process group of its own. The kernel ends it when the thread that started it ends.
class Child {
 public:
  struct Options {
    std::vector<std::string> arguments;                            // [0] is looked up in PATH
    std::vector<std::pair<std::string, std::string>> environment;  // beside ours
    std::vector<std::string> without = {};                         // variables of ours that it does not get
    std::filesystem::path output;                                  // where stdout and stderr go, appended
    int death_signal;                                              // sent when our thread ends
  };
  /// Throws RuntimeFailure when it cannot be started: not found, no more processes.
  explicit Child(const Options& options);
  /// Kills its process group and waits for it, when it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Readable when the child has ended.
  [[nodiscard]] int pidfd() const { return pidfd_; }
  /// "exited with status 3", "was killed by signal 9 (Killed)"; nothing while it runs. Reaps it.
  std::optional<std::string> ended();
  void signal(int number) const;        // the child alone
  void signal_group(int number) const;  // its process group

 private:
  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::optional<std::string> end_;
};

/// A process on this host that is no child of ours, by a descriptor that cannot come to mean another one.
class ProcessHandle {
 public:
  explicit ProcessHandle(pid_t pid);
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept : pid_(other.pid_), pidfd_(std::exchange(other.pidfd_, -1)) {}
  ProcessHandle& operator=(ProcessHandle&&) = delete;
  void kill() const;
  [[nodiscard]] bool running() const;
  /// "running", "sleeping", "stopped", …, as /proc says; empty when it is gone.
  [[nodiscard]] std::string state() const;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  int pidfd_;
};

/// A folder in $PLUMBLINE_TMPDIR, else on a memory file system where there is one, removed with everything in it when
/// this ends. What an earlier process left behind, because it was killed, is removed first.
class ScratchFolder {
 public:
  ScratchFolder();  // throws RuntimeFailure
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// The last `bytes` of a file from `offset` on, with an ellipsis in front where more was cut.
[[nodiscard]] std::string tail_of(const std::filesystem::path& file, std::uintmax_t offset, std::size_t bytes);

/// The file of a program in PATH, or nothing.
[[nodiscard]] std::optional<std::filesystem::path> find_program(const std::string& name);

}  // namespace plumbline::launch
