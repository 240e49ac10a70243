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

std::vector<DType> every_dtype() {
  std::vector<DType> all(kAllDTypes.begin(), kAllDTypes.end());
  all.insert(all.end(), kOptionalDTypes.begin(), kOptionalDTypes.end());
  return all;
}

// The reduction that every dtype but bool has, and one of bool.
ReduceOp op_of(DType dtype) { return dtype == DType::boolean ? ReduceOp::max : ReduceOp::sum; }

TEST(CallTest, ACountWhoseBytesNoIntegerHoldsIsRefused) {
  std::byte byte{};
  const std::int64_t wraps = std::int64_t{1} << 61;  // times 8 ranks: 0
  EXPECT_EQ(refusal_of(
                {.operation = Operation::all_gather, .in = {&byte, wraps, DType::u8}, .out = {&byte, 0, DType::u8}}, 8),
            "all_gather: in has 2305843009213693952 elements; no memory of 8 ranks holds that number");
  const std::int64_t wraps_alone = std::int64_t{1} << 60;  // times the 16 bytes of an element: 0
  EXPECT_EQ(refusal_of({.operation = Operation::all_reduce,
                        .in = {&byte, wraps_alone, DType::c128},
                        .out = {&byte, wraps_alone, DType::c128}},
                       1),
            "all_reduce: in has 1152921504606846976 elements; no memory of 1 ranks holds that number");
  for (const DType dtype : every_dtype())
    for (const int ranks : {1, 2, 4095}) {
      const Buffer all{&byte, std::numeric_limits<std::int64_t>::max(), dtype};
      for (const Operation operation : {Operation::all_reduce, Operation::all_to_all, Operation::reduce_scatter})
        EXPECT_THAT(refusal_of({.operation = operation, .op = op_of(dtype), .in = all, .out = all}, ranks),
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

// To the byte, for elements of each width, and whichever of the two comes first.
TEST(CallTest, BuffersThatTouchDoNotOverlap) {
  constexpr std::int64_t count = 3;
  std::array<std::byte, 128> memory{};
  std::byte* const first = memory.data() + 16;
  for (const DType dtype : every_dtype())
    for (std::size_t apart = 1; apart <= 64; ++apart)
      for (const bool in_comes_first : {true, false}) {
        std::byte* const second = first + apart;
        const Call call{.operation = Operation::all_reduce,
                        .op = op_of(dtype),
                        .in = {in_comes_first ? first : second, count, dtype},
                        .out = {in_comes_first ? second : first, count, dtype}};
        EXPECT_EQ(refusal_of(call, 2), apart >= count * size_of(dtype)
                                           ? "not refused"
                                           : "all_reduce: in and out overlap, but not as the in-place form")
            << name_of(dtype) << ", " << apart << " bytes apart";
      }
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

// ---- blocks of different lengths: of rank 1 of 3 ----

class UnevenCallTest : public testing::Test {
 protected:
  // The words of a refusal, or "not refused".
  static std::string refusal_of(const UnevenCall& call, int rank = 1, int ranks = 3) {
    try {
      validate(call, rank, ranks);
    } catch (const Error& error) {
      return error.what();
    }
    return "not refused";
  }
  const std::vector<std::int64_t> counts{4, 0, 3}, others{1, 2, 0};
  std::vector<float> whole = std::vector<float>(7), small = std::vector<float>(3);
  UnevenCall all_to_all{.operation = Operation::all_to_all,
                        .in = ConstBuffer::of(whole),
                        .out = Buffer::of(small),
                        .in_counts = counts,
                        .out_counts = others};
  UnevenCall all_gather{.in = {}, .out = Buffer::of(whole), .out_counts = counts};
  UnevenCall reduce_scatter{
      .operation = Operation::reduce_scatter, .in = ConstBuffer::of(whole), .out = {}, .in_counts = counts};
};

TEST_F(UnevenCallTest, WhatCanBeMadeIsTaken) {
  for (const UnevenCall& call : {all_to_all, all_gather, reduce_scatter}) EXPECT_EQ(refusal_of(call), "not refused");
  all_gather.in = {whole.data() + 4, 3, DType::f32};  // in place
  EXPECT_EQ(refusal_of(all_gather, 2), "not refused");
  reduce_scatter.out = {whole.data(), 4, DType::f32};
  EXPECT_EQ(refusal_of(reduce_scatter, 0), "not refused");
}

TEST_F(UnevenCallTest, WhatCannotIsRefusedWithItsValues) {
  const auto expect = [](UnevenCall call, const auto& change, const std::string& words) {
    change(call);
    EXPECT_EQ(refusal_of(call), words);
  };
  const std::vector<std::int64_t> two{4, 3}, negative{8, -1, 0};
  const std::vector<std::int64_t> many{std::int64_t{1} << 62, std::int64_t{1} << 62, 0};
  expect(
      all_to_all, [&](UnevenCall& call) { call.in_counts = two; },
      "all_to_all_v: in_counts has 2 counts, needs one for each of 3 ranks");
  expect(
      all_to_all, [&](UnevenCall& call) { call.in_counts = negative; },
      "all_to_all_v: in_counts has -1; a count is 0 or more");
  expect(
      all_to_all, [&](UnevenCall& call) { call.out_counts = many; },
      "all_to_all_v: out_counts has more elements than any rank has memory for");
  expect(all_to_all, [&](UnevenCall& call) { call.in.count = 6; }, "all_to_all_v: in has 6 elements, needs 7");
  expect(
      all_to_all, [&](UnevenCall& call) { call.out_counts = {}; },
      "all_to_all_v: out_counts has 0 counts, needs one for each of 3 ranks");
  expect(
      all_to_all, [&](UnevenCall& call) { call.out.data = whole.data(); },
      "all_to_all_v: in and out overlap; this operation has no in-place form");
  expect(
      all_to_all, [&](UnevenCall& call) { call.out.dtype = DType::i32; },
      "all_to_all_v: in is f32, out is i32; both must be equal");
  expect(
      all_gather, [&](UnevenCall& call) { call.in = ConstBuffer::of(small); },
      "all_gather_v: in has 3 elements, needs 0");
  expect(
      all_gather, [&](UnevenCall& call) { call.in_counts = counts; },
      "all_gather_v: in_counts has counts; it must be empty");
  expect(
      reduce_scatter, [&](UnevenCall& call) { call.in.data = nullptr; },
      "reduce_scatter_v: in has 7 elements and a null pointer");
  expect(
      reduce_scatter, [&](UnevenCall& call) { call.in.dtype = call.out.dtype = DType::i32, call.op = ReduceOp::avg; },
      "reduce_scatter_v: avg of i32 is not defined; use sum, or a floating dtype");
  expect(
      reduce_scatter, [&](UnevenCall& call) { call.operation = Operation::broadcast; },
      "broadcast_v: there is no such operation; all_gather, reduce_scatter and all_to_all have blocks of any lengths");
  all_gather.in = {whole.data(), 3, DType::f32};
  EXPECT_EQ(refusal_of(all_gather, 2), "all_gather_v: in and out overlap, but not as the in-place form");
}

TEST_F(UnevenCallTest, IsDescribedByItsCounts) {
  EXPECT_EQ(describe(all_gather), "all_gather_v(f32 x [4 0 3])");
  EXPECT_EQ(describe(reduce_scatter), "reduce_scatter_v(f32 x [4 0 3], sum)");
  EXPECT_EQ(describe(all_to_all), "all_to_all_v(f32 x [4 0 3] to, [1 2 0] from)");
}

// ---- rows with gaps: of rank 1 of 2 ----

class StridedCallTest : public testing::Test {
 protected:
  // The words of a refusal, or "not refused".
  static std::string refusal_of(const StridedCall& call, int rank = 1) {
    try {
      validate(call, rank, 2);
    } catch (const Error& error) {
      return error.what();
    }
    return "not refused";
  }
  // `count` elements from that one of the matrix on.
  Buffer view(std::int64_t first, std::int64_t count) { return {matrix.data() + first, count, DType::f32}; }
  [[nodiscard]] StridedCall all_reduce(std::int64_t out_first, Rows in, Rows out) {
    return {.call = {.operation = Operation::all_reduce, .in = view(0, 6), .out = view(out_first, 6)},
            .in = in,
            .out = out};
  }
  std::vector<float> matrix = std::vector<float>(64);
};

TEST_F(StridedCallTest, ViewsThatShareNoElementButInPlaceAreTaken) {
  const Rows rows{2, 5};
  EXPECT_EQ(refusal_of(all_reduce(0, rows, rows)), "not refused") << "in place";
  EXPECT_EQ(refusal_of(all_reduce(2, rows, rows)), "not refused") << "in the gaps";
  EXPECT_EQ(refusal_of(all_reduce(12, rows, {})), "not refused") << "after the last row";
  EXPECT_EQ(refusal_of(all_reduce(2, rows, {3, 5})), "not refused") << "the gaps filled";
  EXPECT_EQ(refusal_of(all_reduce(0, {6, 9}, {6, 20})), "not refused") << "one row each, whatever its stride";
  EXPECT_EQ(refusal_of(all_reduce(0, {6, 0}, {6, std::numeric_limits<std::int64_t>::max()})), "not refused");
  EXPECT_EQ(refusal_of({.call = {.operation = Operation::all_gather, .in = view(10, 4), .out = view(0, 8)},
                        .in = rows,
                        .out = rows}),
            "not refused")
      << "the own block in place";
  EXPECT_EQ(refusal_of({.call = {.operation = Operation::reduce_scatter, .in = view(0, 8), .out = view(7, 4)},
                        .in = {4, 7},
                        .out = {}}),
            "not refused")
      << "a block of one row";
  EXPECT_EQ(refusal_of({.call = {.operation = Operation::all_reduce}, .in = rows, .out = {1, 9}}), "not refused");
}

TEST_F(StridedCallTest, WhatCannotBeMadeIsRefusedWithItsValues) {
  const Rows rows{2, 5};
  const std::string shared = "all_reduce: in and out share elements, but not as the in-place form";
  EXPECT_EQ(refusal_of(all_reduce(1, rows, rows)), shared);
  EXPECT_EQ(refusal_of(all_reduce(0, rows, {2, 6})), shared);
  EXPECT_EQ(refusal_of(all_reduce(11, rows, {})), shared);
  EXPECT_EQ(
      refusal_of(
          {.call = {.operation = Operation::all_gather, .in = view(0, 4), .out = view(0, 8)}, .in = rows, .out = rows}),
      "all_gather: in and out share elements, but not as the in-place form")
      << "another rank's block";
  EXPECT_EQ(refusal_of(all_reduce(30, {-1, 5}, {})),
            "all_reduce: in has rows of -1 elements at stride 5; a row has 1 element or more, or the buffer no rows (0 "
            "at stride 0)");
  EXPECT_EQ(refusal_of(all_reduce(30, {}, {0, 5})),
            "all_reduce: out has rows of 0 elements at stride 5; give the elements of a row, or stride 0");
  EXPECT_EQ(refusal_of(all_reduce(30, {3, 2}, {})),
            "all_reduce: in has rows of 3 elements at stride 2; the stride is at least the elements of a row");
  EXPECT_EQ(refusal_of(all_reduce(30, {}, {4, 5})),
            "all_reduce: out has rows of 4 elements at stride 5; 6 elements are not a multiple of that");
  EXPECT_EQ(refusal_of(all_reduce(30, {1, std::int64_t{1} << 57}, {})),
            "all_reduce: in has rows of 1 elements at stride 144115188075855872; no memory holds 6 of them");
  EXPECT_EQ(refusal_of({.call = {}}), "barrier: it has no buffers to lie in rows");
  StridedCall call = all_reduce(30, rows, rows);
  call.call.out.count = 4;
  EXPECT_EQ(refusal_of(call), "all_reduce: out has 4 elements, needs 6");
}

TEST_F(StridedCallTest, IsDescribedByItsRows) {
  EXPECT_EQ(describe(all_reduce(30, {2, 5}, {}), 2), "all_reduce(f32 x 6, sum), in rows of 2 at stride 5");
  EXPECT_EQ(describe(all_reduce(30, {}, {3, 4}), 2), "all_reduce(f32 x 6, sum), out rows of 3 at stride 4");
}

}  // namespace
}  // namespace plumbline::comm
