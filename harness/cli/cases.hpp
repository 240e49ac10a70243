// harness/cli/cases.hpp: from a planned case to an assignment of the driver, and from its outcome to a result of a
// record.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/launch/driver.hpp"
#include "harness/record/result.hpp"
#include "harness/run/quoted.hpp"
#include "harness/suite/plan.hpp"

namespace plumbline::cli {

/// What is the same for all cases of a run.
struct CaseSettings {
  const suite::Suite& suite;
  const suite::Profile& profile;
  std::string device = "cpu";  // of its memory the calls of cases are, where they can be
  double time_limit = 0;       // seconds, instead of each check's own; 0: none
  double least_limit = 0;      // seconds that each check's own limit grows to, where it is less
  double slowness = 1;         // of the machine: what each check's own limit is multiplied by
  std::string mutant;          // by which the worker breaks the subject

  [[nodiscard]] std::chrono::duration<double> limit_of(const suite::Case& one) const;
  /// The same for the control run on the reference. A time limit that the user sets is for the subject: it may lengthen
  /// each check's own limit there, and never shortens it, or a limit too short for the reference would excuse a subject
  /// that hangs.
  [[nodiscard]] CaseSettings for_control() const;
};

/// Which modules are not here. Each is looked for once, when a check that needs it is asked about: opening one takes a
/// while.
class ModulesHere {
 public:
  /// "needs module training: why", of the first that is not here; nothing where all are.
  [[nodiscard]] std::string why_not(const suite::Check& check);

 private:
  std::map<std::string, std::string> why_not_;  // of a module
};

/// Throws NotAvailable where a module that one of the cases needs is not here: "WHO needs module training: why".
void require_modules(const std::vector<suite::PlannedCase>& cases, const std::string& who);

/// The options of a worker for the device of a run.
[[nodiscard]] std::vector<std::string> device_options(const std::string& device);

/// `isolation` keeps groups apart: assignments that differ in it share none.
[[nodiscard]] launch::Assignment assignment_of(const suite::PlannedCase& planned, const CaseSettings& settings,
                                               const std::string& isolation);

/// The case's ids, requirements, parameters, execution mode, seed and mutant.
[[nodiscard]] record::Result blank_result(const suite::PlannedCase& planned, const CaseSettings& settings);

/// The blank with what came out. A failure of what only should be is a warning; a crash or a hang never is.
[[nodiscard]] record::Result result_of(const suite::PlannedCase& planned, const CaseSettings& settings,
                                       const launch::Outcome& outcome);

/// What the subject's own words decide without a run: `description` is what it said when it was ready.
[[nodiscard]] std::optional<launch::Outcome> outcome_without_run(const suite::PlannedCase& planned,
                                                                 const CaseSettings& settings,
                                                                 const nlohmann::json& description);

/// Writes into the header what reports say of the requirements and checks of its plan.
void quote_suite(record::Header& header, const suite::Suite& suite);

/// "collectives.messages.order[world=3] under rendezvous".
[[nodiscard]] std::string title_of(const record::Result& result);

/// The options of `plumbline check` that run a case in that execution mode only: " --rendezvous".
[[nodiscard]] std::string mode_options(const suite::ExecutionMode& mode, suite::Door door);

/// The reference as a job that starts its ranks itself: `plumbline train` of this executable.
[[nodiscard]] std::string reference_job();

using run::quoted;

/// What a shell needs to start this program again: `plumbline` where that in PATH is this one, else its path as it was
/// typed, quoted where it must be.
[[nodiscard]] std::string program_to_repeat();

/// A command of a record, which names `plumbline` whoever wrote it, for who started this program.
[[nodiscard]] std::string as_started(const std::string& command);

}  // namespace plumbline::cli
