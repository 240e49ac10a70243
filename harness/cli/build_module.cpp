// `plumbline build-module`: a module that needs LibTorch, built from the installed sources for the torch that is here.
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cli/program.hpp"
#include "harness/launch/process.hpp"
#include "harness/record/environment.hpp"
#include "harness/subject/backend_name.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/torch_library.hpp"
#include "harness/subject/training_module.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

namespace fs = std::filesystem;
using subject::NotAvailable;

struct BuildOptions {
  std::string module, python;
  int jobs = 0;
};

// A folder in the temporary one; it stays when the build fails, for its log.
fs::path make_build_folder() {
  std::string name = (fs::temp_directory_path() / "plumbline-module-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw RuntimeFailure(fmt::format("cannot make folder '{}': {}", name, std::strerror(errno)));
  return name;
}

// In our process group, so that an interrupt ends all of it.
bool run_logged(std::vector<std::string> command, const fs::path& log) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(output, STDOUT_FILENO);
    ::dup2(output, STDERR_FILENO);
    ::execvp(arguments.front(), arguments.data());
    ::_exit(127);
  }
  int status = -1;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// The line of a log that says what went wrong: a compiler's first error, or what CMake says under its headline.
std::string telling_line(const fs::path& log) {
  std::ifstream file(log);
  bool in_error_of_cmake = false;
  for (std::string line; std::getline(file, line);) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos) continue;
    if (in_error_of_cmake || line.find("error:") != std::string::npos) return line.substr(begin);
    in_error_of_cmake = line.starts_with("CMake Error");
  }
  return "it says nothing";
}

// A file that includes LibTorch takes up to 2 GiB to compile.
int jobs_here() {
  const nlohmann::json machine = record::capture_environment();
  const int by_memory = static_cast<int>(machine.at("memory_bytes").get<double>() / (std::uint64_t{2} << 30));
  return std::max(1, std::min(machine.at("usable_cores").get<int>(), by_memory));
}

subject::Torch torch_to_build_for(const BuildOptions& options) {
  if (!options.python.empty()) {
    if (!launch::find_program(options.python))
      throw NotFound(
          fmt::format("--torch '{}': there is no such program; it is a Python that imports torch", options.python));
    ::setenv("PLUMBLINE_PYTHON", options.python.c_str(), 1);  // also when the module is tried
  }
  const auto torch = subject::torch_of_python();
  if (!torch)
    throw NotAvailable(
        fmt::format("build-module: '{}' imports no torch; pip install torch there, or name another "
                    "Python by --torch",
                    subject::chosen_python()));
  if (torch->version.empty() || !fs::exists(torch->folder / "include/ATen/Version.h"))
    throw NotAvailable(
        fmt::format("build-module: the torch in '{}' has no headers, or no version.py; install the one "
                    "of PyPI",
                    torch->folder.string()));
  return *torch;
}

fs::path sources_here() {
  const fs::path folder = subject::data_folder() / "modules";
  if (fs::exists(folder / "CMakeLists.txt")) return folder;
  throw NotAvailable(
      fmt::format("build-module: '{}' is missing: it comes with an installation of what was built with "
                  "LibTorch; in a build folder, configure and build again",
                  folder.string()));
}

void require_tools() {
  constexpr std::array kTools{std::pair{"cmake", "pip install cmake"}, std::pair{"c++", "install g++ 12 or newer"}};
  for (const auto& [name, remedy] : kTools) {
    if (std::strcmp(name, "c++") == 0 && std::getenv("CXX") != nullptr) continue;
    if (!launch::find_program(name))
      throw NotAvailable(fmt::format("build-module: {} is not in PATH; {}", name, remedy));
  }
  if (!launch::find_program("ninja") && !launch::find_program("make"))
    throw NotAvailable("build-module: neither ninja nor make is in PATH; pip install ninja");
}

