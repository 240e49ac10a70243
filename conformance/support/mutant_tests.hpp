// conformance/support/mutant_tests.hpp: the tests that a component's checks find its mutants, and only where they show.
//
// Model   A test program states what is under test, a Checks by mutant_checks(), and instantiates EveryMutant with the names
//         of its mutants:
//           INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(mutants_of("TOPO-")), name_of_test);
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/mutants/mutants.hpp"
#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// A suite of one component's checks, made once. Throws what `add` throws.
[[nodiscard]] suite::Suite suite_of(void (*add)(suite::Suite&));
/// The case of that id. Throws NotFound.
[[nodiscard]] const suite::Case& case_named(const suite::Suite& suite, const std::string& id);
/// The reference behind the adapter door, opened once.
[[nodiscard]] suite::Adapter& reference_adapter();

/// What fails of a case when the mutant stands in the reference's place, in this process. `patience` is the limit of waits
/// that are given none. Throws NotFound for a case that is not there.
[[nodiscard]] std::vector<std::string> failures_with(const mutants::Mutant& mutant, const suite::Suite& suite,
                                                     const std::string& id, const std::string& arm,
                                                     std::chrono::milliseconds patience);

/// The names of the mutants that violate requirements with that prefix and show in a check of suite_under_test() that
/// needs no module.
[[nodiscard]] std::vector<std::string> mutants_of(const std::string& prefix);

/// "grp.leak" as "grp_leak": names of tests are words.
[[nodiscard]] std::string as_test_name(std::string name);
[[nodiscard]] inline std::string name_of_test(const testing::TestParamInfo<std::string>& info) {
  return as_test_name(info.param);
}

/// The component under test; each test program defines it.
[[nodiscard]] const suite::Suite& suite_under_test();

/// Each mutant fails where it shows, by a check that says so rather than by falling over it, and passes where it hides.
class EveryMutant : public testing::TestWithParam<std::string> {};

}  // namespace plumbline::conformance
