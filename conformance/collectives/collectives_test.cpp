// Every check at small world sizes on the local backend: the reference passes, and the checks can be passed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/in_process.hpp"

namespace plumbline::conformance {
namespace {

const suite::Suite& collectives() {
  static const suite::Suite suite = [] {
    suite::Suite made;
    add_collectives_checks(made);
    return made;
  }();
  return suite;
}

class EveryCheck : public testing::TestWithParam<int> {};

TEST_P(EveryCheck, PassesOnTheLocalBackend) {
  int cases = 0;
  for (const suite::Case& one : collectives().cases()) {
    if (one.check->door != suite::Door::backend || one.world() != GetParam()) continue;
    ++cases;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(run_in_process(one), testing::IsEmpty()) << one.id();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (seconds > std::chrono::milliseconds(300)) std::cout << one.id() << " took " << seconds.count() << " s\n";
  }
  EXPECT_GT(cases, 20);
}

INSTANTIATE_TEST_SUITE_P(WorldSizes, EveryCheck, testing::Values(1, 2, 3, 4),
                         [](const auto& info) { return std::to_string(info.param) + "Ranks"; });

}  // namespace
}  // namespace plumbline::conformance
