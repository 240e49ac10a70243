// The checks of races and runs: the reference passes them, each mutant fails where it shows and passes where it hides.
#include "conformance/pass/race_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/support/in_process.hpp"
#include "conformance/support/mutant_tests.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of([](suite::Suite& checks) {
    add_race_checks(checks);
    add_interpreter_checks(checks);
    add_recorded_run_checks(checks);
  });
  return suite;
}

namespace {

TEST(RaceChecks, PassOnTheReference) {
  for (const suite::Case& one : suite_under_test().cases()) {
    const auto failures =
        one.check->door == suite::Door::adapter ? run_in_process(one, reference_adapter()) : run_in_process(one);
    EXPECT_THAT(failures, testing::IsEmpty()) << one.id();
  }
}

INSTANTIATE_TEST_SUITE_P(Mutants, EveryMutant, testing::ValuesIn(mutants_of("PASS-")), name_of_test);

}  // namespace
}  // namespace plumbline::conformance
