// The checks of gossip: the reference passes them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_gossip_checks);
  return suite;
}

namespace {

using testing::IsEmpty;

TEST(GossipChecks, PassOnTheReference) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::adapter && !is_largest(one)) {
      EXPECT_THAT(run_in_process(one, reference_adapter()), IsEmpty()) << one.id();
    }
}

TEST(GossipChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->door == suite::Door::backend && !one.check->on_device) {
      EXPECT_THAT(run_in_process(one), IsEmpty()) << one.id();
    }
}

TEST(GossipChecks, PassOnDevices) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->on_device) {
      EXPECT_THAT(run_on_devices(one), IsEmpty()) << one.id();
    }
}

TEST(GossipChecks, PassUnderAnotherTiming) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->deadlock_prone && one.world() == 3)
      for (const char* mode : {"chaos:5", "rendezvous"}) {
        EXPECT_THAT(run_in_process(one, {}, suite::ExecutionMode::parse(mode)), IsEmpty()) << one.id();
      }
}

}  // namespace
}  // namespace plumbline::conformance
