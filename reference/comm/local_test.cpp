#include "reference/comm/local.hpp"

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

// What a backend must do for its callers is in conformance/collectives. Here: what only the inside of this backend can
// get wrong, that is its paths (inline, closed and open parts), its postings under many calls, and its failures.
namespace plumbline::comm {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

LocalOptions small_paths(std::size_t inline_bytes, int cores = 0) {
  return {.timeout = 20s, .inline_bytes = inline_bytes, .block_bytes = 64, .cache_bytes = 1 << 14, .cores = cores};
}

template <class T>
ConstBuffer in(const std::vector<T>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), sizeof(T) == 4 ? DType::f32 : DType::i64};
}
template <class T>
Buffer out(std::vector<T>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), sizeof(T) == 4 ? DType::f32 : DType::i64};
}

float given(int rank, std::size_t i) { return static_cast<float>(rank + 1) * static_cast<float>(i % 7 + 1); }

std::vector<float> gift(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = given(rank, i);
  return values;
}

std::vector<float> total(int ranks, std::size_t count) {
  std::vector<float> values(count);
  for (int rank = 0; rank < ranks; ++rank)
    for (std::size_t i = 0; i < count; ++i) values[i] += given(rank, i);
  return values;
}

class LocalPaths : public testing::TestWithParam<std::tuple<int, std::size_t, int>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  LocalOptions options() const { return small_paths(std::get<1>(GetParam()), std::get<2>(GetParam())); }
};

TEST_P(LocalPaths, BlocksOfDifferentLengthsAreTakenBesideStartedCalls) {
  run_ranks(
      ranks(),
      [&](Communicator& world) {
        const auto un = static_cast<std::size_t>(world.size()), um = static_cast<std::size_t>(world.rank());
        const auto mine = gift(world.rank(), 300);
        std::vector<std::int64_t> counts(un);
        std::iota(counts.begin(), counts.end(), std::int64_t{0});
        const auto all = static_cast<std::size_t>(std::reduce(counts.begin(), counts.end()));
        for (int turn = 0; turn < 50; ++turn) {
          std::vector<float> sum(300), gathered(all), own(um);
          Work work = world.start(Call{.operation = Operation::all_reduce, .in = in(mine), .out = out(sum)});
          world.run_uneven({.in = {mine.data(), world.rank(), DType::f32}, .out = out(gathered), .out_counts = counts});
          std::vector<float> expected;
          for (std::size_t rank = 0; rank < un; ++rank)
            for (std::size_t i = 0; i < rank; ++i) expected.push_back(given(static_cast<int>(rank), i));
          ASSERT_EQ(gathered, expected);
          world.run_uneven({.operation = Operation::reduce_scatter,
                            .in = {mine.data(), static_cast<std::int64_t>(all), DType::f32},
                            .out = out(own),
                            .in_counts = counts});
          const auto totals = total(world.size(), all);
          const auto begin = totals.begin() + static_cast<std::ptrdiff_t>(um * (um - (um > 0)) / 2);
          ASSERT_EQ(own, std::vector<float>(begin, begin + world.rank()));
          work.wait();
          ASSERT_EQ(sum, total(world.size(), 300));
        }
      },
      options());
}

// As a backend that is older than the optional types, or has them and reduces none.
class Claims final : public CommunicatorDecorator {
 public:
  Claims(std::unique_ptr<Communicator> inner, std::set<DType> optional)
      : CommunicatorDecorator(std::move(inner)), capabilities_(CommunicatorDecorator::capabilities()) {
    for (const DType dtype : kOptionalDTypes)
      if (!optional.contains(dtype)) capabilities_.dtypes.erase(dtype);
    capabilities_.claims.erase(Capability::float8_reductions);
    capabilities_.claims.erase(Capability::bool_reductions);
    capabilities_.claims.erase(Capability::scaled_sums);
    for (const Capability one : {Capability::shrink, Capability::grow, Capability::registered_memory,
                                 Capability::allocated_memory, Capability::strided, Capability::windows})
      capabilities_.claims.erase(one);
  }
  [[nodiscard]] const Capabilities& capabilities() const override { return capabilities_; }

 private:
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<Claims>(std::move(group), capabilities_.dtypes);
  }
  Capabilities capabilities_;
};

TEST(OptionalDTypes, AreAskedOfBackendsThatClaimThemAlone) {
  run_ranks(1, [](Communicator& world) {
    std::vector<std::uint8_t> from(4), to(4);
    const ConstBuffer in{from.data(), 4, DType::f8_e4m3};
    const Buffer out{to.data(), 4, DType::f8_e4m3};
    const std::vector<std::int64_t> counts{4};
    Claims older(world.duplicate(), {}), mover(world.duplicate(), {DType::f8_e4m3});
    const auto refused = [](const auto& action, const char* words) {
      EXPECT_THAT(action, testing::ThrowsMessage<Unsupported>(HasSubstr(words)));
    };
    refused([&] { older.all_gather(in, out); }, "all_gather(f8_e4m3 x 4): backend local has no f8_e4m3");
    refused([&] { (void)older.start({.operation = Operation::all_gather, .in = in, .out = out}); }, "has no f8_e4m3");
    refused([&] { older.run_uneven({.in = in, .out = out, .out_counts = counts}); }, "has no f8_e4m3");
    mover.all_gather(in, out);
    refused([&] { mover.all_reduce(in, out, ReduceOp::sum); },
            "all_reduce(f8_e4m3 x 4, sum): backend local has f8_e4m3 and does not reduce it");
    EXPECT_FALSE(mover.capabilities().reduces(DType::f8_e4m3, ReduceOp::sum));
    EXPECT_FALSE(mover.capabilities().reduces(DType::boolean, ReduceOp::min));
    EXPECT_TRUE(mover.capabilities().reduces(DType::u8, ReduceOp::sum));
    EXPECT_TRUE(world.capabilities().reduces(DType::boolean, ReduceOp::min));
    refused([&] { world.all_reduce({from.data(), 4, DType::boolean}, {to.data(), 4, DType::boolean}, ReduceOp::sum); },
            "all_reduce: sum of bool is not defined; use min, which is AND, or max, which is OR");
  });
}

TEST(LocalScaled, ProductsAndSumAreRoundedOnceAtTheEnd) {
  run_ranks(3, [](Communicator& world) {
    // 2048 and 1 make 2048 in f16, which has even numbers there, and 2049 in f32.
    const double factor = world.rank() == 2 ? 0.5 : 1;
    std::vector<Float16> mine{to_float16(world.rank() == 0 ? 2048.F : static_cast<float>(world.rank()))}, sum(1);
    world.run_scaled({.operation = Operation::reduce, .root = 1, .in = ConstBuffer::of(mine), .out = Buffer::of(sum)},
                     factor);
    EXPECT_EQ(to_float(sum[0]), world.rank() == 1 ? 2050.F : 0.F);
    std::vector<double> wide{3}, all(1);
    world.run_scaled({.operation = Operation::all_reduce, .in = ConstBuffer::of(wide), .out = Buffer::of(all)}, factor);
    EXPECT_EQ(all[0], 7.5);
    world.run_scaled({.operation = Operation::all_reduce}, factor);  // of nothing
  });
}

