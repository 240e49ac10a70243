// conformance/pass/pass_checks.hpp: checks of the data-parallel pass over programs.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

void add_pass_checks(suite::Suite& suite);

/// Its parts.
void add_pass_rule_checks(suite::Suite& suite);
void add_pass_linear_checks(suite::Suite& suite);
void add_pass_value_checks(suite::Suite& suite);
void add_pass_recorded_checks(suite::Suite& suite);
void add_pass_size_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
