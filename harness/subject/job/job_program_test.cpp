#include "harness/subject/job/job_program.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/subject/job/rank_process.hpp"
#include "harness/subject/job/scratch_test.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

class JobProgramTest : public testing::Test {
 protected:
  std::string run(const std::string& command, int world = 3, bool launches_ranks = false,
                  std::chrono::milliseconds limit = 20s, std::chrono::milliseconds grace = 300ms) {
    JobProgram program({.command = command,
                        .launches_ranks = launches_ranks,
                        .limit = limit,
                        .grace = grace,
                        .stacks =
                            [this](const std::vector<pid_t>& processes) {
                              seen_from_outside_ += static_cast<int>(processes.size());
                              return "Thread 1 (seen from outside)\n#0  wait4 ()\n";
                            },
                        .asking = [this] { ++asked_; }});
    return program.run(world, "/a/spec.toml", folder_.path());
  }
  // The message of the failure that a run must end in.
  template <class Failure>
  std::string failure_of(const std::string& command, int world = 3, bool launches_ranks = false,
                         std::chrono::milliseconds limit = 20s) {
    try {
      (void)run(command, world, launches_ranks, limit);
    } catch (const Failure& failure) {
      output_ = failure.output();
      return failure.what();
    }
    ADD_FAILURE() << command << ": no failure";
    return "";
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (folder_.path() / name).string(); }

  job::TemporaryFolder folder_;
  std::string output_;
  std::atomic<int> seen_from_outside_ = 0;
  std::atomic<int> asked_ = 0;
};

constexpr const char* kTell =
    "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $PLUMBLINE_SPEC $OMP_NUM_THREADS "
    "> $PLUMBLINE_RECORD/${RANK:-all}; echo $MASTER_PORT >> $PLUMBLINE_RECORD/port; "
    "echo ${PLUMBLINE_CONTROL:-none} >> $PLUMBLINE_RECORD/control";

TEST_F(JobProgramTest, GivesEachRankItsEnvironment) {
  ::setenv("WORLD_SIZE", "99", 1);
  ::setenv("PLUMBLINE_CONTROL", "ours", 1);
  ::setenv("OMP_NUM_THREADS", "5", 1);
  (void)run(kTell);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(text_of(file(std::to_string(rank))), fmt::format("{} 3 {} 3 127.0.0.1 /a/spec.toml 5\n", rank, rank));
  EXPECT_EQ(text_of(file("control")), "none\nnone\nnone\n") << "no business of a subject's";
  std::istringstream ports(text_of(file("port")));
  int first = 0, port = 0;
  for (ports >> first; ports >> port;) EXPECT_EQ(port, first);
  EXPECT_GT(first, 1023);
  for (const char* name : {"WORLD_SIZE", "PLUMBLINE_CONTROL", "OMP_NUM_THREADS"}) ::unsetenv(name);
}

TEST_F(JobProgramTest, StartsOnceAProgramThatLaunchesItsRanks) {
  ::setenv("RANK", "7", 1);
  ::unsetenv("OMP_NUM_THREADS");
  (void)run(kTell, 4, true);
  EXPECT_EQ(text_of(file("all")), "4 4 127.0.0.1 /a/spec.toml 1\n");
  ::unsetenv("RANK");
}

TEST_F(JobProgramTest, RunsInTheCallersDirectory) {
  (void)run("pwd > $PLUMBLINE_RECORD/folder", 1);
  EXPECT_EQ(text_of(file("folder")), std::filesystem::current_path().string() + "\n");
}

TEST_F(JobProgramTest, ReturnsWhatTheRanksLastWrote) {
  const std::string output = run("echo out of $RANK; echo err of $RANK >&2");
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_THAT(output, HasSubstr(fmt::format("---- rank {}\nout of {}\nerr of {}\n", rank, rank, rank)));
}

TEST_F(JobProgramTest, KeepsTheEndOfMuchOutput) {
  const std::string output = run("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo the end of $RANK", 2);
  EXPECT_THAT(output, AllOf(HasSubstr("x\nthe end of 0\n"), HasSubstr("x\nthe end of 1\n")));
  EXPECT_LT(output.size(), 4000u);
}

TEST_F(JobProgramTest, NamesTheRankThatFailed) {
  const std::string why = failure_of<suite::JobCrashed>("echo about to go; [ $RANK = 1 ] && exit 3; exec sleep 60");
  EXPECT_THAT(why, AllOf(HasSubstr("rank 1 exited with status 3 after"), HasSubstr("rank 1 last wrote: about to go"),
                         HasSubstr("rank 0 still ran"), HasSubstr("rank 2 still ran")));
  EXPECT_THAT(output_, HasSubstr("---- rank 2\nabout to go\n"));
}