TEST(LocalScaled, WhatIsNoSumOfFloatsIsRejected) {
  run_ranks(1, [](Communicator& world) {
    std::vector<float> numbers(2);
    std::vector<std::int32_t> integers(2);
    const Call sum{.operation = Operation::all_reduce, .in = ConstBuffer::of(numbers), .out = Buffer::of(numbers)};
    const auto rejected = [&]<class E>(E*, auto change, const char* words) {
      Call call = sum;
      change(call);
      EXPECT_THAT([&] { world.run_scaled(call, 2); }, testing::ThrowsMessage<E>(HasSubstr(words)));
    };
    rejected(
        static_cast<InvalidArgument*>(nullptr), [](Call& call) { call.op = ReduceOp::avg; },
        "run_scaled: all_reduce(f32 x 2, avg) is not a sum; give all_reduce, reduce or reduce_scatter with op sum");
    rejected(
        static_cast<InvalidArgument*>(nullptr), [](Call& call) { call.operation = Operation::all_gather; },
        "run_scaled: all_gather(f32 x 2) is not a sum; give all_reduce");
    rejected(
        static_cast<Unsupported*>(nullptr),
        [&](Call& call) { call.in = ConstBuffer::of(integers), call.out = Buffer::of(integers); },
        "run_scaled: all_reduce(i32 x 2, sum): dtype i32 takes no factor; give f16, bf16, f32 or f64");
    Claims older(world.duplicate(), {});
    EXPECT_THAT([&] { older.run_scaled(sum, 2); },
                testing::ThrowsMessage<Unsupported>(HasSubstr("backend local has no scaled_sums")));
  });
}

template <class T>
void expect_factor(Communicator& world, double factor, bool is_taken, const char* words = "") {
  std::vector<T> numbers(1);
  const Call sum{.operation = Operation::all_reduce, .in = ConstBuffer::of(numbers), .out = Buffer::of(numbers)};
  if (is_taken)
    EXPECT_NO_THROW(world.run_scaled(sum, factor)) << factor;
  else
    EXPECT_THAT([&] { world.run_scaled(sum, factor); }, testing::ThrowsMessage<InvalidArgument>(HasSubstr(words)));
}

TEST(LocalScaled, AFactorIsInTheRangeOfTheDType) {
  run_ranks(1, [](Communicator& world) {
    constexpr double bf16 = 0x1.fep127, f32 = std::numeric_limits<float>::max();
    expect_factor<Float16>(world, 65504, true);
    expect_factor<Float16>(world, -65505, false,
                           "run_scaled: all_reduce(f16 x 1, sum): factor -65505 is beyond f16, whose largest number is "
                           "65504");
    expect_factor<BFloat16>(world, bf16, true);
    expect_factor<BFloat16>(world, f32, false, "is beyond bf16");
    expect_factor<float>(world, -f32, true);
    expect_factor<float>(world, 0.1, true);
    expect_factor<float>(world, 1e300, false, "factor 1e+300 is beyond f32");
    expect_factor<double>(world, 1e300, true);
    for (const double special : {std::numeric_limits<double>::infinity(), std::nan("")})
      expect_factor<Float16>(world, special, true);
    std::vector<float> product{2};
    const Buffer it = Buffer::of(product);
    world.run_scaled({.operation = Operation::all_reduce, .in = it, .out = it}, -HUGE_VAL);
    EXPECT_EQ(product[0], -HUGE_VALF);
  });
}

// A column each of two ranks' matrices, of which one is turned round.
TEST(LocalStrided, MembersMayHaveOtherRows) {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> matrix{1, 2, 3, 4, 5, 6}, sum(2, 7);
    const bool is_column = world.rank() == 0;
    const StridedCall call{
        .call = {.operation = Operation::all_reduce, .in = {matrix.data() + 1, 2, DType::f32}, .out = Buffer::of(sum)},
        .in = is_column ? Rows{1, 3} : Rows{}};
    world.run_strided(call);
    EXPECT_THAT(sum, testing::ElementsAre(4, 8));
    Claims older(world.duplicate(), {});
    EXPECT_THAT([&] { older.run_strided(call); },
                testing::ThrowsMessage<Unsupported>(HasSubstr("backend local has no strided")));
    StridedCall elsewhere = call;
    elsewhere.call.in.device = elsewhere.call.out.device = {Device::Kind::cuda, 0};
    EXPECT_THAT(
        [&] { world.run_strided(elsewhere); },
        testing::ThrowsMessage<Unsupported>(HasSubstr("memory on cuda:0 is not supported by backend local, only cpu")));
  });
}

TEST(LocalWindow, HasPutsAndSignalsOfMembersOfAnyLength) {
  run_ranks(3, [](Communicator& world) {
    std::vector<float> memory(world.rank() == 2 ? 0 : 4, -1);
    const auto window = world.create_window(Buffer::of(memory));
    EXPECT_EQ(window->bytes(0), 16);
    EXPECT_EQ(window->bytes(2), 0);
    const std::vector<float> mine{1.F + static_cast<float>(world.rank()), 10};
    window->put({}, 2, 0);
    if (world.rank() == 0) window->put(ConstBuffer::of(mine), 1, 4);
    window->signal(1);
    if (world.rank() == 1) {
      window->wait(0);
      window->wait(1);  // itself
      window->wait(2);
      EXPECT_THAT(memory, testing::ElementsAre(-1, 1, 10, -1));
    }
    window->close();
    EXPECT_THAT([&] { window->signal(0); }, testing::ThrowsMessage<StateError>(HasSubstr("the window is closed")));
  });
}

TEST(LocalWindow, WhatIsNotWithinItIsRejected) {
  run_ranks(1, [](Communicator& world) {
    std::vector<float> memory(3);
    const auto window = world.create_window(Buffer::of(memory));
    const std::vector<float> two{1, 2};
    const auto rejected = [](const auto& action, const char* words) {
      EXPECT_THAT(action, testing::ThrowsMessage<InvalidArgument>(HasSubstr(words)));
    };
    const std::string past = "put: 8 bytes at byte 5 of rank 0, whose window has 12 bytes";
    rejected([&] { window->put(ConstBuffer::of(two), 0, 5); }, past.c_str());
    rejected([&] { window->put(ConstBuffer::of(two), 0, -4); }, "at byte -4 of rank 0");
    rejected([&] { window->put({}, 0, 13); }, "0 bytes at byte 13 of rank 0");
    rejected([&] { window->put(ConstBuffer::of(two), 0, std::numeric_limits<std::int64_t>::max()); },
             "whose window has");
    rejected([&] { window->put({nullptr, 1, DType::f32}, 0, 0); }, "put: it has 1 elements and a null pointer");
    rejected([&] { window->put({two.data(), -1, DType::f32}, 0, 0); }, "put: it has -1 elements; a count is 0 or more");
    rejected([&] { window->put({two.data(), std::int64_t{1} << 62, DType::f32}, 0, 0); },
             "no memory holds that number");
    rejected([&] { window->put(ConstBuffer::of(two), 1, 0); }, "put: 1 is not a rank of the window's group of 1");
    rejected([&] { window->signal(-1); }, "signal: -1 is not a rank");
    rejected([&] { window->signal(0, 4); }, "signal: context 4 is not in [0, 4)");
    rejected([&] { window->wait(0, 0); }, "wait: 0 signals; a wait is for 1 or more");
    rejected([&] { (void)world.create_window({nullptr, 1, DType::u8}); },
             "create_window: it has 1 elements and a null pointer");
    EXPECT_THAT(memory, testing::Each(0));
    window->close();
    Claims older(world.duplicate(), {});
    EXPECT_THAT([&] { (void)older.create_window({}); },
                testing::ThrowsMessage<Unsupported>(HasSubstr("create_window: backend local has no windows")));
    EXPECT_THAT([&] { (void)world.create_window({memory.data(), 3, DType::f32, {Device::Kind::cuda, 0}}); },
                testing::ThrowsMessage<Unsupported>(HasSubstr("memory on cuda:0 is not supported by backend local")));
  });
}

// Who waits for a member that has gone, or in a group that another has left with a window open, hears of it.
TEST(LocalWindow, ThatIsDestroyedOpenFailsTheGroup) {
  run_ranks(2, [](Communicator& world) {
    auto group = world.duplicate();
    auto window = group->create_window({});
    if (world.rank() == 1)
      window.reset();
    else
      EXPECT_THAT([&] { window->wait(1); },
                  testing::ThrowsMessage<PeerFailed>(HasSubstr("rank 1 destroyed a window that was not closed")));
    world.barrier();
    if (world.rank() == 0) {
      EXPECT_THAT([&] { window->put({}, 1, 0); }, testing::Throws<PeerFailed>());
      EXPECT_THAT([&] { window->signal(1); }, testing::Throws<PeerFailed>());
    }
  });
}

