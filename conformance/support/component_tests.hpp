// conformance/support/component_tests.hpp: what the tests of a component's checks begin with. That the checks find each mutant, and only
// where it shows, `plumbline mutants` shows of all components.
#pragma once

#include <string>

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// A suite of one component's checks, made once. Throws what `add` throws.
[[nodiscard]] suite::Suite suite_of(void (*add)(suite::Suite&));
/// The case of that id. Throws NotFound.
[[nodiscard]] const suite::Case& case_named(const suite::Suite& suite, const std::string& id);
/// Whether a sized check (sizes.hpp) asks more than at its smallest size: the same questions, which take long.
[[nodiscard]] bool is_large(const suite::Case& one);
/// The reference behind the adapter door, opened once.
[[nodiscard]] suite::Adapter& reference_adapter();

/// The component under test; each test program defines it.
[[nodiscard]] const suite::Suite& suite_under_test();

}  // namespace plumbline::conformance
