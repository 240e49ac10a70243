// Started calls: they return at once, are honest, keep their order, and do not wait for each other.
#include <array>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::Call;
using comm::Communicator;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using comm::Work;
using suite::Context;

namespace {

// Words from one member to another on a group of their own. They order events without a clock: what a member does after
// it heard a word comes after what the speaker did before.
constexpr std::int64_t kWord = 1;
void tell(Communicator& aside, int whom) { send_number(aside, kWord, whom); }
void hear(Communicator& aside, int whom) { expect_number(aside, kWord, whom); }

void returns_at_once(Context& context) {
  Communicator& world = context.world();
  const auto aside = world.duplicate();
  const int late = world.size() - 1;
  for (const Trial& trial : {Trial{.elements = 3}, Trial{.elements = 20000},
                             Trial{.operation = Operation::broadcast, .root = late, .elements = 9},
                             Trial{.operation = Operation::all_to_all, .elements = 50}}) {
    const Exercise exercise(world, trial);
    if (world.rank() == late)
      for (int rank = 0; rank < late; ++rank) hear(*aside, rank);  // they come back from start() though nobody is here
    Work work = exercise.start(world);
    if (world.rank() != late) tell(*aside, late);
    work.wait();
    report(exercise.problem());
  }
}

void many_outstanding(Context& context) {
  constexpr std::size_t kCalls = 72;
  constexpr std::array kOperations{Operation::all_reduce, Operation::all_gather, Operation::broadcast,
                                   Operation::reduce_scatter};
  std::vector<Exercise> exercises;
  std::vector<Work> works;
  for (std::size_t i = 0; i < kCalls; ++i) {
    exercises.emplace_back(context.world(), Trial{.operation = kOperations[i % kOperations.size()],
                                                  .root = static_cast<int>(i) % context.size(),
                                                  .elements = static_cast<std::int64_t>(i % 9 == 8 ? 3000 + i : i),
                                                  .seed = context.seed() + i});
    works.push_back(exercises.back().start(context.world()));
  }
  // 7 and 72 have no common factor: every call once, in another order on each rank.
  for (std::size_t i = 0; i < kCalls; ++i) works[(i * 7 + static_cast<std::size_t>(context.rank())) % kCalls].wait();
  for (const Exercise& exercise : exercises) report(exercise.problem());
}

void test_is_honest(Context& context) {
  Communicator& world = context.world();
  const auto aside = world.duplicate();
  for (const std::int64_t elements : {3, 20000}) {
    const Exercise exercise(world, {.elements = elements, .seed = context.seed()});
    if (world.rank() == 0)
      for (int rank = 1; rank < world.size(); ++rank) hear(*aside, rank);
    Work work = exercise.start(world);
    if (world.rank() != 0) {
      for (int look = 0; look < 3; ++look) EXPECT_FALSE(work.test()) << "complete, though rank 0 has not made its call";
      tell(*aside, 0);
    }
    const auto begin = std::chrono::steady_clock::now();
    while (!work.test()) {
      ASSERT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "polling alone does not end it";
      std::this_thread::yield();
    }
    report(exercise.problem());
    work.wait();
    work.wait();
    EXPECT_TRUE(work.test());
  }
}

void agrees_with_blocking(Context& context) {
  const Operation operation = operation_of(context);
  for (const DType dtype : claimed(context.capabilities(), std::array{DType::f32, DType::bf16, DType::i64}))
    for (const ReduceOp op : is_reduction(operation) ? ops_on(dtype) : std::vector{ReduceOp::sum})
      for (const std::int64_t elements : {1, 17, 3000}) {
        const Trial trial{.operation = operation,
                          .dtype = dtype,
                          .op = op,
                          .root = context.size() - 1,
                          .elements = elements,
                          .seed = context.seed()};
        expect_result(context.world(), trial);
        const Exercise started(context.world(), trial);
        started.start(context.world()).wait();
        report(started.problem());
      }
}

// Where the order of additions is fixed, thirds must round alike both ways.
void agrees_with_blocking_when_rounding(Context& context) {
  constexpr std::int64_t kCount = 500;
  std::vector<float> mine(kCount);
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = static_cast<float>(i * 7 % 101 + static_cast<std::size_t>(context.rank())) / 3;
  const GuardedInput in(mine);
  GuardedOutput blocking(DType::f32, kCount), started(DType::f32, kCount);
  context.world().all_reduce(in.view(), blocking.view(), ReduceOp::sum);
  context.world().start({.operation = Operation::all_reduce, .in = in.view(), .out = started.view()}).wait();
  report(blocking.unwritten());
  report(first_difference(DType::f32, blocking.bytes(), started.bytes()));
}

void order_of_calls(Context& context) {
  Communicator& world = context.world();
  std::uint64_t seed = context.seed();
  const auto next = [&] { return Exercise(world, {.elements = 11, .seed = ++seed}); };  // alike but for the data
  for (int round = 0; round < 5; ++round) {
    std::vector<Exercise> exercises;
    std::vector<Call> batch;
    for (int i = 0; i < 6; ++i) {
      exercises.push_back(next());
      batch.push_back(exercises.back().calls().front());
    }
    Work as_batch = world.start(batch);
    exercises.push_back(next());
    Work single = exercises.back().start(world);
    exercises.push_back(next());
    exercises.back().run(world);
    single.wait();
    as_batch.wait();
    for (const Exercise& exercise : exercises) report(exercise.problem());
  }
}

// Every member sends to every other and receives from every other, in one batch.
void exchange_in_a_batch(Context& context) {
  const std::size_t count = context.parameters().text("size") == "large" ? 65536 : 2;  // even, see carried()
  const int me = context.rank();
  const auto words = [count](int from, int to) { return std::vector<std::int32_t>(count, from * 100 + to); };
  std::vector<GuardedInput> sent;
  std::vector<GuardedOutput> received;
  std::vector<Call> calls;
  for (int peer = 0; peer < context.size(); ++peer) {
    if (peer == me) continue;
    sent.emplace_back(words(me, peer));
    received.emplace_back(words(peer, me));
    calls.push_back({.operation = Operation::send, .root = peer, .in = carried(context.world(), sent.back())});
    calls.push_back({.operation = Operation::recv, .root = peer, .out = carried(context.world(), received.back())});
  }
  context.world().start(calls).wait();
  for (std::size_t i = 0; i < received.size(); ++i)
    EXPECT_EQ(received[i].wrong_result(), "") << "from the " << i + 1 << ". of the other ranks";
}

}  // namespace

