// Every check at small world sizes on memory of emulated devices whose streams dawdle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/components.hpp"
#include "conformance/support/component_tests.hpp"
#include "conformance/support/in_process.hpp"
#include "harness/mutants/mutants.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::conformance {

const suite::Suite& suite_under_test() {
  static const suite::Suite suite = suite_of(add_collectives);
  return suite;
}

namespace {

class EveryCheckOnDevices : public testing::TestWithParam<int> {};

TEST_P(EveryCheckOnDevices, Passes) {
  int staged = 0, own = 0;
  for (const suite::Case& one : suite_under_test().cases()) {
    if (one.check->door != suite::Door::backend || one.world() != GetParam()) continue;
    if (one.parameters.has("gib")) continue;  // takes gigabytes
    if (one.parameters.has("dtype") &&
        !comm::local_capabilities(comm::Device::Kind::emulated).supports(one.parameters.dtype()))
      continue;
    // Hundreds of MiB go to devices in pieces, each of which dawdles here: ctest's device.emulated has those cases.
    if (one.check->id == "collectives.lengths.large") continue;
    ++(one.check->on_device ? own : staged);
    EXPECT_THAT(run_on_devices(one), testing::IsEmpty()) << one.id();
  }
  EXPECT_GT(staged, 20);
  EXPECT_GT(own, 20);
}

// Two ranks have a device each. 1 and 3 ranks are run by ctest's device.emulated, on devices that do not dawdle.
INSTANTIATE_TEST_SUITE_P(WorldSizes, EveryCheckOnDevices, testing::Values(2),
                         [](const auto& info) { return std::to_string(info.param) + "Ranks"; });

// A fault that shows on the host shows on a device as well: the checks see what comes back from there.
TEST(StagedChecks, FindFaultsOfCommunicators) {
  for (const char* name : {"col.drop_last_element", "col.writes_past_end", "col.clobbers_input"}) {
    const mutants::Mutant& mutant = mutants::find_mutant(suite_under_test(), name);
    EXPECT_THAT(run_on_devices(case_named(suite_under_test(), mutant.shows), std::get<mutants::Wrap>(mutant.change)),
                testing::Not(testing::IsEmpty()))
        << name;
  }
}

}  // namespace
}  // namespace plumbline::conformance
