// The checks of races and runs: the reference passes them.
#include "conformance/pass/race_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"

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
    if (is_largest(one)) continue;
    const auto failures =
        one.check->door == suite::Door::adapter ? run_in_process(one, reference_adapter()) : run_in_process(one);
    EXPECT_THAT(failures, testing::IsEmpty()) << one.id();
  }
}

}  // namespace
}  // namespace plumbline::conformance
