// harness/cli/subject_options.hpp: the options by which every command names its subject and how it is started.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/launch/driver.hpp"

namespace plumbline::suite {
class Suite;  // harness/suite/suite.hpp
}

namespace plumbline::cli {

struct Program;  // harness/cli/program.hpp

struct SubjectOptions {
  std::string backend;
  std::vector<std::string> backend_options;
  std::string adapter;
  std::string job;
  bool job_launches_ranks = false;
  bool job_serves_ranks = false;
  std::string mutant;
  std::function<const suite::Suite&()> the_suite;  // that has the mutant
  std::string launcher = "auto";
  std::string control_address = "127.0.0.1";
  int jobs = 0;  // 0: not given
  bool needs_host_memory = false;

  /// What a command does with its subject: `cases` may run on adapters and jobs too and in several groups at a time;
  /// `one_group` is one job on a backend, which must take the host's memory; that of `one_group_anywhere` may take a
  /// device's alone.
  enum class Kind { cases, one_group, one_group_anywhere };
  /// --backend, --backend-option, --mutant, --launcher, --control-address; for cases also --adapter, --job,
  /// --job-launches-ranks, --job-serves-ranks and --jobs.
  void add_to(CLI::App& app, Kind kind, const Program& program);
  /// The subject as the options say, whether there is such a one or not.
  [[nodiscard]] launch::Subject as_given() const;
  /// The subject; the backend is `local` when nothing was named. Throws InvalidArgument for a bad option, NotFound for
  /// an unknown backend or mutant, NotAvailable for one that is not here.
  [[nodiscard]] launch::Subject subject() const;
  /// The kind of device, "cuda" or "emulated", whose memory alone the backend moves, each rank that of its own; nothing
  /// of others.
  [[nodiscard]] std::optional<std::string> own_device() const;
  /// Where the ranks' memory is: as --device says, which may be a default, or where the backend has it. Throws
  /// InvalidArgument where the user requested another one.
  [[nodiscard]] std::string device_of_run(const std::string& device, bool is_given) const;
  /// Throws InvalidArgument for a process backend inside the user's own mpirun or srun, where `command` cannot start
  /// ranks.
  void require_no_job(const std::string& command) const;
  /// How the driver starts it.
  [[nodiscard]] launch::Options driver() const;
};

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
/// A part in percent, with or without the sign, which is taken off.
[[nodiscard]] CLI::Validator percent();

/// Ranks of training, which hold a model each, and ranks of other runs: the most that are started on one host.
inline constexpr int kMostTrainingRanks = 64, kMostRanks = 256;
/// Throws InvalidArgument, naming `option`, for more than so many.
void require_ranks(const std::string& option, int ranks, int most = kMostTrainingRanks);

}  // namespace plumbline::cli
