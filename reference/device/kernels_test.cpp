// The kernels' bodies on the host: the bits of the local backend's kernels, for every dtype and op, wherever the
// addresses lie.
#include "reference/comm/kernels.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/device/detail/move.hpp"
#include "reference/device/fold.hpp"
#include "reference/device/runtime.hpp"
#include "reference/device/runtimes.hpp"

namespace plumbline::device {
namespace {

using comm::DType;
using comm::ReduceOp;

// Finite numbers of every dtype, both zeros among the floating ones.
std::vector<std::byte> numbers(DType dtype, std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = random() % 8 == 0 ? (random() % 2 ? 0.0F : -0.0F)
                                          : static_cast<float>(static_cast<int>(random() % 2001) - 1000) * 0.0137F;
    const auto put = [&](auto typed) {
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof typed, &typed, sizeof typed);
    };
    if (dtype == DType::f16) put(comm::to_float16(value));
    if (dtype == DType::bf16) put(comm::to_bfloat16(value));
    if (dtype == DType::f32) put(value);
    if (dtype == DType::f64) put(static_cast<double>(value) * 1.1);
    if (dtype == DType::i32) put(static_cast<std::uint32_t>(random()));
    if (dtype == DType::i64) put(static_cast<std::uint64_t>(random()) << 31 ^ random());
    if (dtype == DType::u8) put(static_cast<std::uint8_t>(random()));
  }
  return bytes;
}

class Kernels : public testing::Test {
 protected:
  // The bytes in device memory, that many bytes past a boundary.
  std::byte* on_device(std::span<const std::byte> bytes, std::size_t shift) {
    memory_.emplace_back(runtime_, 0, bytes.size() + shift + 16);
    std::byte* const data = memory_.back().data() + shift;
    std::memcpy(data, bytes.data(), bytes.size());
    return data;
  }
  void run(const FoldTable& table) {
    runtime_->fold(0, table, nullptr);
    runtime_->synchronize(0, nullptr);
  }
  void run(const Moves& moves) {
    for (const MoveTable& table : moves.tables()) runtime_->move(0, table, nullptr);
    runtime_->synchronize(0, nullptr);
  }
  std::shared_ptr<Runtime> runtime_ = make_emulated({.devices = 1});
  std::vector<Memory> memory_;
};

constexpr std::int64_t kChunk = kFoldChunkBytes;

TEST_F(Kernels, FoldAsTheHostDoes) {
  for (const DType dtype : comm::kAllDTypes)
    for (const ReduceOp op : comm::kAllReduceOps) {
      if (!comm::is_defined(dtype, op)) continue;
      const std::int64_t chunk = kChunk / static_cast<std::int64_t>(size_of(dtype));
      for (const std::int64_t count :
           {std::int64_t{1}, std::int64_t{15}, std::int64_t{64}, std::int64_t{1003}, 2 * chunk + 5})
        for (const int shape : {0, 1, 2, 3}) {  // all at a boundary; all past one alike; not alike; one input, in place
          const int inputs = shape == 3 ? 1 : 3;
          FoldTable table;
          table.dtype = dtype;
          table.op = op;
          table.count = count;
          table.inputs = inputs;
          table.outputs = 2;
          std::vector<std::vector<std::byte>> given;
          std::vector<const std::byte*> in;
          const std::size_t element = size_of(dtype);
          for (int i = 0; i < inputs; ++i) {
            given.push_back(numbers(dtype, count, static_cast<unsigned>(100 * i + shape + count)));
            table.input[i] = on_device(given.back(), shape == 0   ? 0
                                                     : shape == 1 ? element
                                                                  : element * static_cast<std::size_t>(i));
            in.push_back(given.back().data());
          }
          std::vector<std::byte> expected(given[0].size());
          std::byte* out[] = {expected.data()};
          comm::local::kernels().reduction(
              dtype, op)({.inputs = in, .outputs = out, .count = static_cast<std::size_t>(count)});
          table.output[0] = const_cast<std::byte*>(table.input[0]);
          std::vector<std::byte> guarded(expected.size() + 32, std::byte{0x77});
          std::byte* const around = on_device(guarded, 0);
          table.output[1] = around + (shape == 0 ? 16 : element);
          note_shifts(table);
          run(table);
          for (int o = 0; o < 2; ++o)
            ASSERT_TRUE(std::equal(expected.begin(), expected.end(), table.output[o]))
                << name_of(dtype) << " " << name_of(op) << " of " << count << ", shape " << shape << ", output " << o;
          std::ranges::copy(expected, guarded.begin() + (table.output[1] - around));
          ASSERT_TRUE(std::equal(guarded.begin(), guarded.end(), around)) << "beside the output";
          memory_.clear();
        }
    }
}

