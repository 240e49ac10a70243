// harness/subject/mpi/self_description.hpp: what the MPI backend says of itself.
#pragma once

#include <map>
#include <string>

#include "harness/subject/mpi/options.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::mpi {

/// "Open MPI v4.1.4". Also before MPI_Init.
[[nodiscard]] std::string runtime_version();

/// What the backend claims at a thread level that MPI provides, and what it cannot do. After MPI_Init.
[[nodiscard]] comm::Capabilities capabilities_of(int thread_level);

/// "library", "standard", "threads", "segment_elements", and by their names the environment variables that
/// choose transports and algorithms; not those that a launcher sets again for each job. After MPI_Init.
[[nodiscard]] std::map<std::string, std::string> environment_of(const Options& options, int thread_level);

}  // namespace plumbline::subject::mpi