TEST(LocalUneven, AnErrorNamesTheOperationAndWhoIsMissing) {
  run_ranks(
      3,
      [](Communicator& world) {
        const auto victim = world.duplicate();
        const std::vector<std::int64_t> none(3);
        if (world.rank() == 0) try {
            victim->run_uneven({.operation = Operation::all_to_all, .in_counts = none, .out_counts = none}, 20ms);
            ADD_FAILURE() << "no error";
          } catch (const TimeoutError& error) {
            EXPECT_THAT(error.what(), HasSubstr("all_to_all_v #1 on [0 1 2], rank 0"));
            EXPECT_THAT(error.what(), HasSubstr("for rank 1, 2"));
          }
        world.barrier();
      },
      small_paths(0));
}

TEST_P(LocalPaths, EveryCollectiveGivesItsResultInAndOutOfPlace) {
  run_ranks(
      ranks(),
      [&](Communicator& world) {
        const int n = world.size();
        const auto un = static_cast<std::size_t>(n);
        const int me = world.rank();
        const auto um = static_cast<std::size_t>(me);
        for (const std::size_t c : {std::size_t{1}, std::size_t{3}, std::size_t{40}, std::size_t{1000}}) {
          const auto mine = gift(me, c);
          std::vector<float> result(c);
          world.all_reduce(in(mine), out(result), ReduceOp::sum);
          ASSERT_EQ(result, total(n, c));
          auto place = mine;
          world.all_reduce(out(place), out(place), ReduceOp::sum);
          ASSERT_EQ(place, total(n, c));

          std::vector<float> gathered(c * un, -1);
          world.all_gather(in(mine), out(gathered));
          std::vector<float> expected;
          for (int rank = 0; rank < n; ++rank) {
            const auto theirs = gift(rank, c);
            expected.insert(expected.end(), theirs.begin(), theirs.end());
          }
          ASSERT_EQ(gathered, expected);
          std::vector<float> in_place(c * un, -1);
          std::copy(mine.begin(), mine.end(), in_place.begin() + static_cast<long>(um * c));
          world.all_gather({in_place.data() + um * c, static_cast<std::int64_t>(c), DType::f32}, out(in_place));
          ASSERT_EQ(in_place, expected);

          const auto wide = gift(me, c * un);
          const auto wide_total = total(n, c * un);
          std::vector<float> part(c);
          world.reduce_scatter(in(wide), out(part), ReduceOp::sum);
          const std::vector<float> my_part(wide_total.begin() + static_cast<long>(um * c),
                                           wide_total.begin() + static_cast<long>((um + 1) * c));
          ASSERT_EQ(part, my_part);
          auto wide_place = wide;
          world.reduce_scatter(in(wide_place), {wide_place.data() + um * c, static_cast<std::int64_t>(c), DType::f32},
                               ReduceOp::sum);
          ASSERT_TRUE(std::equal(my_part.begin(), my_part.end(), wide_place.begin() + static_cast<long>(um * c)));

          std::vector<float> exchanged(c * un);
          std::vector<float> expected_exchange;
          for (int rank = 0; rank < n; ++rank) {
            const auto theirs = gift(rank, c * un);
            expected_exchange.insert(expected_exchange.end(), theirs.begin() + static_cast<long>(um * c),
                                     theirs.begin() + static_cast<long>((um + 1) * c));
          }
          world.all_to_all(in(wide), out(exchanged));
          ASSERT_EQ(exchanged, expected_exchange);
          auto exchange_place = wide;
          world.all_to_all(out(exchange_place), out(exchange_place));
          ASSERT_EQ(exchange_place, expected_exchange);

          for (int root = 0; root < n; ++root) {
            std::vector<float> sum(c);
            world.reduce(in(mine), me == root ? out(sum) : Buffer{}, ReduceOp::sum, root);
            if (me == root) {
              ASSERT_EQ(sum, total(n, c));
            }
            auto copied = me == root ? mine : std::vector<float>(c);
            world.broadcast(out(copied), root);
            ASSERT_EQ(copied, gift(root, c));
            std::vector<float> collected(me == root ? c * un : 0);
            world.gather(in(mine), out(collected), root);
            if (me == root) {
              ASSERT_EQ(collected, expected);
            }
            std::vector<float> dealt(c);
            world.scatter(me == root ? in(wide) : ConstBuffer{}, out(dealt), root);
            const auto roots = gift(root, c * un);
            ASSERT_TRUE(std::equal(dealt.begin(), dealt.end(), roots.begin() + static_cast<long>(um * c)));
          }
          world.barrier();
        }
      },
      options());
}

TEST_P(LocalPaths, ManyCallsMayBeUnderWayAndAreWaitedForInAnyOrder) {
  run_ranks(
      ranks(),
      [&](Communicator& world) {
        constexpr std::size_t calls = 100;
        std::vector<std::vector<float>> results(calls);
        std::vector<std::vector<float>> gifts;
        std::vector<Work> works;
        for (std::size_t i = 0; i < calls; ++i) {
          gifts.push_back(gift(world.rank(), i * 3 % 50));
          results[i].resize(gifts[i].size());
          works.push_back(
              world.start({.operation = Operation::all_reduce, .in = in(gifts[i]), .out = out(results[i])}));
        }
        std::vector<float> blocking(5);
        world.all_reduce(in(gift(world.rank(), 5)), out(blocking),
                         ReduceOp::sum);  // matched in order with the started ones
        ASSERT_EQ(blocking, total(world.size(), 5));
        for (std::size_t i = 0; i < calls; ++i) works[i * 7 % calls].wait();
        for (std::size_t i = 0; i < calls; ++i) ASSERT_EQ(results[i], total(world.size(), results[i].size())) << i;
      },
      options());
}

TEST_P(LocalPaths, ARankThatIsBusyElsewhereDoesNotHoldUpWhatItStarted) {
  std::atomic<bool> others_done{ranks() == 1};
  run_ranks(
      ranks(),
      [&](Communicator& world) {
        const auto mine = gift(world.rank(), 5000);
        std::vector<float> result(5000);
        Work work = world.start({.operation = Operation::all_reduce, .in = in(mine), .out = out(result)});
        if (world.rank() == 0) {
          while (!others_done) std::this_thread::yield();  // never waits before the others are through
        } else {
          work.wait();
          if (world.rank() == world.size() - 1) others_done = true;
        }
        work.wait();
        ASSERT_EQ(result, total(world.size(), 5000));
      },
      options());
}

TEST_P(LocalPaths, TestNeverBlocksAndEndsByItself) {
  run_ranks(
      ranks(),
      [&](Communicator& world) {
        const auto mine = gift(world.rank(), 300);
        std::vector<float> result(300);
        Work work = world.start({.operation = Operation::all_reduce, .in = in(mine), .out = out(result)});
        while (!work.test()) std::this_thread::yield();
        ASSERT_EQ(result, total(world.size(), 300));
        work.wait();
        world.barrier();
      },
      options());
}

TEST_P(LocalPaths, MessagesMatchByTagInOrderInBothRegimes) {
  run_ranks(
      ranks(),
      [&](Communicator& world) {
        const int to = (world.rank() + 1) % world.size();
        const int from = (world.rank() + world.size() - 1) % world.size();
        for (const std::size_t c : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{5000}}) {
          const auto first = gift(world.rank(), c);
          const auto second = gift(world.rank() + 1, c);
          const auto third = gift(world.rank() + 2, c);
          std::vector<float> a(c), b(c), d(c);
          const Call calls[] = {
              {.operation = Operation::send, .root = to, .tag = 1, .in = in(first)},
              {.operation = Operation::send, .root = to, .tag = 2, .in = in(second)},
              {.operation = Operation::send, .root = to, .tag = 1, .in = in(third)},
              {.operation = Operation::recv, .root = from, .tag = 2, .out = out(b)},
              {.operation = Operation::recv, .root = from, .tag = 1, .out = out(a)},
              {.operation = Operation::recv, .root = from, .tag = 1, .out = out(d)},
          };
          world.start(calls).wait();
          ASSERT_EQ(a, gift(from, c));
          ASSERT_EQ(b, gift(from + 1, c));
          ASSERT_EQ(d, gift(from + 2, c));
        }
      },
      options());
}

