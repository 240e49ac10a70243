// What a worker group believes of workers that say who and where they are.
#include "harness/launch/group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/record/environment.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::launch {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class GroupTest : public testing::Test {
 protected:
  const ScratchFolder scratch_;
  const ControlServer server_{"127.0.0.1", "token", [](const std::string&) {}};
  // Of two processes that somebody else started: none is started here.
  WorkerGroup group_{{.subject = {.backend = "toy"}, .launcher = Launcher::attached, .attached_processes = 2},
                     server_,
                     "token",
                     scratch_.path(),
                     1,
                     2};

  [[nodiscard]] std::string refusal(int connection, int rank) {
    try {
      group_.ready(connection, {{"rank", rank}});
      return "";
    } catch (const RuntimeFailure& error) {
      return error.what();
    }
  }
};

// HARNESS-002@0213
TEST_F(GroupTest, AWorkerOnAnotherHostOfTheSameNameIsNotHere) {
  record::HostFacts facts = record::host_facts();
  group_.joined(1, {{"pid", 0}, {"host", record::host_identity(facts)}});
  EXPECT_TRUE(group_.is_on_one_host());
  facts.machine = "another";  // and the same name: a clone
  group_.joined(2, {{"pid", ::getpid()}, {"host", record::host_identity(facts)}});
  EXPECT_FALSE(group_.is_on_one_host());
  ASSERT_EQ(refusal(2, 1), "");
  EXPECT_THAT(group_.processes_of({1}), testing::IsEmpty()) << "a process of ours has its number";
}

TEST(Launcher, SaysHowARankEnded) {
  const std::string killed =
      "------\nmpirun noticed that process rank 1 with PID 77 on node a exited on signal 9 (Killed).\n------\n";
  EXPECT_EQ(end_in_words_of_launcher(killed, 1), "was killed by signal 9 (Killed)");
  EXPECT_EQ(end_in_words_of_launcher(killed, 0), std::nullopt);
  const std::string left =
      "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. "
      "The first process to do so was:\n\n  Process name: [[57283,1],2]\n  Exit code:    7\n";
  EXPECT_EQ(end_in_words_of_launcher(left, 2), "exited with status 7");
  EXPECT_EQ(end_in_words_of_launcher(left, 1), std::nullopt);
  EXPECT_EQ(end_in_words_of_launcher("srun: error: n1: task 3: Exited with exit code 5\n", 3), "exited with status 5");
  EXPECT_EQ(end_in_words_of_launcher("srun: error: n1: task 0: Killed\n", 0), "ended: Killed");
}

// HARNESS-017@811a
TEST_F(GroupTest, EachRankIsOneWorkers) {
  group_.joined(1, json::object());
  group_.joined(2, json::object());
  EXPECT_EQ(refusal(1, 0), "");
  EXPECT_THAT(refusal(2, 0), HasSubstr("a worker says that it is rank 0, and so does another"));
  EXPECT_THAT(refusal(2, 2), HasSubstr("a worker says that it is rank 2, and there are 2"));
  EXPECT_THAT(refusal(2, -1), HasSubstr("rank -1"));
  EXPECT_FALSE(group_.is_ready());
  EXPECT_EQ(refusal(2, 1), "");
  EXPECT_TRUE(group_.is_ready());
}

}  // namespace
}  // namespace plumbline::launch
