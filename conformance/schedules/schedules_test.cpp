// The checks of schedules: the reference passes them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_schedules_checks);
  return suite;
}

namespace {

using testing::IsEmpty;
using testing::Not;

const suite::Suite& schedules() { return suite_under_test(); }

TEST(SchedulesChecks, PassOnTheReference) {
  for (const suite::Case& one : schedules().cases()) {
    if (one.check->door != suite::Door::adapter || is_largest(one)) continue;
    EXPECT_THAT(run_in_process(one, reference_adapter()), IsEmpty()) << one.id();
  }
}

TEST(SchedulesChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : schedules().cases())
    if (one.check->door == suite::Door::backend) {
      EXPECT_THAT(run_in_process(one), IsEmpty()) << one.id();
    }
}

TEST(SchedulesChecks, PassWithoutBuffersWhereRanksMayWaitForEachOther) {
  for (const char* mode : {"rendezvous", "chaos:1"})
    for (const suite::Case& one : schedules().cases())
      if (one.check->deadlock_prone && one.world() < 4) {
        EXPECT_THAT(run_in_process(one, {}, suite::ExecutionMode::parse(mode)), IsEmpty()) << one.id() << " " << mode;
      }
}

// More ranks than messages that anything would hold back for them.
TEST(SchedulesChecks, PassWithoutBuffersOnManyRanks) {
  int cases = 0;
  for (const suite::Case& one : schedules().cases())
    if (one.check->deadlock_prone && one.world() > 4) {
      ++cases;
      EXPECT_THAT(run_in_process(one, {}, suite::ExecutionMode::parse("rendezvous")), IsEmpty()) << one.id();
    }
  EXPECT_GT(cases, 4);
}

}  // namespace
}  // namespace plumbline::conformance