// Ranks in pairs, of which each gives and takes: who waits helps, and who is busy elsewhere need not.
TEST_P(LocalPaths, LargeMessagesAreMovedByBothSidesOrByOne) {
  run_ranks(
      ranks(),
      [&](Communicator& world) {
        const int peer = world.rank() ^ 1;
        if (peer >= world.size()) return;
        for (const std::size_t c : {0, 1, 255, 256, 257, 1024, 1025, 16384, 32769, 262147})
          for (int round = 0; round < 6; ++round) {
            const auto mine = gift(world.rank() + round, c);
            std::vector<float> got(c, -1), last(1);
            const bool gives = (world.rank() + round) % 2 == 0;
            const Call take{.operation = Operation::recv, .root = peer, .out = out(got)};
            if (gives && round / 2 == 1) {
              Work work = world.start({.operation = Operation::send, .root = peer, .in = in(mine)});
              while (!work.test()) std::this_thread::yield();
            } else if (gives) {
              world.send(in(mine), peer);
            } else if (round / 2 == 0) {
              world.recv(out(got), peer);
            } else {
              Work work = world.start(take);
              while (round / 2 == 1 && !work.test()) std::this_thread::yield();
              if (round / 2 == 2) world.recv(out(last), peer, 1);  // comes after the other's call has ended
              work.wait();
            }
            if (gives && round / 2 == 2) world.send(in(gift(0, 1)), peer, 1);
            if (!gives) {
              ASSERT_EQ(got, gift(peer + round, c));
            }
          }
      },
      options());
}

INSTANTIATE_TEST_SUITE_P(Paths, LocalPaths,
                         testing::Combine(testing::Values(1, 2, 3, 4, 7), testing::Values(0, 100, 1 << 20),
                                          testing::Values(1, 64)),
                         [](const auto& info) {
                           return "ranks" + std::to_string(std::get<0>(info.param)) + "inline" +
                                  std::to_string(std::get<1>(info.param)) + "cores" +
                                  std::to_string(std::get<2>(info.param));
                         });

// ---- groups ----

TEST(LocalGroups, ChildrenKeepTheGivenOrderAndKnowTheirWorldRanks) {
  run_ranks(5, [](Communicator& world) {
    if (world.rank() % 2 == 1) return;
    const int members[] = {4, 0, 2};
    const auto group = world.create_group(members);
    EXPECT_EQ(group->group().ranks, (std::vector{4, 0, 2}));
    EXPECT_EQ(group->rank(), world.rank() == 4 ? 0 : world.rank() == 0 ? 1 : 2);
    const int inner[] = {2, 0};
    if (group->rank() != 1) {
      const auto child = group->create_group(inner);
      EXPECT_EQ(child->group().ranks, (std::vector{2, 4}));
      std::vector<float> value{static_cast<float>(world.rank())};
      child->all_reduce(in(value), out(value), ReduceOp::sum);
      EXPECT_EQ(value[0], 6);
    }
    const auto again = world.create_group(members);
    EXPECT_NE(again->group().id, group->group().id);
    EXPECT_EQ(again->group().name, "[4 0 2] #2");
  });
}

template <class E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no exception";
  return "";
}

// Returns within 5 s once the condition holds.
void await(const std::function<bool()>& condition) {
  const auto begin = std::chrono::steady_clock::now();
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now() - begin, 5s) << "waited in vain";
    std::this_thread::yield();
  }
}

std::chrono::nanoseconds duration_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::steady_clock::now() - begin;
}

TEST(LocalGroups, AMemberThatDoesNotComeIsNamedAndFindsTheParentFailed) {
  LocalOptions options;
  options.timeout = 100ms;
  std::atomic<int> gave_up{0};
  run_ranks(
      3,
      [&](Communicator& world) {
        const auto create = [&] { (void)world.duplicate(); };
        if (world.rank() == 2)
          await([&] { return gave_up == 2; });
        else
          EXPECT_THAT(message_of<TimeoutError>(create), HasSubstr("no call from world rank 2 within 100 ms"));
        ++gave_up;
        EXPECT_THAT(message_of<PeerFailed>(create), HasSubstr("no call from world rank 2 within 100 ms"));
        EXPECT_THAT(message_of<PeerFailed>([&] { world.barrier(); }), HasSubstr("no call from world rank 2"));
        await([&] { return gave_up == 3; });
      },
      options);
}

TEST(LocalGroups, AMemberThatHasLeftEndsTheCreationAtOnce) {
  run_ranks(3, [](Communicator& world) {
    if (world.rank() == 2) return;
    const auto create = [&] { (void)world.duplicate(); };
    const auto taken = duration_of([&] { EXPECT_THAT(message_of<PeerFailed>(create), HasSubstr("rank 2 has left")); });
    EXPECT_LT(taken, 5s);
  });
}

TEST(LocalGroups, AreNumberedByTheirParent) {
  run_ranks(2, [](Communicator& world) {
    const auto left = world.duplicate();
    const auto right = world.duplicate();
    const auto of_left = left->duplicate();
    const auto of_right = right->duplicate();
    EXPECT_EQ(of_left->group().name, "[0 1]");
    EXPECT_EQ(of_right->group().name, "[0 1]");
    const std::set<std::uint64_t> ids{world.group().id, left->group().id, right->group().id, of_left->group().id,
                                      of_right->group().id};
    EXPECT_EQ(ids.size(), 5u);
  });
}

// ---- misuse and failure ----

TEST(LocalMisuse, EveryRankIsToldWhoCalledWhat) {
  const std::function<Call(int, std::vector<float>&)> calls[] = {
      [](int rank, std::vector<float>& v) {  // count
        return Call{.operation = Operation::all_reduce,
                    .in = {v.data(), rank == 1 ? 5 : 4, DType::f32},
                    .out = {v.data(), rank == 1 ? 5 : 4, DType::f32}};
      },
      [](int rank, std::vector<float>& v) {  // op
        return Call{.operation = Operation::all_reduce,
                    .op = rank == 1 ? ReduceOp::max : ReduceOp::sum,
                    .in = {v.data(), 4, DType::f32},
                    .out = {v.data(), 4, DType::f32}};
      },
      [](int rank, std::vector<float>& v) {  // dtype
        const DType dtype = rank == 1 ? DType::i32 : DType::f32;
        return Call{.operation = Operation::all_reduce, .in = {v.data(), 4, dtype}, .out = {v.data(), 4, dtype}};
      },
      [](int rank, std::vector<float>& v) {  // root
        return Call{.operation = Operation::broadcast, .root = rank == 1 ? 1 : 0, .out = {v.data(), 4, DType::f32}};
      },
      [](int rank, std::vector<float>& v) {  // operation
        return rank == 1 ? Call{.operation = Operation::barrier}
                         : Call{.operation = Operation::all_reduce,
                                .in = {v.data(), 4, DType::f32},
                                .out = {v.data(), 4, DType::f32}};
      },
  };
  for (const auto& make : calls)
    for (const int late : {0, 1, 2})
      run_ranks(3, [&](Communicator& world) {
        std::vector<float> values(5, 1.0f);
        if (world.rank() == late) std::this_thread::sleep_for(20ms);
        const std::string message = message_of<MismatchError>([&] { world.run(make(world.rank(), values)); });
        EXPECT_THAT(message, HasSubstr("the ranks disagree"));
        EXPECT_EQ(values, std::vector<float>(5, 1.0f)) << "data moved";
        EXPECT_THAT(message_of<PeerFailed>([&] { world.barrier(); }), HasSubstr("the ranks disagree"));
      });
}

