#include "harness/subject/guarded_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/subject/job/scratch_test.hpp"

namespace plumbline::subject {
namespace {

using namespace std::chrono_literals;

class GuardedProcessTest : public testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<GuardedProcess> start(const std::string& command,
                                                      std::vector<std::string> environment = our_environment()) const {
    return std::make_unique<GuardedProcess>(GuardedProcess::Options{
        .command = command, .environment = std::move(environment), .input = 0, .output = 1, .errors = 2});
  }
  [[nodiscard]] std::string file(const char* name) const { return (folder_.path() / name).string(); }

  job::TemporaryFolder folder_;
};

TEST_F(GuardedProcessTest, SaysHowItEnded) {
  EXPECT_EQ(start("exit 0")->ended(10s)->words(), "exited with status 0");
  EXPECT_TRUE(start("exit 0")->ended(10s)->is_success());
  EXPECT_EQ(start("exit 3")->ended(10s)->words(), "exited with status 3");
  EXPECT_FALSE(start("exit 3")->ended(10s)->is_success());
  EXPECT_EQ(start("kill -SEGV $$")->ended(10s)->words(), "was killed by signal 11 (Segmentation fault)");
  EXPECT_FALSE(start("kill -SEGV $$")->ended(10s)->is_success());
  EXPECT_EQ(start("/nonexistent/program 2>/dev/null")->ended(10s)->number, 127);
}

TEST_F(GuardedProcessTest, SaysNothingOfOneThatRuns) {
  const auto process = start("sleep 60");
  EXPECT_FALSE(process->ended(0ms));
  EXPECT_FALSE(process->ended(50ms));
  process->signal(SIGTERM);
  EXPECT_EQ(process->ended(10s)->words(), "was killed by signal 15 (Terminated)");
  EXPECT_EQ(process->ended(0ms)->number, SIGTERM) << "it says so again";
}

TEST_F(GuardedProcessTest, KnowsTheSignalThatAShellReports) {
  EXPECT_EQ(start("kill -SEGV $$")->ended(10s)->killed_by(), SIGSEGV);
  EXPECT_EQ(start("sh -c 'kill -SEGV $$' 2>/dev/null; exit $?")->ended(10s)->killed_by(), SIGSEGV);
  EXPECT_EQ(start("exit 77")->ended(10s)->killed_by(), std::nullopt);
  EXPECT_TRUE(start("exit 77")->ended(10s)->by_exit(77));
  EXPECT_FALSE(start("kill -SEGV $$")->ended(10s)->by_exit(SIGSEGV));
}

TEST_F(GuardedProcessTest, KnowsWhenItEnded) {
  const auto before = std::chrono::steady_clock::now();
  const auto slow = start("while [ ! -e " + file("go") + " ]; do sleep 0.01; done");
  const auto at = start("exit 0")->ended(10s)->at;
  std::ofstream(file("go")) << "on";
  EXPECT_GT(at, before);
  EXPECT_GT(slow->ended(10s)->at, at) << "whenever it is asked";
}

TEST_F(GuardedProcessTest, ListsAllThatTheProgramHasStarted) {
  const auto process = start("setsid sh -c 'echo $$ > " + file("pid") + "; exec sleep 60' & sleep 60");
  const pid_t pid = pid_in(file("pid"));
  ASSERT_GT(pid, 0);
  std::vector<pid_t> processes = process->processes();
  // The shell may not have come to its second command yet.
  for (int looks = 0; processes.size() < 3 && looks < 1000; ++looks) {
    std::this_thread::sleep_for(10ms);
    processes = process->processes();
  }
  EXPECT_EQ(std::ranges::count(processes, pid), 1);
  EXPECT_EQ(std::ranges::count(processes, ::getpid()), 0);
  EXPECT_GE(processes.size(), 3u);
}

TEST_F(GuardedProcessTest, TellsWhichSignalsAProcessCatches) {
  const auto process = start("trap : USR1; echo $$ > " + file("pid") + "; while :; do sleep 0.1; done");
  const std::string folder = "/proc/" + std::to_string(pid_in(file("pid")));
  EXPECT_TRUE(status_has(folder, {"SigCgt:"}, SIGUSR1));
  EXPECT_FALSE(status_has(folder, {"SigCgt:"}, SIGUSR2));
  EXPECT_FALSE(status_has("/proc/0", {"SigCgt:"}, SIGUSR1)) << "there is none";
}

TEST_F(GuardedProcessTest, GivesTheEnvironmentAndTheFolder) {
  auto process = start("echo $ONE $PWD > " + file("out"), {"ONE=first", "PATH=/usr/bin:/bin"});
  ASSERT_TRUE(process->ended(10s));
  EXPECT_EQ(text_of(file("out")), "first " + std::filesystem::current_path().string() + "\n");
}

TEST_F(GuardedProcessTest, KillsWhatTheProgramLeftBehind) {
  // In the background, in a session of its own, deaf to signals, and below an orphan.
  for (const std::string script : {"sleep 60 & echo $! > FILE", "setsid sh -c 'echo $$ > FILE; exec sleep 60' &",
                                   "(trap '' TERM HUP INT; echo $(exec sh -c 'echo $PPID') > FILE; sleep 60) &",
                                   "(setsid sh -c 'sh -c \"echo \\$\\$ > FILE; sleep 60; true\"; true' &)"}) {
    std::string command = script;
    std::filesystem::remove(file("pid"));
    command.replace(command.find("FILE"), 4, file("pid"));
    auto process = start(command);
    ASSERT_TRUE(process->ended(10s)) << script;
    const pid_t pid = pid_in(file("pid"));
    ASSERT_GT(pid, 0) << script;
    EXPECT_TRUE(lives(pid)) << script;
    process = nullptr;
    EXPECT_FALSE(lives(pid)) << script << ": gone when the destructor returns";
  }
}

TEST_F(GuardedProcessTest, KillsWhatIsStopped) {
  auto process = start("sh -c 'echo $$ > " + file("pid") + "; kill -STOP $$'; true");
  const pid_t pid = pid_in(file("pid"));
  ASSERT_GT(pid, 0);
  process = nullptr;
  EXPECT_FALSE(lives(pid));
}

TEST_F(GuardedProcessTest, OutlivesAProgramThatKillsItsGroup) {
  auto process = start("setsid sh -c 'echo $$ > " + file("pid") + "; exec sleep 60' & sleep 0.2; kill -KILL 0");
  EXPECT_EQ(process->ended(10s)->words(), "was killed by signal 9 (Killed)");
  const pid_t pid = pid_in(file("pid"));
  ASSERT_GT(pid, 0);
  process = nullptr;
  EXPECT_FALSE(lives(pid));
}

TEST_F(GuardedProcessTest, TakesAllWithItWhenOurProcessIsKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto process = start("setsid sh -c 'echo $$ > " + file("pid") + "; exec sleep 60' & sleep 60");
    (void)pid_in(file("pid"));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  const pid_t pid = pid_in(file("pid"));
  ASSERT_GT(pid, 0);
  EXPECT_FALSE(lives_for_long(pid));
}

TEST_F(GuardedProcessTest, LeavesNoChildAndNoDescriptor) {
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = descriptors();
  for (int i = 0; i < 3; ++i) (void)start("exit 0")->ended(10s);
  EXPECT_EQ(descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// From here on, calls that are younger than many a sandbox's list fail in this process and in all that it starts.
bool refuse_young_calls() {
  const auto is = [](long call) {
    return sock_filter{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<std::uint32_t>(call)};
  };
  const sock_filter refused{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM};
  sock_filter steps[]{{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                      is(SYS_pidfd_open),
                      refused,
                      is(SYS_close_range),
                      refused,
                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog program{std::size(steps), steps};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// What a child of ours makes of `body`, after it has refused itself those calls.
int status_where_calls_are_refused(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(!refuse_young_calls() ? 77 : body() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST_F(GuardedProcessTest, TellsOfTheEndWhereASandboxRefusesYoungCalls) {
  const int status = status_where_calls_are_refused([&] {
    const auto runs = start("sleep 60");
    return start("exit 3")->ended(10s)->number == 3 && !runs->ended(50ms);
  });
  if (status == 77) GTEST_SKIP() << "no filter of system calls can be set here";
  EXPECT_EQ(status, 0);
}

TEST_F(GuardedProcessTest, HoldsNothingOfOursWhereASandboxRefusesYoungCalls) {
  const int status = status_where_calls_are_refused([&] {
    Pipe ours = make_pipe();
    const auto process = start("sleep 60");
    ours.writing.reset();
    pollfd end{ours.reading.get(), POLLIN, 0};
    return ::poll(&end, 1, 5000) == 1 && (end.revents & POLLHUP) != 0;
  });
  if (status == 77) GTEST_SKIP() << "no filter of system calls can be set here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace plumbline::subject
