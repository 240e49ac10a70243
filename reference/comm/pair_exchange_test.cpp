#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"

namespace plumbline::comm {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::ThrowsMessage;

// a = 2 a + b and b = 2 b + a, times the own factor: whoever reads a value that was made sees it.
void crossed(DType, void* a, const PairFactors& of_a, void* b, const PairFactors& of_b, std::int64_t count) {
  auto* lower = static_cast<float*>(a);
  auto* higher = static_cast<float*>(b);
  for (std::int64_t i = 0; i < count; ++i) {
    const float old = lower[i];
    lower[i] = (2 * old + higher[i]) * static_cast<float>(of_a[0]);
    higher[i] = (2 * higher[i] + old) * static_cast<float>(of_b[0]);
  }
}
void summed(DType, void*, const PairFactors&, void*, const PairFactors&, std::int64_t) {}

float brought_at(int rank, std::size_t i) { return static_cast<float>((static_cast<std::size_t>(rank) * 31 + i) % 97); }
std::vector<float> brought(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = brought_at(rank, i);
  return values;
}
PairPart part_of(std::vector<float>& values, double factor = 1) { return {Buffer::of(values), {factor, 0, 0}}; }
std::vector<float> made(int rank, int peer, std::size_t count, float factor = 1) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = (2 * brought_at(rank, i) + brought_at(peer, i)) * factor;
  return values;
}
int other_of(Communicator& world) { return world.rank() ^ 1; }

template <class Ready>
void await_exchange(const Ready& ready) {
  while (!ready()) std::this_thread::yield();
}

class PairExchangeOf : public testing::TestWithParam<int> {
 protected:
  LocalOptions options() const { return {.timeout = 60s, .cores = GetParam()}; }
};

TEST_P(PairExchangeOf, BothSidesAreMadeOfWhatBothWere) {
  for (const std::vector<std::size_t>& counts :
       {std::vector<std::size_t>{1}, {15}, {17}, {0}, {1000, 1, 0, 33}, {50'000}, {7, 300'001, 2}, {3'000'000}})
    run_ranks(
        4,
        [&](Communicator& world) {
          const int peer = other_of(world);
          std::vector<std::vector<float>> values;
          std::vector<PairPart> parts;
          for (const std::size_t count : counts) values.push_back(brought(world.rank(), count));
          for (auto& one : values) parts.push_back(part_of(one, world.rank() + 1));
          world.pair_exchanges()->start({.peer = peer, .parts = parts, .update = crossed}).wait();
          for (const auto& one : values)
            EXPECT_EQ(one, made(world.rank(), peer, one.size(), static_cast<float>(world.rank() + 1)));
        },
        options());
}

TEST_P(PairExchangeOf, ManyFollowEachOther) {
  run_ranks(
      2,
      [](Communicator& world) {
        std::vector<float> values{world.rank() == 0 ? 1.0f : 0.0f, 1};
        const PairPart part = part_of(values, 0.25);
        for (int round = 0; round < 2000; ++round) {
          world.pair_exchanges()->start({.peer = other_of(world), .parts = {&part, 1}, .update = crossed}).wait();
          values[0] *= 4.0f / 3, values[1] *= 4.0f / 3;
        }
        EXPECT_NEAR(values[0], 0.5, 1e-3);
        EXPECT_NEAR(values[1], 1, 1e-3);
      },
      options());
}

INSTANTIATE_TEST_SUITE_P(Cores, PairExchangeOf, testing::Values(1, 64));

