#include "harness/subject/job/job_server.hpp"

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/subject/job/job_program.hpp"
#include "harness/subject/job/scratch_test.hpp"

namespace plumbline::subject {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// A program that serves, as README.md describes it: each rank runs the shell's commands in PLUMBLINE_SPEC. It dies when
// nobody listens to how a rank ended.
constexpr const char* kServer = R"(
import json, os, select, socket
requests = socket.socket(fileno=os.dup(0))
requests.send(b"ready")
ranks = {}
while True:
    while ranks:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            break
        words = f"exited {os.WEXITSTATUS(status)}" if os.WIFEXITED(status) else f"signaled {os.WTERMSIG(status)}"
        ranks.pop(pid).send(f"{words}\n".encode())
    if not select.select([requests], [], [], 0.01)[0]:
        continue
    packet, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 2)
    if not packet:
        break
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.dup2(descriptors[0], 1)
        os.dup2(descriptors[0], 2)
        with socket.socket(fileno=descriptors[1]) as control:
            control.send(f"started {os.getpid()}\n".encode())
        environment = {**os.environ, **json.loads(packet)["environment"]}
        os.execve("/bin/sh", ["sh", "-c", environment["PLUMBLINE_SPEC"]], environment)
    os.close(descriptors[0])
    ranks[pid] = socket.socket(fileno=descriptors[1])
)";

class JobServerTest : public testing::Test {
 protected:
  JobServerTest() { std::ofstream(folder_.path() / "serve.py") << kServer; }

  [[nodiscard]] std::string command() const {
    return fmt::format("exec {} {}/serve.py", PYTHON, folder_.path().string());
  }
  // What the ranks of a job wrote that do this.
  std::string run(const std::string& script) { return program_.run(2, script, folder_.path()); }
  template <class Failure>
  std::string failure_of(const std::string& script) {
    try {
      (void)run(script);
    } catch (const Failure& failure) {
      return failure.what();
    }
    ADD_FAILURE() << script << ": no failure";
    return "";
  }

  job::TemporaryFolder folder_;
  JobProgram program_{{.command = command(), .serves_ranks = true, .limit = 10s, .grace = 100ms}};
};

TEST_F(JobServerTest, ForksEachRankFromOneProcess) {
  const std::string parent = "echo rank $RANK of $WORLD_SIZE, parent $PPID";
  const std::string first = run(parent), second = run(parent);
  EXPECT_THAT(first, HasSubstr("---- rank 1\nrank 1 of 2, "));
  EXPECT_EQ(first, second) << "the same parent";
}

// HARNESS-046@6245
TEST_F(JobServerTest, SaysHowARankEnded) {
  EXPECT_THAT(failure_of<suite::JobCrashed>("[ $RANK = 1 ] && echo bad luck && exit 3; sleep 60"),
              testing::AllOf(HasSubstr("rank 1 exited with status 3 after"), HasSubstr("last wrote: bad luck"),
                             HasSubstr("rank 0 still ran")));
  EXPECT_THAT(failure_of<suite::JobCrashed>("kill -SEGV $$"), HasSubstr("was killed by signal 11"));
  EXPECT_THAT(failure_of<suite::JobUnsupported>("echo no such layer; exit 77"), HasSubstr("no such layer"));
  EXPECT_NO_THROW(run("true"));
}

// HARNESS-046@6245
TEST_F(JobServerTest, EndsRanksThatHang) {
  JobProgram hurried({.command = command(), .serves_ranks = true, .limit = 5s});
  EXPECT_THROW(hurried.run(2, "trap '' TERM; while :; do sleep 1; done", folder_.path()), suite::JobHung);
  EXPECT_NO_THROW(hurried.run(2, "true", folder_.path()));
}

// Whether nothing is left of a rank that has started a process in a session of its own, once `end` was called.
bool holds(const std::string& command, const std::function<bool(JobServer&, const Process&)>& end) {
  JobServer server(command, our_environment());
  server.wait_until_ready(Clock::now() + 10s);
  Pipe output = make_pipe();
  const auto rank = server.fork_rank({"PLUMBLINE_SPEC=setsid sh -c 'echo $$; exec sleep 600' & exec sleep 600"},
                                     output.writing.get(), Clock::now() + 10s);
  char text[32]{};
  if (::read(output.reading.get(), text, sizeof text - 1) <= 0) return false;
  const pid_t pid = std::atoi(text);
  const bool serves = end(server, *rank);
  const std::vector<pid_t> living = descendants_of(::getpid());
  const bool is_gone = std::ranges::find(living, pid) == living.end();
  ::kill(pid, SIGKILL);
  return serves && is_gone;
}

// har.rank_alone_ended: of a rank's processes its own group is ended.
// HARNESS-046@6245
TEST_F(JobServerTest, LeavesNothingOfARun) {
  const auto rank_alone_ended = [](JobServer&, const Process& rank) {
    rank.signal(SIGKILL);
    std::this_thread::sleep_for(200ms);
    return true;
  };
  EXPECT_TRUE(holds(command(), [](JobServer& server, const Process&) { return server.end_ranks(); }));
  EXPECT_FALSE(holds(command(), rank_alone_ended)) << "har.rank_alone_ended is found";
}

// HARNESS-046@6245
TEST_F(JobServerTest, IsStartedAgainWhereItCannotServe) {
  EXPECT_THAT(failure_of<suite::JobCrashed>("[ $RANK = 1 ] && kill -KILL $PPID; sleep 60"),
              HasSubstr("was killed by signal 9"));
  EXPECT_NO_THROW(run("true"));
}

// HARNESS-046@6245
TEST_F(JobServerTest, GoesOnAfterARankStoppedIt) {
  JobProgram hurried({.command = command(), .serves_ranks = true, .limit = 5s});
  EXPECT_THROW(hurried.run(2, "[ $RANK = 1 ] && kill -STOP $PPID; sleep 60", folder_.path()), suite::JobHung);
  EXPECT_NO_THROW(hurried.run(2, "true", folder_.path()));
}

TEST_F(JobServerTest, SaysThatAProgramDoesNotServe) {
  const auto failure = [&](const std::string& command) -> std::string {
    JobProgram program({.command = command, .serves_ranks = true, .limit = 300ms});
    try {
      (void)program.run(2, "true", folder_.path());
    } catch (const suite::JobFailure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_THAT(failure("echo no torch; exit 2"), HasSubstr("the program exited with status 2 before it served ranks "
                                                          "(--job-serves-ranks); the program last wrote: no torch"));
  EXPECT_THAT(failure("/no/such"), HasSubstr("exited with status 127 (the shell did not find the command)"));
  EXPECT_THAT(failure("sleep 60"),
              HasSubstr("it is not ready to serve ranks; with --job-serves-ranks it must send 'ready'"));
}

}  // namespace
}  // namespace plumbline::subject
