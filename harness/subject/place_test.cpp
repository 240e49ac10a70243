// The table of launchers: what each sets, and which of several counts.
#include "harness/subject/place.hpp"

#include <cstdlib>
#include <map>

#include <gtest/gtest.h>

#include "harness/subject/mpi_library.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject {
namespace {

using Variables = std::map<const char*, const char*>;

class PlaceOfLauncher : public testing::Test {
 protected:
  void set(const Variables& variables) {
    ::clearenv();
    for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  }
  std::string place(const Variables& variables) {
    set(variables);
    const auto place = place_of_launcher();
    if (!place) return "none";
    return place->launcher + " " + std::to_string(place->rank) + " of " + std::to_string(place->size) + ", job " +
           place->job + (place->is_mpi_job ? ", MPI" : "");
  }
  std::string words(const Variables& variables) {
    try {
      return place(variables);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  }
};

// As env prints it under each of them: Open MPI 4.1.4 and 5.0.11, MPICH 4.3.2 and 5.0.2, srun 22.05, torchrun 2.13.
TEST_F(PlaceOfLauncher, IsWhatEachLauncherSays) {
  EXPECT_EQ(place({}), "none");
  EXPECT_EQ(place({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_MCA_ess_base_jobid", "7"}}),
            "Open MPI 1 of 2, job Open MPI-7, MPI");
  EXPECT_EQ(place({{"OMPI_COMM_WORLD_RANK", "1"},
                   {"OMPI_COMM_WORLD_SIZE", "2"},
                   {"PMIX_RANK", "1"},
                   {"PMIX_NAMESPACE", "prterun-vm-5387@1"}}),
            "Open MPI 1 of 2, job Open MPI-prterun-vm-5387@1, MPI");
  EXPECT_EQ(place({{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"PMI_FD", "9"}}), "PMI 0 of 3, job PMI, MPI");
  EXPECT_EQ(place({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"PMI_FD", "11"}}), "PMI 2 of 3, job PMI, MPI");
  EXPECT_EQ(place({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"PMI_JOBID", "42"}}), "PMI 2 of 3, job PMI-42, MPI");
  const Variables slurm{
      {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "1"}};
  EXPECT_EQ(place(slurm), "Slurm 3 of 4, job Slurm-12-1, MPI");
  EXPECT_EQ(place({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "n@1"}, {"WORLD_SIZE", "2"}}),
            "PMIx 1 of 2, job PMIx-n@1, MPI");
  EXPECT_EQ(place({{"RANK", "1"},
                   {"WORLD_SIZE", "2"},
                   {"LOCAL_RANK", "1"},
                   {"TORCHELASTIC_RUN_ID", "none"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", "29500"}}),
            "torchrun 1 of 2, job torchrun-none-127.0.0.1-29500");
  EXPECT_EQ(place({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "somebody 0 of 1, job somebody");
}

TEST_F(PlaceOfLauncher, IsTheInnerOnesWhereOneStartedAnother) {
  const Variables slurm{
      {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_ID", "1"}};
  Variables hydra_in_slurm = slurm;  // its proxies are srun's tasks, one a host
  hydra_in_slurm.insert({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}});
  EXPECT_EQ(place(hydra_in_slurm), "PMI 5 of 8, job PMI-12-1, MPI");
  Variables torchrun_in_open_mpi{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  torchrun_in_open_mpi.insert({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"TORCHELASTIC_RUN_ID", "a"}});
  EXPECT_EQ(place(torchrun_in_open_mpi), "torchrun 1 of 2, job torchrun-a");
  EXPECT_EQ(place({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}}),
            "Open MPI 1 of 4, job Open MPI, MPI");
}

TEST_F(PlaceOfLauncher, IsNoneInABatchScriptAndWhereAVariableIsEmptied) {
  EXPECT_EQ(place({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "12"}, {"SLURM_STEP_NUM_TASKS", "2"}}), "none");
  EXPECT_EQ(place({{"RANK", ""}, {"WORLD_SIZE", "2"}}), "none");
  EXPECT_EQ(place({{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "n@1"}}), "none") << "PMIx alone does not say how many";
  Variables all{{"OMPI_COMM_WORLD_SIZE", "2"}, {"PMI_SIZE", "2"}, {"WORLD_SIZE", "2"}};
  set(all);
  for (const std::string& name : launcher_variables()) ::unsetenv(name.c_str());
  EXPECT_FALSE(place_of_launcher());
}

TEST_F(PlaceOfLauncher, RefusesNumbersThatMakeNoRank) {
  const std::string rule = ": a rank is a whole number from 0 to the size less one; correct or unset them";
  EXPECT_EQ(words({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "the environment has RANK=2, WORLD_SIZE=2" + rule);
  EXPECT_EQ(words({{"PMI_RANK", "-1"}, {"PMI_SIZE", "2"}}), "the environment has PMI_RANK=-1, PMI_SIZE=2" + rule);
  EXPECT_EQ(words({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), "the environment has RANK=x, WORLD_SIZE=2" + rule);
}

TEST_F(PlaceOfLauncher, OfAWorkerIsTheDriversFirst) {
  set({{"PLUMBLINE_RANK", "1"},
       {"PLUMBLINE_RANKS", "2"},
       {"PMI_RANK", "5"},
       {"PMI_SIZE", "8"},
       {"PLUMBLINE_SCRATCH", "/tmp"}});
  EXPECT_EQ(place_of_worker("acme").rank, 1);
  EXPECT_EQ(place_of_worker("acme").scratch, "/tmp");
  set({{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"PLUMBLINE_SCRATCH", "/tmp"}});
  EXPECT_EQ(place_of_worker("acme").rank, 5);
  set({});
  EXPECT_EQ(place_of_worker("acme").size, 1);
  set({{"PLUMBLINE_RANK", "1"}, {"PLUMBLINE_RANKS", "2"}, {"PLUMBLINE_SCRATCH", "/nonexistent"}});
  for (const auto& [meeting, needs] :
       {std::pair(Meeting::memory, "all ranks must be on the driver's"),
        std::pair(Meeting::folder, "for ranks on several hosts set PLUMBLINE_TMPDIR to a folder that they share"),
        std::pair(Meeting::address, "give ranks on several hosts MASTER_ADDR and MASTER_PORT")}) {
    try {
      (void)place_of_worker("acme", meeting);
      ADD_FAILURE() << "nobody could meet there: " << needs;
    } catch (const RuntimeFailure& error) {
      EXPECT_EQ(error.what(),
                std::string("backend acme: PLUMBLINE_SCRATCH='/nonexistent' is no folder of this host; ") + needs);
    }
  }
  set({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}});
  EXPECT_TRUE(place_of_worker("acme", Meeting::address).has_address);
  EXPECT_THROW((void)place_of_worker("acme"), RuntimeFailure) << "it meets in a folder";
}

TEST_F(PlaceOfLauncher, DecidesWhichMpiIsTriedFirst) {
  set({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(mpi_interfaces().front().name, "openmpi");
  set({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}});
  EXPECT_EQ(mpi_interfaces().front().name, "mpich");
  EXPECT_EQ(mpi_interfaces().size(), kMpiInterfaces.size());
}

}  // namespace
}  // namespace plumbline::subject
