#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "harness/subject/mpi/job_test.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::subject::mpi {
namespace {

using namespace comm;

using MpiReductions = MpiTest;
using MpiMovement = MpiTest;
using MpiNumbers = MpiTest;
using MpiUnderWay = MpiTest;
using MpiMessages = MpiTest;

TEST_F(MpiReductions, AllReduceGivesEveryRankTheResultInAndOutOfPlace) {
  common.all_reduce_gives_every_rank_the_result();
}
TEST_F(MpiReductions, ReduceGivesTheRootTheResultInAndOutOfPlace) { common.reduce_gives_the_root_the_result(); }
TEST_F(MpiReductions, ReduceScatterGivesEachRankItsPartAndInPlaceLeavesTheOthers) {
  common.reduce_scatter_gives_each_rank_its_part();
}

TEST_F(MpiMovement, BroadcastGivesEveryRankTheRootsElements) { common.broadcast_gives_every_rank_the_roots_elements(); }
TEST_F(MpiMovement, AllGatherGivesEveryRankAllBlocksInAndOutOfPlace) {
  common.all_gather_gives_every_rank_all_blocks();
}
TEST_F(MpiMovement, GatherGivesTheRootAllBlocksInAndOutOfPlace) { common.gather_gives_the_root_all_blocks(); }
TEST_F(MpiMovement, ScatterGivesEachRankItsBlockInAndOutOfPlace) { common.scatter_gives_each_rank_its_block(); }
TEST_F(MpiMovement, AllToAllExchangesBlocksInAndOutOfPlace) { common.all_to_all_exchanges_blocks(); }

// Of the clock that all processes of a machine share.
std::int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

TEST_F(MpiMovement, NobodyLeavesABarrierBeforeAllHaveEntered) {
  for (const Mode mode : kModes)
    for (int late = 0; late < n; ++late) {
      world.barrier();
      if (me == late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::int64_t last_entry = now();
      make(world, {.operation = Operation::barrier}, mode);
      const std::int64_t left = now();
      world.all_reduce({&last_entry, 1, DType::i64}, {&last_entry, 1, DType::i64}, ReduceOp::max);
      EXPECT_GE(left, last_entry);
    }
}

// ---- numbers ----

TEST_F(MpiNumbers, AMeanOfLargeHalvesDoesNotOverflow) {
  for (const Mode mode : kModes) {
    Elements data(DType::f16, std::vector<double>(20, 60000));
    make(world, {.operation = Operation::all_reduce, .op = ReduceOp::avg, .in = data.view(), .out = data.view()}, mode);
    EXPECT_TRUE(data == Elements(DType::f16, std::vector<double>(20, 60000)));
  }
}

TEST_F(MpiNumbers, AMeanOfHalvesIsRoundedOnce) {
  // In f16, 2048 + 1 is 2048 again; the f32 sum keeps the ones.
  Elements data(DType::f16, std::vector<double>{me == 0 ? 2048.0 : 1.0});
  world.all_reduce(data.view(), data.view(), ReduceOp::avg);
  EXPECT_TRUE(data == Elements(DType::f16, std::vector<double>{(2047.0 + n) / n}));
}

TEST_F(MpiNumbers, SumsOfHalvesAreRoundedAtEachAdditionAsDeclared) {
  EXPECT_TRUE(world.capabilities().rounds_each_half_addition);
  // 256 + 1 is 256 again in bf16; with two ranks there is one order of additions only.
  if (n != 2) return;
  Elements data(DType::bf16, std::vector<double>(20, me == 0 ? 256.0 : 1.0));
  world.all_reduce(data.view(), data.view(), ReduceOp::sum);
  EXPECT_TRUE(data == Elements(DType::bf16, std::vector<double>(20, 256.0)));
}

TEST_F(MpiNumbers, ASumWithFactorsIsOfProductsInTheAccumulator) {
  const double factor = me == 0 ? 1 : 0.5;
  double sum = 2;
  for (int rank = 1; rank < n; ++rank) sum += 0.5 * (rank + 2);
  for (const Timeout limit : {Timeout{}, Timeout{std::chrono::seconds(30)}})
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
      Elements in(dtype, std::vector<double>(20, me + 2.0)), out(dtype, 20);
      world.run_scaled({.operation = Operation::all_reduce, .in = in.view(), .out = out.view()}, factor, limit);
      EXPECT_TRUE(out == Elements(dtype, std::vector<double>(20, sum)));
      EXPECT_TRUE(in == Elements(dtype, std::vector<double>(20, me + 2.0)));
    }
  // In f16, 2048 + 1 is 2048 again; the f32 sum keeps what others add.
  Elements data(DType::f16, std::vector<double>{me == 0 ? 2048.0 : 4.0});
  world.run_scaled({.operation = Operation::all_reduce, .in = data.view(), .out = data.view()}, me == 0 ? 1 : 0.25);
  if (n == 3) {
    EXPECT_TRUE(data == Elements(DType::f16, std::vector<double>{2050.0}));
  }
}

// Whole rows are a datatype of MPI's; rank 0 alone has blocks that end within a row, which are packed.
TEST_F(MpiNumbers, RowsWithGapsMatchOtherRows) {
  const comm::Rows rows = me == 0 ? comm::Rows{n, n + 1} : comm::Rows{3, 5};
  std::vector<float> column(6), all(static_cast<std::size_t>(3 * rows.stride + 5 * n), -1), expected = all;
  for (std::size_t i = 0; i < 3; ++i) column[2 * i] = static_cast<float>(10 * me + static_cast<int>(i));
  for (int i = 0; i < 3 * n; ++i)
    expected[static_cast<std::size_t>(i / rows.columns * rows.stride + i % rows.columns)] =
        static_cast<float>(i / 3 * 10 + i % 3);
  const comm::StridedCall gather{.call = {.operation = Operation::all_gather,
                                          .in = {column.data(), 3, DType::f32},
                                          .out = {all.data(), 3 * n, DType::f32}},
                                 .in = {1, 2},
                                 .out = rows};
  for (const Timeout limit : {Timeout{}, Timeout{std::chrono::seconds(30)}}) {
    std::ranges::fill(all, -1.F);
    world.run_strided(gather, limit);
    EXPECT_EQ(all, expected);
  }
  std::vector<float> sum(3);
  world.run_strided(
      {.call = {.operation = Operation::all_reduce, .in = gather.call.in, .out = Buffer::of(sum)}, .in = {1, 2}});
  EXPECT_EQ(sum[2], static_cast<float>(5 * n * (n - 1) + 2 * n));
}

TEST_F(MpiNumbers, MinAndMaxOfBoolAreAndAndOr) {
  const std::vector<std::uint8_t> mine{1, 0, me == 0, me != 0};
  std::vector<std::uint8_t> all(mine.size());
  const ConstBuffer in{mine.data(), 4, DType::boolean};
  const Buffer out{all.data(), 4, DType::boolean};
  for (const Mode mode : kModes) {
    make(world, {.operation = Operation::all_reduce, .op = ReduceOp::min, .in = in, .out = out}, mode);
    EXPECT_EQ(all, (std::vector<std::uint8_t>{1, 0, n == 1, 0}));
    make(world, {.operation = Operation::all_reduce, .op = ReduceOp::max, .in = in, .out = out}, mode);
    EXPECT_EQ(all, (std::vector<std::uint8_t>{1, 0, 1, n > 1}));
  }
}

// i times (2 + i) to the power of n - 1; an average of what differs by rank.
TEST_F(MpiNumbers, ComplexNumbersAreMultipliedAsSuchAndAddedByParts) {
  const std::vector<double> mine = me == 0 ? std::vector<double>{0, 1} : std::vector<double>{2, 1};
  std::vector<double> all(2), right{0, 1};
  for (int rank = 1; rank < n; ++rank) right = {2 * right[0] - right[1], right[0] + 2 * right[1]};
  const ConstBuffer in{mine.data(), 1, DType::c128};
  const Buffer out{all.data(), 1, DType::c128};
  const std::vector<float> narrow(mine.begin(), mine.end());
  std::vector<float> mean(2);
  for (const Mode mode : kModes) {
    make(world, {.operation = Operation::all_reduce, .op = ReduceOp::product, .in = in, .out = out}, mode);
    EXPECT_EQ(all, right);
    make(world,
         {.operation = Operation::all_reduce,
          .op = ReduceOp::avg,
          .in = {narrow.data(), 1, DType::c64},
          .out = {mean.data(), 1, DType::c64}},
         mode);
    EXPECT_EQ(mean, (std::vector<float>{2.0f * static_cast<float>(n - 1) / static_cast<float>(n), 1}));
  }
}

// With 256 and 8 in e4m3, whose numbers are 32 apart there, an average in f32 keeps what a sum of two loses.
TEST_F(MpiNumbers, FormatsOf8BitsAreMovedAsTheyAreAndRoundedAtEachAddition) {
  std::vector<std::uint8_t> patterns(256), received(256);
  for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint8_t>(i);
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2}) {
    if (me == n - 1) received = patterns;
    world.broadcast({received.data(), 256, dtype}, n - 1);
    EXPECT_EQ(received, patterns);
    std::ranges::fill(received, 0);
  }
  std::uint8_t number = (me == 0 ? to_float8_e4m3(256) : to_float8_e4m3(8)).bits;
  std::uint8_t sum = 0, mean = 0;
  world.all_reduce({&number, 1, DType::f8_e4m3}, {&sum, 1, DType::f8_e4m3}, ReduceOp::sum);
  world.all_reduce({&number, 1, DType::f8_e4m3}, {&mean, 1, DType::f8_e4m3}, ReduceOp::avg);
  if (n == 2) {
    EXPECT_EQ(to_float(Float8E4M3{sum}), 256);
  }
  EXPECT_EQ(mean, to_float8_e4m3((256.0f + 8.0f * static_cast<float>(n - 1)) / static_cast<float>(n)).bits);
  number = to_float8_e5m2(1).bits;
  world.all_reduce({&number, 1, DType::f8_e5m2}, {&sum, 1, DType::f8_e5m2}, ReduceOp::sum);
  EXPECT_EQ(to_float(Float8E5M2{sum}), static_cast<float>(n));
}

