// harness/cli/subject_options.hpp: the options by which every command names its subject and how it is started.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/launch/driver.hpp"

namespace plumbline::cli {

struct SubjectOptions {
  std::string backend;
  std::vector<std::string> backend_options;
  std::string adapter;
  std::string job;
  bool job_launches_ranks = false;
  std::string mutant;
  std::string launcher = "auto";
  std::string control_address = "127.0.0.1";
  int jobs = 1;
  bool is_one_group = false;

  /// What a command does with its subject: `cases` may run on adapters and jobs too and in several groups at a time; `one_group` is
  /// one job on a backend.
  enum class Kind { cases, one_group };
  /// --backend, --backend-option, --mutant, --launcher, --control-address; for cases also --adapter, --job,
  /// --job-launches-ranks and --jobs.
  void add_to(CLI::App& app, Kind kind);
  /// The subject; the backend is `local` when nothing was named. Throws InvalidArgument for a bad option, NotFound for an
  /// unknown backend or mutant, NotAvailable for one that is not here.
  [[nodiscard]] launch::Subject subject() const;
  /// Throws InvalidArgument for a process backend inside the user's own mpirun or srun, where `command` cannot start ranks.
  void require_no_job(const std::string& command) const;
  /// How the driver starts it.
  [[nodiscard]] launch::Options driver() const;
};

/// Throws InvalidArgument for a backend that moves memory of devices alone, which `plumbline check` asks for and no other command.
void require_host_memory(const std::string& backend);

/// The names of all backends that there can be: "local", and the modules by name.
[[nodiscard]] std::vector<std::string> backend_names();

/// A shell command that is not empty, as an option's check with a clear message.
[[nodiscard]] CLI::Validator shell_command();

/// cpu, cuda or cuda:N, or one of these and the emulated ones, as an option's check with a clear message.
[[nodiscard]] CLI::Validator device_name(bool emulated = false);

/// A whole number from `least` to `most`, as an option's check with a clear message.
[[nodiscard]] CLI::Validator at_least(int least, int most = 1000000000);
/// A seed: a whole number of 63 bits.
[[nodiscard]] CLI::Validator seed_number();
/// More than nothing, up to 11 days.
[[nodiscard]] CLI::Validator seconds();

/// Throws InvalidArgument, naming `option`, for more ranks than are started on one host.
void require_ranks(const std::string& option, int ranks);

}  // namespace plumbline::cli
