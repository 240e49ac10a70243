// Where tensors are found to be, and memory that is kept there.
#include "reference/device/memory_space.hpp"

#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/device/runtimes.hpp"
#include "reference/device/scaled_copies.hpp"

namespace plumbline::device {
namespace {

using namespace std::chrono_literals;
using comm::Buffer;
using comm::DType;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Buffer on_emulated(std::int16_t index) { return {nullptr, 0, DType::f32, {comm::Device::Kind::emulated, index}}; }

TEST(MemorySpace, IsWhereAllTensorsAre) {
  const DeviceUse use{make_emulated({.devices = 2})};
  EXPECT_TRUE(place_of("it", {}, use).is_host());
  EXPECT_TRUE(place_of("it", std::array{Buffer{}}, use).is_host());
  EXPECT_EQ(place_of("it", std::array{on_emulated(1), on_emulated(1)}, use).device(), on_emulated(1).device);
  EXPECT_THAT(
      [&] { (void)place_of("it", std::array{on_emulated(0), on_emulated(1)}, use); },
      ThrowsMessage<InvalidArgument>("it: tensor 1 is in memory of emulated:1; all must be in that of emulated:0"));
  EXPECT_THAT([&] { (void)place_of("it", std::array{on_emulated(0), Buffer{}}, use); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("tensor 1"), HasSubstr("cpu"))));
  EXPECT_THAT([&] { (void)place_of("it", std::array{on_emulated(2)}, use); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("emulated:2"), HasSubstr("has 2"))));
  EXPECT_THAT([&] { (void)place_of("it", std::array{on_emulated(0)}, {}); },
              ThrowsMessage<Unsupported>(AllOf(HasSubstr("emulated:0"), HasSubstr("no runtime"))));
}

TEST(MemorySpace, MustBeServedByTheGroup) {
  const DeviceUse use{make_emulated({.devices = 1})};
  const MemorySpace place(use, 0);
  comm::LocalWorld on_host(1), on_both(1, {.device_calls = make_calls(use.runtime)});
  EXPECT_NO_THROW(require_served("it", *on_both.communicator(0), place));
  EXPECT_THAT([&] { require_served("it", *on_host.communicator(0), place); },
              ThrowsMessage<Unsupported>(AllOf(HasSubstr("emulated:0"), HasSubstr("backend local"), HasSubstr("cpu"))));
}

TEST(MemorySpace, DoesWorkInTheOrderOfItsStream) {
  const auto runtime = make_emulated({.devices = 1, .longest_delay = 300us});
  const OwnStream stream(runtime, 0);
  const MemorySpace place({runtime, stream.get()}, 0);
  const Memory memory(runtime, 0, 8);
  std::array<float, 2> values{3, 5}, halved{};
  const Buffer there{memory.data(), 2, DType::f32, place.device()};
  runtime->pause(0, 5ms, stream.get());
  place.copy(there.data, values.data(), 8);
  place.launch(scaled_copy_work(std::array{ScaledCopy{there, there}}, times(0.5), place.device()));
  place.copy(halved.data(), there.data, 8);
  place.synchronize();
  EXPECT_THAT(halved, testing::ElementsAre(1.5F, 2.5F));
}

// Of every number of bytes up to two words, some more than a table holds.
TEST(MemorySpace, CopiesManyTensorsEachToItsOwn) {
  const auto runtime = make_emulated({.devices = 1, .longest_delay = 30us});
  const OwnStream stream(runtime, 0);
  constexpr std::int64_t most = 8, pairs = 1200;
  for (const MemorySpace& place : {MemorySpace(), MemorySpace({runtime, stream.get()}, 0)}) {
    ScratchBuffer from_room, to_room;
    const Buffer from{from_room.take(place, most * pairs), most * pairs, DType::u8, place.device()};
    const Buffer to{to_room.take(place, most * pairs), most * pairs, DType::u8, place.device()};
    std::vector<std::byte> given(most * pairs), expected(most * pairs);
    std::vector<ScaledCopy> copies;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::int64_t bytes = i % (most + 1);
      const auto part = [&](const Buffer& whole) {
        return Buffer{static_cast<std::byte*>(whole.data) + most * i, bytes, DType::u8, whole.device};
      };
      copies.push_back({part(from), part(to)});
      for (std::int64_t at = most * i; at < most * (i + 1); ++at) {
        given[static_cast<std::size_t>(at)] = static_cast<std::byte>(1 + at % 251);
        if (at < most * i + bytes) expected[static_cast<std::size_t>(at)] = given[static_cast<std::size_t>(at)];
      }
    }
    set_bytes(place, from, given);
    set_bytes(place, to, std::vector<std::byte>(most * pairs));
    place.copy(copies);
    EXPECT_EQ(bytes_of(place, to), expected) << comm::name_of(place.device());
    const Buffer one{from.data, 1, DType::f32, place.device()}, other{to.data, 1, DType::f32, place.device()};
    set_bytes(place, one, std::vector<std::byte>(4, std::byte{7}));
    place.copy(std::array{ScaledCopy{one, other}});
    EXPECT_EQ(bytes_of(place, other), std::vector<std::byte>(4, std::byte{7}));
    const Buffer two{to.data, 2, DType::f32, place.device()};
    EXPECT_THROW(place.copy(std::array{ScaledCopy{one, two}}), Error) << comm::name_of(place.device());
  }
  EXPECT_THAT([&] { set_bytes({}, {}, std::vector<std::byte>(1)); },
              ThrowsMessage<InvalidArgument>("1 bytes for a tensor of 0"));
}

// A kernel looks at what it is given, as those of collectives do.
TEST(MemorySpace, LaunchesNothingOnTheHostsMemory) {
  const MemorySpace place({make_emulated({.devices = 1})}, 0);
  float value = 1;
  const Buffer said_to_be_there{&value, 1, DType::f32, place.device()};
  const auto works =
      scaled_copy_work(std::array{ScaledCopy{said_to_be_there, said_to_be_there}}, times(2), place.device());
  EXPECT_THROW(place.launch(works), InvalidArgument);
}

TEST(ScratchBuffer, IsKeptWhileItIsLargeEnough) {
  const auto runtime = make_emulated({.devices = 1, .memory_bytes = 1000});
  const MemorySpace device({runtime}, 0), host;
  {
    ScratchBuffer room;
    std::byte* const first = room.take(device, 600);
    EXPECT_EQ(runtime->holder_of(first), 0);
    EXPECT_EQ(room.take(device, 500), first);
    EXPECT_EQ(runtime->holder_of(room.take(device, 700)), 0) << "the smaller one is given back first";
    ScratchBuffer moved = std::move(room);
    EXPECT_NO_THROW(Memory(runtime, 0, 300));
    EXPECT_THROW(Memory(runtime, 0, 301), OutOfMemory);
  }
  EXPECT_NO_THROW(Memory(runtime, 0, 1000));
  ScratchBuffer on_host;
  std::byte* const first = on_host.take(host, 600);
  EXPECT_EQ(runtime->holder_of(first), std::nullopt);
  EXPECT_EQ(on_host.take(host, 10), first);
}

}  // namespace
}  // namespace plumbline::device
