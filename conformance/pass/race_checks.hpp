// conformance/pass/race_checks.hpp: checks of what says whether a pass changed anything, and of what the pass leaves behind.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Races of programs, and whether a pass makes any: RACE-001 to RACE-006.
void add_race_checks(suite::Suite& suite);
/// What programs compute before and behind the pass: RACE-007 and up.
void add_interpreter_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
