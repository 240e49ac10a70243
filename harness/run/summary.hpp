// harness/run/summary.hpp: what a record says as a whole: totals, requirements, exit status.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/run/judgement.hpp"
#include "harness/record/result.hpp"

namespace plumbline::run {

/// The name that reports give the run's subject, never a command line: the one that was chosen (--subject-name), that by which
/// it called itself, the backend's, or what kind of subject it is.
[[nodiscard]] std::string name_of_subject(const record::Run& run);

/// The results in the plan's order, with `missing`, or `not_run` of a run that was stopped on purpose, for what was planned
/// and has none.
[[nodiscard]] std::vector<record::Result> with_missing(const record::Run& run);

/// Of a requirement: the worst of its cases; skip when all were skipped.
[[nodiscard]] std::map<std::string, Judgement> requirement_judgements(const std::vector<record::Result>& results);

/// How many results are judged so.
[[nodiscard]] std::map<Judgement, int> count_judgements(const std::vector<record::Result>& results);

/// 0 all as it was expected; 1 a result is bad (is_bad), a planned case without one among them; 3 the harness failed,
/// nothing ran, or the run was stopped on purpose before all had run.
[[nodiscard]] int exit_status(const record::Run& run);

}  // namespace plumbline::run
