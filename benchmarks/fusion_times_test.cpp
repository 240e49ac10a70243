#include "benchmarks/fusion_times.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/tuning.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"

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

// Leaves the last element of every sum of f32 as it was.
class KeepsLast final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  static comm::Call shortened(comm::Call call) {
    if (call.operation == comm::Operation::all_reduce && call.in.dtype == comm::DType::f32)
      --call.in.count, --call.out.count;
    return call;
  }
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    CommunicatorDecorator::do_run(shortened(call), timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    const comm::Call call = shortened(calls.front());
    return CommunicatorDecorator::do_start({&call, 1});
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
              const device::MemorySpace place({runtime, stream.get()}, group.rank());
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

std::vector<bucketing::Gradient> gradients_of(const std::vector<std::int64_t>& sizes, comm::Device device = {},
                                              comm::DType dtype = comm::DType::f32) {
  std::vector<bucketing::Gradient> gradients;
  for (const std::int64_t size : sizes) gradients.push_back({.elements = size, .dtype = dtype, .device = device});
  return gradients;
}

TEST(Tuning, HoldsFirstStepsAgainstKnownSumsWhereItIsTold) {
  run_ranks(2, [](Communicator& world) {
    const auto gradients = gradients_of({100, 3, 2000});
    bucketing::TuningOptions options{.limits = {4096}, .rounds = 1, .per_tensor = true};
    options.before = against_known_sums(world, gradients);
    EXPECT_EQ(fastest_limit(world, gradients, options).times.size(), 2u);
    KeepsLast wrong(world.duplicate());
    options.before = against_known_sums(wrong, gradients);
    // The first of the candidates is a bucket each, and the first gradient there the last one.
    EXPECT_THAT([&] { (void)fastest_limit(wrong, gradients, options); },
                ThrowsMessage<RuntimeFailure>(AllOf(HasSubstr("a bucket each: a wrong sum on rank "),
                                                    HasSubstr("gradient 2, element 1999 of 2000: "))));
    options.before = against_known_sums(wrong, gradients, {}, {"a", "b", "c"});
    EXPECT_THAT([&] { (void)fastest_limit(wrong, gradients, options); },
                ThrowsMessage<RuntimeFailure>(HasSubstr("gradient 'c', element 1999 of 2000: ")));
    options.before = {};
    EXPECT_NO_THROW((void)fastest_limit(wrong, gradients, options));
    EXPECT_THROW((void)against_known_sums(world, gradients_of({1}, {}, comm::DType::bf16)), InvalidArgument);
  });
}

// Sums are looked at through the place; all candidates are timed as the caller says.
TEST(Tuning, HoldsSumsInADevicesMemoryAgainstKnownOnes) {
  const auto runtime = device::make_emulated({.devices = 2});
  run_ranks(2,
            [&](Communicator& group) {
              const device::OwnStream stream(runtime, group.rank());
              const device::MemorySpace place({runtime, stream.get()}, group.rank());
              group.use_stream(stream.get());
              int timed = 0;
              const bucketing::Timing timing = [&](Communicator& all, const std::function<void()>& body) {
                all.barrier();
                body();
                place.synchronize();
                return static_cast<double>(++timed);
              };
              const auto gradients = gradients_of({5, 700, 1, 64}, place.device());
              const bucketing::Tuning tuning = fastest_limit(group, gradients,
                                                             {.limits = {bucketing::kNoLimit},
                                                              .rounds = 3,
                                                              .per_tensor = true,
                                                              .place = bucketing::memory_of(place),
                                                              .timing = timing,
                                                              .before = against_known_sums(group, gradients, place)});
              // A check, a step that does not count, and one that does; of what is no size of buckets the last alone.
              EXPECT_THAT(tuning.times.at(0).samples, testing::ElementsAre(3, 12, 15));
              EXPECT_THAT(tuning.per_tensor.samples, testing::ElementsAre(7, 10, 13));
              EXPECT_THAT([&] { (void)against_known_sums(group, gradients); },
                          ThrowsMessage<InvalidArgument>(HasSubstr("are checked in that of cpu")));
            },
            {.device_calls = device::make_calls(runtime)});
}

}  // namespace
}  // namespace plumbline::bench
