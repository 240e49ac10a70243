// harness/run/kill_matrix.hpp: which mutant was killed by which requirement's checks, from a record's results.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/mutants/hollow_matrix.hpp"
#include "harness/mutants/mutants.hpp"
#include "harness/record/result.hpp"
#include "harness/suite/requirement.hpp"

namespace plumbline::run {

/// What a mutant's case is expected to end like, given how it ended: where the mutant must show, a failure of any kind.
/// Where it may show or not, a failure is no surprise, and a pass neither. Where it hides, nothing: it must pass.
[[nodiscard]] std::optional<record::Expectation> expected_of(const mutants::Mutant& mutant,
                                                             const record::Result& result);

/// What became of one mutant.
struct KillRow {
  const mutants::Mutant* mutant = nullptr;
  bool killed = false;            // by the requirement meant, where it must show
  bool showed_in_hiding = false;  // a case in which it cannot show failed
  bool inconclusive = false;      // where it shows or where it hides was not run, or does not pass without it
  std::set<std::string> others;   // other requirements whose checks failed with it
  double seconds = 0;             // until it was killed
  std::string how;                // the verdict that killed it, or what went wrong
  [[nodiscard]] bool good() const { return killed && !showed_in_hiding && !inconclusive; }
};

/// Of the results of the mutants, and those of the same cases without a mutant (Result::mutant is empty).
[[nodiscard]] std::vector<KillRow> kill_matrix(const std::vector<const mutants::Mutant*>& mutants,
                                               const std::vector<record::Result>& results);

/// Of the results of hollow subjects, and those of the same cases without one. `deviating`: the keys of results in
/// which the subject did something other than the right one; one that ended its case by a crash or a hang did, too.
[[nodiscard]] mutants::HollowMatrix hollow_matrix(const std::vector<const mutants::Mutant*>& subjects,
                                                  const std::vector<record::Result>& results,
                                                  const std::set<std::string>& deviating,
                                                  const suite::RequirementTable& requirements,
                                                  const suite::HollowTruths& truths);

/// 0 when every mutant was killed where it must be and survived where it hides; 1 when one was not; 3 when one is
/// inconclusive.
[[nodiscard]] int exit_status(const std::vector<KillRow>& rows);

/// A table in Markdown: mutant, requirement, killed by it, by others, hiding place, time to kill.
[[nodiscard]] std::string to_markdown(const std::vector<KillRow>& rows);

}  // namespace plumbline::run
