#include "harness/subject/place.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject {
namespace {

// What a launcher sets in each of its processes.
struct Variables {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* also;  // what is set besides; the pair alone says nothing. May be null.
  std::array<const char*, 3> job;
  bool is_mpi_job;
};

constexpr Variables kDriver{"plumbline", "PLUMBLINE_RANK", "PLUMBLINE_RANKS", nullptr, {"PLUMBLINE_GROUP"}, false};

// The first that is there counts, and an inner launcher comes before one that may have started it: torchrun is started
// by mpirun or srun once a host, Hydra's proxies by srun, and a plain pair may be the whole container's.
constexpr std::array kLaunchers{
    Variables{"torchrun",
              "RANK",
              "WORLD_SIZE",
              "TORCHELASTIC_RUN_ID",
              {"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"},
              false},
    Variables{"Open MPI",
              "OMPI_COMM_WORLD_RANK",
              "OMPI_COMM_WORLD_SIZE",
              nullptr,
              {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
              true},
    // MPICH's Hydra, and srun --mpi=pmi2. PMI_FD is a number of each process' own.
    Variables{"PMI", "PMI_RANK", "PMI_SIZE", nullptr, {"PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"}, true},
    // A batch script has SLURM_PROCID, too, but only a step's tasks have a step id.
    Variables{
        "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", {"SLURM_JOB_ID", "SLURM_STEP_ID"}, true},
    // PMIx alone does not say how many ranks there are: whoever starts plumbline by it says that.
    Variables{"PMIx", "PMIX_RANK", "WORLD_SIZE", "PMIX_NAMESPACE", {"PMIX_NAMESPACE"}, true},
    Variables{"somebody", "RANK", "WORLD_SIZE", nullptr, {"MASTER_ADDR", "MASTER_PORT"}, false},
};

// An empty variable is none.
std::optional<std::string> variable(const char* name) {
  const char* const value = name == nullptr ? nullptr : std::getenv(name);
  return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
}

std::optional<int> number(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string job_of(const Variables& row) {
  std::string job = row.launcher;
  for (const char* const name : row.job)
    if (const auto value = variable(name)) job += "-" + *value;
  return job;
}

std::optional<Place> place_by(const Variables& row) {
  const auto rank = variable(row.rank);
  const auto size = variable(row.size);
  if (!rank || !size || (row.also != nullptr && !variable(row.also))) return std::nullopt;
  Place place{.launcher = row.launcher,
              .job = job_of(row),
              .variables = fmt::format("{}={}, {}={}", row.rank, *rank, row.size, *size),
              .is_mpi_job = row.is_mpi_job,
              .scratch = {}};
  const auto own = number(*rank);
  const auto all = number(*size);
  if (!own || !all || *own < 0 || *own >= *all)
    throw InvalidArgument(fmt::format(
        "the environment has {}: a rank is a whole number from 0 to the size less one; correct or unset them",
        place.variables));
  place.rank = *own;
  place.size = *all;
  return place;
}

const char* needs_of(Meeting meeting) {
  switch (meeting) {
    case Meeting::memory:
      return "all ranks must be on the driver's";
    case Meeting::folder:
      return "for ranks on several hosts set PLUMBLINE_TMPDIR to a folder that they share";
    case Meeting::address:
      return "give ranks on several hosts MASTER_ADDR and MASTER_PORT";
  }
  return "";
}

}  // namespace

std::optional<Place> place_of_launcher() {
  for (const Variables& row : kLaunchers)
    if (auto place = place_by(row)) return place;
  return std::nullopt;
}

std::vector<std::string> launcher_variables() {
  std::vector<std::string> all{"PMI_FD"};
  for (const Variables& row : kLaunchers)
    for (const char* const name : {row.rank, row.size, row.also})
      if (name != nullptr) all.emplace_back(name);
  return all;
}

Place place_of_worker(std::string_view name, Meeting meeting) {
  Place place;
  if (auto given = place_by(kDriver)) {
    place = *std::move(given);
  } else if (given = place_of_launcher(); given) {
    place = *std::move(given);
    place.has_address = variable("MASTER_ADDR") && variable("MASTER_PORT");
  }
  place.scratch = variable("PLUMBLINE_SCRATCH").value_or("");
  const bool has_met = meeting == Meeting::address && place.has_address;
  if (place.size > 1 && !has_met && !std::filesystem::is_directory(place.scratch))
    throw RuntimeFailure(fmt::format("backend {}: PLUMBLINE_SCRATCH='{}' is no folder of this host; {}", name,
                                     place.scratch.string(), needs_of(meeting)));
  return place;
}

}  // namespace plumbline::subject
