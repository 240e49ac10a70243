#include "harness/cli/subject_options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/program.hpp"
#include "harness/launch/process.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/subject/backend_name.hpp"
#include "harness/subject/modules.hpp"
#include "harness/subject/place.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

constexpr std::array kLaunchers{"auto", "fork", "mpirun", "mpiexec", "srun"};

// Modules that are no backends.
constexpr std::array kOtherModules{"worker", "training", "benchmarks", "cuda"};

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "plugin:FILE" names the file, and an option must not name another.
void check_plugin(const std::string& backend, const std::set<std::string>& keys) {
  if (!backend.starts_with(subject::kPluginPrefix)) return;
  const std::string file = subject::plugin_file_of(backend);
  if (file.empty()) throw InvalidArgument("--backend 'plugin:': no file; give --backend plugin:./libacme.so");
  if (keys.contains(subject::kPluginLibrary))
    throw InvalidArgument(fmt::format("--backend {}: it names the library, and so does --backend-option {}; give one",
                                      backend, subject::kPluginLibrary));
  if (!std::filesystem::is_regular_file(file))
    throw InvalidArgument(fmt::format("--backend {}: '{}' is not a file", backend, file));
}

// Names in torch's registry are such words.
void check_c10d(const std::string& backend, const std::set<std::string>& keys) {
  if (!backend.starts_with(subject::kC10dPrefix)) return;
  const std::string name = subject::c10d_backend_of(backend);
  static const std::regex pattern("[a-z_][a-z0-9_]*");
  if (!std::regex_match(name, pattern))
    throw InvalidArgument(
        fmt::format("--backend {}: '{}' is not the name of a backend of torch.distributed; give --backend c10d:gloo",
                    backend, name));
  if (keys.contains(subject::kC10dBackend))
    throw InvalidArgument(fmt::format("--backend {}: it names the backend, and so does --backend-option {}; give one",
                                      backend, subject::kC10dBackend));
}

}  // namespace

std::vector<std::string> backend_names() {
  std::vector<std::string> names{"local", "mpi", "nccl"};
  for (const std::string& module : subject::module_names())
    if (std::ranges::count(names, module) == 0 && std::ranges::count(kOtherModules, module) == 0)
      names.push_back(module);
  return names;
}

CLI::Validator shell_command() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (text.find_first_not_of(" \t\n") != std::string::npos) return {};
        return "the command is empty; it must be a shell command, such as 'python3 train.py'";
      },
      "");
}

CLI::Validator device_name(bool emulated) {
  return CLI::Validator(
      [emulated](const std::string& text) -> std::string {
        static const std::regex pattern("cpu|cuda(:[0-9]{1,3})?");
        static const std::regex with_emulated("cpu|(cuda|emulated)(:[0-9]{1,3})?");
        if (std::regex_match(text, emulated ? with_emulated : pattern)) return {};
        return emulated ? fmt::format("'{}' is not cpu, cuda, cuda:N, emulated or emulated:N", text)
                        : fmt::format("'{}' is not cpu, cuda or cuda:N", text);
      },
      emulated ? "cpu|cuda|cuda:N|emulated|emulated:N" : "cpu|cuda|cuda:N");
}

CLI::Validator at_least(int least, int most) {
  return CLI::Validator(
      [least, most](const std::string& text) -> std::string {
        const auto value = parse_number<int>(text);
        if (value && *value >= least && *value <= most) return {};
        return fmt::format("'{}' is not a whole number from {} to {}", text, least, most);
      },
      fmt::format("{}..{}", least, most));
}

CLI::Validator seed_number() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (const auto value = parse_number<std::int64_t>(text); value && *value >= 0) return {};
        return fmt::format("'{}' is not a whole number from 0 to 2^63-1", text);
      },
      "0..2^63-1");
}

CLI::Validator seconds() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (const auto value = parse_number<double>(text); value && *value > 0 && *value <= 1e6) return {};
        return fmt::format("'{}' is not a number of seconds above 0, at most 1000000", text);
      },
      "SECONDS");
}

CLI::Validator percent() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        std::string_view number = text;
        if (number.ends_with('%')) number.remove_suffix(1);
        if (const auto value = parse_number<double>(number); !value || !(*value > 0 && *value <= 100))
          return fmt::format("'{}' is not a part such as 5 or 5%, above 0 and at most 100%", text);
        text = std::string(number);
        return {};
      },
      "PERCENT");
}