TEST_F(MpiNumbers, MinAndMaxHandOnNanAndOrderTheZeros) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Mode mode : kModes)
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
      for (int odd = 0; odd < n; ++odd)
        for (const bool is_max : {false, true}) {
          const double zero = is_max ? -0.0 : 0.0;  // of all ranks but one
          Elements in(dtype,
                      std::vector<double>{me == odd ? nan : 1.0, me == odd ? -zero : zero, me == odd ? 3.0 : 2.0});
          Elements out(dtype, 3);
          const ReduceOp op = is_max ? ReduceOp::max : ReduceOp::min;
          make(world, {.operation = Operation::all_reduce, .op = op, .in = in.view(), .out = out.view()}, mode);
          const double expected = n == 1 || is_max ? 3.0 : 2.0;
          EXPECT_TRUE(out == Elements(dtype, std::vector<double>{nan, -zero, expected}))
              << name_of(dtype) << " " << name_of(op);
        }
}

TEST_F(MpiNumbers, IntegersWrap) {
  const std::size_t c = 100;  // longer than a vector
  std::vector<std::uint8_t> bytes(c, 200);
  world.all_reduce({bytes.data(), 100, DType::u8}, {bytes.data(), 100, DType::u8}, ReduceOp::sum);
  EXPECT_THAT(bytes, testing::Each(static_cast<std::uint8_t>(200 * n)));
  std::vector<std::uint8_t> factors(c, 17);
  world.all_reduce({factors.data(), 100, DType::u8}, {factors.data(), 100, DType::u8}, ReduceOp::product);
  unsigned product = 1;
  for (int rank = 0; rank < n; ++rank) product *= 17;
  EXPECT_THAT(factors, testing::Each(static_cast<std::uint8_t>(product)));
  std::vector<std::int32_t> words(c, std::numeric_limits<std::int32_t>::max());
  world.all_reduce({words.data(), 100, DType::i32}, {words.data(), 100, DType::i32}, ReduceOp::sum);
  EXPECT_THAT(words, testing::Each(static_cast<std::int32_t>(0x7fffffffu * static_cast<unsigned>(n))));
  std::vector<std::int64_t> longs(c, std::numeric_limits<std::int64_t>::max());
  world.all_reduce({longs.data(), 100, DType::i64}, {longs.data(), 100, DType::i64}, ReduceOp::sum);
  EXPECT_THAT(longs, testing::Each(static_cast<std::int64_t>(0x7fffffffffffffffu * static_cast<std::uint64_t>(n))));
}

