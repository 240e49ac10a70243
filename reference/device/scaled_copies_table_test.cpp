// The kernel's work, thread by thread on this processor: every element of every copy once, whatever its alignment and
// length, with the bits of the host's own loops.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/scaled_copies.hpp"
#include "reference/device/tensor_samples_test.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::device {
namespace {

using comm::DType;

constexpr std::array kFloating{DType::f16, DType::bf16, DType::f32, DType::f64};

void make(const ShiftedTensor& from, const ShiftedTensor& to, Scaling scaling) {
  run_on_host(scaled_copy_work(std::array{ScaledCopy{from.buffer(), to.buffer()}}, scaling, {}));
}

TEST(ScaledCopies, DivideAsBucketsDo) {
  for (const DType from_type : kFloating)
    for (const DType to_type : kFloating)
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{7}, std::int64_t{33}, 2 * kChunk + 5})
        for (const std::size_t shift : {0, 1, 3})
          for (const double divisor : {1.0, 2.0, 3.0}) {
            const ShiftedTensor from(from_type, count, shift, 5), to(to_type, count, shift % 2), expected(to);
            make(from, to, over(divisor));
            bucketing::copy_divided(from.buffer(), expected.buffer(), divisor);
            ASSERT_TRUE(to == expected) << comm::name_of(from_type) << " to " << comm::name_of(to_type) << ", " << count
                                        << " elements, shifted by " << shift << ", over " << divisor;
          }
}

TEST(ScaledCopies, MultiplyAsPushSumDoes) {
  for (const DType type : kFloating)
    for (const std::int64_t count : {1, 16, 1000})
      for (const std::size_t shift : {0, 1, 5}) {
        const ShiftedTensor from(type, count, shift, 5), to(type, count, 1), expected(to);
        make(from, to, times(1.0 / 3));
        gossip::scaled_copy(from.buffer(), expected.buffer(), 1.0 / 3);
        ASSERT_TRUE(to == expected) << comm::name_of(type) << ", " << count << " elements, shifted by " << shift;
        make(from, from, times(1.0 / 3));
        make(from, to, over(1));
        ASSERT_TRUE(to == expected) << "in place: " << comm::name_of(type) << ", " << count << ", " << shift;
      }
}

TEST(ScaledCopies, MoveBytesOfAnyType) {
  for (const DType type : comm::kAllDTypes)
    for (const std::int64_t count : {1, 15, 17, 4099})
      for (const std::size_t shift : {0, 1}) {
        const ShiftedTensor from(type, count, shift, 9), to(type, count, 0, 4), expected(to);
        std::memcpy(expected.buffer().data, from.buffer().data, from.buffer().bytes());
        make(from, to, over(1));
        ASSERT_TRUE(to == expected) << comm::name_of(type) << ", " << count << " elements, shifted by " << shift;
      }
}

TEST(ScaledCopies, TakeManyAtOnceEachOnce) {
  // Lengths around a chunk's, and some without elements: more than a table holds.
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < 2100; ++i)
    values.emplace_back(i % 5 == 3 ? 0 : i % 300 == 0 ? static_cast<std::size_t>(kChunk) + i % 2 : 1 + i % 3, 4.0F);
  std::vector<ScaledCopy> copies;
  for (auto& list : values) {
    const comm::Buffer buffer{list.data(), static_cast<std::int64_t>(list.size()), DType::f32};
    copies.push_back({buffer, buffer});
  }
  const auto work = scaled_copy_work(copies, times(0.25), {});
  EXPECT_THAT(work, testing::SizeIs(2));
  run_on_host(work);
  for (const auto& list : values) EXPECT_THAT(list, testing::Each(1.0F)) << "each element once";
  EXPECT_THAT(scaled_copy_work(copies, times(1), {}), testing::IsEmpty()) << "of each to itself";
  EXPECT_THAT(scaled_copy_work({}, times(2), {}), testing::IsEmpty());
}

TEST(ScaledCopies, RefuseWhatDoesNotGoTogether) {
  std::array<double, 2> values{};
  const comm::Buffer two{values.data(), 2, DType::f32}, one{values.data(), 1, DType::f32};
  const comm::Buffer elsewhere{values.data(), 2, DType::f32, {comm::Device::Kind::cuda, 1}};
  const comm::Buffer integers{values.data(), 2, DType::i64};
  const auto refused = [](const comm::Buffer& from, const comm::Buffer& to, Scaling scaling) {
    (void)scaled_copy_work(std::array{ScaledCopy{from, to}}, scaling, {});
  };
  EXPECT_THROW(refused(two, one, times(1)), InvalidArgument);
  EXPECT_THROW(refused(two, elsewhere, times(1)), InvalidArgument);
  EXPECT_THROW(refused({nullptr, 2, DType::f32}, two, times(1)), InvalidArgument);
  EXPECT_THROW(refused({values.data(), -1, DType::f32}, {values.data(), -1, DType::f32}, times(2)), InvalidArgument);
  EXPECT_THROW(refused(two, {values.data(), 2, DType::f16}, times(1)), InvalidArgument) << "sizes differ in place";
  EXPECT_THROW(refused(two, {reinterpret_cast<float*>(values.data()) + 1, 2, DType::f32}, times(2)), InvalidArgument);
  EXPECT_THROW(refused(integers, integers, over(2)), Unsupported);
  EXPECT_THROW(refused(integers, two, over(1)), Unsupported);
  EXPECT_NO_THROW(refused(integers, integers, over(1)));
}

}  // namespace
}  // namespace plumbline::device
