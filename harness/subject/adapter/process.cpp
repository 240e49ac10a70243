#include "harness/subject/adapter/process.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject {

namespace {

[[noreturn]] void fail(const std::string& command, int error) {
  throw RuntimeFailure(fmt::format("cannot start '{}': {}", command, std::strerror(error)));
}

std::pair<Descriptor, Descriptor> make_pipe(const std::string& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(command, errno);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Waits for the end, and leaves the zombie to the destructor.
std::string end_of(pid_t pid) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  if (info.si_code == CLD_EXITED) return fmt::format("exited with status {}", info.si_status);
  return fmt::format("was killed by signal {} ({})", info.si_status, strsignal(info.si_status));
}

// A forked process of threads may make only async-signal-safe calls: the guard always, the command until exec.
[[noreturn]] void guard(int life, int our_life) {
  ::setpgid(0, 0);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::close(our_life);
  ::dup2(life, STDIN_FILENO);
  ::close_range(STDIN_FILENO + 1, ~0U, 0);  // nobody shall wait for us to close what we inherited
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) < 0 && errno == EINTR) {
  }
  ::kill(0, SIGKILL);
  ::_exit(0);
}

[[noreturn]] void become(const char* command, int input, int output, int errors, pid_t group, pid_t parent) {
  ::setpgid(0, group);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::dup2(input, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(errors, STDERR_FILENO);
  std::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execl("/bin/sh", "sh", "-c", command, static_cast<char*>(nullptr));
  ::_exit(127);
}

}  // namespace

void Descriptor::reset() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

PipedProcess::PipedProcess(const std::string& command) {
  auto [its_life, our_life] = make_pipe(command);
  auto [its_input, our_input] = make_pipe(command);
  auto [our_output, its_output] = make_pipe(command);
  auto [our_errors, its_errors] = make_pipe(command);
  for (const Descriptor* end : {&our_input, &our_output, &our_errors}) ::fcntl(end->get(), F_SETFL, O_NONBLOCK);
  guard_ = ::fork();
  if (guard_ == 0) guard(its_life.get(), our_life.get());
  if (guard_ < 0) fail(command, errno);
  ::setpgid(guard_, guard_);  // whoever of us comes first
  life_ = std::move(our_life);
  std::promise<pid_t> started;
  std::promise<std::string> ended;
  auto pid = started.get_future();
  end_ = ended.get_future().share();
  const auto start = [&, parent = ::getpid()] {
    const pid_t pid = ::fork();
    if (pid == 0) become(command.c_str(), its_input.get(), its_output.get(), its_errors.get(), guard_, parent);
    return pid > 0 ? pid : -errno;
  };
  keeper_ = std::thread([&start, started = std::move(started), ended = std::move(ended)]() mutable {
    const pid_t child = start();
    started.set_value(child);  // `start` is gone from here on
    if (child > 0) ended.set_value(end_of(child));
  });
  pid_ = pid.get();
  if (pid_ < 0) {
    keeper_.join();
    end_group();
    fail(command, -pid_);
  }
  input = std::move(our_input);
  output = std::move(our_output);
  errors = std::move(our_errors);
}

PipedProcess::~PipedProcess() {
  // Whatever it still writes makes it fail instead of wait.
  for (Descriptor* end : {&input, &output, &errors}) end->reset();
  if (!ended(grace)) {
    ::kill(-guard_, SIGTERM);
    (void)ended(grace);
  }
  end_group();  // what it started and left behind, too
  keeper_.join();
  ::waitpid(pid_, nullptr, 0);
}

void PipedProcess::end_group() const {
  ::kill(-guard_, SIGKILL);
  ::waitpid(guard_, nullptr, 0);
}

std::optional<std::string> PipedProcess::ended(std::chrono::milliseconds wait) const {
  if (end_.wait_for(wait) != std::future_status::ready) return std::nullopt;
  return end_.get();
}

}  // namespace plumbline::subject