std::int64_t hash_of(const std::vector<std::byte>& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return static_cast<std::int64_t>(comm::Fnv1a().add(text).value());
}

TEST_F(MpiNumbers, AllRanksGetTheSameBitsFromDataThatRounds) {
  if (!world.capabilities().has(Capability::equal_results)) return;
  // Sizes for which Open MPI takes different algorithms; cut into tiny segments, small ones will do.
  const std::size_t largest = job_options().contains("segment_elements") ? 1000 : 150000;
  for (const Mode mode : {Mode::blocking, Mode::started})
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::product})
        for (const std::size_t c : {1, 3, 50, 1000, 5000, 150000}) {
          if (c > largest || (c > 5000 && op != ReduceOp::sum)) continue;
          std::vector<double> mine(c);
          for (std::size_t i = 0; i < c; ++i)
            mine[i] = std::sin(static_cast<double>(i * un + um) + 0.5) * std::exp2(static_cast<double>(i % 5));
          Elements in(dtype, mine);
          std::vector<std::byte> out(c * size_of(dtype));
          make(world,
               {.operation = Operation::all_reduce,
                .op = op,
                .in = in.view(),
                .out = {out.data(), static_cast<std::int64_t>(c), dtype}},
               mode);
          const std::int64_t hash = hash_of(out);
          std::vector<std::int64_t> hashes(un);
          world.all_gather({&hash, 1, DType::i64}, {hashes.data(), n, DType::i64});
          EXPECT_THAT(hashes, testing::Each(hash)) << name_of(dtype) << " " << name_of(op) << " x " << c;
        }
}

