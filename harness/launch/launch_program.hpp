// harness/launch/launch_program.hpp: mpirun, mpiexec and srun: which one it is, and how it is told to start ranks.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace plumbline::launch {

/// Launchers that take the same options.
enum class LauncherFamily { open_mpi_4, open_mpi_5, hydra, slurm };

struct LaunchProgram {
  std::filesystem::path file;
  LauncherFamily family;
  std::string version;  // in its own words: "mpirun (Open MPI) 4.1.4"

  [[nodiscard]] std::string name() const { return file.filename().string(); }
};

/// `program`, a name in PATH or a path. Throws NotAvailable where it is not there, and InvalidArgument where what it
/// says of its version is of no family.
[[nodiscard]] LaunchProgram find_launch_program(const std::string& program);

/// The first of mpirun, mpiexec and srun in PATH that is of a family; nothing where none is.
[[nodiscard]] std::optional<LaunchProgram> find_launch_program();

/// Which family says that of its version; nothing where it is none.
[[nodiscard]] std::optional<LauncherFamily> family_of_version(const std::string& words);

/// The program and its options before the command that each of `world` ranks runs, here more than there are cores.
/// What it keeps in files goes into `folder`, where it lets us say so. `variables` are names of environment variables
/// that ranks on other hosts get, too.
[[nodiscard]] std::vector<std::string> command_to_start(const LaunchProgram& program, int world,
                                                        const std::filesystem::path& folder,
                                                        const std::vector<std::string>& variables);

/// How the process of a rank ended, as the launcher says it in what it prints, by the rank or by the number of the
/// process; nothing where it does not.
[[nodiscard]] std::optional<std::string> end_in_words_of_launcher(const std::string& words, int rank, int process);

}  // namespace plumbline::launch
