#include "reference/groups/parallel_context.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/groups/colossalai.hpp"
#include "reference/groups/lint.hpp"
#include "reference/groups/megatron.hpp"

namespace plumbline::groups {
namespace {

using namespace std::chrono_literals;
using comm::Communicator;
using comm::DType;
using comm::run_ranks;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;
using testing::ThrowsMessage;

// The sum of 2 to the power of each member's world rank: it tells which ranks took part.
std::int64_t members_by_sum(Communicator& group, int world_rank) {
  std::int64_t own = std::int64_t{1} << world_rank;
  std::int64_t sum = 0;
  group.all_reduce({&own, 1, DType::i64}, {&sum, 1, DType::i64}, comm::ReduceOp::sum);
  return sum;
}
std::int64_t sum_of(const std::vector<int>& ranks) {
  std::int64_t sum = 0;
  for (const int rank : ranks) sum += std::int64_t{1} << rank;
  return sum;
}

// What `call` throws; "" where it throws nothing of the kind.
template <class Expected>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "";
}

// What each rank's construction throws, by the given plans; empty where it does not throw.
std::vector<std::string> errors_of(int size, const std::function<Plan(int rank)>& plan) {
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  run_ranks(size, [&](Communicator& world) {
    try {
      const ParallelContext context(world, plan(world.rank()));
    } catch (const Error& error) {
      errors[static_cast<std::size_t>(world.rank())] = std::string(error.kind()) + ": " + error.what();
    }
    world.barrier();  // the world is still usable
  });
  return errors;
}

Plan overlapping_plan() {
  return {.convention = "plumbline",
          .world_size = 4,
          .creations = {{"DATA", {0, 1}}, {"DATA", {2, 3}}, {"MODEL", {0, 2}}, {"MODEL", {1, 3}}, {"ENDS", {0, 3}}}};
}

class EveryWorld : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, EveryWorld, testing::Range(1, 9));

TEST_P(EveryWorld, EachGroupHasTheMembersOfItsList) {
  for (const int pipeline : {1, 2, 3, 4})
    for (const int tensor : {1, 2, 4}) {
      if (GetParam() % (pipeline * tensor) != 0) continue;
      const Plan plan = colossalai_plan(GetParam(), {.pipeline = pipeline, .tensor = tensor});
      const auto memberships = memberships_of(plan);
      run_ranks(GetParam(), [&](Communicator& world) {
        const ParallelContext context(world, plan);
        EXPECT_EQ(context.modes(), modes_of(plan));
        for (const Membership& part : memberships[static_cast<std::size_t>(world.rank())]) {
          EXPECT_TRUE(context.has(part.mode));
          EXPECT_EQ(context.ranks(part.mode), plan.creations[static_cast<std::size_t>(part.creation)].ranks);
          EXPECT_EQ(context.local_rank(part.mode), part.local_rank);
          EXPECT_EQ(context.size(part.mode), part.size);
          EXPECT_EQ(context.next(part.mode), part.next);
          EXPECT_EQ(context.previous(part.mode), part.previous);
          EXPECT_EQ(members_by_sum(context.communicator(part.mode), world.rank()), sum_of(context.ranks(part.mode)));
        }
      });
    }
}

TEST_P(EveryWorld, MegatronsManyOverlappingGroupsAreLive) {
  const Plan plan = megatron_plan(GetParam(), {.tensor_model_parallel_size = GetParam() % 2 == 0 ? 2 : 1});
  run_ranks(GetParam(), [&](Communicator& world) {
    const ParallelContext context(world, plan);
    for (const LiveGroup& group : context.groups())
      EXPECT_EQ(members_by_sum(*group.communicator, world.rank()), sum_of(group.creation.ranks));
  });
}

TEST(ParallelContext, DescendingListsAndGroupsWithoutRankZeroKeepTheirOrder) {
  const Plan plan{.world_size = 4, .creations = {{"DOWN", {3, 2, 1, 0}}, {"LATE", {3, 1}}, {"ALONE", {2}}}};
  run_ranks(4, [&](Communicator& world) {
    const ParallelContext context(world, plan);
    EXPECT_EQ(context.local_rank("DOWN"), 3 - world.rank());
    EXPECT_EQ(context.next("DOWN"), (world.rank() + 3) % 4);
    EXPECT_EQ(context.to_world_rank("DOWN", 0), 3);
    EXPECT_EQ(context.to_group_rank("DOWN", 3), 0);
    EXPECT_EQ(context.has("LATE"), world.rank() % 2 == 1);
    if (world.rank() == 1) {
      EXPECT_EQ(context.local_rank("LATE"), 1);
    } else if (world.rank() == 2) {
      EXPECT_EQ(context.next("ALONE"), 2);
    }
    std::vector<std::int64_t> gathered(4);
    std::int64_t own = world.rank();
    context.communicator("DOWN").all_gather({&own, 1, DType::i64}, {gathered.data(), 4, DType::i64});
    EXPECT_THAT(gathered, ElementsAre(3, 2, 1, 0));
  });
}

