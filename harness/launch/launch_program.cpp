#include "harness/launch/launch_program.hpp"

#include <array>
#include <cstdio>
#include <regex>

#include <fmt/format.h>

#include "harness/launch/control.hpp"
#include "harness/launch/process.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::launch {
namespace fs = std::filesystem;

namespace {

// What a program prints of its version; nothing where it does not end.
std::string version_of(const fs::path& file) {
  std::string quoted;
  for (const char c : file.string()) quoted += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  std::FILE* const pipe = ::popen(fmt::format("timeout 20 '{}' --version 2>&1 </dev/null", quoted).c_str(), "r");
  if (pipe == nullptr) return {};
  std::string words;
  std::array<char, 4096> chunk{};
  for (std::size_t count; (count = std::fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    words.append(chunk.data(), count);
  ::pclose(pipe);
  return words;
}

std::string first_line(const std::string& words) { return words.substr(0, words.find('\n')); }

// MPICH names its version in the second line: "HYDRA build details:", "    Version:         4.0.2".
std::string own_words(const std::string& words) {
  std::smatch parts;
  if (std::regex_search(words, parts, std::regex(R"(HYDRA build details:\s*Version: *(\S+))")))
    return "Hydra " + parts[1].str();
  return first_line(words);
}

std::vector<std::string> open_mpi_options(const LaunchProgram& program, const fs::path& folder,
                                          std::vector<std::string> variables) {
  const bool is_4 = program.family == LauncherFamily::open_mpi_4;
  std::vector<std::string> options{"--oversubscribe", "--bind-to", "none"};
  const std::string place = folder.string();
  const auto set = [&options](std::string name, std::string value) {
    options.insert(options.end(), {"--mca", std::move(name), std::move(value)});
  };
  // On one host shared memory alone: half the start-up time.
  set("pml", "ob1");
  set("btl", is_4 ? "self,vader" : "self,sm");
  // Into the folder, which we remove: also after a kill that gave it no chance to.
  if (is_4) set("orte_tmpdir_base", place);
  set(is_4 ? "btl_vader_backing_directory" : "btl_sm_backing_directory", place);
  set("osc_rdma_backing_directory", place);
  if (is_4) set("shmem_mmap_backing_file_base_dir", place);
  if (!is_4) options.insert(options.end(), {"--prtemca", "prte_tmpdir_base", place});
  // Hydra and srun hand on all of the environment.
  variables.insert(variables.end(), {kTokenVariable, kControlVariable, "PLUMBLINE_GROUP", "PLUMBLINE_SCRATCH"});
  for (const std::string& variable : variables) options.insert(options.end(), {"-x", variable});
  return options;
}

}  // namespace

std::optional<LauncherFamily> family_of_version(const std::string& words) {
  std::smatch parts;
  if (std::regex_search(words, parts, std::regex(R"(\((?:Open MPI|OpenRTE)\) v?([0-9]+))")))
    return std::stoi(parts[1].str()) < 5 ? LauncherFamily::open_mpi_4 : LauncherFamily::open_mpi_5;
  if (words.starts_with("HYDRA build details") || words.starts_with("Intel(R) MPI Library"))
    return LauncherFamily::hydra;
  if (words.starts_with("slurm")) return LauncherFamily::slurm;
  return std::nullopt;
}

LaunchProgram find_launch_program(const std::string& program) {
  const auto file = program.find('/') == std::string::npos ? find_program(program) : fs::absolute(program);
  if (!file)
    throw subject::NotAvailable(fmt::format("--launcher {}: it is not in PATH; install {}", program,
                                            program == "srun" ? "slurm-client" : "openmpi-bin or mpich"));
  if (!fs::is_regular_file(*file))
    throw subject::NotAvailable(fmt::format("--launcher {}: there is no such program", program));
  const std::string words = version_of(*file);
  const auto family = family_of_version(words);
  if (!family)
    throw InvalidArgument(
        fmt::format("--launcher {}: --version prints '{}'; give Open MPI's mpirun, MPICH's mpiexec or Slurm's srun. "
                    "Under another launcher run plumbline on every rank",
                    program, first_line(words)));
  return {.file = *file, .family = *family, .version = own_words(words)};
}

std::optional<LaunchProgram> find_launch_program() {
  for (const char* const name : {"mpirun", "mpiexec", "srun"}) try {
      if (find_program(name)) return find_launch_program(name);
    } catch (const InvalidArgument&) {  // another's, which takes options that we do not know
    }
  return std::nullopt;
}

std::vector<std::string> command_to_start(const LaunchProgram& program, int world, const fs::path& folder,
                                          const std::vector<std::string>& variables) {
  std::vector<std::string> command{program.file.string(), "-n", std::to_string(world)};
  std::vector<std::string> options;
  if (program.family == LauncherFamily::slurm)
    options = {"--overlap", "--overcommit", "--oversubscribe", "--kill-on-bad-exit=1"};
  if (program.family == LauncherFamily::open_mpi_4 || program.family == LauncherFamily::open_mpi_5)
    options = open_mpi_options(program, folder, variables);
  command.insert(command.end(), options.begin(), options.end());  // Hydra needs none
  return command;
}

std::optional<std::string> end_in_words_of_launcher(const std::string& words, int rank, int process) {
  // Open MPI: "mpirun noticed that process rank 1 with PID 77 on node a exited on signal 9 (Killed)." and, of a status,
  // "Process name: [[4711,1],1]" with "Exit code:    7". Slurm: "srun: error: a: task 1: Killed", "…: task 1: Exited
  // with exit code 7". Hydra: "=   PID 77 RUNNING AT a", "=   EXIT CODE: 9", and below "EXIT STRING: Killed (signal
  //                                9)".
  std::smatch parts;
  const std::regex by_signal(fmt::format(R"(process rank {} .*exited on\s+signal ([0-9]+) \(([^)]*)\))", rank));
  if (std::regex_search(words, parts, by_signal))
    return fmt::format("was killed by signal {} ({})", parts[1].str(), parts[2].str());
  const std::regex by_status(fmt::format(R"(Process name: *\[[^\n]*,{}\]\s*Exit code: *([0-9]+))", rank));
  if (std::regex_search(words, parts, by_status)) return fmt::format("exited with status {}", parts[1].str());
  const std::regex of_hydra(fmt::format(
      R"(=   PID {} RUNNING AT [^\n]*\n=   EXIT CODE: *([0-9]+)([\s\S]*EXIT STRING: (\w+) \(signal ([0-9]+)\))?)",
      process));
  if (std::regex_search(words, parts, of_hydra))
    return parts[2].matched ? fmt::format("was killed by signal {} ({})", parts[4].str(), parts[3].str())
                            : fmt::format("exited with status {}", parts[1].str());
  const std::regex of_slurm(
      fmt::format(R"(srun: error: [^\n]*: tasks? {}: (Exited with exit code ([0-9]+)|[^\n]+))", rank));
  if (!std::regex_search(words, parts, of_slurm)) return std::nullopt;
  return parts[2].matched ? fmt::format("exited with status {}", parts[2].str())
                          : fmt::format("ended: {}", parts[1].str());
}

}  // namespace plumbline::launch
