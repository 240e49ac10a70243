// harness/subject/place.hpp: which process of which job this is, as its launcher says in the environment. What each
// launcher sets is one table, in place.cpp, and harness/launch/README.md shows it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::subject {

/// A process among those that were started together.
struct Place {
  int rank = 0;
  int size = 1;
  std::string
      launcher;     // "Open MPI", as the table names it; "somebody" where RANK and WORLD_SIZE are all; empty for none
  std::string job;  // equal on all ranks, and not on those of another job where the launcher tells them apart
  std::string variables;          // "PMI_RANK=1, PMI_SIZE=2": where rank and size come from
  bool is_mpi_job = false;        // whether MPI_Init in these processes makes them one world
  std::filesystem::path scratch;  // a folder that all ranks of a backend share
  bool has_address = false;       // whether the launcher says where rank 0 is: MASTER_ADDR and MASTER_PORT
};

/// Where ranks of a backend find each other: in memory that they share, so that all are on one host; in
/// PLUMBLINE_SCRATCH, which hosts may share; or at rank 0's address, and where there is none in that folder.
enum class Meeting { memory, folder, address };

/// The place that the user's own launcher gave this process; nothing outside a job. Throws InvalidArgument where the
/// numbers make no rank.
[[nodiscard]] std::optional<Place> place_of_launcher();

/// The variables by which launchers give a rank to a process. Who starts ranks of another job takes them away.
[[nodiscard]] std::vector<std::string> launcher_variables();

/// The place of a rank of backend `name`, which the driver started itself (PLUMBLINE_RANK, PLUMBLINE_RANKS), or a
/// launcher; rank 0 of 1 where nobody did. Throws InvalidArgument for numbers that make no rank, and RuntimeFailure
/// where there are several ranks that have nowhere to meet: PLUMBLINE_SCRATCH is no folder of this host.
[[nodiscard]] Place place_of_worker(std::string_view name, Meeting meeting = Meeting::folder);

}  // namespace plumbline::subject