TEST(ParallelContext, CallsOnOverlappingGroupsAtOnceDoNotMix) {
  run_ranks(4, [](Communicator& world) {
    const ParallelContext context(world, overlapping_plan());
    for (int round = 0; round < 50; ++round) {
      std::array<std::int64_t, 2> own{1 << world.rank(), 16 << world.rank()};
      std::array<std::int64_t, 2> sums{};
      const auto call = [&](std::size_t i) {
        return comm::Call{.operation = comm::Operation::all_reduce,
                          .op = comm::ReduceOp::sum,
                          .in = {&own[i], 1, DType::i64},
                          .out = {&sums[i], 1, DType::i64}};
      };
      const bool turned = (round + world.rank()) % 2 == 0;  // ranks start the two in different orders
      comm::Work first = context.communicator(turned ? "DATA" : "MODEL").start(call(turned ? 0 : 1));
      comm::Work second = context.communicator(turned ? "MODEL" : "DATA").start(call(turned ? 1 : 0));
      first.wait();
      second.wait();
      EXPECT_EQ(sums[0], sum_of(context.ranks("DATA")));
      EXPECT_EQ(sums[1], 16 * sum_of(context.ranks("MODEL")));
    }
  });
}

TEST(ParallelContext, AnUnknownModeIsAnErrorAndNeverTheWorld) {
  run_ranks(4, [](Communicator& world) {
    Plan plan = overlapping_plan();
    plan.creations.insert(plan.creations.begin(), {"GLOBAL", {0, 1, 2, 3}});
    const ParallelContext context(world, plan);
    EXPECT_FALSE(context.has("TENSOR"));
    EXPECT_THAT([&] { (void)context.communicator("TENSOR"); },
                ThrowsMessage<NotFound>(AllOf(HasSubstr("'TENSOR'"), HasSubstr("[GLOBAL, DATA, MODEL, ENDS]"))));
    EXPECT_THROW((void)context.next("data"), NotFound);
    EXPECT_EQ(context.size("GLOBAL"), 4);
    if (world.rank() == 1) {
      EXPECT_THAT([&] { (void)context.size("ENDS"); }, ThrowsMessage<StateError>(HasSubstr("no part in mode 'ENDS'")));
    }
  });
}

TEST(ParallelContext, OfSeveralGroupsOfAModeTheLastCounts) {
  const Plan plan{.world_size = 3, .creations = {{"A", {0, 1}}, {"A", {2, 0}}}};
  run_ranks(3, [&](Communicator& world) {
    const ParallelContext context(world, plan);
    EXPECT_THAT(context.ranks("A"),
                world.rank() == 1 ? testing::Matcher<std::vector<int>>(ElementsAre(0, 1)) : ElementsAre(2, 0));
  });
}

TEST(ParallelContext, RootsAreWorldRanks) {
  run_ranks(4, [](Communicator& world) {
    const ParallelContext context(world, overlapping_plan());
    const auto received = [&](auto&& send) {
      std::int64_t value = 100 + world.rank();
      send(comm::Buffer{&value, 1, DType::i64});
      return value;
    };
    EXPECT_EQ(context.root("MODEL"), world.rank() % 2);
    EXPECT_EQ(received([&](auto buffer) { context.broadcast_initial("MODEL", buffer); }), 100 + world.rank() % 2);
    const int last = context.ranks("MODEL").back();
    EXPECT_EQ(received([&](auto buffer) { context.broadcast("MODEL", buffer, last); }), 100 + last);
    EXPECT_THAT([&] { (void)context.to_group_rank("MODEL", 1 - world.rank() % 2); },
                ThrowsMessage<InvalidArgument>(HasSubstr("is no member of [")));
    EXPECT_THAT([&] { (void)context.to_world_rank("MODEL", 2); }, ThrowsMessage<OutOfRange>(HasSubstr("group rank 2")));
  });
}

