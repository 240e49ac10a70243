// The checks of the reducer: the reference passes them.
#include "conformance/bucketing/reducer_checks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "harness/bench/gradient_lists.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_reducer_checks);
  return suite;
}

namespace {

using testing::IsEmpty;

TEST(ReducerChecks, PassOnTheLocalBackend) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->modules.empty()) {
      EXPECT_THAT(run_in_process(one), IsEmpty()) << one.id();
    }
}

TEST(ReducerChecks, PassUnderAnotherTiming) {
  for (const suite::Case& one : suite_under_test().cases())
    if (one.check->deadlock_prone && one.world() == 3) {
      EXPECT_THAT(run_in_process(one, {}, suite::ExecutionMode::parse("chaos:5")), IsEmpty()) << one.id();
    }
}

TEST(GradientLists, AreThoseOfTheModels) {
  const auto total = [](const std::vector<bucketing::NamedSize>& list) {
    std::int64_t sum = 0;
    for (const auto& one : list) sum += one.elements;
    return sum;
  };
  EXPECT_EQ(bucketing::resnet50_gradients().size(), 161u);
  EXPECT_EQ(total(bucketing::resnet50_gradients()), 25'557'032);
  EXPECT_EQ(bucketing::gpt2_small_gradients().size(), 148u);
  EXPECT_EQ(total(bucketing::gpt2_small_gradients()), 124'439'808);
}

}  // namespace
}  // namespace plumbline::conformance