TEST_F(Kernels, FoldSegmentsInOneLaunch) {
  const std::int64_t stride = 37;
  const std::vector<std::byte> a = numbers(DType::f32, 3 * stride, 1), b = numbers(DType::f32, 3 * stride, 2);
  FoldTable table;
  table.scattered = true;
  table.count = table.stride = stride;
  table.inputs = 2;
  table.input[0] = on_device(a, 0);
  table.input[1] = on_device(b, 0);
  table.outputs = 2;
  const std::vector<std::byte> room(static_cast<std::size_t>(stride) * 4);
  table.output[0] = on_device(room, 4);
  table.segment[0] = 2;
  table.output[1] = const_cast<std::byte*>(table.input[0]);  // in place: its own segment
  table.segment[1] = 0;
  note_shifts(table);
  run(table);
  for (int o = 0; o < 2; ++o)
    for (std::int64_t i = 0; i < stride; ++i) {
      float x = 0, y = 0, sum = 0;
      const std::size_t at = static_cast<std::size_t>(table.segment[o] * stride + i) * 4;
      std::memcpy(&x, a.data() + at, 4);
      std::memcpy(&y, b.data() + at, 4);
      std::memcpy(&sum, table.output[o] + i * 4, 4);
      ASSERT_EQ(sum, x + y) << "segment " << table.segment[o] << " element " << i;
    }
}

TEST_F(Kernels, MoveWhateverTheAddresses) {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{31}, std::size_t{1000}, std::size_t{3 * kMoveChunkBytes + 7}})
    for (const std::size_t from_shift : {0, 1, 2, 4, 8})
      for (const std::size_t to_shift : {0, 1, 2, 6, 8}) {
        const std::vector<std::byte> a = numbers(DType::u8, static_cast<std::int64_t>(bytes), 1);
        const std::vector<std::byte> b = numbers(DType::u8, static_cast<std::int64_t>(bytes), 2);
        const std::vector<std::byte> room(bytes + 1, std::byte{0x55});
        std::byte* const from = on_device(a, from_shift);
        std::byte* const there[] = {on_device(room, to_shift), from, on_device(room, from_shift)};
        std::byte* const x = on_device(a, from_shift);
        std::byte* const y = on_device(b, to_shift);
        Moves moves;
        moves.copy(from, there, bytes);
        moves.exchange(x, y, y, x, bytes);
        run(moves);
        for (std::byte* to : there)
          ASSERT_TRUE(std::equal(a.begin(), a.end(), to)) << bytes << " " << from_shift << " " << to_shift;
        for (std::byte* to : {there[0], there[2]}) ASSERT_EQ(to[bytes], std::byte{0x55});
        ASSERT_TRUE(std::equal(b.begin(), b.end(), x));
        ASSERT_TRUE(std::equal(a.begin(), a.end(), y));
        memory_.clear();
      }
}

TEST_F(Kernels, MoveMoreThanATableHolds) {
  constexpr int pieces = 1700;
  std::vector<std::byte> from = numbers(DType::u8, pieces * 3, 5);
  const std::vector<std::byte> room(from.size());
  std::byte* const source = on_device(from, 0);
  std::byte* const to = on_device(room, 1);
  Moves moves;
  for (int i = 0; i < pieces; ++i) {
    std::byte* const place[] = {to + (pieces - 1 - i) * 3};
    moves.copy(source + i * 3, place, 3);
  }
  EXPECT_GT(moves.tables().size(), 1U);
  run(moves);
  for (int i = 0; i < pieces; ++i) ASSERT_EQ(std::memcmp(to + (pieces - 1 - i) * 3, from.data() + i * 3, 3), 0) << i;
}

TEST_F(Kernels, MoveNothing) {
  Moves moves;
  std::byte here{};
  std::byte* const there[] = {&here};
  moves.copy(&here, there, 1);  // it is there already
  moves.copy(&here, {}, 5);
  moves.exchange(nullptr, nullptr, nullptr, nullptr, 0);
  EXPECT_THAT(moves.tables(), testing::IsEmpty());
}

}  // namespace
}  // namespace plumbline::device