TEST(Agreement, ARankWithTwoCreationsSwappedIsReportedOnAll) {
  const auto errors = errors_of(4, [](int rank) {
    Plan plan = overlapping_plan();
    if (rank == 2) std::swap(plan.creations[1], plan.creations[2]);
    return plan;
  });
  EXPECT_THAT(errors, Each("failed: groups: ranks differ from creation 1 on: rank 2 makes MODEL [0 2], rank 0 makes "
                           "DATA [2 3]; 3 of 4 ranks are to make what rank 0 makes"));
}

TEST(Agreement, TheOddRankIsNamedAlsoWhereItIsTheFirst) {
  const auto errors = errors_of(4, [](int rank) {
    Plan plan = overlapping_plan();
    if (rank == 0) plan.creations[4].ranks = {3, 0};
    return plan;
  });
  EXPECT_THAT(errors, Each(HasSubstr("creation 4 on: rank 0 makes ENDS [3 0], rank 1 makes ENDS [0 3]; 3 of 4")));
}

TEST(Agreement, ARankThatEndsEarlyIsReportedAtItsEnd) {
  for (const int odd : {0, 3}) {
    const auto errors = errors_of(4, [odd](int rank) {
      Plan plan = overlapping_plan();
      if (rank == odd) plan.creations.resize(2);
      return plan;
    });
    EXPECT_THAT(errors, Each(AllOf(HasSubstr("creation 2 on: rank " + std::to_string(odd) + " makes nothing"),
                                   HasSubstr("makes MODEL [0 2]"))));
  }
}

TEST(Agreement, EachPlaceOfADifferenceIsFoundInALongPlan) {
  Plan plan{.world_size = 2};
  for (int i = 0; i < 37; ++i) plan.creations.push_back({"MODE" + std::to_string(i), {0, 1}});
  for (std::size_t place = 0; place < plan.creations.size(); ++place) {
    const auto errors = errors_of(2, [&](int rank) {
      Plan own = plan;
      if (rank == 1) own.creations[place].mode = "OTHER";
      return own;
    });
    EXPECT_THAT(errors, Each(HasSubstr("creation " + std::to_string(place) +
                                       " on: rank 1 makes OTHER [0 1], rank 0 "
                                       "makes MODE" +
                                       std::to_string(place) + " [0 1]")));
  }
}

TEST(Agreement, ARankWithItsOwnGroupsAloneIsReported) {
  const auto errors = errors_of(4, [](int rank) {
    Plan plan = overlapping_plan();
    std::erase_if(plan.creations, [rank](const Creation& one) { return std::ranges::count(one.ranks, rank) == 0; });
    return plan;
  });
  EXPECT_THAT(errors, Each(HasSubstr("ranks differ from creation")));
}

TEST(Agreement, LongListsAreShortenedAndSaidToDiffer) {
  const auto errors = errors_of(20, [](int rank) {
    Plan plan{.world_size = 20, .creations = {{"GLOBAL", std::vector<int>(20)}}};
    std::iota(plan.creations[0].ranks.begin(), plan.creations[0].ranks.end(), 0);
    if (rank == 5) std::swap(plan.creations[0].ranks[17], plan.creations[0].ranks[18]);
    return plan;
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("13 14 15 … 19: 20 ranks]"), HasSubstr("differ in ranks that are not shown"),
                                 testing::Not(HasSubstr("17 18")))));
}

TEST(Agreement, AnotherWorldSizeIsReportedOnAllWithBothNumbers) {
  const auto errors = errors_of(4, [](int rank) {
    return rank == 3 ? colossalai_plan(8, {.pipeline = 2}) : colossalai_plan(4, {.pipeline = 2});
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("invalid_argument"),
                                 HasSubstr("the communicator has 4 ranks, but rank 3 expects a world of 8"))));
}

TEST(Agreement, AnInvalidPlanOfOneRankIsRefusedOnAll) {
  const auto errors = errors_of(4, [](int rank) {
    Plan plan = overlapping_plan();
    if (rank == 1) plan.creations[3].ranks = {};
    return plan;
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("invalid_argument"), HasSubstr("creation 3, MODEL [], has no rank (on rank 1)"))));
}