TEST(LocalMisuse, ASumWithFactorsMeetsItsLikeAlone) {
  for (const DType plain : {DType::f16, DType::f32})
    for (const DType scaled : {DType::f16, DType::f32})
      run_ranks(2, [&](Communicator& world) {
        std::vector<double> room(4, 1.0);
        const auto sum_of = [&](DType dtype) {
          const Buffer it{room.data(), 4, dtype};
          return Call{.operation = Operation::all_reduce, .in = it, .out = it};
        };
        const auto make = [&] { world.rank() == 0 ? world.run_scaled(sum_of(scaled), 1) : world.run(sum_of(plain)); };
        EXPECT_EQ(message_of<MismatchError>(make),
                  "call #1 on world [0 1]: the ranks disagree: rank 0: " + describe(sum_of(scaled), 2) +
                      " with a factor; rank 1: " + describe(sum_of(plain), 2));
        EXPECT_EQ(room, std::vector<double>(4, 1.0)) << "data moved";
      });
  run_ranks(2, [](Communicator& world) {
    std::vector<double> room(1);
    const DType dtype = world.rank() == 0 ? DType::f16 : DType::f32;
    const Buffer it{room.data(), 1, dtype};
    EXPECT_THAT(message_of<MismatchError>(
                    [&] { world.run_scaled({.operation = Operation::all_reduce, .in = it, .out = it}, 1); }),
                HasSubstr("rank 0: all_reduce(f16 x 1, sum) with a factor; rank 1: all_reduce(f32 x 1, sum) with"));
  });
}

TEST(LocalFailure, ASumWithFactorsThatIsLateIsNamedAsItsCallerGaveIt) {
  std::atomic<bool> is_late{false};
  run_ranks(2, [&](Communicator& world) {
    if (world.rank() == 1) return await([&] { return is_late.load(); });
    std::vector<Float16> one(1);
    const Buffer it = Buffer::of(one);
    EXPECT_THAT(message_of<TimeoutError>([&] {
                  world.run_scaled({.operation = Operation::reduce, .root = 1, .in = it, .out = it}, 1, 20ms);
                }),
                HasSubstr("reduce(f16 x 1, sum, root 1) with a factor #1 on world [0 1], rank 0: waited 20 ms"));
    is_late = true;
  });
}

// Of dtypes and ops no two make one signature.
TEST(LocalMisuse, EveryDTypeAndOpIsToldFromTheOthers) {
  const std::pair<DType, ReduceOp> others[] = {{DType::f16, ReduceOp::avg}, {DType::bf16, ReduceOp::avg}};
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::u8})
    for (const auto& [other, op] : others)
      run_ranks(2, [&](Communicator& world) {
        std::vector<double> room(4);
        const auto called_by = [&](int rank) {
          const Buffer it{room.data(), 4, rank == 0 ? dtype : other};
          return Call{.operation = Operation::all_reduce, .op = rank == 0 ? ReduceOp::sum : op, .in = it, .out = it};
        };
        EXPECT_THAT(message_of<MismatchError>([&] { world.run(called_by(world.rank())); }),
                    HasSubstr("rank 0: " + describe(called_by(0), 2) + "; rank 1: " + describe(called_by(1), 2)));
      });
}

// ---- memory of calls ----

TEST(LocalMemory, RegistrationsAndPiecesAreThoseOfOneCommunicator) {
  run_ranks(1, [](Communicator& world) {
    const auto other = world.duplicate();
    std::vector<float> memory(4);
    const Registration first = world.register_memory(Buffer::of(memory)),
                       second = world.register_memory(Buffer::of(memory));
    EXPECT_NE(first, second);
    EXPECT_EQ(message_of<InvalidArgument>([&] { other->deregister(first); }),
              "deregister(" + std::to_string(first) +
                  "): this communicator has no such registration; give one that has not ended");
    world.deregister(first);
    EXPECT_THROW(world.deregister(first), InvalidArgument);
    world.deregister(second);
    void* const piece = world.allocate(3);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(piece) % 64, 0u);
    EXPECT_THAT(message_of<InvalidArgument>([&] { other->deallocate(piece); }), HasSubstr("did not give it out"));
    world.deallocate(nullptr);
    world.deallocate(piece);
    EXPECT_THROW(world.deallocate(piece), InvalidArgument);
    EXPECT_THROW((void)world.allocate(std::numeric_limits<std::size_t>::max() - 10), RuntimeFailure);
    (void)world.allocate(100);  // goes with the communicator
  });
}

TEST(LocalMemory, NothingIsAskedOfWhoDoesNotClaimIt) {
  run_ranks(1, [](Communicator& world) {
    Claims older(world.duplicate(), {});
    std::vector<float> memory(4);
    EXPECT_EQ(message_of<Unsupported>([&] { (void)older.register_memory(Buffer::of(memory)); }),
              "register_memory: backend local has no registered_memory");
    EXPECT_EQ(message_of<Unsupported>([&] { (void)older.allocate(1); }),
              "allocate: backend local has no allocated_memory");
    EXPECT_EQ(message_of<Unsupported>([&] { (void)older.invite(); }), "invite: backend local has no grow");
    EXPECT_EQ(message_of<InvalidArgument>([&] { (void)world.register_memory({nullptr, 3, DType::u8}); }),
              "register_memory(u8 x 3 at 0x0): there is no memory; give a buffer with elements");
    EXPECT_EQ(message_of<InvalidArgument>([&] { (void)world.allocate(0); }),
              "allocate(0): there is nothing to give; ask for 1 byte or more");
  });
}

// ---- grow ----

TEST(LocalGrow, WhatCannotBeIsRejectedWithWhatIsWrong) {
  run_ranks(2, [](Communicator& world) {
    const auto own = world.create_group(std::array{world.rank()});
    const std::string words = own->invite();
    const int other = 1 - world.rank();
    const auto grown_by = [&](const std::string& invitation, const std::vector<int>& newcomers) {
      return message_of<InvalidArgument>([&] { (void)own->grow(invitation, newcomers); });
    };
    EXPECT_EQ(grown_by(words, {}), "grow([]): no rank is new; duplicate() makes a group of the same ranks");
    EXPECT_EQ(grown_by(words, {other, other}), "grow([" + std::to_string(other) + " " + std::to_string(other) +
                                                   "]): rank " + std::to_string(other) + " stands twice");
    EXPECT_EQ(grown_by(words, {-1}), "grow([-1]): -1 is not a rank of the world");
    EXPECT_THAT(grown_by(words, {world.rank()}), HasSubstr("is a member already"));
    EXPECT_THAT(grown_by("what", {other}), HasSubstr("'what' is no invitation that is open"));
    EXPECT_THAT(grown_by(world.duplicate()->invite(), {other}), HasSubstr("invitation"))
        << "of another group, which may be gone";
    EXPECT_THAT(message_of<InvalidArgument>([&] { (void)world.join(words, std::array{other}); }),
                HasSubstr("the calling world rank " + std::to_string(world.rank()) + " is not in it"));
    world.barrier();
  });
}

TEST(LocalGrow, ANewcomerThatDoesNotComeIsNamedAtTheLimitAndTheGroupStays) {
  LocalOptions options;
  options.timeout = 300ms;
  run_ranks(
      2,
      [](Communicator& world) {
        if (world.rank() == 1) return world.barrier(60s);
        const auto own = world.create_group(std::array{0});
        const std::string words = own->invite();
        EXPECT_THAT(message_of<TimeoutError>([&] { (void)own->grow(words, std::array{1}); }),
                    HasSubstr("grow([0 1]) on [0]: no call from world rank 1 within 300 ms"));
        own->barrier();
        EXPECT_THAT(message_of<InvalidArgument>([&] { (void)own->grow(words, std::array{1}); }),
                    HasSubstr("no invitation that is open"));
        world.barrier(60s);
      },
      options);
}

// ---- shrink ----

