#include "harness/subject/guarded_process.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

extern char** environ;

namespace plumbline::subject {
namespace {

// What the guard tells: first the program's number, or minus the error of making it; then its end.
struct Started {
  pid_t pid = 0;
};

[[noreturn]] void fail(const std::string& command, int error) {
  throw RuntimeFailure(fmt::format("cannot start '{}': {}", command, std::strerror(error)));
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

template <class T>
bool read_whole(int from, T& value) {
  ssize_t count = -1;
  while ((count = ::read(from, &value, sizeof value)) < 0 && errno == EINTR) {
  }
  return count == static_cast<ssize_t>(sizeof value);  // pipes deliver so little in one piece
}

// ---- the guard ----
//
// It is a fork of a process of many threads, and makes only async-signal-safe calls: no allocation, no locks. Calls
// that an old kernel or a sandbox may refuse have another way each.

struct Start {
  const char* command;
  char* const* environment;
  int input, output, errors;
  int life, news;
};

// fork() runs the handlers that libraries have registered, which may do anything.
pid_t fork_without_handlers() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  return ::_Fork();
#else
  return ::fork();
#endif
}

[[noreturn]] void become(const Start& start, pid_t guard) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != guard) ::_exit(127);
  ::dup2(start.input, STDIN_FILENO);
  ::dup2(start.output, STDOUT_FILENO);
  ::dup2(start.errors, STDERR_FILENO);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execle("/bin/sh", "sh", "-c", start.command, static_cast<char*>(nullptr), start.environment);
  ::_exit(127);
}

// A process as /proc has it; the parent is 0 where it has none.
struct Entry {
  pid_t parent = 0;
  bool is_zombie = false;
};
Entry entry_of(const char* pid) {
  char path[64];
  std::size_t length = 0;
  for (const char* part : {"/proc/", pid, "/stat"})
    while (*part != '\0' && length + 1 < sizeof path) path[length++] = *part++;
  path[length] = '\0';
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[512];
  const ssize_t count = ::read(file, text, sizeof text);
  ::close(file);
  const std::string_view stat(text, count > 0 ? static_cast<std::size_t>(count) : 0);
  // "42 (a name) S 7 …": a name may have any characters in it.
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 4 >= stat.size()) return {};
  Entry entry{.is_zombie = stat[name_end + 2] == 'Z'};
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), entry.parent);
  return entry;
}

// Calls `visit` with each entry of a folder that is a number, as text and as number, and with the folder's descriptor.
template <class Visit>
void for_each_number_in(const char* path, Visit visit) {
  // As the kernel gives it to getdents64(2).
  struct Listed {
    std::uint64_t inode;
    std::int64_t offset;
    std::uint16_t length;
    std::uint8_t type;
    char name[256];
  };
  const int folder = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  alignas(Listed) char block[8192];
  for (long bytes = 0; (bytes = ::syscall(SYS_getdents64, folder, block, sizeof block)) > 0;)
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const Listed*>(block + at);
      at += entry->length;
      int number = 0;
      const auto [end, error] = std::from_chars(entry->name, entry->name + std::strlen(entry->name), number);
      if (error == std::errc{} && *end == '\0') visit(entry->name, number, folder);
    }
  ::close(folder);
}

void kill_children() {
  for_each_number_in("/proc", [self = ::getpid()](const char* name, pid_t pid, int) {
    if (entry_of(name).parent == self) ::kill(pid, SIGKILL);
  });
}

void close_from(int first) {
  if (::close_range(static_cast<unsigned>(first), ~0U, 0) == 0) return;
  for_each_number_in("/proc/self/fd", [first](const char*, int number, int folder) {
    if (number >= first && number != folder) ::close(number);
  });
}

// Children of those that are killed become ours in turn. What the kernel does not let go of is left to it.
void kill_descendants(pid_t group) {
  constexpr int kTries = 2000;
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 1'000'000};
  ::kill(-group, SIGKILL);
  for (int tries = 0; tries < kTries; ++tries) {
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0 && errno == ECHILD) return;
    kill_children();
    ::nanosleep(&kPause, nullptr);
  }
}

bool has_ended(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid != 0;
}

// Leaves the zombie, so that the number stays the program's until all is over.
void tell_end(pid_t pid, int news) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  const ProcessEnd end{.by_signal = info.si_code != CLD_EXITED,
                       .number = info.si_status,
                       .at = std::chrono::steady_clock::now()};  // a system call
  (void)!::write(news, &end, sizeof end);
}