TEST(Agreement, ARankThatNeverComesEndsInATimeoutThatNamesIt) {
  comm::LocalOptions options;
  options.timeout = 60s;
  std::atomic<int> named = 0;
  run_ranks(
      3,
      [&](Communicator& world) {
        const auto stand_in = world.duplicate();  // its failure leaves the world as it is
        if (world.rank() == 1) {
          while (named < 2) std::this_thread::sleep_for(1ms);
          return;
        }
        const Plan plan = colossalai_plan(3, {});
        // Long enough for the other to come on any machine.
        EXPECT_THAT(error_of<comm::TimeoutError>([&] { ParallelContext(*stand_in, plan, {.timeout = 2s}); }),
                    HasSubstr("for rank 1"));
        ++named;
      },
      options);
}

TEST(ContextLog, IsTheSameOnAllRanksAndFreeOfErrors) {
  std::mutex mutex;
  std::string text;
  run_ranks(4, [&](Communicator& world) {
    const ContextOptions options{.log = [&](const std::string& line) {
      const std::scoped_lock lock(mutex);
      text += line + "\n";
    }};
    const ParallelContext context(world, overlapping_plan(), options);
  });
  const CreationLog log = parse_creation_log(text);
  EXPECT_THAT(log.creations, AllOf(SizeIs(4), Each(overlapping_plan().creations)));
  EXPECT_TRUE(lint(log, {.rule = CreationRule::all_ranks, .partial_modes = {"ENDS"}}).valid());
  EXPECT_TRUE(lint(log, {.rule = CreationRule::members_only, .partial_modes = {"ENDS"}}).valid());
}

TEST(ContextLog, OfTwoContextsGoesOn) {
  std::mutex mutex;
  std::string text;
  run_ranks(4, [&](Communicator& world) {
    ContextOptions options{.timeout = {}, .log = [&](const std::string& line) {
                             const std::scoped_lock lock(mutex);
                             text += line + "\n";
                           }};
    const ParallelContext first(world, overlapping_plan(), options);
    options.first_sequence = first.next_sequence();
    const ParallelContext second(world, overlapping_plan(), options);
    EXPECT_EQ(second.next_sequence(), 10);
  });
  const CreationLog log = parse_creation_log(text);
  EXPECT_EQ(log.creations[3].size(), 10U);
  EXPECT_TRUE(lint(log, {.partial_modes = {"ENDS"}}).valid());
}

TEST(ContextLog, IsWholeWhereTheRanksDoNotAgree) {
  std::atomic<int> lines = 0;
  run_ranks(4, [&](Communicator& world) {
    Plan plan = overlapping_plan();
    if (world.rank() == 2) std::swap(plan.creations[0], plan.creations[1]);
    EXPECT_THROW(ParallelContext(world, plan, {.timeout = {}, .log = [&](const std::string&) { ++lines; }}),
                 comm::MismatchError);
  });
  EXPECT_EQ(lines, 20);
}

// What each rank's construction throws where rank 1 fails, and how long the slowest takes.
using Wrap = std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)>;
std::chrono::milliseconds fails_on_rank_1(const Wrap& wrap, const ContextOptions& options,
                                          const Plan& plan = overlapping_plan()) {
  std::atomic<std::int64_t> slowest = 0;
  comm::LocalOptions local;
  local.timeout = 20s;
  run_ranks(
      4,
      [&](Communicator& world) {
        const auto parent = world.rank() == 1 ? wrap(world.duplicate()) : world.duplicate();
        const auto begin = std::chrono::steady_clock::now();
        const auto make = [&] {
          const ParallelContext context(*parent, plan, world.rank() == 1 ? options : ContextOptions{});
          parent->barrier();  // who had made its groups by then is told here
        };
        if (world.rank() == 1)
          EXPECT_EQ(error_of<RuntimeFailure>(make), "no space left");
        else
          EXPECT_THAT(error_of<comm::PeerFailed>(make), HasSubstr("rank 1 failed to make its groups"));
        const auto took =
            std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
        world.barrier();
        for (std::int64_t seen = slowest; seen < took.count() && !slowest.compare_exchange_weak(seen, took.count());) {
        }
      },
      local);
  return std::chrono::milliseconds(slowest);
}

TEST(Failure, OfTheLogOnOneRankIsToldToTheOthersAtOnce) {
  const ContextOptions full{.timeout = {}, .log = [](const std::string&) { throw RuntimeFailure("no space left"); }};
  EXPECT_LT(fails_on_rank_1(std::identity(), full), 5s);
}