// The rank that was there first does nothing more for it.
TEST(PairExchange, IsMadeWithoutTheRankThatIsElsewhere) {
  std::atomic<bool> is_posted{false}, is_made{false};
  run_ranks(2, [&](Communicator& world) {
    std::vector<float> values = brought(world.rank(), 200'000);
    const PairPart part = part_of(values);
    const PairExchange exchange{.peer = other_of(world), .parts = {&part, 1}, .update = crossed};
    if (world.rank() == 1) await_exchange([&] { return is_posted.load(); });
    Work work = world.pair_exchanges()->start(exchange);
    is_posted = true;
    if (world.rank() == 0) await_exchange([&] { return is_made.load(); });
    work.wait();
    is_made = true;
    EXPECT_EQ(values, made(world.rank(), other_of(world), values.size()));
  });
}

TEST(PairExchange, TestDoesNotBlockAndCompletesIt) {
  std::atomic<bool> is_posted{false};
  run_ranks(2, [&](Communicator& world) {
    std::vector<float> values = brought(world.rank(), 1000);
    const PairPart part = part_of(values);
    if (world.rank() == 1) await_exchange([&] { return is_posted.load(); });
    Work work = world.pair_exchanges()->start({.peer = other_of(world), .parts = {&part, 1}, .update = crossed});
    if (world.rank() == 0) {
      EXPECT_FALSE(work.test());
      is_posted = true;
    }
    await_exchange([&] { return work.test(); });
    EXPECT_EQ(values, made(world.rank(), other_of(world), values.size()));
  });
}

TEST(PairExchange, MeetsByTagAndInOrder) {
  run_ranks(2, [](Communicator& world) {
    std::array<std::vector<float>, 3> values;
    std::array<PairPart, 3> parts;
    std::vector<Work> works;
    const std::array<int, 3> tags = world.rank() == 0 ? std::array{1, 2, 1} : std::array{2, 1, 1};
    const std::array<int, 3> salts = world.rank() == 0 ? std::array{0, 1, 2} : std::array{1, 0, 2};
    for (std::size_t i = 0; i < 3; ++i) {
      values[i] = brought(2 * salts[i] + world.rank(), 100);
      parts[i] = part_of(values[i]);
      works.push_back(world.pair_exchanges()->start(
          {.peer = other_of(world), .tag = tags[i], .parts = {&parts[i], 1}, .update = crossed}));
    }
    for (Work& work : works) work.wait();
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(values[i], made(2 * salts[i] + world.rank(), 2 * salts[i] + other_of(world), 100)) << i;
  });
}

TEST(PairExchange, DoesNotMeetMessages) {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> values = brought(world.rank(), 10), came(10), sent{1, 2};
    const PairPart part = part_of(values);
    Work work = world.pair_exchanges()->start({.peer = other_of(world), .parts = {&part, 1}, .update = crossed});
    const std::array<Call, 2> calls{
        Call{.operation = Operation::send, .root = other_of(world), .in = {sent.data(), 2, DType::f32}, .out = {}},
        Call{.operation = Operation::recv, .root = other_of(world), .in = {}, .out = {came.data(), 2, DType::f32}}};
    world.start(calls).wait();
    work.wait();
    EXPECT_EQ(values, made(world.rank(), other_of(world), 10));
    EXPECT_EQ(came[1], 2);
  });
}

TEST(PairExchange, ThatNobodyMeetsChangesNothing) {
  for (const bool leaves : {false, true})
    run_ranks(2, [leaves](Communicator& world) {
      auto group = world.duplicate();
      std::vector<float> values = brought(world.rank(), 1000);
      const PairPart part = part_of(values);
      if (world.rank() == 0) {
        Work work = group->pair_exchanges()->start({.peer = 1, .parts = {&part, 1}, .update = crossed});
        if (leaves)
          EXPECT_THAT([&] { work.wait(20s); }, ThrowsMessage<PeerFailed>(HasSubstr("rank 1 has left the group")));
        else
          EXPECT_THAT([&] { work.wait(50ms); }, ThrowsMessage<TimeoutError>(HasSubstr("waited 50 ms for rank 1")));
      } else if (leaves) {
        group.reset();
      }
      world.barrier();
      if (!leaves && world.rank() == 1) {
        EXPECT_THROW(group->pair_exchanges()->start({.peer = 0, .parts = {&part, 1}, .update = crossed}).wait(),
                     PeerFailed);
      }
      EXPECT_EQ(values, brought(world.rank(), 1000));
    });
}