void require_ranks(const std::string& option, int ranks, int most) {
  if (ranks > most)
    throw InvalidArgument(fmt::format("{}: {} ranks; at most {} are started on one host", option, ranks, most));
}

void SubjectOptions::add_to(CLI::App& app, Kind kind, const Program& program) {
  the_suite = program.suite;
  needs_host_memory = kind == Kind::one_group;
  std::vector<std::string> names = backend_names();
  std::ranges::replace(names, subject::kPluginModule, "plugin:FILE");
  std::ranges::replace(names, subject::kC10dModule, "c10d:NAME");
  app.add_option("--backend", backend,
                 fmt::format("communication backend: {} (default local); FILE is a shared library with the interface "
                             "of plumbline_backend.h, NAME a backend of torch.distributed",
                             fmt::join(names, ", ")))
      ->type_name("NAME");
  app.add_option("--backend-option", backend_options, "option of the backend; may be repeated")->type_name("KEY=VALUE");
  if (kind == Kind::cases) {
    app.add_option("--adapter", adapter, "command of a program that speaks the adapter protocol, or 'reference'")
        ->type_name("CMD");
    CLI::Option* const training =
        app.add_option("--job", job, "command of a training job that reads $PLUMBLINE_SPEC, started once per rank")
            ->check(shell_command())
            ->type_name("CMD");
    CLI::Option* const launches =
        app.add_flag("--job-launches-ranks", job_launches_ranks, "start the job once; it starts its ranks itself")
            ->needs(training);
    app.add_flag("--job-serves-ranks", job_serves_ranks,
                 "start the job once for all cases; it forks their ranks, which spares them its imports")
        ->needs(training)
        ->excludes(launches);
  }
  app.add_option("--mutant", mutant,
                 "break the subject on purpose in one known way; plumbline mutants --list names them")
      ->type_name("NAME");
  app.add_option(
      "--launcher", launcher,
      "program that starts the ranks of a process backend: auto, fork, mpirun, mpiexec, srun, another launcher "
      "in PATH or its path (default auto)");
  app.add_option("--control-address", control_address, "address of this host to which the workers connect")
      ->type_name("ADDRESS");
  if (kind == Kind::cases)
    app.add_option("--jobs", jobs,
                   "worker groups that run at once (default 1; with 500 cases or more on local or an adapter one per "
                   "core, at most 4)")
        ->check(at_least(1, 64));
}

launch::Subject SubjectOptions::as_given() const {
  return {.backend = backend.empty() && adapter.empty() && job.empty() ? "local" : backend,
          .backend_options = backend_options,
          .adapter = adapter,
          .job = job,
          .job_launches_ranks = job_launches_ranks,
          .job_serves_ranks = job_serves_ranks,
          .mutant = mutant};
}