void add_nonblocking_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.nonblocking.returns_at_once",
             .verifies = {"COLL-037@4b5e"},
             .axes = {suite::worlds({2, 3, 4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = returns_at_once});
  suite.add({.id = "collectives.nonblocking.many_outstanding",
             .verifies = {"COLL-038@0a79"},
             .axes = {suite::worlds()},
             .deadlock_prone = true,
             .body = many_outstanding});
  suite.add({.id = "collectives.nonblocking.test_is_honest",
             .verifies = {"COLL-039@1713"},
             .axes = {suite::worlds({2, 3, 5, 6})},
             .deadlock_prone = true,
             .body = test_is_honest});
  suite.add({.id = "collectives.nonblocking.agrees_with_blocking",
             .verifies = {"COLL-040@8439"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 5, 6})},
             .applies = [](const suite::Parameters& parameters) { return operation_of(parameters) != Operation::send; },
             .deadlock_prone = true,
             .body = agrees_with_blocking});
  suite.add({.id = "collectives.nonblocking.agrees_when_rounding",
             .verifies = {"COLL-040@8439"},
             .axes = {{"dtype", {"f32"}}, suite::worlds({2, 3, 5, 6})},
             .needs = {comm::Capability::rank_order},
             .deadlock_prone = true,
             .body = agrees_with_blocking_when_rounding});
  suite.add({.id = "collectives.nonblocking.order",
             .verifies = {"COLL-041@bc50"},
             .axes = {suite::worlds({2, 3, 4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = order_of_calls});
  suite.add({.id = "collectives.nonblocking.exchange_in_a_batch",
             .verifies = {"COLL-042@b519"},
             .axes = {{"size", {"small", "large"}}, suite::worlds({2, 3, 4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = exchange_in_a_batch});
}

}  // namespace plumbline::conformance