TEST(PairExchange, OfUnlikePartsChangesNothing) {
  for (const std::string difference : {"counts", "types", "parts", "updates"})
    run_ranks(2, [&](Communicator& world) {
      auto group = world.duplicate();
      const bool differs = world.rank() == 1;
      std::vector<float> values = brought(world.rank(), 1000);
      std::vector<PairPart> parts{part_of(values)};
      if (differs && difference == "counts") parts[0].x.count = 999;
      if (differs && difference == "types") parts[0].x.dtype = DType::i32;
      if (differs && difference == "parts") parts.emplace_back();
      const PairExchange exchange{
          .peer = other_of(world), .parts = parts, .update = differs && difference == "updates" ? summed : crossed};
      EXPECT_THAT([&] { group->pair_exchanges()->start(exchange).wait(); },
                  ThrowsMessage<MismatchError>(HasSubstr("meets")))
          << difference;
      EXPECT_EQ(values, brought(world.rank(), 1000));
      EXPECT_THROW(group->pair_exchanges()->start(exchange).wait(), PeerFailed) << "the group is unusable";
    });
}

TEST(PairExchange, ThatIsDroppedFailsTheGroupAndIsTouchedNoMore) {
  run_ranks(2, [](Communicator& world) {
    auto group = world.duplicate();
    std::vector<float> values = brought(world.rank(), 1000);
    const PairPart part = part_of(values);
    const PairExchange exchange{.peer = other_of(world), .parts = {&part, 1}, .update = crossed};
    if (world.rank() == 0) (void)group->pair_exchanges()->start(exchange);
    world.barrier();
    if (world.rank() == 1) {
      EXPECT_THROW(group->pair_exchanges()->start(exchange).wait(), PeerFailed);
    }
    EXPECT_EQ(values, brought(world.rank(), 1000));
  });
}

// Once it was met it is made, whoever leaves.
TEST(PairExchange, ThatWasMetIsMadeAlthoughTheGroupFails) {
  std::atomic<bool> is_posted{false};
  run_ranks(2, [&](Communicator& world) {
    auto group = world.duplicate();
    std::vector<float> values = brought(world.rank(), 300'000);
    const PairPart part = part_of(values);
    const PairExchange exchange{.peer = other_of(world), .parts = {&part, 1}, .update = crossed};
    if (world.rank() == 1) await_exchange([&] { return is_posted.load(); });
    Work work = group->pair_exchanges()->start(exchange);
    is_posted = true;
    if (world.rank() == 1) group->abort("a test ends it");
    world.barrier();
    work.wait();
    EXPECT_EQ(values, made(world.rank(), other_of(world), values.size()));
    EXPECT_THROW(group->barrier(), PeerFailed);
  });
}

TEST(PairExchange, RefusesWhatIsNone) {
  run_ranks(2, [](Communicator& world) {
    std::vector<float> values(3);
    PairPart part = part_of(values);
    const auto refuses = [&](int peer, int tag, PairUpdate update, const char* words) {
      EXPECT_THAT(
          [&] {
            (void)world.pair_exchanges()->start({.peer = peer, .tag = tag, .parts = {&part, 1}, .update = update});
          },
          ThrowsMessage<InvalidArgument>(HasSubstr(words)));
    };
    refuses(world.rank(), 0, crossed, "with itself");
    refuses(2, 0, crossed, "peer 2 is not a rank of the group of 2");
    refuses(other_of(world), -1, crossed, "tag -1 is negative");
    EXPECT_THROW(
        (void)world.pair_exchanges()->start({.peer = other_of(world), .tag = -1, .parts = {}, .update = crossed}),
        InvalidArgument)
        << "without parts";
    refuses(other_of(world), 0, nullptr, "without an update");
    part.x.data = nullptr;
    refuses(other_of(world), 0, crossed, "3 elements and a null pointer");
    part.x.count = 0;
    part.x.device = {.kind = Device::Kind::cuda, .index = 0};
    EXPECT_THROW((void)world.pair_exchanges()->start({.peer = other_of(world), .parts = {&part, 1}, .update = crossed}),
                 Unsupported);
    world.barrier();  // the group is as it was
  });
}

}  // namespace
}  // namespace plumbline::comm
