// harness/record/summary.hpp: what a record says as a whole: totals, requirements, exit status.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/record/result.hpp"

namespace plumbline::record {

/// The results in the plan's order, with `missing` for what was planned and has none.
[[nodiscard]] std::vector<Result> with_missing(const Run& run);

/// Of a requirement: the worst of its cases; skip when all were skipped.
[[nodiscard]] std::map<std::string, Verdict> requirement_verdicts(const std::vector<Result>& results);

/// How many results have each verdict.
[[nodiscard]] std::map<Verdict, int> count_verdicts(const std::vector<Result>& results);

/// 0 all as it should be; 1 the subject failed, or a planned case has no result; 3 the harness failed, or nothing ran.
[[nodiscard]] int exit_status(const Run& run);

}  // namespace plumbline::record
