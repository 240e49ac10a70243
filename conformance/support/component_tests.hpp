// conformance/support/component_tests.hpp: what the tests of a component's checks begin with. That the checks find each
// mutant, and only where it shows, `plumbline mutants` shows of all components.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "harness/suite/suite.hpp"
#include "reference/adapter/operation_row.hpp"

namespace plumbline::conformance {

/// A suite of one component's checks, made once. Throws what `add` throws.
[[nodiscard]] suite::Suite suite_of(void (*add)(suite::Suite&));
/// The case of that id. Throws NotFound.
[[nodiscard]] const suite::Case& case_named(const suite::Suite& suite, const std::string& id);
/// Whether a sized check (sizes.hpp) asks more than at its smallest size: the same questions, which take long.
[[nodiscard]] bool is_large(const suite::Case& one);
/// Whether it asks the largest size of a sized check: largest_sizes_test runs those, of all components.
[[nodiscard]] bool is_largest(const suite::Case& one);
/// Throws std::logic_error where a question that was answered, or its answer, does not have the fields and types of
/// the operation's row.
void expect_of_row(const adapter::OperationRow& row, const nlohmann::json& args, const nlohmann::json& result);
/// The reference as an adapter, opened once. All that it answers is held to the rows of its operations:
/// expect_of_row().
[[nodiscard]] suite::Adapter& reference_adapter();

/// The component under test; each test program defines it.
[[nodiscard]] const suite::Suite& suite_under_test();

}  // namespace plumbline::conformance
