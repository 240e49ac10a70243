#include "harness/cli/subject_options.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/launch/attach.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/subject/modules.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

const std::map<std::string, launch::Launcher> kLaunchers{
    {"auto", launch::Launcher::automatic}, {"mpirun", launch::Launcher::mpirun}, {"srun", launch::Launcher::srun}};

}  // namespace

std::vector<std::string> backend_names() { return {"local", "mpi"}; }

CLI::Validator at_least(int least) {
  return CLI::Validator(
      [least](const std::string& text) -> std::string {
        long long value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool number = error == std::errc{} && end == text.data() + text.size();
        if (number && value >= least && value <= 1000000000) return {};
        return fmt::format("'{}' is not a whole number from {} on", text, least);
      },
      fmt::format("{}..", least));
}

void SubjectOptions::add_to(CLI::App& app, Kind kind) {
  app.add_option(
      "--backend", backend,
      "What moves bytes between ranks: " + fmt::format("{}", fmt::join(backend_names(), ", ")) + " (default: local)");
  app.add_option("--backend-option", backend_options, "KEY=VALUE for the backend; may be given several times")
      ->type_name("KEY=VALUE");
  if (kind == Kind::cases)
    app.add_option("--adapter", adapter,
                   "A program that answers questions as a component would, by the adapter protocol; or 'reference'")
        ->type_name("CMD");
  app.add_option("--mutant", mutant, "Break the subject on purpose in one known way; see plumbline mutants")
      ->type_name("NAME");
  app.add_option("--launcher", launcher, "What starts the ranks of a process backend: auto, mpirun, srun");
  app.add_option("--control-address", control_address, "Address of this host on which workers report");
  if (kind == Kind::cases) app.add_option("--jobs", jobs, "Worker groups at a time")->check(at_least(1));
}

launch::Subject SubjectOptions::subject() const {
  launch::Subject subject{.backend = backend, .backend_options = backend_options, .adapter = adapter, .mutant = mutant};
  if (!adapter.empty() && !backend.empty())
    throw InvalidArgument("--backend and --adapter: give one of them, a run has one subject");
  if (!adapter.empty() && !mutant.empty())
    throw InvalidArgument("--mutant breaks a backend; an adapter cannot have one");
  for (const std::string& option : backend_options)
    if (option.find('=') == std::string::npos || option.front() == '=')
      throw InvalidArgument(fmt::format("--backend-option '{}' is not KEY=VALUE", option));
  if (!mutant.empty()) (void)mutants::find_mutant(mutant);
  if (!adapter.empty()) return subject;
  if (backend.empty()) subject.backend = "local";
  const auto names = backend_names();
  if (std::ranges::count(names, subject.backend) == 0)
    throw NotFound(fmt::format("no backend '{}'; there are {}", subject.backend, fmt::join(names, ", ")));
  if (subject.backend == "local" && !backend_options.empty())
    throw InvalidArgument(fmt::format("--backend-option '{}': backend local has no options", backend_options.front()));
  if (subject.has_processes() && !std::filesystem::exists(subject::module_file(subject.backend)))
    throw subject::NotAvailable(fmt::format("backend {}: not part of this build ('{}' is missing)", subject.backend,
                                            subject::module_file(subject.backend).string()));
  return subject;
}

void SubjectOptions::require_no_job(const std::string& command) const {
  if (subject().has_processes() && launcher == "auto" && launch::job_place())
    throw InvalidArgument(
        fmt::format("{} starts the ranks itself: run it outside mpirun and srun, or inside an allocation with "
                    "--launcher mpirun or srun",
                    command));
}

launch::Options SubjectOptions::driver() const {
  const auto launcher_kind = kLaunchers.find(launcher);
  if (launcher_kind == kLaunchers.end())
    throw InvalidArgument(fmt::format("--launcher '{}'; it is auto, mpirun or srun", launcher));
  std::error_code error;
  return {.group = {.subject = subject(),
                    .launcher = launcher_kind->second,
                    .executable = std::filesystem::canonical("/proc/self/exe", error)},
          .control_address = control_address,
          .jobs = jobs};
}

}  // namespace plumbline::cli