launch::Subject SubjectOptions::subject() const {
  const launch::Subject subject = as_given();
  if (!backend.empty() + !adapter.empty() + !job.empty() > 1)
    throw InvalidArgument("--backend, --adapter and --job: give one of them, a run has one subject");
  std::set<std::string> keys;
  for (const std::string& option : backend_options) {
    if (option.find('=') == std::string::npos || option.front() == '=')
      throw InvalidArgument(fmt::format("--backend-option '{}' is not KEY=VALUE", option));
    const std::string key = option.substr(0, option.find('='));
    if (!keys.insert(key).second)
      throw InvalidArgument(fmt::format("--backend-option '{}': {} was given before; give it once", option, key));
  }
  if (std::ranges::count(kLaunchers, launcher) == 0 && launcher.find('/') == std::string::npos &&
      !launch::find_program(launcher))
    throw InvalidArgument(fmt::format(
        "--launcher '{}'; it must be auto, fork, mpirun, mpiexec, srun, another launcher in PATH or a path{}", launcher,
        did_you_mean(launcher, {kLaunchers.begin(), kLaunchers.end()})));
  if (!mutant.empty()) {
    const suite::Mutant& one = mutants::find_mutant(the_suite(), mutant, suite::door_of(adapter, job));
    if (std::holds_alternative<suite::Edits>(one.change) &&
        (!job.empty() || (!adapter.empty() && adapter != "reference")))
      throw InvalidArgument(
          fmt::format("--mutant {}: it is an edit of the reference's source, and the subject here is '{}'; "
                      "give --adapter reference",
                      mutant, adapter.empty() ? job : adapter));
  }
  if (!subject.has_processes()) {
    const std::string why = fmt::format("only for backends whose ranks are processes; {} {}",
                                        !adapter.empty() ? "an adapter"
                                        : !job.empty()   ? "a job"
                                                         : "backend local",
                                        !adapter.empty() || !job.empty() ? "is started by itself" : "has threads");
    if (launcher != "auto") throw InvalidArgument(fmt::format("--launcher {}: {}", launcher, why));
    if (control_address != SubjectOptions().control_address)
      throw InvalidArgument(fmt::format("--control-address {}: {}", control_address, why));
  }
  if (launcher == "fork" && subject.needs_launcher())
    throw InvalidArgument(
        fmt::format("--launcher fork: ranks of backend {} are started by mpirun, mpiexec or srun", subject.backend));
  if ((!adapter.empty() || !job.empty()) && !backend_options.empty())
    throw InvalidArgument(fmt::format("--backend-option '{}': {} is no backend", backend_options.front(),
                                      adapter.empty() ? "a job" : "an adapter"));
  if (!adapter.empty() || !job.empty()) return subject;
  if (needs_host_memory && own_device())
    throw InvalidArgument(
        fmt::format("--backend {}: it moves memory of devices alone, and this command needs the host's, too; it "
                    "serves plumbline check, plumbline mutants, and plumbline bench without a subcommand",
                    backend));
  const auto names = backend_names();
  const std::string module = subject::module_of(subject.backend);
  if (std::ranges::count(names, module) == 0)
    throw NotFound(fmt::format("--backend: no backend '{}'; {}", subject.backend, there_are(subject.backend, names)));
  if (subject.backend == "local" && !backend_options.empty())
    throw InvalidArgument(fmt::format("--backend-option '{}': backend local has no options", backend_options.front()));
  if (subject.has_processes() && !std::filesystem::exists(subject::module_file(module)))
    throw subject::NotAvailable(fmt::format("backend {}: not part of this build ('{}' is missing)", module,
                                            subject::module_file(module).string()));
  check_plugin(subject.backend, keys);
  check_c10d(subject.backend, keys);
  return subject;
}

std::optional<std::string> SubjectOptions::own_device() const {
  if (backend != "nccl") return std::nullopt;
  return std::ranges::count(backend_options, "runtime=emulated") > 0 ? "emulated" : "cuda";
}

std::string SubjectOptions::device_of_run(const std::string& device, bool is_given) const {
  const auto own = own_device();
  if (!own) return device;
  if (is_given && device != *own)
    throw InvalidArgument(
        fmt::format("--device {}: with these options backend {} moves memory of {} alone, a device a rank; leave "
                    "--device out, or choose by --backend-option device=N",
                    device, backend, *own));
  return *own;
}

void SubjectOptions::require_no_job(const std::string& command) const {
  if (launcher != "auto") return;
  const auto place = subject::place_of_launcher();
  // RANK and WORLD_SIZE alone may be a whole container's.
  if (!place || place->launcher == "somebody") return;
  const bool has_processes = as_given().has_processes();
  if (place->size > 1 || (place->is_mpi_job && has_processes))
    throw InvalidArgument(fmt::format(
        "{} starts the ranks itself, and {} started this process as one of {} ({}): run it outside of that{}", command,
        place->launcher, place->size, place->variables,
        has_processes ? ", or inside an allocation with --launcher mpirun or srun" : ""));
}

launch::Options SubjectOptions::driver() const {
  const launch::Subject one = subject();
  const bool is_forked = launcher == "fork" || (launcher == "auto" && !one.needs_launcher());
  // An adapter has two minutes for its greeting, and ranks of c10d import torch.
  const bool is_slow_to_start = !one.adapter.empty() || one.backend.starts_with("c10d");
  std::error_code error;
  return {.group = {.subject = one,
                    .launcher = is_forked ? launch::Launcher::fork : launch::Launcher::program,
                    .launcher_name = launcher == "auto" ? "" : launcher,
                    .executable = std::filesystem::canonical("/proc/self/exe", error)},
          .control_address = control_address,
          .jobs = std::max(1, jobs),
          .start_limit = std::chrono::seconds(is_slow_to_start ? 150 : 60)};
}

}  // namespace plumbline::cli
