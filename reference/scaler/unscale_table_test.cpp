// The kernel's work, thread by thread on this processor: every element of every gradient once, whatever its alignment and length,
// with the bits of unscale().
#include "reference/scaler/unscale_table.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/scaler/unscale_chunk.hpp"

namespace plumbline::scaler {
namespace {

using comm::DType;

constexpr int kThreads = 64;

bool run_on_host(std::span<const Unscaling> gradients, float inverse) {
  bool found = false;
  for (const UnscaleTable& table : unscale_tables(gradients, inverse, {}))
    for (std::int32_t chunk = 0; chunk < table.chunks; ++chunk)
      for (int thread = 0; thread < kThreads; ++thread) found |= unscale_chunk(table, chunk, thread, kThreads);
  return found;
}

// Bytes of `count` elements of a type, shifted from a boundary; those around them are watched.
class Shifted {
 public:
  Shifted(DType dtype, std::int64_t count, std::size_t shift)
      : dtype_(dtype),
        count_(count),
        shift_(shift * comm::size_of(dtype)),
        bytes_(64 + shift_ + room(), std::byte{0x5a}) {}
  [[nodiscard]] comm::Buffer buffer() { return {bytes_.data() + start(), count_, dtype_}; }
  void fill(int seed) {
    for (std::int64_t i = 0; i < count_; ++i) set(i, static_cast<float>((i * 7 + seed) % 23 - 11) * 0.37F);
  }
  void set(std::int64_t i, float value) {
    std::byte* at = bytes_.data() + start() + static_cast<std::size_t>(i) * comm::size_of(dtype_);
    const auto put = [at](auto typed) { std::memcpy(at, &typed, sizeof typed); };
    if (dtype_ == DType::f16) put(comm::to_float16(value));
    if (dtype_ == DType::bf16) put(comm::to_bfloat16(value));
    if (dtype_ == DType::f32) put(value);
    if (dtype_ == DType::f64) put(static_cast<double>(value));
  }
  friend bool operator==(const Shifted& a, const Shifted& b) { return a.contents() == b.contents(); }

 private:
  [[nodiscard]] std::size_t room() const { return static_cast<std::size_t>(count_) * comm::size_of(dtype_) + 64; }
  // Counted from a boundary of 16 bytes.
  [[nodiscard]] std::size_t start() const { return 16 - reinterpret_cast<std::uintptr_t>(bytes_.data()) % 16 + shift_; }
  [[nodiscard]] std::vector<std::byte> contents() const {
    const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(start()) - 16;
    return {first, first + static_cast<std::ptrdiff_t>(room() - 32)};
  }
  DType dtype_;
  std::int64_t count_;
  std::size_t shift_;
  std::vector<std::byte> bytes_;
};

struct Types {
  DType from, to;
};
constexpr std::array kTypes{Types{DType::f16, DType::f32}, Types{DType::bf16, DType::f32},
                            Types{DType::f16, DType::f16}, Types{DType::bf16, DType::bf16},
                            Types{DType::f32, DType::f32}, Types{DType::f64, DType::f64}};

TEST(UnscaleChunks, HaveTheBitsOfThePlainForm) {
  for (const Types& types : kTypes)
    for (const std::int64_t count :
         {std::int64_t{1}, std::int64_t{7}, std::int64_t{33}, std::int64_t{1000}, 2 * kChunk + 5})
      for (const std::size_t from_shift : {0, 1, 3})
        for (const std::size_t to_shift : {0, 1, 2}) {
          Shifted from(types.from, count, from_shift), to(types.to, count, to_shift),
              expected(types.to, count, to_shift);
          from.fill(static_cast<int>(count));
          const std::array here{Unscaling{from.buffer(), to.buffer()}},
              plain{Unscaling{from.buffer(), expected.buffer()}};
          ASSERT_EQ(run_on_host(here, 0.3F), unscale(plain, 0.3F));
          ASSERT_TRUE(to == expected) << comm::name_of(types.from) << " to " << comm::name_of(types.to) << ", " << count
                                      << " elements, shifted by " << from_shift << " and " << to_shift;
        }
}

TEST(UnscaleChunks, FindInEveryPlace) {
  for (const Types& types : kTypes)
    for (std::int64_t place = 0; place < 40; ++place)
      for (const float bad : {INFINITY, -INFINITY, NAN}) {
        Shifted from(types.from, 40, 1), to(types.to, 40, 1);
        from.fill(0);
        const std::array work{Unscaling{from.buffer(), to.buffer()}};
        ASSERT_FALSE(run_on_host(work, 3e38F)) << "what the product makes infinite is not found";
        from.set(place, bad);
        ASSERT_TRUE(run_on_host(work, 0.5F)) << comm::name_of(types.from) << " " << place;
      }
}

TEST(UnscaleTables, HoldEveryChunkOfEveryGradient) {
  // Lengths around a chunk's, and some without elements: more gradients than a table holds.
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < 2100; ++i)
    values.emplace_back(i % 5 == 3 ? 0 : i % 300 == 0 ? static_cast<std::size_t>(kChunk) + i % 2 : 1 + i % 3, 4.0F);
  std::vector<Unscaling> work;
  for (auto& list : values) {
    const comm::Buffer buffer{list.data(), static_cast<std::int64_t>(list.size()), DType::f32};
    work.push_back({buffer, buffer});
  }
  EXPECT_THAT(unscale_tables(work, 0.25F, {}), testing::SizeIs(2));
  EXPECT_FALSE(run_on_host(work, 0.25F));
  for (const auto& list : values) EXPECT_THAT(list, testing::Each(1.0F)) << "each element once";
  EXPECT_THAT(unscale_tables({}, 1, {}), testing::IsEmpty());
}

TEST(UnscaleTables, RefuseWhatDoesNotGoTogether) {
  std::array<float, 2> values{1, 2};
  const comm::Buffer two{values.data(), 2, DType::f32}, one{values.data(), 1, DType::f32};
  const comm::Buffer elsewhere{values.data(), 2, DType::f32, {comm::Device::Kind::cuda, 1}};
  const comm::Buffer numbers{values.data(), 2, DType::i32};
  EXPECT_THROW((void)unscale_tables(std::array{Unscaling{two, one}}, 1, {}), InvalidArgument);
  EXPECT_THROW((void)unscale_tables(std::array{Unscaling{two, two}, Unscaling{two, elsewhere}}, 1, {}),
               InvalidArgument);
  EXPECT_THROW((void)unscale_tables(std::array{Unscaling{numbers, numbers}}, 1, {}), Unsupported);
  EXPECT_THROW((void)unscale_tables(std::array{Unscaling{two, numbers}}, 1, {}), Unsupported);
}

}  // namespace
}  // namespace plumbline::scaler
