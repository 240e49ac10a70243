// `plumbline doctor`: what this machine can run, and why not.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/device/devices.hpp"
#include "harness/launch/launch_program.hpp"
#include "harness/launch/process.hpp"
#include "harness/record/environment.hpp"
#include "harness/subject/backend_here.hpp"
#include "harness/subject/backend_name.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/torch_library.hpp"
#include "harness/subject/training_module.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

struct Finding {
  std::string what;
  bool good;
  std::string words;
};

Finding tool(const std::string& name, const std::string& use, const std::string& remedy) {
  const auto file = launch::find_program(name);
  return {name, file.has_value(), file ? file->string() : fmt::format("not in PATH: {}; {}", use, remedy)};
}

struct Start {
  std::string why_not;  // empty when it started
  std::string version;  // as the backend says it
  int ranks = 1;
};

// Two, for ranks that meet show more of a backend than one that starts; of one that wants a device a rank as many as
// there are.
int ranks_to_try(const SubjectOptions& options) {
  if (!options.own_device()) return 2;
  try {
    return std::clamp(harness::open_runtime(comm::Device::Kind::cuda)->count(), 1, 2);
  } catch (const std::exception&) {
    return 1;  // starting it says why
  }
}

// Starts ranks of a backend, has them meet in a barrier where there are two, and ends them.
Start try_start(const std::string& name, const Program& program) {
  SubjectOptions options;
  options.backend = name;
  Start start{.ranks = ranks_to_try(options)};
  launch::Observer observer;
  observer.before = [&start](std::size_t, const nlohmann::json& description) -> std::optional<launch::Outcome> {
    start.version = description.at("capabilities").value("version", "");
    if (start.ranks == 1) return launch::Outcome{.verdict = record::Verdict::pass};
    return std::nullopt;
  };
  observer.end = [&start](std::size_t, const launch::Outcome& outcome) {
    if (outcome.verdict != record::Verdict::pass)
      start.why_not = fmt::format("{} ranks of it do not work together: {}: {}", start.ranks, name_of(outcome.verdict),
                                  outcome.reason);
    return true;
  };
  observer.log = [](const std::string&) {};
  try {
    const auto& cases = program.suite().cases();
    const auto one = std::ranges::find_if(cases, [](const suite::Case& of_suite) {
      return of_suite.check->id.starts_with("collectives.barrier.") && of_suite.world() == 2;
    });
    if (one == cases.end()) throw NotFound("no case of collectives.barrier.* for 2 ranks");
    (void)launch::run({{.command = {{"type", "run"}, {"case", one->number}, {"seed", 1}}, .world = start.ranks}},
                      options.driver(), observer);
  } catch (const std::exception& error) {
    start.why_not = error.what();
  }
  return start;
}

// What starts the ranks of a backend that needs a launcher: its words, and whether it is here.
std::pair<std::string, bool> launcher_of(const std::string& name) {
  if (!launch::Subject{.backend = name}.needs_launcher()) return {"", true};
  try {
    const auto program = launch::find_launch_program();
    if (program) return {program->version, true};
    return {"no mpirun, mpiexec or srun of Open MPI, MPICH or Slurm is in PATH; install openmpi-bin or mpich", false};
  } catch (const std::exception& error) {
    return {error.what(), false};
  }
}

// What calls on the memory of its own devices would find; empty where it has them, or moves the host's memory.
std::string missing_device(const std::string& name) {
  SubjectOptions options;
  options.backend = name;
  try {
    if (options.own_device()) (void)harness::open_runtime(comm::Device::Kind::cuda);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

// What follows "backend NAME: ", with which the line begins anyway.
std::string without_prefix(const std::string& prefix, const std::string& words) {
  return words.starts_with(prefix + ": ") ? words.substr(prefix.size() + 2) : words;
}

Finding backend(const std::string& name, bool starts, const Program& program) {
  if (name == "local") return {"backend local", true, "a thread per rank, built in"};
  const subject::BackendHere here = subject::look_for_backend(name);
  const std::string what = "backend " + name;
  if (!here.why_not.empty()) return {what, false, without_prefix(name, without_prefix(what, here.why_not))};
  const auto [launcher, can_start] = launcher_of(name);
  if (!can_start) return {what, false, launcher};
  const std::string version = here.version.empty() ? "it loads" : here.version;
  if (const std::string words = missing_device(name); !words.empty())
    return {what, false, fmt::format("{} is here, its device is not: {}", version, words)};
  // There is nothing to start without a file, or the name of a backend of torch.distributed.
  if (name == subject::kPluginModule || name == subject::kC10dModule) return {what, true, version};
  const std::string by = launcher.empty() ? "" : fmt::format(", started by {}", launcher);
  if (!starts) return {what, true, fmt::format("{}, a process per rank{}; --start tries it", version, by)};
  const Start start = try_start(name, program);
  if (!start.why_not.empty()) return {what, false, without_prefix(what, start.why_not)};
  return {what, true,
          fmt::format("{}, a process per rank; {} started{}{}", start.version,
                      start.ranks == 1 ? "one was" : fmt::format("{} were", start.ranks),
                      launcher.empty() ? "" : " by " + launcher, start.ranks == 1 ? "" : " and met in a barrier")};
}

// Asks the driver itself: the toolkit need not be here.
Finding gpu() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr) return {"GPU", false, "no CUDA driver (libcuda.so.1) on this machine"};
  const auto start = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto count_devices = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
  if (start == nullptr || count_devices == nullptr) return {"GPU", false, "libcuda.so.1 is no CUDA driver"};
  int count = 0, error = start(0);
  if (error == 0) error = count_devices(&count);
  if (error != 0)
    return {"GPU", false, fmt::format("the CUDA driver is installed, but cuInit failed with error {}", error)};
  return {"GPU", count > 0, fmt::format("the CUDA driver sees {} of them", count)};
}