TEST(LocalShrink, ListsThatCannotBeAreRejectedWithWhatIsWrong) {
  run_ranks(3, [](Communicator& world) {
    if (world.rank() != 0) return;
    const auto words_of_list = [&](const std::vector<int>& excluded) {
      return message_of<InvalidArgument>([&] { (void)world.shrink(excluded); });
    };
    EXPECT_EQ(words_of_list({}), "shrink([]): no rank is excluded; duplicate() makes a group of the same ranks");
    EXPECT_EQ(words_of_list({3}), "shrink([3]): 3 is not a rank of the group of 3");
    EXPECT_EQ(words_of_list({1, -1}), "shrink([1 -1]): -1 is not a rank of the group of 3");
    EXPECT_EQ(words_of_list({1, 1}), "shrink([1 1]): rank 1 stands twice");
    EXPECT_EQ(words_of_list({2, 0}), "shrink([2 0]): the calling rank 0 is in it");
  });
}

TEST(LocalShrink, IsUnsupportedWhereItIsNotClaimed) {
  run_ranks(2, [](Communicator& world) {
    Claims older(world.duplicate(), {});
    EXPECT_EQ(message_of<Unsupported>([&] { (void)older.shrink(std::array{1 - world.rank()}); }),
              "shrink([" + std::to_string(1 - world.rank()) + "]): backend local has no shrink");
  });
}

TEST(LocalShrink, AMemberThatDoesNotComeIsNamedAtTheLimitAndTheListMayBeTriedAgain) {
  LocalOptions options;
  options.timeout = 1s;
  std::atomic<bool> gave_up{false};
  run_ranks(
      3,
      [&](Communicator& world) {
        if (world.rank() == 2) return;
        const auto shrink = [&] { return world.shrink(std::array{2}); };
        if (world.rank() == 0) {
          EXPECT_THAT(message_of<TimeoutError>([&] { (void)shrink(); }),
                      HasSubstr("shrink([0 1]) on world [0 1 2]: no call from world rank 1 within 1000 ms"));
          gave_up = true;
        }
        await([&] { return gave_up.load(); });
        std::vector<float> sum(5);
        shrink()->all_reduce(in(gift(world.rank(), 5)), out(sum), ReduceOp::sum);
        EXPECT_EQ(sum, total(2, 5));
      },
      options);
}

TEST(LocalShrink, OneThatFailsLeavesTheOldGroupAsItIs) {
  LocalOptions options;
  options.timeout = 1s;
  std::atomic<bool> gave_up{false};
  run_ranks(
      3,
      [&](Communicator& world) {
        if (world.rank() == 0) {
          EXPECT_THAT(message_of<TimeoutError>([&] { (void)world.shrink(std::array{2}); }), HasSubstr("world rank 1"));
          gave_up = true;
        }
        await([&] { return gave_up.load(); });
        std::vector<float> sum(5);
        world.all_reduce(in(gift(world.rank(), 5)), out(sum), ReduceOp::sum);
        EXPECT_EQ(sum, total(3, 5));
      },
      options);
}

// Who aborts the old group when the new one is formed ends that, too, as each that is made from it.
TEST(LocalShrink, AnAbortOfTheOldGroupReachesTheNewOneOnceItIsFormed) {
  run_ranks(3, [](Communicator& world) {
    const auto group = world.duplicate();
    if (world.rank() == 2) return world.barrier();
    group->abort("reason");
    const auto left = group->shrink(std::array{2});
    left->barrier();  // the abort was before it
    world.barrier();
    if (world.rank() == 0) group->abort("once more");
    EXPECT_THAT(message_of<PeerFailed>([&] {
                  for (int i = 0; i < 100'000; ++i) left->barrier();  // ends where the abort does not reach it
                }),
                HasSubstr("reason"));
  });
}

TEST(LocalFailure, AWaitEndsAndNamesTheMissingRanks) {
  run_ranks(4, [](Communicator& world) {
    if (world.rank() == 1 || world.rank() == 3) {
      std::this_thread::sleep_for(300ms);
      EXPECT_THAT(message_of<PeerFailed>([&] { world.barrier(); }), HasSubstr("waited 100 ms for rank 1, 3"));
      return;
    }
    EXPECT_THAT(message_of<TimeoutError>([&] { world.barrier(100ms); }), HasSubstr("waited 100 ms for rank 1, 3"));
  });
}

TEST(LocalFailure, ARankThatLeavesIsNoticedAtOnce) {
  const auto begin = std::chrono::steady_clock::now();
  run_ranks(3, [](Communicator& world) {
    if (world.rank() == 2) return;
    EXPECT_THAT(message_of<PeerFailed>([&] { world.barrier(); }), HasSubstr("rank 2 has left the group"));
  });
  run_ranks(2, [](Communicator& world) {
    if (world.rank() == 1) return;
    std::vector<float> value(1);
    EXPECT_THAT(message_of<PeerFailed>([&] { world.recv(out(value), 1, 3); }),
                HasSubstr("recv(f32 x 1 from 1, tag 3)"));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
}

TEST(LocalFailure, AThrowingRankEndsTheOthersAndIsTheOneReported) {
  const auto failing = [] {
    run_ranks(4, [](Communicator& world) {
      if (world.rank() == 2) throw std::runtime_error("rank 2 has a problem");
      world.barrier();
    });
  };
  EXPECT_THAT(message_of<std::runtime_error>(failing), HasSubstr("rank 2 has a problem"));
}

TEST(LocalFailure, WhateverARankThrowsEndsTheOthersAndIsReported) {
  EXPECT_THROW(run_ranks(2,
                         [](Communicator& world) {
                           if (world.rank() == 1) throw 1;
                           EXPECT_THAT(message_of<PeerFailed>([&] { world.barrier(); }), HasSubstr("rank 1 failed"));
                         }),
               int);
}

TEST(LocalFailure, BuffersOfAnAbandonedCallAreNeverTouchedAgain) {
  // Rank 0 drops its Work and frees its buffers while the others may be about to read them: the sanitizers watch.
  for (int round = 0; round < 200; ++round)
    run_ranks(
        3,
        [&](Communicator& world) {
          try {
            auto values = std::make_unique<std::vector<float>>(3000, 1.0f);
            {
              Work work = world.start({.operation = Operation::all_reduce, .in = in(*values), .out = out(*values)});
              if (world.rank() != 0) work.wait();
            }
            values.reset();
            world.barrier();
            if (world.rank() == 0) return;
          } catch (const PeerFailed&) {
          }
        },
        small_paths(0));
}

TEST(LocalFailure, MessagesOfDifferentShapeAreRefusedOnBothSides) {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> four(4), five(5000), six(6000);
    if (world.rank() == 0)
      EXPECT_THAT(message_of<MismatchError>([&] { world.send(in(five), 1); }),
                  HasSubstr("send(f32 x 5000 to 1, tag 0) meets recv(f32 x 6000 from 0, tag 0)"));
    else
      EXPECT_THAT(message_of<MismatchError>([&] { world.recv(out(six), 0); }),
                  HasSubstr("send(f32 x 5000 to 1, tag 0) meets recv(f32 x 6000 from 0, tag 0)"));
  });
}

// Numbers as small messages and large ones, more than are in a mailbox, whose order is that of their tags' sends.
class Stream {
 public:
  explicit Stream(Communicator& world) : world_(world) {}
  static constexpr std::size_t kMessages = 60;
  static constexpr int kTags = 3;

  static int tag_of(std::size_t i) { return static_cast<int>(i) % kTags; }
  static std::size_t length_of(std::size_t i) {
    constexpr std::array<std::size_t, 6> lengths{1, 10, 11, 1024, 1025, 0};
    return lengths[i * 5 % 7 % lengths.size()];
  }
  void send_all() {
    std::vector<std::vector<float>> sent;
    std::vector<Call> calls;
    for (std::size_t i = 0; i < kMessages; ++i) {
      sent.push_back(gift(static_cast<int>(i), length_of(i)));
      calls.push_back({.operation = Operation::send, .root = 1, .tag = tag_of(i), .in = in(sent.back())});
    }
    world_.start(calls).wait();
  }
  void expect_next(std::size_t i) {
    std::vector<float> got(length_of(i));
    world_.recv(out(got), 0, tag_of(i));
    ASSERT_EQ(got, gift(static_cast<int>(i), got.size())) << i;
  }
  Work start_receives(std::vector<std::vector<float>>& got) {
    std::vector<Call> calls;
    for (std::size_t i = 0; i < kMessages; ++i) {
      got.emplace_back(length_of(i));
      calls.push_back({.operation = Operation::recv, .root = 0, .tag = tag_of(i), .out = out(got.back())});
    }
    return world_.start(calls);
  }

 private:
  Communicator& world_;
};

TEST(LocalMessages, KeepTheirOrderWhicheverSideIsFirstAndWhateverTheirSize) {
  std::atomic<int> round{0};
  run_ranks(2, [&](Communicator& world) {
    Stream stream(world);
    if (world.rank() == 0) {
      for (int i = 0; i < 4; ++i) {
        await([&] { return round.load() == i; });
        stream.send_all();
      }
      return;
    }
    round = 0;
    for (std::size_t i = 0; i < Stream::kMessages; ++i) stream.expect_next(i);
    round = 1;
    for (int tag = Stream::kTags; tag-- > 0;)
      for (std::size_t i = 0; i < Stream::kMessages; ++i)
        if (Stream::tag_of(i) == tag) stream.expect_next(i);
    for (const bool looks : {false, true}) {
      std::vector<std::vector<float>> got;
      Work work = stream.start_receives(got);
      ++round;
      if (looks) await([&] { return work.test(); });
      work.wait();
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], gift(static_cast<int>(i), got[i].size())) << i;
    }
  });
}

