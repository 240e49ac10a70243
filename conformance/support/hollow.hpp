// conformance/support/hollow.hpp: subjects that are hollow (harness/mutants/hollow.cpp) meet the checks of a component. They fail every
// requirement that hollow.toml does not list: a check that passes on an adapter which answers 0 to everything judges nothing.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Each hollow adapter, in every case of each check until it fails.
void expect_hollow_adapters_fail(const suite::Suite& suite);
/// The reference without one operation: a check that names it is skipped, all others pass.
void expect_partial_adapters_pass(const suite::Suite& suite);

}  // namespace plumbline::conformance