// Of libplumbline_scaler_cuda, decided when this was built.
Finding gpu_kernels() {
#ifdef PLUMBLINE_CUDA_VERSION
  return {"GPU kernels", true, "built with CUDA " PLUMBLINE_CUDA_VERSION " for " PLUMBLINE_CUDA_ARCHITECTURES};
#else
  return {"GPU kernels", false, "not built: nvcc was not found, or PLUMBLINE_CUDA was OFF"};
#endif
}

// What calls on its memory find.
Finding device_runtime(comm::Device::Kind kind) {
  const std::string what = fmt::format("device {}", comm::name_of(kind));
  try {
    const auto runtime = harness::open_runtime(kind);
    std::vector<std::string> names;
    for (int index = 0; index < runtime->count(); ++index) {
      const device::Description one = runtime->describe(index);
      names.push_back(fmt::format("{}:{} {}, {:.1f} GiB", comm::name_of(kind), index, one.name,
                                  static_cast<double>(one.memory_bytes) / (1 << 30)));
    }
    return {what, true, fmt::format("{}", fmt::join(names, "; "))};
  } catch (const std::exception& error) {
    return {what, false, without_prefix(what, error.what())};
  }
}

Finding libtorch() {
  const std::string training = subject::why_no_training();
  return {"LibTorch", training.empty(),
          training.empty() ? "module training loads" : without_prefix("training", training)};
}

// Commands in Python, and the package that each needs beyond Python itself.
struct RecordTool {
  const char* package;
  const char* name;
};
constexpr std::array kRecordTools{RecordTool{"jinja2", "tool report"}, RecordTool{"scipy", "tools compare, gate"},
                                  RecordTool{"ruptures", "tool trend"}, RecordTool{"pyarrow", "tool export, parquet"}};

// A finding for each, since who lacks one may not want it. The path is no text of the shell's.
std::vector<Finding> record_tools() {
  const std::string what = "record tools", python = subject::chosen_python();
  ::setenv("PLUMBLINE_DOCTORS_PYTHON", python.c_str(), 1);
  const std::string code =
      std::string(kPythonStart) +
      "from importlib.util import find_spec; "
      "print(*(name for name in ('jinja2', 'scipy', 'ruptures', 'pyarrow') if not find_spec(name)))";
  ::setenv("PLUMBLINE_DOCTORS_CODE", code.c_str(), 1);
  std::FILE* const answer = ::popen("\"$PLUMBLINE_DOCTORS_PYTHON\" -B -c \"$PLUMBLINE_DOCTORS_CODE\" 2>/dev/null", "r");
  if (answer == nullptr) return {{what, false, std::strerror(errno)}};
  char line[200] = "";
  const bool has_answered = std::fgets(line, sizeof line, answer) != nullptr;
  if (::pclose(answer) != 0 || !has_answered)
    return {{what, false, fmt::format("'{}' does not start; set PLUMBLINE_PYTHON to Python 3.9 or later", python)}};
  std::istringstream words(line);
  const std::set<std::string> missing{std::istream_iterator<std::string>(words), {}};
  std::vector<Finding> findings;
  for (const RecordTool& tool : kRecordTools) {
    const bool good = !missing.contains(tool.package);
    findings.push_back({tool.name, good,
                        fmt::format("{} {} {}{}", python, good ? "has" : "lacks", tool.package,
                                    good ? "" : "; pip install it, or 'plumbline-suite[results]', which brings all")});
  }
  return findings;
}