// Four times 2 GiB on two ranks, half a minute. By hand:
// mpirun -n 2 tests/mpi_test --gtest_also_run_disabled_tests --gtest_filter=MpiLarge.*
using MpiLarge = MpiTest;

TEST_F(MpiLarge, DISABLED_CountsAbove2To31AreMovedAndAddedWhole) {
  const std::size_t count = (std::size_t{1} << 31) + 1000;
  const auto given_byte = [](int rank, std::size_t i) {
    return static_cast<std::uint8_t>(i + (i >> 20) * 7 + static_cast<std::size_t>(rank) * 101);
  };
  const auto first_wrong = [](const std::vector<std::uint8_t>& bytes, const auto& expected) {
    std::size_t i = 0;
    while (i < bytes.size() && bytes[i] == expected(i)) ++i;
    return i;
  };
  const auto view = [](std::vector<std::uint8_t>& bytes) {
    return Buffer{bytes.data(), static_cast<std::int64_t>(bytes.size()), DType::u8};
  };
  std::vector<std::uint8_t> in(count);
  std::vector<std::uint8_t> out(count);
  for (std::size_t i = 0; i < count; ++i) in[i] = given_byte(me, i);
  world.all_reduce(view(in), view(out), ReduceOp::sum);
  EXPECT_EQ(first_wrong(out,
                        [&](std::size_t i) {
                          std::uint8_t sum = 0;
                          for (int rank = 0; rank < n; ++rank)
                            sum = static_cast<std::uint8_t>(sum + given_byte(rank, i));
                          return sum;
                        }),
            count);
  world.broadcast(view(in), n - 1);
  EXPECT_EQ(first_wrong(in, [&](std::size_t i) { return given_byte(n - 1, i); }), count);
}

// ---- calls under way ----

TEST_F(MpiUnderWay, ManyCallsAreWaitedForInAnyOrder) { common.many_are_waited_for_in_any_order(); }

TEST_F(MpiUnderWay, TestDoesNotBlockAndEndsByItself) {
  Elements in(DType::f16, gift(me, 300, 0, n));
  Elements out(DType::f16, 300);
  Work work =
      world.start({.operation = Operation::all_reduce, .op = ReduceOp::avg, .in = in.view(), .out = out.view()});
  while (!work.test()) std::this_thread::yield();
  EXPECT_TRUE(out == Elements(DType::f16, folded(ReduceOp::avg, n, 300)));
  work.wait();
  EXPECT_TRUE(work.test());
}

