// What a worker group believes of workers that say who and where they are.
#include "harness/launch/group.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>
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

// HARNESS-002@3626
TEST_F(GroupTest, AWorkerOnAnotherHostOfTheSameNameIsNotHere) {
  record::HostFacts facts = record::host_facts();
  group_.joined(1, {{"pid", 0}, {"host", record::host_identity(facts)}, {"host_name", "node"}});
  EXPECT_TRUE(group_.is_on_one_host());
  facts.machine = "another";  // and the same name: a clone
  group_.joined(2, {{"pid", ::getpid()}, {"host", record::host_identity(facts)}, {"host_name", "node"}});
  EXPECT_FALSE(group_.is_on_one_host());
  ASSERT_EQ(refusal(1, 0) + refusal(2, 1), "");
  EXPECT_THAT(group_.processes_of({1}), testing::IsEmpty()) << "a process of ours has its number";
  const std::string name = fmt::format("node ({})", record::host_identity(facts).substr(0, 8));
  EXPECT_EQ(group_.host_of(1), name);
  group_.left(2);  // it crashed
  EXPECT_FALSE(group_.is_on_one_host());
  EXPECT_EQ(group_.host_of(1), name);
}

TEST(Launcher, IsToldByWhatItSaysOfItsVersion) {
  EXPECT_EQ(family_of_version("mpirun (Open MPI) 4.1.4\n\nReport bugs to …"), LauncherFamily::open_mpi_4);
  EXPECT_EQ(family_of_version("mpirun (Open MPI) 5.0.11\n"), LauncherFamily::open_mpi_5);
  EXPECT_EQ(family_of_version("HYDRA build details:\n    Version:   4.0.2\n"), LauncherFamily::hydra);
  EXPECT_EQ(family_of_version("slurm 22.05.8\n"), LauncherFamily::slurm);
  EXPECT_EQ(family_of_version("gcc (Debian) 12.2.0\n"), std::nullopt);
  EXPECT_EQ(family_of_version(""), std::nullopt);
}

// Slurm's own default is one rank a core.
TEST(Launcher, OfSlurmStartsMoreRanksThanThereAreCores) {
  EXPECT_THAT(
      command_to_start({.file = "/usr/bin/srun", .family = LauncherFamily::slurm, .version = ""}, 3, "/x", {}),
      testing::AllOf(testing::ElementsAre("/usr/bin/srun", "-n", "3", testing::_, testing::_, testing::_, testing::_),
                     testing::Contains("--overcommit")));
}

TEST(Launcher, OfOpenMpiHandsVariablesToOtherHosts) {
  const std::vector<std::string> command =
      command_to_start({.file = "mpirun", .family = LauncherFamily::open_mpi_4, .version = ""}, 2, "/x", {"NCCL_ALGO"});
  const auto name = std::ranges::find(command, "NCCL_ALGO");
  ASSERT_NE(name, command.end());
  EXPECT_EQ(*std::prev(name), "-x");
}

TEST(Launcher, SaysHowARankEnded) {
  const std::string killed =
      "------\nmpirun noticed that process rank 1 with PID 77 on node a exited on signal 9 (Killed).\n------\n";
  EXPECT_EQ(end_in_words_of_launcher(killed, 1, 77), "was killed by signal 9 (Killed)");
  EXPECT_EQ(end_in_words_of_launcher(killed, 0, 76), std::nullopt);
  const std::string killed_of_5 =
      "------\nprterun noticed that process rank 1 with PID 7082 on node vm exited on\nsignal 9 (Killed).\n------\n";
  EXPECT_EQ(end_in_words_of_launcher(killed_of_5, 1, 7082), "was killed by signal 9 (Killed)");
  const std::string left =
      "mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. "
      "The first process to do so was:\n\n  Process name: [[57283,1],2]\n  Exit code:    7\n";
  EXPECT_EQ(end_in_words_of_launcher(left, 2, 78), "exited with status 7");
  EXPECT_EQ(end_in_words_of_launcher(left, 1, 77), std::nullopt);
  EXPECT_EQ(end_in_words_of_launcher("   Process name: [prterun-vm-7089@1,1]\n   Exit code:    7\n", 1, 0),
            "exited with status 7");
  EXPECT_EQ(end_in_words_of_launcher("srun: error: n1: task 3: Exited with exit code 5\n", 3, 0),
            "exited with status 5");
  EXPECT_EQ(end_in_words_of_launcher("srun: error: n1: task 0: Killed\n", 0, 0), "ended: Killed");
  const std::string of_hydra =
      "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 7050 RUNNING AT vm\n=   EXIT CODE: 9\n=   "
      "CLEANING UP REMAINING PROCESSES\n";
  EXPECT_EQ(end_in_words_of_launcher(of_hydra + "… WITH THE EXIT STRING: Killed (signal 9)\n", 1, 7050),
            "was killed by signal 9 (Killed)");
  EXPECT_EQ(end_in_words_of_launcher(of_hydra, 1, 7050), "exited with status 9");
  EXPECT_EQ(end_in_words_of_launcher(of_hydra, 0, 7049), std::nullopt);
}

// HARNESS-017@27c5
TEST_F(GroupTest, EachRankIsOneWorkers) {
  group_.joined(1, json::object());
  group_.joined(2, json::object());
  EXPECT_EQ(refusal(1, 0), "");
  EXPECT_THAT(refusal(2, 0), HasSubstr("a worker reports that it is rank 0, and so does another"));
  EXPECT_THAT(refusal(2, 2), HasSubstr("a worker reports that it is rank 2, and there are 2"));
  EXPECT_THAT(refusal(2, -1), HasSubstr("rank -1"));
  EXPECT_FALSE(group_.is_ready());
  EXPECT_EQ(refusal(2, 1), "");
  EXPECT_TRUE(group_.is_ready());
}

}  // namespace
}  // namespace plumbline::launch
