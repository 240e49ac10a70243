#include "reference/comm/call.hpp"

#include <array>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

// That wrong arguments are refused by every backend is in conformance/collectives. Here: what no backend is asked.
namespace plumbline::comm {
namespace {

std::string refusal_of(const Call& call, int ranks) {
  try {
    validate(call, 0, ranks);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "not refused";
}

TEST(BufferTest, OfElementsHasTheirNumberAndType) {
  std::vector<double> doubles(5);
  const Buffer of_vector = Buffer::of(doubles), of_part = Buffer::of(std::span(doubles).subspan(1, 3));
  EXPECT_EQ(of_vector.data, doubles.data());
  EXPECT_EQ(of_vector.count, 5);
  EXPECT_EQ(of_vector.dtype, DType::f64);
  EXPECT_EQ(of_part.data, doubles.data() + 1);
  EXPECT_EQ(of_part.count, 3);
  const std::array<Float16, 2> halves{};
  EXPECT_EQ(ConstBuffer::of(halves).bytes(), 4U);
  EXPECT_EQ(ConstBuffer::of(halves).dtype, DType::f16);
}
// A pointer says nothing of its elements.
static_assert(!std::is_constructible_v<Buffer, void*, std::int64_t>);
static_assert(!std::is_constructible_v<ConstBuffer, const void*, std::int64_t>);
// A view of what ends with the call.
template <class Elements>
concept Viewable = requires(Elements&& elements) { ConstBuffer::of(std::forward<Elements>(elements)); };
static_assert(Viewable<std::vector<float>&> && Viewable<std::span<float>> && !Viewable<std::vector<float>>);

TEST(CallTest, ACountWhoseBytesNoIntegerHoldsIsRefused) {
  std::byte byte{};
  const std::int64_t wraps = std::int64_t{1} << 61;  // times 8 ranks: 0
  EXPECT_EQ(refusal_of(
                {.operation = Operation::all_gather, .in = {&byte, wraps, DType::u8}, .out = {&byte, 0, DType::u8}}, 8),
            "all_gather: in has 2305843009213693952 elements; no 8 ranks have memory for so many");
  for (const DType dtype : kAllDTypes)
    for (const int ranks : {1, 2, 4095}) {
      const Buffer all{&byte, std::numeric_limits<std::int64_t>::max(), dtype};
      for (const Operation operation : {Operation::all_reduce, Operation::all_to_all, Operation::reduce_scatter})
        EXPECT_THAT(refusal_of({.operation = operation, .in = all, .out = all}, ranks),
                    testing::HasSubstr("has 9223372036854775807 elements; no "));
      EXPECT_THAT(refusal_of({.operation = Operation::broadcast, .root = 0, .out = all}, ranks),
                  testing::HasSubstr("out has 9223372036854775807 elements; no "));
    }
}

TEST(CallTest, ALargeCountThatMemoryCouldHoldIsTaken) {
  std::byte byte{};
  const std::int64_t tebi = std::int64_t{1} << 40;
  const Buffer buffer{&byte, tebi, DType::f64};
  EXPECT_EQ(refusal_of({.operation = Operation::all_reduce, .in = buffer, .out = buffer}, 4095), "not refused");
}

TEST(CallTest, DevicesAreReadAsTheyAreNamed) {
  for (const Device device :
       {Device{}, Device{Device::Kind::cuda, 0}, Device{Device::Kind::cuda, 12}, Device{Device::Kind::emulated, 3}})
    EXPECT_EQ(parse_device(name_of(device)), device);
  EXPECT_EQ(parse_device("cuda"), (Device{Device::Kind::cuda, 0}));
  for (const char* name : {"", "tpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:40000", ":1"})
    EXPECT_EQ(parse_device(name), std::nullopt) << name;
}

TEST(DeviceChoiceTest, IsReadAndSpreadsRanks) {
  EXPECT_EQ(DeviceChoice::parse("cuda").of_rank(3, 2), (Device{Device::Kind::cuda, 1}));
  EXPECT_EQ(DeviceChoice::parse("emulated:1").of_rank(4, 2), (Device{Device::Kind::emulated, 1}));
  EXPECT_EQ(DeviceChoice::parse("cpu").of_rank(4, 2), Device{});
  for (const char* wrong :
       {"tpu", "", "cpu:3", "cpu:0", "cuda:", "cuda:-0", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1x", "emulated:99999"})
    EXPECT_THROW((void)DeviceChoice::parse(wrong), InvalidArgument) << wrong;
}

}  // namespace
}  // namespace plumbline::comm
