// harness/statement/statement.hpp: what the records of a run for a statement prove.
//
// Model   `plumbline check --statement` runs every case of a profile in every arm with three seeds, each alone, and
//         nothing else may be chosen. Whether its records prove that the subject conforms follows from them and from
//         the suite alone, so `submit`, which makes a statement, and `verify`, which reads one years later on another
//         machine, ask the same two functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/result.hpp"
#include "harness/run/shards.hpp"
#include "harness/run/summary.hpp"
#include "harness/statement/subject_file.hpp"
#include "harness/suite/plan.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::statement {

/// A statement counts for so long after its run.
inline constexpr std::chrono::months kValidFor{12};

/// The seeds of a run for a statement: one that never changes, one of the suite's version, and `fresh`.
[[nodiscard]] std::vector<std::uint64_t> seeds_of_statement(std::string_view suite_version, std::uint64_t fresh);

/// What such a run selects: every case of the profile, for backends in every arm.
[[nodiscard]] suite::Selection selection_of_statement(suite::Door door, const std::string& profile,
                                                      const std::vector<std::uint64_t>& seeds,
                                                      const suite::Shard& shard);

/// Why the records prove nothing, or prove that the subject does not conform: a line each, with the file and what
/// should be there. Empty: it conforms. `suite_version` is that of `suite`; `today` is the day on which somebody asks.
[[nodiscard]] std::vector<std::string> problems_of(const suite::Suite& suite, std::string_view suite_version,
                                                   const std::vector<run::NamedRun>& shards,
                                                   std::chrono::sys_days today);

/// A requirement of the profile, and what its cases came to.
struct Line {
  const suite::Requirement* requirement = nullptr;
  run::RequirementVerdict verdict;
  std::string why;  // of a skip, a warning or a waiver: in one line
};

struct Statement {
  SubjectFile subject;
  std::string calls_itself;  // "gloo 2.13.0", as the run has it
  const suite::Profile* profile = nullptr;
  record::Run whole;  // all shards
  std::vector<Line> lines;
  std::vector<int> worlds;
  std::vector<std::string> arms;
  std::vector<const suite::Waiver*> waivers;  // that counted
  std::chrono::sys_days made, valid_until;

  /// How many requirements of that level came to that.
  [[nodiscard]] int count(suite::Level level, run::Judgement judgement) const;
  /// Which files of the suite differ from its commit; empty: none, or nobody knows a commit.
  [[nodiscard]] std::string changes() const;
  /// "acme-ccl 2.4.1 of Acme, Inc. conforms to profile collectives 1.0 of Plumbline 2.3: 60 of 61 MUST requirements
  /// pass, 1 is not claimed or was not run"
  [[nodiscard]] std::string claim() const;
};

/// Of records with which nothing is wrong. Throws InvalidArgument for others, and where the subject is of another type
/// than its run.
[[nodiscard]] Statement make_statement(const suite::Suite& suite, SubjectFile subject,
                                       const std::vector<run::NamedRun>& shards);

}  // namespace plumbline::statement
