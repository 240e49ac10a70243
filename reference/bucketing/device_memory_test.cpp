// A reducer whose buckets lie in memory of emulated devices: the numbers of the host's, in the order of slow streams.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::bucketing {
namespace {

using namespace std::chrono_literals;
using comm::Buffer;
using comm::Communicator;
using comm::Device;
using comm::DType;
using testing::HasSubstr;
using testing::ThrowsMessage;

const std::vector<std::int64_t> kSizes{5, 700, 1, 64};

float value_of(int rank, std::size_t gradient, std::int64_t element) {
  return 0.1F + static_cast<float>(rank) * 1.7F + static_cast<float>(gradient) * 0.3F +
         static_cast<float>(element % 17) * 0.01F;
}

std::vector<Gradient> gradients_on(Device device) {
  std::vector<Gradient> gradients;
  for (const std::int64_t size : kSizes) gradients.push_back({.elements = size, .device = device});
  return gradients;
}

Plan two_at_a_time(std::span<const Gradient> gradients) {
  return buckets_in_order(gradients, std::vector{0, 1, 2, 3}, std::array{std::int64_t{64}});
}

// What a rank has of two steps, the second of which lacks a gradient on rank 0.
std::vector<float> reduced(Communicator& group, const device::MemorySpace& place, ReducerOptions options) {
  const std::shared_ptr<BucketMemory> memory = memory_of(place);
  options.place = memory;
  options.unused = Unused::zeros;
  const std::vector<Gradient> gradients = gradients_on(place.device());
  Reducer reducer({&group}, gradients, two_at_a_time(gradients), options);
  std::vector<float> results;
  for (int step = 0; step < 2; ++step) {
    reducer.begin();
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      const auto gradient = static_cast<int>(i);
      if (step == 1 && i == 2 && group.rank() == 0) {
        reducer.mark_unused(gradient);
        continue;
      }
      std::vector<float> own;
      for (std::int64_t k = 0; k < kSizes[i]; ++k) own.push_back(value_of(group.rank(), i, k));
      place.copy(reducer.view(gradient).data, own.data(), own.size() * sizeof(float));
      place.synchronize();  // the vector goes
      reducer.ready(gradient);
    }
    (void)reducer.finish();
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(kSizes[i]));
      place.copy(values.data(), reducer.view(static_cast<int>(i)).data, values.size() * sizeof(float));
      memory->settle();
      results.insert(results.end(), values.begin(), values.end());
    }
    reducer.clear();
  }
  return results;
}

using Numbers = std::vector<std::vector<float>>;  // by rank

Numbers on_ranks(int ranks, const ReducerOptions& options, const std::shared_ptr<device::Runtime>& runtime) {
  Numbers results(static_cast<std::size_t>(ranks));
  comm::LocalOptions local;
  if (runtime) local.device_calls = device::make_calls(runtime);
  comm::run_ranks(
      ranks,
      [&](Communicator& group) {
        device::MemorySpace place;
        std::optional<device::OwnStream> stream;
        if (runtime) {
          const int index = group.rank() % runtime->count();
          stream.emplace(runtime, index);
          place = device::MemorySpace({runtime, stream->get()}, index);
          group.use_stream(stream->get());
        }
        results[static_cast<std::size_t>(group.rank())] = reduced(group, place, options);
      },
      local);
  return results;
}

TEST(DeviceMemory, HasTheNumbersOfTheHosts) {
  for (const ReducerOptions& options :
       {ReducerOptions{}, ReducerOptions{.average = false}, ReducerOptions{.split = Split{3, 1}},
        ReducerOptions{.wire = DType::bf16}, ReducerOptions{.divisors = {7}}})
    for (const std::uint64_t seed : {1, 2, 3}) {
      const auto runtime = device::make_emulated({.devices = 2, .longest_delay = 200us, .seed = seed});
      EXPECT_EQ(on_ranks(3, options, runtime), on_ranks(3, options, nullptr)) << seed;
    }
}

TEST(DeviceMemory, IsZeroAndHasAnAddressAndGoesWithItsLastOwner) {
  const auto runtime = device::make_emulated({.devices = 1, .memory_bytes = 1024, .longest_delay = 100us});
  const device::MemorySpace place({runtime}, 0);
  const auto memory = memory_of(place);
  EXPECT_EQ(memory->device(), place.device());
  EXPECT_NE(memory->allocate(0), nullptr);
  for (int time = 0; time < 3; ++time) {
    const std::shared_ptr<std::byte> bytes = memory->allocate(1000);
    EXPECT_EQ(runtime->holder_of(bytes.get()), 0);
    memory->settle();
    EXPECT_EQ(std::count(bytes.get(), bytes.get() + 1000, std::byte{0}), 1000);
    EXPECT_THROW((void)memory->allocate(1000), OutOfMemory);
  }
  EXPECT_EQ(memory_of({})->device(), Device());
}

TEST(DeviceMemory, IsRefusedOverAGroupThatDoesNotTakeIt) {
  const device::MemorySpace place({device::make_emulated({.devices = 1})}, 0);
  const std::vector<Gradient> gradients = gradients_on(place.device());
  comm::run_ranks(1, [&](Communicator& group) {
    EXPECT_THAT([&] { Reducer({&group}, gradients, two_at_a_time(gradients), {.place = memory_of(place)}); },
                ThrowsMessage<Unsupported>(HasSubstr("buckets lie on emulated:0, whose memory group world of backend "
                                                     "local does not take")));
  });
}

TEST(DeviceMemory, IsRefusedWhatIsOfTheHost) {
  const auto runtime = device::make_emulated({.devices = 1});
  const device::MemorySpace place({runtime}, 0);
  const auto memory = memory_of(place);
  std::array<float, 2> host{};
  const Buffer on_host{host.data(), 2, DType::f32};
  EXPECT_THAT([&] { memory->copy_divided(on_host, on_host, 2); },
              ThrowsMessage<InvalidArgument>(HasSubstr("in memory of cpu; all of one call must be on emulated:0")));
}

}  // namespace
}  // namespace plumbline::bucketing
