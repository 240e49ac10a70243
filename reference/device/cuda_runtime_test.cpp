// On a GPU what emulated_test.cpp and kernels_test.cpp hold the emulated device to; skipped, with the reason, where
// there is none.
#include <chrono>
#include <cstring>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/kernels.hpp"
#include "reference/device/detail/move.hpp"
#include "reference/device/fold.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::device {
namespace {

using namespace std::chrono_literals;
using comm::DType;
using comm::ReduceOp;

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    try {
      runtime_ = make_cuda();
    } catch (const RuntimeFailure& error) {
      GTEST_SKIP() << error.what();
    }
  }
  std::byte* on_device(const std::vector<std::byte>& bytes, std::size_t shift) {
    memory_.emplace_back(runtime_, 0, bytes.size() + shift + 16);
    runtime_->copy(0, memory_.back().data() + shift, bytes.data(), bytes.size(), nullptr);
    return memory_.back().data() + shift;
  }
  std::vector<std::byte> on_host(const std::byte* data, std::size_t bytes) {
    std::vector<std::byte> copied(bytes);
    runtime_->copy(0, copied.data(), data, bytes, nullptr);
    runtime_->synchronize(0, nullptr);
    return copied;
  }
  std::shared_ptr<Runtime> runtime_;
  std::vector<Memory> memory_;
};

// Any bits of integers; numbers that round of floating types.
std::vector<std::byte> numbers(DType dtype, std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) * 0.0137F;
    const auto put = [&](auto typed) {
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof typed, &typed, sizeof typed);
    };
    if (dtype == DType::f16) put(comm::to_float16(value));
    if (dtype == DType::bf16) put(comm::to_bfloat16(value));
    if (dtype == DType::f32) put(value);
    if (dtype == DType::f64) put(static_cast<double>(value) * 1.1);
    if (!is_floating(dtype))
      for (std::size_t byte = 0; byte < size_of(dtype); ++byte)
        bytes[static_cast<std::size_t>(i) * size_of(dtype) + byte] = std::byte(random());
  }
  return bytes;
}

TEST_F(OnGpu, FoldsAsTheHostDoes) {
  for (const DType dtype : comm::kAllDTypes)
    for (const ReduceOp op : comm::kAllReduceOps) {
      if (!comm::is_defined(dtype, op)) continue;
      for (const std::int64_t count : {1, 1003, 100003})
        for (const std::size_t shift : {std::size_t{0}, size_of(dtype)}) {
          FoldTable table;
          table.dtype = dtype;
          table.op = op;
          table.count = count;
          table.inputs = table.outputs = 3;
          std::vector<std::vector<std::byte>> given;
          std::vector<const std::byte*> in;
          for (unsigned i = 0; i < 3; ++i) {
            given.push_back(numbers(dtype, count, i));
            table.output[i] = on_device(given.back(), i == 2 ? shift : 0);
            table.input[i] = table.output[i];
          }
          for (const auto& one : given) in.push_back(one.data());
          std::vector<std::byte> expected(given[0].size());
          std::byte* out[] = {expected.data()};
          comm::local::kernels().reduction(
              dtype, op)({.inputs = in, .outputs = out, .count = static_cast<std::size_t>(count)});
          note_shifts(table);
          runtime_->fold(0, table, nullptr);
          for (int o = 0; o < 3; ++o)
            ASSERT_EQ(on_host(table.output[o], expected.size()), expected)
                << name_of(dtype) << " " << name_of(op) << " of " << count << ", output " << o;
          memory_.clear();
        }
    }
}

TEST_F(OnGpu, MovesWhateverTheAddresses) {
  for (const std::size_t bytes : {1, 1000, 100003})
    for (const std::size_t shift : {0, 1, 2, 4, 8}) {
      const std::vector<std::byte> a = numbers(DType::u8, static_cast<std::int64_t>(bytes), 1);
      const std::vector<std::byte> b = numbers(DType::u8, static_cast<std::int64_t>(bytes), 2);
      std::byte* const x = on_device(a, 0);
      std::byte* const y = on_device(b, shift);
      std::byte* const copies[] = {on_device(b, shift), on_device(b, 0)};
      const std::byte* const source = on_device(a, 0);
      Moves moves;
      moves.exchange(x, y, y, x, bytes);
      moves.copy(source, copies, bytes);
      for (const MoveTable& table : moves.tables()) runtime_->move(0, table, nullptr);
      EXPECT_EQ(on_host(x, bytes), b);
      EXPECT_EQ(on_host(y, bytes), a);
      for (const std::byte* copy : copies) EXPECT_EQ(on_host(copy, bytes), a);
      memory_.clear();
    }
}

TEST_F(OnGpu, OrdersStreamsByEvents) {
  const Memory memory(runtime_, 0, 1);
  const OwnStream slow(runtime_, 0), reader(runtime_, 0);
  const OwnEvent written(runtime_, 0, true), begun(runtime_, 0, true);
  begun.record(slow.get());
  runtime_->pause(0, 50ms, slow.get());
  runtime_->fill(0, memory.data(), std::byte{1}, 1, slow.get());
  written.record(slow.get());
  EXPECT_FALSE(written.is_reached());
  runtime_->wait(0, reader.get(), written.get());
  std::byte seen{};
  runtime_->copy(0, &seen, memory.data(), 1, reader.get());
  reader.synchronize();
  EXPECT_EQ(seen, std::byte{1});
  EXPECT_TRUE(written.is_reached());
  EXPECT_GE(runtime_->seconds_between(begun.get(), written.get()), 0.049);
}

TEST_F(OnGpu, SaysWhatIsFreeWhereThereIsNoRoom) {
  try {
    (void)runtime_->allocate(0, std::size_t{1} << 46);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_THAT(error.what(),
                testing::MatchesRegex("cuda:0: no memory for 70368744177664 bytes; [0-9]+ of [0-9]+ bytes are free"));
  }
  EXPECT_THROW((void)runtime_->allocate(runtime_->count(), 1), InvalidArgument);
}

TEST_F(OnGpu, TellsItsMemoryFromTheHosts) {
  const Memory memory(runtime_, 0, 8);
  int here = 0;
  EXPECT_EQ(runtime_->holder_of(memory.data()), 0);
  EXPECT_EQ(runtime_->holder_of(&here), std::nullopt);
  EXPECT_THAT(runtime_->environment(), testing::Contains(testing::Key("device.0")));
}

// Needs no GPU: one line that says what is missing, or a runtime.
TEST(WithoutGpu, OneLineSaysWhy) {
  try {
    (void)make_cuda();
  } catch (const RuntimeFailure& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("device cuda: "));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("\n")));
  }
}

}  // namespace
}  // namespace plumbline::device