// Returns when we are let go; tells of the program's end when it comes before.
void watch(pid_t pid, int life, int news) {
  constexpr int kLookAgain = 10;  // ms, where nothing wakes us
  const int child = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  int patience = child < 0 ? kLookAgain : -1;
  pollfd events[]{{life, POLLIN, 0}, {child, POLLIN, 0}};
  for (bool told = false;;) {
    const int ready = ::poll(events, 2, patience);
    if (ready < 0 && errno != EINTR) return;
    if (!told && has_ended(pid)) {
      tell_end(pid, news);
      told = true;
      events[1].fd = patience = -1;
    }
    if (ready > 0 && events[0].revents != 0) return;
  }
}

[[noreturn]] void guard(const Start& start) {
  ::setpgid(0, 0);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t self = ::getpid();
  const pid_t pid = fork_without_handlers();
  if (pid == 0) become(start, self);
  const Started started{pid < 0 ? -errno : pid};
  ::dup2(start.life, STDIN_FILENO);
  ::dup2(start.news, STDOUT_FILENO);
  close_from(STDOUT_FILENO + 1);  // nobody shall wait for us to close what we inherited
  (void)!::write(STDOUT_FILENO, &started, sizeof started);
  if (pid < 0) ::_exit(1);
  watch(pid, STDIN_FILENO, STDOUT_FILENO);
  kill_descendants(pid);
  ::_exit(0);
}

}  // namespace

void Descriptor::reset() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw RuntimeFailure(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

std::optional<int> ProcessEnd::killed_by() const {
  constexpr int kOfAShell = 128;
  const int signal = by_signal ? number : number - kOfAShell;
  return signal > 0 && signal <= SIGRTMAX ? std::optional(signal) : std::nullopt;
}

std::string ProcessEnd::words() const {
  if (!by_signal) return fmt::format("exited with status {}", number);
  return fmt::format("was killed by signal {} ({})", number, strsignal(number));
}

GuardedProcess::GuardedProcess(const Options& options) {
  Pipe life = make_pipe();
  Pipe news = make_pipe();
  std::vector<std::string> environment = options.environment;
  const std::vector<char*> environment_pointers = pointers(environment);
  const Start start{.command = options.command.c_str(),
                    .environment = environment_pointers.data(),
                    .input = options.input,
                    .output = options.output,
                    .errors = options.errors,
                    .life = life.reading.get(),
                    .news = news.writing.get()};
  guard_ = ::fork();
  if (guard_ == 0) {
    life.writing.reset();
    guard(start);
  }
  if (guard_ < 0) fail(options.command, errno);
  life_ = std::move(life.writing);
  news_ = std::move(news.reading);
  news.writing.reset();
  Started started;
  if (!read_whole(news_.get(), started) || started.pid <= 0) {
    life_.reset();
    ::waitpid(guard_, nullptr, 0);
    fail(options.command, started.pid < 0 ? -started.pid : EAGAIN);
  }
  pid_ = started.pid;
}

GuardedProcess::~GuardedProcess() {
  life_.reset();
  while (::waitpid(guard_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ProcessEnd> GuardedProcess::ended(std::chrono::milliseconds wait) {
  const auto until = std::chrono::steady_clock::now() + wait;
  while (!end_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd news{news_.get(), POLLIN, 0};
    const int ready = ::poll(&news, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    ProcessEnd end;
    // A guard that says nothing was killed itself, and the program with it.
    end_ = read_whole(news_.get(), end)
               ? end
               : ProcessEnd{.by_signal = true, .number = SIGKILL, .at = std::chrono::steady_clock::now()};
  }
  return end_;
}

void GuardedProcess::signal(int number) const { ::kill(-pid_, number); }

std::vector<pid_t> GuardedProcess::processes() const { return descendants_of(guard_); }

std::vector<pid_t> descendants_of(pid_t ancestor) {
  std::map<pid_t, pid_t> parents;
  for_each_number_in("/proc", [&parents](const char* name, pid_t pid, int) {
    if (const Entry entry = entry_of(name); !entry.is_zombie) parents.emplace(pid, entry.parent);
  });
  std::vector<pid_t> found{ancestor};
  for (std::size_t next = 0; next < found.size(); ++next)
    for (const auto& [pid, parent] : parents)
      if (parent == found[next]) found.push_back(pid);
  found.erase(found.begin());
  return found;
}

bool status_has(const std::string& folder, std::initializer_list<std::string_view> lines, int signal) {
  std::ifstream status(folder + "/status");
  const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
  for (std::string line; std::getline(status, line);)
    for (const std::string_view name : lines)
      if (line.starts_with(name) && (std::strtoull(line.c_str() + name.size(), nullptr, 16) & bit) != 0) return true;
  return false;
}

std::vector<std::string> our_environment() {
  std::vector<std::string> list;
  for (char** entry = environ; *entry != nullptr; ++entry) list.emplace_back(*entry);
  return list;
}

}  // namespace plumbline::subject
