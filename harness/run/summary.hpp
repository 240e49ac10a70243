// harness/run/summary.hpp: what a record says as a whole: totals, requirements, exit status.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/record/result.hpp"
#include "harness/run/judgement.hpp"

namespace plumbline::run {

/// The name that reports give the run's subject, never a command line: the one that was chosen (--subject-name), that
/// by which it called itself, the backend's, or what kind of subject it is.
[[nodiscard]] std::string name_of_subject(const record::Run& run);

/// The results in the plan's order, with `missing`, or `not_run` of a run that was stopped on purpose, for what was
/// planned and has none.
[[nodiscard]] std::vector<record::Result> with_missing(const record::Run& run);

/// What the cases of a requirement come to: the worst of them; skip when all were skipped.
struct RequirementVerdict {
  Judgement judgement = Judgement::skip;
  int cases = 0;
  int ran = 0;  // those that were not skipped

  /// Whether it passes by less than half of its cases, since the others were skipped.
  [[nodiscard]] bool passes_by_few() const { return judgement == Judgement::pass && 2 * ran < cases; }
  /// "pass", "pass (3 of 40 cases)" where some were skipped, "skip".
  [[nodiscard]] std::string words() const;
};
/// By id.
[[nodiscard]] std::map<std::string, RequirementVerdict> requirement_verdicts(
    const std::vector<record::Result>& results);
/// As a record keeps them.
[[nodiscard]] std::map<std::string, record::RequirementTally> tallies_of(
    const std::map<std::string, RequirementVerdict>& verdicts);

/// How many results are judged so.
[[nodiscard]] std::map<Judgement, int> count_judgements(const std::vector<record::Result>& results);

/// 0 all as it was expected; 1 a result is bad (is_bad), a planned case without one among them; 3 the harness failed,
/// nothing ran, the run was stopped on purpose before all had run, or a signal interrupted it, whatever the results
/// are.
[[nodiscard]] int exit_status(const record::Run& run, bool interrupted = false);

}  // namespace plumbline::run
