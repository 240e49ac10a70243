// harness/launch/attach.hpp: plumbline inside the user's own mpirun or srun: every rank runs the same command line.
//
// Model   Rank 0 forks the driver before its backend's runtime starts; then all ranks, 0 too, become workers. Endpoint and
//         token go through a file that only the user can read, in the folder that all ranks share, named by the job.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "harness/launch/driver.hpp"

namespace plumbline::launch {

/// This process' place in a job that a launcher started.
struct JobPlace {
  int rank = 0;
  int size = 1;
  std::string job;  // equal on all ranks, and not on those of another job
};

/// From the environment that Open MPI's mpirun, MPICH's mpiexec (PMI) and Slurm's srun set; nothing outside a job.
[[nodiscard]] std::optional<JobPlace> job_place();

/// The file through which the ranks of a job find the driver.
[[nodiscard]] std::filesystem::path rendezvous_file(const std::filesystem::path& folder, const JobPlace& place);
/// Throws RuntimeFailure.
void write_rendezvous(const std::filesystem::path& file, const Rendezvous& rendezvous);

/// Runs as one process of a job: on rank 0 `driver` in a child process, and on every rank `worker`, once the rendezvous is
/// known and set in the environment. Returns the exit status: on rank 0 the driver's.
int run_attached(const JobPlace& place, const std::filesystem::path& folder, const std::function<int()>& driver,
                 const std::function<int()>& worker);

}  // namespace plumbline::launch
