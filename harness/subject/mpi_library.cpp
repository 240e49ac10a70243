#include "harness/subject/mpi_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include <unistd.h>

#include "harness/subject/place.hpp"
#include "reference/comm/errors.hpp"

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

// The programs that this process comes from: its parent's, and so on. A launcher, or what it has on a host, is one.
std::vector<fs::path> ancestors() {
  std::vector<fs::path> programs;
  std::error_code error;
  for (long process = ::getppid(); process > 1 && programs.size() < 16;) {
    programs.push_back(fs::read_symlink("/proc/" + std::to_string(process) + "/exe", error));
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string stat;
    std::getline(file, stat);
    std::istringstream after_name(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
    std::string state;
    process = 0;
    after_name >> state >> process;
  }
  return programs;
}

std::optional<Place> place() {
  try {
    return place_of_launcher();
  } catch (const InvalidArgument&) {  // numbers that make no rank: whoever needs the rank says so
    return std::nullopt;
  }
}

// In the lib beside a program's folder; empty: none is.
std::string library_beside(const fs::path& program, const MpiInterface& interface) {
  std::error_code error;
  for (const char* const name : interface.libraries) {
    if (name == nullptr || program.empty()) continue;
    const fs::path file = program.parent_path().parent_path() / "lib" / name;
    if (fs::exists(file, error)) return file.string();
  }
  return {};
}

std::string_view interface_of_launcher() {
  if (const auto own = place()) {
    if (own->launcher == "Open MPI") return "openmpi";
    if (own->launcher == "PMI") return "mpich";
  }
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
  std::vector<fs::path> launchers{launcher_in_path()};
  if (place()) launchers = ancestors();
  std::vector<std::string> all;
  for (const fs::path& program : launchers)
    if (const std::string beside = library_beside(program, interface); !beside.empty()) all.push_back(beside);
  for (const char* const name : interface.libraries)
    if (name != nullptr) all.emplace_back(name);
  return all;
}

}  // namespace plumbline::subject
