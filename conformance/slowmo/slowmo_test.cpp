// The checks of SlowMo: the reference passes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_slowmo_checks);
  return suite;
}

namespace {

using testing::IsEmpty;

TEST(SlowMoChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::backend && !one.check->on_device) {
      EXPECT_THAT(run_in_process(one), IsEmpty()) << one.id();
    }
}

TEST(SlowMoChecks, PassOnDevices) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->on_device) {
      EXPECT_THAT(run_on_devices(one), IsEmpty()) << one.id();
    }
}

TEST(SlowMoChecks, PassOnTheReferencesAnswers) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::adapter && !is_largest(one)) {
      EXPECT_THAT(run_in_process(one, reference_adapter()), IsEmpty()) << one.id();
    }
}

}  // namespace
}  // namespace plumbline::conformance
