// conformance/pass/race_checks.hpp: checks of what says whether a pass changed anything, and of what the pass leaves behind.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Races of programs, and whether a pass makes any: RACE-001 to RACE-005.
void add_race_checks(suite::Suite& suite);
/// What programs compute before and behind the pass: RACE-006 to RACE-009.
void add_interpreter_checks(suite::Suite& suite);
/// Both of recorded programs: RACE-010 to RACE-012.
void add_recorded_run_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
