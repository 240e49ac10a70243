// What is measured of loss scales is right, whatever number of gradients a model has.
#include "benchmarks/scaler.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "reference/comm/local.hpp"
#include "reference/device/fold.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::bench {
namespace {

class Agreements : public testing::TestWithParam<bool> {};

TEST_P(Agreements, AreRightOfMoreGradientsThanATableHolds) {
  Registry registry;
  add_agreement(registry, "many", device::kMostFolded + 1);
  comm::LocalOptions options;
  std::shared_ptr<device::Runtime> devices;
  if (GetParam()) {
    devices = device::make_emulated({.devices = 2});
    options.device_calls = device::make_calls(devices);
  }
  comm::run_ranks(
      2,
      [&](comm::Communicator& world) {
        Parameters parameters;
        if (devices) parameters.place = device::MemorySpace({devices}, world.rank());
        for (const char* const form : {"coalesced", "one_flag"}) {
          const auto one = std::ranges::find(registry, std::string("scaler.agreement.many.") + form, &Benchmark::name);
          ASSERT_NE(one, registry.end());
          EXPECT_EQ(one->prepare(world, parameters)->check(), true) << form << " on rank " << world.rank();
        }
      },
      options);
}

INSTANTIATE_TEST_SUITE_P(Of, Agreements, testing::Bool(),
                         [](const auto& info) { return info.param ? "ADevice" : "TheHost"; });

}  // namespace
}  // namespace plumbline::bench
