#include "benchmarks/fusion_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/calls.hpp"
#include "reference/device/emulated.hpp"

namespace plumbline::bench {
namespace {

using comm::Communicator;
using comm::run_ranks;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(FusionTimes, AreOfAllSizesOnAllRanks) {
  run_ranks(2, [&](Communicator& world) {
    const auto times = fusion_times(world, {.sizes = {4, 4096}, .together = 3, .rounds = 4, .seconds = 0});
    ASSERT_EQ(times.size(), 2u);
    for (const FusionTime& time : times) {
      EXPECT_EQ(time.separate.size(), 3u) << "the time was up at once";
      EXPECT_EQ(time.fused.size(), 3u);
      for (const double seconds : time.fused) EXPECT_GT(seconds, 0);
    }
    EXPECT_THROW((void)fusion_times(world, {.sizes = {3}}), InvalidArgument);
    EXPECT_THROW((void)fusion_times(world, {.sizes = {4}, .together = 1}), InvalidArgument);
    EXPECT_THROW((void)fusion_times(world, {.sizes = {4}, .rounds = 0}), InvalidArgument);
  });
}

// Leaves the last element of every sum as it was.
class KeepsLast final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    comm::Call shorter = call;
    if (call.operation == comm::Operation::all_reduce) --shorter.in.count, --shorter.out.count;
    CommunicatorDecorator::do_run(shorter, timeout);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<KeepsLast>(std::move(group));
  }
};

TEST(FusionTimes, AreOfRightSumsAlone) {
  run_ranks(2, [](Communicator& world) {
    KeepsLast wrong(world.duplicate());
    EXPECT_THAT([&] { (void)fusion_times(wrong, {.sizes = {8}, .together = 3, .rounds = 1, .seconds = 0}); },
                ThrowsMessage<RuntimeFailure>(
                    AllOf(HasSubstr("3 gradients of 8 bytes, reduced one by one: a wrong sum on rank "),
                          HasSubstr("gradient 0, element 1 of 2: "))));
  });
}

TEST(FusionTimes, AreTakenInADevicesMemory) {
  const auto runtime = device::make_emulated({.devices = 2});
  run_ranks(2,
            [&](Communicator& group) {
              const device::OwnStream stream(runtime, group.rank());
              const device::Place place({runtime, stream.get()}, group.rank());
              group.use_stream(stream.get());
              int timed = 0;
              const bucketing::Timing timing = [&](Communicator& all, const std::function<void()>& body) {
                all.barrier();
                body();
                place.synchronize();
                return static_cast<double>(++timed);
              };
              const auto times = fusion_times(
                  group, {.sizes = {64, 4096}, .together = 3, .rounds = 2, .place = place, .timing = timing});
              ASSERT_EQ(times.size(), 2U);
              EXPECT_EQ(times[1].fused.size(), 2U);
            },
            {.device_calls = device::make_calls(runtime)});
}

}  // namespace
}  // namespace plumbline::bench
