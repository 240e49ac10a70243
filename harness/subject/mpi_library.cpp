#include "harness/subject/mpi_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include <unistd.h>

#include "harness/subject/place.hpp"

namespace plumbline::subject {
namespace fs = std::filesystem;

namespace {

// Without the links by which distributions choose among several.
fs::path launcher_in_path() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* const name : {"mpirun", "mpiexec"})
      if (const fs::path file = fs::path(folder) / name; ::access(file.c_str(), X_OK) == 0) {
        std::error_code error;
        return fs::canonical(file, error);
      }
  return {};
}

// That lies beside the launcher; empty: none does.
std::string library_beside(const fs::path& launcher, const MpiInterface& interface) {
  std::error_code error;
  for (const char* const name : interface.libraries) {
    if (name == nullptr || launcher.empty()) continue;
    const fs::path file = launcher.parent_path().parent_path() / "lib" / name;
    if (fs::exists(file, error)) return file.string();
  }
  return {};
}

std::string_view interface_of_launcher() {
  std::optional<Place> place;
  try {
    place = place_of_launcher();
  } catch (const std::exception&) {  // numbers that make no rank: whoever needs the rank says so
  }
  if (place && place->launcher == "Open MPI") return "openmpi";
  if (place && place->launcher == "PMI") return "mpich";
  const fs::path launcher = launcher_in_path();
  for (const MpiInterface& interface : kMpiInterfaces)
    if (!library_beside(launcher, interface).empty()) return interface.name;
  const std::string name = launcher.filename().string();
  if (name.find("hydra") != std::string::npos || name.find("mpich") != std::string::npos) return "mpich";
  return "openmpi";
}

}  // namespace

std::vector<MpiInterface> mpi_interfaces() {
  std::vector<MpiInterface> all(kMpiInterfaces.begin(), kMpiInterfaces.end());
  const std::string_view first = interface_of_launcher();
  std::ranges::stable_partition(all, [first](const MpiInterface& one) { return one.name == first; });
  return all;
}

std::vector<std::string> libraries_of(const MpiInterface& interface) {
  std::vector<std::string> all;
  if (const std::string beside = library_beside(launcher_in_path(), interface); !beside.empty()) all.push_back(beside);
  for (const char* const name : interface.libraries)
    if (name != nullptr) all.emplace_back(name);
  return all;
}

}  // namespace plumbline::subject