// Where the module goes; that it can is known before minutes of compiling.
fs::path destination_of(const std::string& module, const subject::Torch& torch) {
  const fs::path file = subject::file_for(subject::module_file(module), torch);
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error || ::access(file.parent_path().c_str(), W_OK) != 0)
    throw RuntimeFailure(
        fmt::format("build-module: cannot write '{}'; run it as the user that installed plumbline, or install "
                    "plumbline into an environment of your own",
                    file.parent_path().string()));
  return file;
}

void build(const BuildOptions& options, const subject::Torch& torch, const fs::path& sources, const fs::path& folder) {
  const fs::path log = folder / "log";
  std::vector<std::string> configure{"cmake",
                                     "-S",
                                     sources.string(),
                                     "-B",
                                     (folder / "build").string(),
                                     "-DTorch_DIR=" + torch.folder.string(),
                                     "-DPLUMBLINE_BUILD=" + options.module};
  if (launch::find_program("ninja")) configure.insert(configure.end(), {"-G", "Ninja"});
  const int jobs = options.jobs > 0 ? options.jobs : jobs_here();
  fmt::print("building module {} for torch {} in '{}', {} at a time; log: {}\n", options.module, torch.version,
             torch.folder.string(), jobs, log.string());
  std::fflush(stdout);
  if (run_logged(configure, log) &&
      run_logged({"cmake", "--build", (folder / "build").string(), "--parallel", std::to_string(jobs)}, log))
    return;
  throw RuntimeFailure(
      fmt::format("build-module: the build failed: {} (the whole log: {})", telling_line(log), log.string()));
}

int run_build(const BuildOptions& options) {
  const std::vector<std::string> modules{"training", subject::kC10dModule};
  if (std::ranges::count(modules, options.module) == 0)
    throw NotFound(
        fmt::format("no module '{}' is built for a torch; {}", options.module, there_are(options.module, modules)));
  if (options.jobs < 0) throw OutOfRange(fmt::format("--jobs {}: must be 1 or more", options.jobs));
  const subject::Torch torch = torch_to_build_for(options);
  const fs::path sources = sources_here();
  require_tools();
  const fs::path file = destination_of(options.module, torch);
  const auto begun = std::chrono::steady_clock::now();
  const fs::path folder = make_build_folder();
  build(options, torch, sources, folder);
  // Renamed: a process that has the old one open keeps it.
  const fs::path beside = file.string() + ".new";
  fs::copy_file(folder / "build" / file.filename(), beside, fs::copy_options::overwrite_existing);
  fs::rename(beside, file);
  fs::remove_all(folder);
  const std::string why = options.module == subject::kC10dModule
                              ? subject::why_not_here(options.module, subject::kBackendFactory)
                              : subject::why_no_training();
  if (!why.empty())
    throw RuntimeFailure(fmt::format("build-module: '{}' is built, and does not open: {}", file.string(), why));
  fmt::print("OK: {} in {:.0f} s; it serves torch {}\n", file.string(),
             std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(),
             subject::minor_of(torch.version));
  return 0;
}

}  // namespace

Command add_build_module(CLI::App& app, const Program&) {
  CLI::App* command =
      app.add_subcommand("build-module", "Build module training or c10d from the installed sources for another torch");
  auto options = std::make_shared<BuildOptions>();
  command->add_option("module", options->module, "training, or c10d (the backends of torch.distributed)")
      ->required()
      ->type_name("MODULE");
  command
      ->add_option("--torch", options->python,
                   "Python interpreter whose torch the module is built for (default $PLUMBLINE_PYTHON, else python3)")
      ->type_name("PYTHON");
  command->add_option("--jobs", options->jobs, "files that are compiled at once (default by cores and memory)")
      ->type_name("N");
  command->footer(
      "Example: plumbline build-module training --torch python3\n"
      "Exit status: 0 success; 2 usage error; 3 the build failed, or a tool for it is missing.");
  return [options] { return run_build(*options); };
}

}  // namespace plumbline::cli
