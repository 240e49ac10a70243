// `plumbline doctor`: what this machine can run, and why not.
#include <thread>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/launch/process.hpp"
#include "harness/record/environment.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

struct Finding {
  std::string what;
  bool good;
  std::string words;
};

// Opens a module in a child process, so that what it starts, or breaks, is gone with it. Returns why not, or nothing.
std::string why_not(const std::string& module, const std::string& symbol) {
  int channel[2];
  if (::pipe(channel) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(channel[0]);
    std::string words;
    try {
      (void)subject::open_module(module, symbol, module);
    } catch (const std::exception& error) {
      words = error.what();
    }
    (void)!::write(channel[1], words.data(), words.size());
    ::_exit(0);
  }
  ::close(channel[1]);
  std::string words;
  char chunk[512];
  for (ssize_t count; (count = ::read(channel[0], chunk, sizeof chunk)) > 0;)
    words.append(chunk, static_cast<std::size_t>(count));
  ::close(channel[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? words : "it crashes when it is loaded";
}

Finding tool(const std::string& name, const std::string& use, const std::string& remedy) {
  const auto file = launch::find_program(name);
  return {name, file.has_value(), file ? file->string() : fmt::format("not in PATH: {}; {}", use, remedy)};
}

Finding backend(const std::string& name) {
  if (name == "local") return {"backend local", true, "a thread per rank, built in"};
  const std::string why = why_not(name, subject::kBackendFactory);
  if (!why.empty()) return {"backend " + name, false, why};
  const bool mpirun = launch::find_program("mpirun").has_value();
  return {"backend " + name, mpirun,
          mpirun ? "a process per rank, started by mpirun" : "its module loads, but mpirun is not in PATH"};
}

Finding gpu() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return {"GPU", driver != nullptr,
          driver != nullptr ? "the CUDA driver is here" : "no CUDA driver (libcuda.so.1) on this machine"};
}

int run_doctor(const Program& program) {
  const nlohmann::json machine = record::capture_environment();
  fmt::print("machine: {}, {} of {} cores, {:.1f} GiB, {}\n", machine.at("cpu").get<std::string>(),
             machine.at("usable_cores").get<int>(), machine.at("cores").get<int>(),
             machine.at("memory_bytes").get<double>() / (1 << 30), machine.at("kernel").get<std::string>());
  std::vector<Finding> findings;
  for (const std::string& name : backend_names()) findings.push_back(backend(name));
  const std::string training = why_not("training", "plumbline_open_training");
  findings.push_back({"LibTorch", training.empty(), training.empty() ? "module training loads" : training});
  for (const suite::Profile& profile : program.suite().profiles()) {
    bool needs_training = false;
    for (const suite::Check& check : program.suite().checks())
      for (const suite::Requirement* requirement : program.suite().verified_by(check))
        needs_training |= !check.modules.empty() && program.suite().belongs(*requirement, profile);
    const bool good = !needs_training || training.empty();
    findings.push_back({"profile " + profile.name, good, good ? profile.title : "needs LibTorch"});
  }
  findings.push_back(gpu());
  findings.push_back(tool("srun", "ranks can not be started by Slurm", "install slurm-client"));
  findings.push_back(tool("gdb", "a hang is reported without stacks", "install gdb"));
  findings.push_back(tool("python3", "adapters in Python can not run", "install python3"));
  for (const Finding& finding : findings)
    fmt::print("{:<4}{:<24}{}\n", finding.good ? "ok" : "no", finding.what, finding.words);
  return 0;
}

}  // namespace

Command add_doctor(CLI::App& app, const Program& program) {
  CLI::App* command =
      app.add_subcommand("doctor", "Say which backends, profiles and tools this machine can run, and why not");
  command->footer("Example: plumbline doctor");
  return [&program] { return run_doctor(program); };
}

}  // namespace plumbline::cli
