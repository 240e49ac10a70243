// Every check of groups on the local backend and the reference's adapter: the reference passes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "conformance/support/made_up_adapters.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_groups_checks);
  return suite;
}

namespace {

using suite::Case;
using suite::Door;

const suite::Suite& groups_suite() { return suite_under_test(); }

class EveryWorld : public testing::TestWithParam<int> {};

TEST_P(EveryWorld, PassesOnTheLocalBackend) {
  int cases = 0;
  for (const Case& one : groups_suite().cases()) {
    if (one.check->door != Door::backend || one.world() != GetParam()) continue;
    ++cases;
    EXPECT_THAT(run_in_process(one), testing::IsEmpty()) << one.id();
  }
  EXPECT_GT(cases, 4);
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, EveryWorld, testing::Values(1, 2, 3, 4, 6, 8),
                         [](const auto& info) { return std::to_string(info.param) + "Ranks"; });

TEST(EveryExecutionMode, IsPassedWhereGroupsMayDeadlock) {
  for (const char* mode : {"rendezvous", "chaos:3"})
    for (const Case& one : groups_suite().cases()) {
      if (one.check->door != Door::backend || !one.check->deadlock_prone || one.world() != 4) continue;
      EXPECT_THAT(run_in_process(one, {}, suite::ExecutionMode::parse(mode)), testing::IsEmpty())
          << one.id() << " " << mode;
    }
}

TEST(EveryAnswer, IsTheReferences) {
  for (const Case& one : groups_suite().cases()) {
    if (one.check->door != Door::adapter || is_largest(one)) continue;
    EXPECT_THAT(run_in_process(one, reference_adapter()), testing::IsEmpty()) << one.id();
  }
}

// ---- answers of any form ----

// Whatever an adapter answers, it is found, and no check falls over it.
TEST(Answers, OfAnotherFormAreFound) {
  for (const char* text : {"null", "7", "\"no\"", "[]", "{}", R"({"groups": 1, "ranks": [], "findings": {}})"}) {
    OneAnswer adapter(nlohmann::json::parse(text));
    for (const Case& one : groups_suite().cases()) {
      if (one.check->door != Door::adapter || is_large(one)) continue;
      const auto failures = run_in_process(one, adapter);
      EXPECT_THAT(failures, testing::Not(testing::IsEmpty())) << one.id() << " on " << text;
      EXPECT_THAT(failures, testing::Each(testing::Field(&Failure::uncaught, false))) << one.id();
    }
  }
}

}  // namespace
}  // namespace plumbline::conformance
