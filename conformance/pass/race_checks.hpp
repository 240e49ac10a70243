// conformance/pass/race_checks.hpp: checks of what says whether a pass changed anything, and of the races that the
// pass leaves.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Races of programs, and whether a pass makes any: PASS-080 to PASS-084.
void add_race_checks(suite::Suite& suite);
/// What becomes of small irregular programs: PASS-095.
void add_exact_checks(suite::Suite& suite);
/// What is told of bad programs: PASS-093.
void add_problem_checks(suite::Suite& suite);
/// What programs compute before and after the pass: PASS-085 to PASS-088.
void add_interpreter_checks(suite::Suite& suite);
/// Both of recorded programs: PASS-089 to PASS-091.
void add_recorded_run_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
