// The checks of the scaler: the reference passes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_scaler_checks);
  return suite;
}

namespace {

TEST(ScalerChecks, PassOnTheReference) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::adapter && !is_largest(one)) {
      EXPECT_THAT(run_in_process(one, reference_adapter()), testing::IsEmpty()) << one.id();
    }
}

TEST(ScalerChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::backend) {
      EXPECT_THAT(run_in_process(one), testing::IsEmpty()) << one.id();
    }
}

}  // namespace
}  // namespace plumbline::conformance