// The sender finds it full, and empties it: into the queue, or into receives whose rank does not look.
TEST(LocalMessages, ThatAMailboxHasNoRoomForKeepTheirOrder) {
  for (const bool receives_first : {false, true}) {
    std::atomic<bool> posted{false}, sent{false};
    run_ranks(2, [&](Communicator& world) {
      std::vector<std::vector<float>> given, got;
      for (int i = 0; i < 50; ++i) given.push_back(gift(i, i % 2 == 0 ? 1 : 1000));
      if (world.rank() == 0) {
        if (receives_first) await([&] { return posted.load(); });
        for (const auto& values : given) world.send(in(values), 1);
        sent = true;
        return;
      }
      if (!receives_first) await([&] { return sent.load(); });
      std::vector<Call> calls;
      for (const auto& values : given) got.emplace_back(values.size());
      for (auto& values : got) calls.push_back({.operation = Operation::recv, .root = 0, .out = out(values)});
      Work work = world.start(calls);
      posted = true;
      await([&] { return sent.load(); });
      work.wait();
      EXPECT_EQ(got, given);
    });
  }
}

TEST(LocalMessages, ArriveAlsoWhenTheirSenderHasLeft) {
  std::atomic<bool> waits{false};
  for (const bool first : {false, true}) {
    waits = false;
    run_ranks(2, [&](Communicator& world) {
      std::vector<float> values = gift(0, 20), got(20);
      if (world.rank() == 0) {
        if (first) await([&] { return waits.load(); });
        return world.send(in(values), 1);
      }
      Work work = world.start({.operation = Operation::recv, .root = 0, .out = out(got)});
      waits = true;
      std::this_thread::sleep_for(20ms);
      work.wait();
      EXPECT_EQ(got, values);
    });
  }
}

TEST(LocalMessages, AReceiveThatNobodyWaitedForIsCompleteWhenItsMessageHasCome) {
  std::atomic<bool> sent{false};
  run_ranks(2, [&](Communicator& world) {
    std::vector<float> values = gift(0, 3), got(3);
    if (world.rank() == 0) {
      world.send(in(values), 1);
      sent = true;
    } else {
      Work work = world.start({.operation = Operation::recv, .root = 0, .out = out(got)});
      await([&] { return sent.load(); });
      work = Work();  // does not fail the group
      EXPECT_EQ(got, values);
    }
    world.barrier();
  });
}

TEST(LocalFailure, ASmallMessageOfAnotherShapeIsRefusedByItsReceiver) {
  for (const bool first : {false, true})
    run_ranks(2, [&](Communicator& world) {
      std::vector<float> four(4), five(5);
      if ((world.rank() == 0) != first) std::this_thread::sleep_for(20ms);
      if (world.rank() == 0) return world.send(in(four), 1);
      EXPECT_THAT(message_of<MismatchError>([&] { world.recv(out(five), 0); }),
                  HasSubstr("send(f32 x 4 to 1, tag 0) meets recv(f32 x 5 from 0, tag 0)"));
    });
}

TEST(LocalFailure, AReceiveWithoutASenderTimesOut) {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> value(1);
    if (world.rank() == 0)
      EXPECT_THAT(message_of<TimeoutError>([&] { world.recv(out(value), 1, 0, 50ms); }),
                  HasSubstr("waited 50 ms for rank 1"));
    else
      std::this_thread::sleep_for(200ms);
  });
}

TEST(LocalFailure, WorkWhoseReceiveTimedOutCanBeWaitedForAgainAndDropped) {
  run_ranks(2, [](Communicator& world) {
    if (world.rank() == 0) {
      const Call nothing{.operation = Operation::recv, .root = 1};
      const Call both[] = {nothing, nothing};
      Work work = world.start(both);
      EXPECT_THROW(work.wait(20ms), TimeoutError);
      EXPECT_THROW(work.wait(20ms), PeerFailed);
      EXPECT_THROW((void)work.test(), PeerFailed);
    } else {
      std::this_thread::sleep_for(100ms);
    }
  });
}

// How rank 0, which only looks, is told that rank 1's message or call will not come.
enum class Ending { leaves, aborts };

class LocalTest : public testing::TestWithParam<Ending> {
 protected:
  static void expect_noticed(const Call& call) {
    std::atomic<bool> started{false};
    run_ranks(2, [&](Communicator& world) {
      const bool aborts = GetParam() == Ending::aborts;
      if (world.rank() == 1) {
        await([&] { return started.load(); });
        if (aborts) world.abort("rank 1 gives up");
        return;
      }
      Work work = world.start(call);
      started = true;
      EXPECT_THAT(message_of<PeerFailed>([&] { await([&] { return work.test(); }); }),
                  HasSubstr(aborts ? "rank 1 gives up" : "rank 1 has left the group"));
    });
  }
};

TEST_P(LocalTest, NoticesThatAMessageWillNotCome) {
  float value = 0;
  expect_noticed({.operation = Operation::recv, .root = 1, .out = {&value, 1, DType::f32}});
}

TEST_P(LocalTest, NoticesThatACollectiveWillNotBeJoined) { expect_noticed({.operation = Operation::barrier}); }

INSTANTIATE_TEST_SUITE_P(Endings, LocalTest, testing::Values(Ending::leaves, Ending::aborts),
                         [](const auto& info) { return info.param == Ending::leaves ? "leaves" : "aborts"; });

TEST(LocalFailure, TestNoticesAnAbortAfterThisRankHasDoneItsShare) {
  // Rank 1 naps in a call whose second part only it may do, and is likely still napping when rank 2 comes and gives up.
  LocalOptions options = small_paths(0, 64);
  options.block_bytes = 1 << 20;
  for (int round = 0; round < 10; ++round)
    run_ranks(
        3,
        [&](Communicator& world) {
          std::vector<float> values(500, 1.0f);
          const Call call{.operation = Operation::all_reduce, .in = in(values), .out = out(values)};
          if (world.rank() == 2) std::this_thread::sleep_for(20ms);
          try {
            if (world.rank() == 1) return world.run(call);
            Work work = world.start(call);
            if (world.rank() == 0) return await([&] { return work.test(); });
            std::this_thread::sleep_for(100us);
            world.abort("rank 2 gives up");
          } catch (const PeerFailed&) {
          }
        },
        options);
}

