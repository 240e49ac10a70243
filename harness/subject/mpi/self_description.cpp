#include "harness/subject/mpi/self_description.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace plumbline::subject::mpi {
namespace {

// "Open MPI v4.1.4, package: …": Open MPI puts the version before the first comma, MPICH ("MPICH Version:      4.3.2")
// in the first line.
std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  return {text, static_cast<std::size_t>(length)};
}

std::string short_version(const std::string& library) {
  const std::string line = library.substr(0, library.find_first_of(",\n"));
  static constexpr std::string_view kMpich = "MPICH Version:";
  if (!line.starts_with(kMpich)) return line;
  return "MPICH " + line.substr(std::min(line.size(), line.find_first_not_of(" \t", kMpich.size())));
}

bool is_setting(std::string_view name) {
  constexpr std::array prefixes{"OMPI_MCA_", "PMIX_MCA_", "UCX_", "FI_", "MPIR_CVAR_"};
  // Set by mpirun itself: where the job's files and daemons are.
  constexpr std::array of_one_job{"OMPI_MCA_orte_", "OMPI_MCA_ess",    "OMPI_MCA_shmem_",      "OMPI_MCA_pmix",
                                  "OMPI_MCA_plm_",  "OMPI_MCA_rmaps_", "OMPI_MCA_initial_wdir"};
  const auto begins = [&](const char* prefix) { return name.starts_with(prefix); };
  return std::ranges::any_of(prefixes, begins) && std::ranges::none_of(of_one_job, begins) &&
         !name.ends_with("_directory");
}

}  // namespace

std::string runtime_version() { return short_version(library_version()); }

comm::Capabilities capabilities_of(int thread_level) {
  using comm::Capability;
  comm::Capabilities all{.backend = "mpi", .version = runtime_version()};
  all.claims = {Capability::nonblocking,
                Capability::coalescing,
                Capability::groups,
                Capability::point_to_point,
                Capability::wait_timeout,
                Capability::blocking_timeout,
                Capability::all_gather_v,
                Capability::reduce_scatter_v,
                Capability::all_to_all_v,
                Capability::bool_reductions,
                Capability::float8_reductions,
                Capability::scaled_sums,
                Capability::complex_sums,
                Capability::complex_products,
                Capability::allocated_memory,
                Capability::grow,
                Capability::strided};
  all.dtypes.insert(comm::kOptionalDTypes.begin(), comm::kOptionalDTypes.end());
  all.rounds_each_half_addition = true;
  all.notes = {
      "a blocking and a non-blocking call of the same collective do not match (MPI-3.1 section 5.12), nor does one "
      "with "
      "an explicit time limit match one without",
      "a collective cannot be taken back: after a time-out, or after dropping an unfinished Work, its buffers must "
      "stay "
      "until the process ends",
      "a blocking call without an explicit limit waits without limit, even after abort()",
      "create_group, grow and join wait without limit for the members; newcomers are processes of MPI_COMM_WORLD",
      "memory is allocated by MPI_Alloc_mem; MPI registers no memory of the caller's for its collectives",
      "calls that were started make progress only while the process is inside a call of MPI"};
#if defined(OPEN_MPI)
  all.claims.insert(Capability::equal_results);
#else
  all.notes.emplace_back("whether all ranks get the same bits has been established for Open MPI only");
#endif
  if (thread_level == MPI_THREAD_MULTIPLE)
    all.claims.insert(Capability::thread_multiple);
  else
    all.notes.push_back(fmt::format("MPI provides thread level {}: {}", name_of_thread_level(thread_level),
                                    thread_level == MPI_THREAD_SERIALIZED
                                        ? "only one thread at a time may be inside a call"
                                        : "only the thread that opened the backend may make calls"));
  return all;
}

std::map<std::string, std::string> environment_of(const Options& options, int thread_level) {
  int version = 0;
  int subversion = 0;
  MPI_Get_version(&version, &subversion);
  std::map<std::string, std::string> all{{"library", library_version()},
                                         {"standard", fmt::format("{}.{}", version, subversion)},
                                         {"threads", std::string(name_of_thread_level(thread_level))},
                                         {"segment_elements", std::to_string(options.segment_elements)}};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals != text.npos && is_setting(text.substr(0, equals)))
      all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

}  // namespace plumbline::subject::mpi