TEST_F(MpiUnderWay, OneWorkStandsForABatchOfDifferentCalls) {
  Elements sum(DType::f32, gift(me, 20));
  Elements mean(DType::bf16, gift(me, 20, 0, n));
  Elements copy(DType::i64, gift(me, 9));
  Elements in(DType::u8, load(me, 4));
  Elements all(DType::u8, 4 * un);
  Elements scattered(DType::f64, gift(me, 6 * un));
  const Call calls[] = {
      {.operation = Operation::all_reduce, .in = sum.view(), .out = sum.view()},
      {.operation = Operation::all_reduce, .op = ReduceOp::avg, .in = mean.view(), .out = mean.view()},
      {.operation = Operation::broadcast, .root = n - 1, .out = copy.view()},
      {.operation = Operation::all_gather, .in = in.view(), .out = all.view()},
      {.operation = Operation::reduce_scatter, .in = scattered.view(), .out = scattered.part(6 * um, 6)},
      {.operation = Operation::barrier}};
  world.start(calls).wait();
  EXPECT_TRUE(sum == Elements(DType::f32, folded(ReduceOp::sum, n, 20)));
  EXPECT_TRUE(mean == Elements(DType::bf16, folded(ReduceOp::avg, n, 20)));
  EXPECT_TRUE(copy == Elements(DType::i64, gift(n - 1, 9)));
  EXPECT_TRUE(all == Elements(DType::u8, blocks(n, 4)));
  Elements expected(DType::f64, folded(ReduceOp::sum, n, 6, 6 * um));
  EXPECT_EQ(std::memcmp(scattered.part(6 * um, 6).data, expected.data(), 6 * sizeof(double)), 0);
}

TEST_F(MpiUnderWay, AnEmptyBatchIsComplete) { world.start(std::span<const Call>{}).wait(); }

TEST_F(MpiUnderWay, AStartedCallOutlivesItsCommunicator) {
  Elements data(DType::f32, gift(me, 5000));
  auto group = world.duplicate();
  Work work = group->start({.operation = Operation::all_reduce, .in = data.view(), .out = data.view()});
  group.reset();
  work.wait();
  EXPECT_TRUE(data == Elements(DType::f32, folded(ReduceOp::sum, n, 5000)));
}

// ---- messages ----

TEST_F(MpiMessages, MatchByTagAndInOrderAroundARing) { common.messages_match_by_tag_and_in_order_around_a_ring(); }

TEST_F(MpiMessages, BlockingFormsOfEveryTypeAndModeArrive) {
  common.each_movement([&](Mode mode, DType dtype, std::size_t c) {
    if (n == 1) return;
    Elements data(dtype, gift(me, c));
    if (me == 0)
      make(world, {.operation = Operation::send, .root = n - 1, .tag = 4, .in = data.view()}, mode);
    else if (me == n - 1) {
      make(world, {.operation = Operation::recv, .root = 0, .tag = 4, .out = data.view()}, mode);
      EXPECT_TRUE(data == Elements(dtype, gift(0, c)));
    }
  });
}

TEST_F(MpiMessages, ARankMaySendToItself) {
  Elements in(DType::i64, gift(me, 20000));
  Elements out(DType::i64, 20000);
  const Call calls[] = {{.operation = Operation::send, .root = me, .tag = 3, .in = in.view()},
                        {.operation = Operation::recv, .root = me, .tag = 3, .out = out.view()}};
  world.start(calls).wait();
  EXPECT_TRUE(in == out);
}

TEST_F(MpiMessages, MemoryOfAnotherDeviceIsRefusedBeforeAnythingHappens) {
  float value = 1;
  const Buffer there{&value, 1, DType::f32, {Device::Kind::cuda, 1}};
  try {
    world.all_reduce(there, there, ReduceOp::sum);
    FAIL() << "not refused";
  } catch (const Unsupported& error) {
    EXPECT_STREQ(error.what(), "all_reduce: memory on cuda:1 is not supported by backend mpi, only cpu");
  }
  world.barrier();
}

}  // namespace
}  // namespace plumbline::subject::mpi