TEST_F(JobProgramTest, SaysHowLongTheOthersStillRan) {
  const std::string command = "[ $RANK = 1 ] && exit 3; exec sleep 60";
  EXPECT_THAT(failure_of<suite::JobCrashed>(command, 2),
              testing::ContainsRegex("rank 0 still ran (0\\.[3-9]|[1-9][0-9.]*) s later"));
  try {
    (void)run(command, 2, false, 600ms, 30s);
    ADD_FAILURE() << "no failure";
  } catch (const suite::JobCrashed& failure) {
    EXPECT_THAT(failure.what(), testing::ContainsRegex("rank 0 still ran [0-9]\\.[0-9] s later and was ended"))
        << "its time was up before its grace";
  }
}

// HARNESS-044@ab73 HARNESS-045@b311
TEST_F(JobProgramTest, NamesTheFirstOfSeveralThatFailed) {
  const std::string why = failure_of<suite::JobCrashed>("[ $RANK = 2 ] && kill -ABRT $$; sleep 0.1; exit $RANK");
  EXPECT_THAT(why, AllOf(HasSubstr("rank 2 was killed by signal 6 (Aborted) after"), HasSubstr("rank 2 wrote nothing"),
                         HasSubstr("; rank 0 exited with status 0; rank 1 exited with status 1")));
}

// HARNESS-044@ab73
TEST_F(JobProgramTest, NamesTheFirstEvenIfAnotherIsKilledLater) {
  const std::string why = failure_of<suite::JobCrashed>(
      "[ $RANK = 1 ] && touch $PLUMBLINE_RECORD/gone && exit 3; "
      "while ! [ -e $PLUMBLINE_RECORD/gone ]; do sleep 0.01; done; sleep 0.2; kill -SEGV $$");
  EXPECT_THAT(why, AllOf(HasSubstr("': rank 1 exited with status 3 after"),
                         HasSubstr("; rank 0 was killed by signal 11 (Segmentation fault)")));
}

// HARNESS-042@043b
TEST_F(JobProgramTest, SaysThatTheCommandWasNotFound) {
  EXPECT_THAT(failure_of<suite::JobAbsent>("/nonexistent/trainer --fast", 2),
              AllOf(HasSubstr("exited with status 127 (the shell did not find the command)"),
                    HasSubstr("/nonexistent/trainer")));
  EXPECT_THAT(failure_of<suite::JobAbsent>("/dev/null", 1), HasSubstr("126 (the shell could not execute"));
  EXPECT_THROW((void)run("[ $RANK = 1 ] && exit 127; exit 3", 2), suite::JobCrashed);
  try {
    (void)run("[ $RANK = 1 ] && exit 127; exit 3", 2);
  } catch (const suite::JobAbsent&) {
    ADD_FAILURE() << "rank 0 had a program";
  } catch (const suite::JobCrashed&) {
  }
  EXPECT_THAT(failure_of<suite::JobCrashed>("sh -c 'kill -ABRT $$'; exit $?", 1),
              HasSubstr("exited with status 134 (a shell's word for signal 6, Aborted)"));
  EXPECT_THROW(JobProgram({.command = " \n"}), InvalidArgument);
}

TEST_F(JobProgramTest, EndsWhatDoesNotEnd) {
  const auto begin = Clock::now();
  const std::string why = failure_of<suite::JobHung>(
      "[ $RANK = 1 ] && exit 0; echo waiting; trap '' TERM; sleep 60; sleep 60", 3, false, 500ms);
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_THAT(why, AllOf(HasSubstr("no end within 0.5 s: rank 0, rank 2 still ran and were ended"),
                         HasSubstr("rank 0 last wrote: waiting"), HasSubstr("rank 1 exited with status 0")));
}

// HARNESS-040@0d89
TEST_F(JobProgramTest, IsUnsupportedWhereAllRanksSaySo) {
  EXPECT_EQ(failure_of<suite::JobUnsupported>("echo no float16 here >&2; exit 77"), "no float16 here");
  EXPECT_THAT(failure_of<suite::JobUnsupported>("exit 77", 2),  // of whichever ended first
              testing::ContainsRegex("^rank [01] exited with status 77 .it does not support the run. without a "
                                     "reason$"));
  EXPECT_EQ(failure_of<suite::JobUnsupported>("[ $RANK = 0 ] && echo no pipelines && exit 77; sleep 60", 2),
            "no pipelines")
      << "the others wait for it";
}

// HARNESS-040@0d89
TEST_F(JobProgramTest, CrashesWhereSomeRanksSayThatItIsUnsupported) {
  for (const std::string other : {"exit 0", "exit 1", "kill -SEGV $$"})
    EXPECT_THAT(failure_of<suite::JobCrashed>("[ $RANK = 1 ] && " + other + "; exit 77", 2),
                AllOf(HasSubstr("rank 0 exited with status 77 (it does not support the run)"), HasSubstr("rank 1 ")))
        << other;
}