TEST(LocalFailure, ALimitHoldsForABatchAsAWhole) {
  constexpr int kMessages = 60;
  run_ranks(2, [](Communicator& world) {
    std::vector<float> room(kMessages);
    if (world.rank() == 1) {
      try {
        for (int tag = 0; tag < kMessages; ++tag) {
          std::this_thread::sleep_for(300ms);
          world.send({room.data(), 1, DType::f32}, 0, tag);
        }
      } catch (const PeerFailed&) {
      }
      return;
    }
    std::vector<Call> calls;
    for (int tag = 0; tag < kMessages; ++tag)
      calls.push_back({.operation = Operation::recv, .root = 1, .tag = tag, .out = {room.data() + tag, 1, DType::f32}});
    Work work = world.start(calls);
    const auto taken = duration_of([&] { EXPECT_THROW(work.wait(500ms), TimeoutError); });
    EXPECT_GE(taken, 500ms);
    EXPECT_LT(taken, 10s) << "each message had the whole limit";
  });
}

// Each rank comes within the limit from the one before it, so that who began anew with each would see all of them.
TEST(LocalFailure, ALimitHoldsForAllMembersAndEarlierCallsTogether) {
  for (const bool earlier : {false, true})
    run_ranks(5, [&](Communicator& world) {
      const auto call = [&] {
        Work before;
        if (earlier) before = world.start({.operation = Operation::barrier});
        world.barrier(world.rank() == 0 ? 700ms : 20s);
      };
      std::this_thread::sleep_for(world.rank() * 600ms);
      if (world.rank() != 0) {
        EXPECT_ANY_THROW(call());
        return;
      }
      const auto taken = duration_of([&] { EXPECT_THAT(message_of<TimeoutError>(call), HasSubstr("4")); });
      EXPECT_GE(taken, 700ms);
    });
}

TEST(LocalFailure, ACallThatTheOthersHaveCompletedIsNoVictimOfALaterOne) {
  std::atomic<int> failed{0};
  run_ranks(
      3,
      [&](Communicator& world) {
        const auto mine = gift(world.rank(), 5000);
        std::vector<float> result(5000);
        Work work = world.start({.operation = Operation::all_reduce, .in = in(mine), .out = out(result)});
        if (world.rank() == 2)
          await([&] { return failed == 2; });
        else
          work.wait();
        const Call second = world.rank() == 0 ? Call{.operation = Operation::barrier}
                                              : Call{.operation = Operation::broadcast, .root = 0, .out = out(result)};
        if (world.rank() == 2) work.wait();
        EXPECT_EQ(result, total(3, 5000));
        EXPECT_THAT(message_of<MismatchError>([&] { world.run(second); }), HasSubstr("the ranks disagree"));
        ++failed;
        await([&] { return failed == 3; });
      },
      small_paths(0));
}

TEST(LocalFailure, WorkThatOutlivesItsCommunicatorTellsWhetherItsCallHappened) {
  run_ranks(2, [](Communicator& world) {
    auto group = world.duplicate();
    std::vector<float> value(1);
    Work finished = group->start({.operation = Operation::barrier});
    group->barrier();
    if (world.rank() == 0) {
      Work unfinished = group->start({.operation = Operation::recv, .root = 1, .out = out(value)});
      group.reset();
      EXPECT_TRUE(finished.test());
      EXPECT_THAT(message_of<PeerFailed>([&] { (void)unfinished.test(); }), HasSubstr("its communicator is gone"));
      EXPECT_THAT(message_of<PeerFailed>([&] { unfinished.wait(); }), HasSubstr("its communicator is gone"));
    }
    world.barrier();
  });
}

TEST(LocalFailure, WorkThatIsFinishedLeavesTheGroupInPeace) {
  run_ranks(2, [](Communicator& world) {
    auto group = world.duplicate();
    Work finished = group->start({.operation = Operation::barrier});
    group->barrier();
    if (world.rank() == 0) group.reset();
    world.barrier();
    if (world.rank() == 1) {
      EXPECT_THAT(message_of<PeerFailed>([&] { group->barrier(); }), HasSubstr("rank 0 has left the group"));
    }
    finished.wait();
  });
}

TEST(LocalFailure, ADroppedCallIsNotCompletedByALaterWait) {
  std::atomic<bool> posted{false};
  run_ranks(2, [&](Communicator& world) {
    std::vector<float> dropped(4, -1.0f);
    std::vector<float> values(4, 1.0f);
    Work first = world.start({.operation = Operation::all_reduce, .in = in(values), .out = out(dropped)});
    Work second = world.start({.operation = Operation::barrier});
    if (world.rank() == 1) {
      posted = true;
      EXPECT_ANY_THROW(for (;;) world.barrier());
      return;
    }
    await([&] { return posted.load(); });
    first = Work();
    EXPECT_THROW(second.wait(), PeerFailed);
    EXPECT_THROW((void)second.test(), PeerFailed);
    EXPECT_EQ(dropped, std::vector<float>(4, -1.0f)) << "its buffer may be gone";
  });
}

TEST(LocalFailure, ABatchThatFailsHalfPostedIsTakenBack) {
  // An abort hits rank 0 while it posts receives whose buffers go with the failure: the sanitizers watch.
  for (int round = 0; round < 200; ++round)
    run_ranks(2, [&](Communicator& world) {
      try {
        std::vector<float> room(64);
        if (world.rank() == 0) {
          std::vector<Call> calls;
          for (std::size_t tag = 0; tag < room.size(); ++tag)
            calls.push_back({.operation = Operation::recv,
                             .root = 1,
                             .tag = static_cast<int>(tag),
                             .out = {&room[tag], 1, DType::f32}});
          return world.start(calls).wait();
        }
        std::jthread other([&] { world.abort("a test says so"); });
        for (std::size_t tag = 0; tag < room.size(); ++tag)
          world.send({&room[tag], 1, DType::f32}, 0, static_cast<int>(tag));
      } catch (const PeerFailed&) {
      }
    });
}

TEST(LocalFailure, AbortReachesGroupsOfGroups) {
  run_ranks(4, [](Communicator& world) {
    const int half[] = {world.rank() < 2 ? 0 : 2, world.rank() < 2 ? 1 : 3};
    const auto group = world.create_group(half);
    const auto child = group->duplicate();
    world.barrier();  // all groups are made
    if (world.rank() == 3) return world.abort("rank 3 gives up");
    EXPECT_THAT(message_of<PeerFailed>([&] {
                  for (;;) child->barrier();
                }),
                HasSubstr("rank 3 gives up"));
  });
}

TEST(LocalFailure, AnAbortAfterAFailureTellsGroupsOfTheFirst) {
  LocalOptions options;
  options.timeout = 100ms;
  std::atomic<bool> given_up{false};
  run_ranks(
      3,
      [&](Communicator& world) {
        if (world.rank() == 2) return await([&] { return given_up.load(); });
        const int both[] = {0, 1};
        const auto pair = world.create_group(both);
        EXPECT_ANY_THROW((void)world.duplicate());
        world.abort("rank 0 or 1 gives up");
        given_up = true;
        EXPECT_THAT(message_of<PeerFailed>([&] { pair->barrier(); }), HasSubstr("no call from world rank 2"));
      },
      options);
}

TEST(LocalWorldTest, RefusesSizesAndRanksThatMakeNoSense) {
  EXPECT_THROW(LocalWorld(0), InvalidArgument);
  EXPECT_THROW(LocalWorld(-3), InvalidArgument);
  EXPECT_THROW(LocalWorld(100000), InvalidArgument);
  LocalWorld world(2);
  EXPECT_THROW((void)world.communicator(2), OutOfRange);
  const auto first = world.communicator(1);
  EXPECT_THROW((void)world.communicator(1), StateError);
}

}  // namespace
}  // namespace plumbline::comm