// A group that says when it goes.
class Counted final : public comm::CommunicatorDecorator {
 public:
  Counted(std::unique_ptr<Communicator> inner, int number, std::vector<int>& released)
      : CommunicatorDecorator(std::move(inner)), number_(number), released_(released) {}
  ~Counted() override { released_.push_back(number_); }

 private:
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override { return group; }
  int number_;
  std::vector<int>& released_;
};

// Makes three groups, and fails at the next one.
class FullAfterThree final : public comm::CommunicatorDecorator {
 public:
  FullAfterThree(std::unique_ptr<Communicator> inner, std::vector<int>& released)
      : CommunicatorDecorator(std::move(inner)), released_(released) {}

 private:
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    if (made_ == 3) throw RuntimeFailure("no space left");
    return CommunicatorDecorator::do_create_group(ranks);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<Counted>(std::move(group), ++made_, released_);
  }
  std::vector<int>& released_;
  int made_ = 0;
};

TEST(Failure, OfACreationOnOneRankIsToldToTheOthersAndWhatWasMadeIsReleasedTheLastFirst) {
  std::vector<int> released;  // by rank 1 alone
  const auto full = [&](std::unique_ptr<Communicator> parent) {
    return std::make_unique<FullAfterThree>(std::move(parent), released);
  };
  Plan plan = overlapping_plan();
  plan.creations.push_back({"MIDDLE", {1, 2}});
  plan.creations.push_back({"LAST", {0, 1}});
  EXPECT_LT(fails_on_rank_1(full, {}, plan), 5s);
  EXPECT_THAT(released, ElementsAre(3, 2, 1));
}

struct Holdings {
  std::size_t threads = 0;
  std::size_t handles = 0;
  std::size_t bytes = 0;
};
Holdings holdings() {
  const auto entries = [](const char* folder) {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  return {.threads = entries("/proc/self/task"), .handles = entries("/proc/self/fd"), .bytes = ::mallinfo2().uordblks};
}

// Threads, handles and memory after a few cycles, and after `cycles` more.
std::pair<Holdings, Holdings> before_and_after(const Wrap& wrap, int cycles) {
  Holdings before;
  Holdings after;
  run_ranks(4, [&](Communicator& world) {
    const auto parent = wrap(world.duplicate());
    const auto cycle = [&](int times) {
      for (int i = 0; i < times; ++i) {
        const ParallelContext context(*parent, overlapping_plan());
        if (i % 100 == 0) (void)members_by_sum(context.communicator("DATA"), world.rank());
      }
      world.barrier();
    };
    cycle(50);
    if (world.rank() == 0) before = holdings();
    world.barrier();
    cycle(cycles);
    if (world.rank() == 0) after = holdings();
    world.barrier();
  });
  return {before, after};
}

TEST(ContextLife, AThousandCyclesLeaveNothingBehind) {
  const auto [before, after] = before_and_after(std::identity(), 1000);
  EXPECT_LE(after.threads, before.threads);  // one of an earlier test may have been still on its way out
  EXPECT_LE(after.handles, before.handles);
  EXPECT_LT(after.bytes, before.bytes + (1 << 18));
}

// Keeps each group that is made, and gives a duplicate of it.
class Kept final : public comm::CommunicatorDecorator {
 public:
  Kept(std::unique_ptr<Communicator> inner, std::vector<std::unique_ptr<Communicator>>& all, std::mutex& mutex)
      : CommunicatorDecorator(std::move(inner)), all_(all), mutex_(mutex) {}

 private:
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    auto another = group->duplicate();
    const std::scoped_lock lock(mutex_);
    all_.push_back(std::move(group));
    return another;
  }
  std::vector<std::unique_ptr<Communicator>>& all_;
  std::mutex& mutex_;
};

// The limit above can be passed.
TEST(ContextLife, GroupsThatAreNotReleasedShow) {
  if (holdings().bytes == 0) GTEST_SKIP() << "the allocator does not count, as a sanitizer's";
  std::mutex mutex;
  std::vector<std::unique_ptr<Communicator>> all;
  const auto keep = [&](std::unique_ptr<Communicator> parent) {
    return std::make_unique<Kept>(std::move(parent), all, mutex);
  };
  const auto [before, after] = before_and_after(keep, 100);
  EXPECT_GT(after.bytes, before.bytes + (1 << 18));
}

}  // namespace
}  // namespace plumbline::groups