// HARNESS-040@0d89
TEST_F(JobProgramTest, IsUnsupportedWhereAFileSaysSo) {
  const std::string says = "echo no tied layers > $PLUMBLINE_RECORD/unsupported; ";
  for (const std::string end : {"exit 0", "exit 1", "sleep 60"})
    EXPECT_EQ(failure_of<suite::JobUnsupported>(says + end, 2, true, 500ms), "no tied layers") << end;
  EXPECT_THAT(failure_of<suite::JobUnsupported>(": > $PLUMBLINE_RECORD/unsupported", 1), HasSubstr("without a reason"));
  std::filesystem::remove(file("unsupported"));
  (void)run("mkdir $PLUMBLINE_RECORD/unsupported", 1);  // no regular file
}

// HARNESS-041@b080
TEST_F(JobProgramTest, AsksHungRanksWhereTheyStand) {
  const std::string python =
      "import faulthandler, signal, time\n"
      "def reduce():\n  print('waiting', flush=True)\n  time.sleep(60)\n";
  std::ofstream(file("a.py")) << python + "faulthandler.register(signal.SIGUSR1)\nreduce()\n";
  std::ofstream(file("b.py")) << python + "reduce()\n";
  const std::string why = failure_of<suite::JobHung>(
      "echo step$RANK/grad/0.bias > $PLUMBLINE_RECORD/rank$RANK.progress; "
      "case $RANK in 0) " PYTHON " -S $PLUMBLINE_RECORD/a.py; true;; 1) exec " PYTHON
      " -S $PLUMBLINE_RECORD/b.py;; "
      "2) sleep 60;; *) exit 0;; esac",
      4, false, 5s);
  EXPECT_THAT(
      why, AllOf(HasSubstr("no end within 5.0 s: rank 0, rank 1, rank 2 still ran and were ended"),
                 HasSubstr("80 % of the --time-limit"), HasSubstr("rank 0 last recorded step0/grad/0.bias"),
                 HasSubstr("rank 2 last recorded step2/grad/0.bias"),
                 HasSubstr("rank 0 stood in reduce (a.py:4) < <module> (a.py:6); rank 0 last wrote: waiting;"),
                 HasSubstr("rank 1 stood in reduce (b.py:4) < <module> (b.py:5); rank 1 last wrote: waiting;"),
                 HasSubstr("rank 2 stood in wait4; rank 2 wrote nothing"), HasSubstr("rank 3 exited with status 0")));
  EXPECT_THAT(why, Not(HasSubstr("rank 3 last recorded")));
  EXPECT_THAT(output_, AllOf(HasSubstr("---- rank 0\nwaiting\n---- rank 0, asked where it stood\n"),
                             HasSubstr("a.py\", line 4 in reduce"), HasSubstr("seen from outside")));
  EXPECT_GE(seen_from_outside_, 1) << "of rank 2 alone";
  EXPECT_LE(seen_from_outside_, 2);
  EXPECT_GE(asked_, 2);
}

// HARNESS-041@b080
TEST_F(JobProgramTest, DoesNotKillByAsking) {
  // A program that catches no SIGUSR1 gets none, and has its time after SIGTERM.
  const std::string why = failure_of<suite::JobHung>(
      "trap 'echo tidied > $PLUMBLINE_RECORD/end; exit 1' TERM; while :; do sleep 0.05; done", 1, false, 300ms);
  EXPECT_EQ(text_of(file("end")), "tidied\n");
  EXPECT_THAT(why, HasSubstr("rank 0 recorded nothing; rank 0 stood in wait4"));
}

TEST_F(JobProgramTest, HasTheDeadlineThatWasSaid) {
  JobProgram program({.command = "sleep 60"});
  program.end_by(Clock::now() + 200ms);
  EXPECT_THROW((void)program.run(2, "/spec", folder_.path()), suite::JobHung);
}

TEST_F(JobProgramTest, LeavesNothingBehind) {
  const std::string leaves =
      "setsid sh -c 'echo $$ > $PLUMBLINE_RECORD/pid; exec sleep 60' & "
      "while ! [ -s $PLUMBLINE_RECORD/pid ]; do sleep 0.01; done; ";
  const auto gone = [&] {
    const pid_t pid = pid_in(file("pid"));
    EXPECT_GT(pid, 0);
    EXPECT_FALSE(lives(pid));
    std::filesystem::remove(file("pid"));
  };
  (void)run(leaves, 1);
  gone();
  (void)failure_of<suite::JobCrashed>(leaves + "exit 1", 1);
  gone();
  (void)failure_of<suite::JobHung>(leaves + "sleep 60", 1, false, 500ms);
  gone();
}

TEST_F(JobProgramTest, TellsOfOutputThatIsNoText) {
  const std::string why = failure_of<suite::JobCrashed>("printf 'a\\377\\033[1mb\\n'; exit 1", 1);
  EXPECT_THAT(why, AllOf(HasSubstr("last wrote: a"), Not(HasSubstr("\xff")), Not(HasSubstr("\033"))));
}

}  // namespace
}  // namespace plumbline::subject
