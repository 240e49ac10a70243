// Elements of the host's memory and of an emulated device's: what is said of all of them, and of one.
#include "benchmarks/memory.hpp"

#include <array>
#include <limits>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::bench {
namespace {

class MemoryTest : public testing::TestWithParam<bool> {
 protected:
  MemoryTest() {
    if (!GetParam()) return;
    const auto runtime = device::make_emulated({.devices = 2});
    stream_.emplace(runtime, 1);
    place_ = device::MemorySpace({runtime, stream_->get()}, 1);
  }
  [[nodiscard]] const device::MemorySpace& place() const { return place_; }

 private:
  std::optional<device::OwnStream> stream_;
  device::MemorySpace place_;
};

TEST_P(MemoryTest, IsZeroAndThenWhatItIsFilledWith) {
  constexpr std::int64_t count = (1 << 18) + 5;  // more than a piece
  const Memory memory(place(), count);
  EXPECT_EQ(memory.buffer().device, place().device());
  EXPECT_EQ(memory.bytes(), 4U * count);
  EXPECT_TRUE(memory.all_are(0));
  memory.fill(3);
  EXPECT_TRUE(memory.all_are(3));
  const auto set = [&](std::int64_t one, float value) { memory.put(one, 1, std::as_bytes(std::span(&value, 1))); };
  constexpr std::array factor{1.0F};
  for (const std::int64_t one : {std::int64_t{0}, count - 1}) {
    set(one, 3.5F);
    EXPECT_EQ(memory.at(one), 3.5F);
    EXPECT_FALSE(memory.all_are(3)) << one;
    EXPECT_FALSE(memory.all_are_near(3, 0.1, factor)) << one;
    EXPECT_TRUE(memory.all_are_near(3, 0.17, factor)) << one;
    set(one, 3);
  }
  set(count - 1, std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(memory.all_are_near(3, 1, factor));
}

TEST_P(MemoryTest, RepeatsAPeriodFromAnyOfItsElementsOn) {
  constexpr std::int64_t count = 2 * (1 << 18) + 5;  // more than two pieces
  const Memory memory(place(), count);
  constexpr std::array period{1.0F, 2.0F, 3.0F, 4.0F, 5.0F};
  const auto bytes = std::as_bytes(std::span(period));
  memory.put(0, count, bytes, 3);
  EXPECT_EQ(memory.at(0), 4);
  EXPECT_EQ(memory.at(1), 5);
  EXPECT_EQ(memory.at(2), 1);
  EXPECT_EQ(memory.at(count - 1), period[(count - 1 + 3) % 5]);
  EXPECT_TRUE(memory.has(0, count, bytes, 8));
  EXPECT_FALSE(memory.has(0, count, bytes, 4));
  EXPECT_TRUE(memory.has(2, 1000, bytes));
  EXPECT_FALSE(memory.all_are_near(1, 0.01, period));
  memory.put(0, count, bytes);
  EXPECT_TRUE(memory.all_are_near(1, 0.01, period));
  EXPECT_FALSE(memory.all_are_near(1.1, 0.01, period));
  memory.put(count - 1, 1, bytes, 0);
  EXPECT_FALSE(memory.has(0, count, bytes));
}

TEST_P(MemoryTest, HasPartsAndBytes) {
  const Memory memory(place(), 3, comm::DType::f64);
  const comm::Buffer last = memory.part(2, 1);
  EXPECT_EQ(last.data, memory.data() + 16);
  const double value = 0.1;
  set_bytes(place(), last, std::as_bytes(std::span(&value, 1)));
  const std::vector<std::byte> all = bytes_of(place(), memory.buffer());
  EXPECT_EQ(std::vector(all.begin() + 16, all.end()), bytes_of(place(), last));
  EXPECT_THAT(std::vector(all.begin(), all.begin() + 16), testing::Each(std::byte{0}));
  EXPECT_THROW(set_bytes(place(), memory.buffer(), std::as_bytes(std::span(&value, 1))), InvalidArgument);
  EXPECT_TRUE(Memory(place(), 0).all_are(1)) << "of none";
}

INSTANTIATE_TEST_SUITE_P(Places, MemoryTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Emulated" : "Host"; });

}  // namespace
}  // namespace plumbline::bench
