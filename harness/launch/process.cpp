#include "harness/launch/process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

extern char** environ;

namespace plumbline::launch {
namespace fs = std::filesystem;

namespace {

int open_pidfd(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

std::string describe_end(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with status {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& more,
                                          const std::vector<std::string>& without) {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const bool replaced =
        std::any_of(more.begin(), more.end(), [&](const auto& pair) { return text.starts_with(pair.first + "="); });
    const bool taken_away =
        std::any_of(without.begin(), without.end(), [&](const auto& name) { return text.starts_with(name + "="); });
    if (!replaced && !taken_away) list.emplace_back(text);
  }
  for (const auto& [name, value] : more) list.push_back(name + "=" + value);
  return list;
}

// Between fork and exec only async-signal-safe calls are allowed: everything is prepared before.
[[noreturn]] void become(const char* file, char* const* arguments, char* const* environment, int output,
                         int death_signal, pid_t parent, int report) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, death_signal);
  if (::getppid() != parent) ::_exit(127);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execve(file, arguments, environment);
  const int error = errno;
  (void)!::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Child::Child(const Options& options) {
  const auto refuse = [&](const std::string& why) {
    throw RuntimeFailure(fmt::format("cannot start '{}': {}", options.arguments.at(0), why));
  };
  const auto file = find_program(options.arguments.at(0));
  if (!file) refuse("not found in PATH");
  std::vector<std::string> arguments = options.arguments;
  std::vector<std::string> environment = environment_with(options.environment, options.without);
  const auto argument_pointers = pointers(arguments);
  const auto environment_pointers = pointers(environment);
  const int output = ::open(options.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (output < 0) refuse(fmt::format("cannot write '{}': {}", options.output.string(), std::strerror(errno)));
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) refuse(std::strerror(errno));
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0)
    become(file->c_str(), argument_pointers.data(), environment_pointers.data(), output, options.death_signal, parent,
           report[1]);
  const int fork_error = errno;
  ::close(output);
  ::close(report[1]);
  int exec_error = 0;
  const bool failed = pid_ > 0 && ::read(report[0], &exec_error, sizeof exec_error) == sizeof exec_error;
  ::close(report[0]);
  if (pid_ < 0) refuse(std::strerror(fork_error));
  if (failed) {
    ::waitpid(pid_, nullptr, 0);
    refuse(std::strerror(exec_error));
  }
  pidfd_ = open_pidfd(pid_);
}

Child::~Child() {
  if (!end_) {
    signal_group(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (pidfd_ >= 0) ::close(pidfd_);
}

std::optional<std::string> Child::ended() {
  if (end_) return end_;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) end_ = describe_end(status);
  return end_;
}

void Child::signal(int number) const {
  if (!end_) ::kill(pid_, number);
}

void Child::signal_group(int number) const {
  if (!end_) ::kill(-pid_, number);
}

ProcessHandle::ProcessHandle(pid_t pid) : pid_(pid), pidfd_(open_pidfd(pid)) {}
ProcessHandle::~ProcessHandle() {
  if (pidfd_ >= 0) ::close(pidfd_);
}
void ProcessHandle::kill() const {
  if (pidfd_ >= 0) ::syscall(SYS_pidfd_send_signal, pidfd_, SIGKILL, nullptr, 0);
}
bool ProcessHandle::running() const {
  pollfd ready{pidfd_, POLLIN, 0};
  return pidfd_ >= 0 && ::poll(&ready, 1, 0) == 0;
}
std::string ProcessHandle::state() const {
  if (!running()) return "";
  std::ifstream stat(fmt::format("/proc/{}/stat", pid_));
  std::string line;
  std::getline(stat, line);
  const auto end = line.rfind(')');
  if (end == std::string::npos || end + 2 >= line.size()) return "";
  switch (line[end + 2]) {
    case 'R':
      return "running";
    case 'T':
      return "stopped";
    case 'D':
      return "waiting for a device";
    case 'Z':
      return "dead";
    default:
      return "sleeping";
  }
}

namespace {

// Containers often have a /dev/shm too small for the segments of eight ranks.
fs::path scratch_parent() {
  constexpr std::uintmax_t kEnough = std::uintmax_t{256} << 20;
  if (const char* chosen = std::getenv("PLUMBLINE_TMPDIR")) return chosen;
  std::error_code error;
  if (::access("/dev/shm", W_OK | X_OK) == 0 && fs::space("/dev/shm", error).available >= kEnough && !error)
    return "/dev/shm";
  return fs::temp_directory_path();
}

// Whoever holds the lock lives; a folder whose lock is free belongs to a dead process.
int lock_folder(const fs::path& folder) {
  const int lock = ::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  if (lock >= 0) ::close(lock);
  return -1;
}

void remove_stale(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("plumbline-") || !fs::exists(entry.path() / "lock", error)) continue;
    const int lock = lock_folder(entry.path());
    if (lock < 0) continue;
    fs::remove_all(entry.path(), error);
    ::close(lock);
  }
}

}  // namespace

ScratchFolder::ScratchFolder() {
  const fs::path parent = scratch_parent();
  remove_stale(parent);
  // Made under another name and renamed once its lock is held: so nobody takes it for a stale one. The name is short,
  // for runtimes put sockets into it.
  std::string name = (parent / "plumbline.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw RuntimeFailure(fmt::format("cannot make a folder in '{}': {}", parent.string(), std::strerror(errno)));
  lock_ = lock_folder(name);
  path_ = name;
  path_.replace_filename("plumbline-" + fs::path(name).extension().string().substr(1));
  if (lock_ < 0 || ::rename(name.c_str(), path_.c_str()) != 0)
    throw RuntimeFailure(fmt::format("cannot use folder '{}': {}", name, std::strerror(errno)));
}

ScratchFolder::~ScratchFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
  if (lock_ >= 0) ::close(lock_);
}

std::string tail_of(const fs::path& file, std::uintmax_t offset, std::size_t bytes) {
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(0, std::ios::end);
  const auto end = static_cast<std::streamoff>(stream.tellg());
  const auto begin =
      std::max<std::streamoff>(static_cast<std::streamoff>(offset), end - static_cast<std::streamoff>(bytes));
  if (!stream || end <= begin) return "";
  std::string text(static_cast<std::size_t>(end - begin), '\0');
  stream.seekg(begin);
  stream.read(text.data(), end - begin);
  return begin > static_cast<std::streamoff>(offset) ? "…" + text : text;
}

std::optional<fs::path> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos)
    return ::access(name.c_str(), X_OK) == 0 ? std::optional<fs::path>(name) : std::nullopt;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    if (::access(file.c_str(), X_OK) == 0 && !fs::is_directory(file)) return file;
  }
  return std::nullopt;
}

}  // namespace plumbline::launch