// Findings that are made in a process of their own: loading runtimes is what takes time, and is done side by side.
class Look {
 public:
  explicit Look(const std::function<std::vector<Finding>()>& look) {
    int channel[2];
    if (::pipe(channel) != 0) throw RuntimeFailure(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    child_ = ::fork();
    if (child_ == 0) {
      nlohmann::json all = nlohmann::json::array();
      for (const Finding& found : look()) all.push_back({found.what, found.good, found.words});
      const std::string words = all.dump();
      (void)!::write(channel[1], words.data(), words.size());
      ::_exit(0);
    }
    ::close(channel[1]);
    channel_ = channel[0];
    if (child_ < 0) throw RuntimeFailure(fmt::format("cannot start a process: {}", std::strerror(errno)));
  }
  // To be called once.
  [[nodiscard]] std::vector<Finding> findings() const {
    std::string words;
    char chunk[1024];
    for (ssize_t count; (count = ::read(channel_, chunk, sizeof chunk)) > 0;)
      words.append(chunk, static_cast<std::size_t>(count));
    ::close(channel_);
    ::waitpid(child_, nullptr, 0);
    const nlohmann::json all = nlohmann::json::parse(words, nullptr, false);
    if (!all.is_array()) throw RuntimeFailure("a process of the doctor's ended while it looked");
    std::vector<Finding> findings;
    for (const nlohmann::json& found : all) findings.push_back({found.at(0), found.at(1), found.at(2)});
    return findings;
  }

 private:
  pid_t child_ = -1;
  int channel_ = -1;
};

int run_doctor(bool starts, const Program& program) {
  const nlohmann::json machine = record::capture_environment();
  fmt::print("machine: {}, {} of {} cores, {:.1f} GiB, {}\n", machine.at("cpu").get<std::string>(),
             machine.at("usable_cores").get<int>(), machine.at("cores").get<int>(),
             machine.at("memory_bytes").get<double>() / (1 << 30), machine.at("kernel").get<std::string>());
  std::vector<Finding> findings;
  const std::vector<std::string> names = backend_names();
  std::vector<Look> looks;
  looks.emplace_back([] { return std::vector{libtorch()}; });
  looks.emplace_back(record_tools);
  if (!starts)
    for (const std::string& name : names)
      looks.emplace_back([&] { return std::vector{backend(name, false, program)}; });
  const std::vector<suite::Profile>& profiles = program.suite().profiles();  // meanwhile
  const Finding torch = looks[0].findings().at(0);
  const std::vector<Finding> tools = looks[1].findings();
  for (std::size_t i = 0; i < names.size(); ++i)
    findings.push_back(starts ? backend(names[i], true, program) : looks[i + 2].findings().at(0));
  findings.push_back(torch);
  for (const suite::Profile& profile : profiles) {
    bool needs_training = false;
    for (const suite::Check& check : program.suite().checks())
      for (const suite::Requirement* requirement : program.suite().verified_by(check))
        needs_training |= !check.modules.empty() && program.suite().belongs(*requirement, profile);
    const bool good = !needs_training || torch.good;
    findings.push_back({"profile " + profile.name, good, good ? profile.title : "needs LibTorch"});
  }
  findings.push_back(gpu());
  findings.push_back(gpu_kernels());
  findings.push_back(device_runtime(comm::Device::Kind::cuda));
  findings.push_back(device_runtime(comm::Device::Kind::emulated));
  findings.push_back(tool("srun", "ranks can not be started by Slurm", "install slurm-client"));
  findings.push_back(tool("python3", "adapters in Python can not run", "install python3"));
  findings.insert(findings.end(), tools.begin(), tools.end());
  for (const Finding& finding : findings)
    fmt::print("{:<4}{:<24}{}\n", finding.good ? "ok" : "no", finding.what, finding.words);
  return 0;
}

}  // namespace

Command add_doctor(CLI::App& app, const Program& program) {
  CLI::App* command = app.add_subcommand(
      "doctor", "Show which backends, profiles and tools this machine can run, and why the others cannot");
  auto starts = std::make_shared<bool>(false);
  command->add_flag("--start", *starts, "also start two ranks of each backend and run a barrier");
  command->footer(
      "Example: plumbline doctor --start\n"
      "Exit status: 0 the list was printed; 2 usage error; 3 it could not be printed.");
  return [starts, &program] { return run_doctor(*starts, program); };
}

}  // namespace plumbline::cli
