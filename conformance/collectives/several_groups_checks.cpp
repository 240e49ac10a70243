// Several groups of the same members: of every size, many at once, made while calls are under way, and after others
// have gone.
#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using comm::ReduceOp;
using comm::Work;
using suite::Context;

namespace {

// The ranks [from, to), of a group that has them all.
std::vector<int> ranks_between(int from, int to) {
  std::vector<int> ranks;
  for (int rank = from; rank < to; ++rank) ranks.push_back(rank);
  return ranks;
}

std::vector<int> reversed(std::vector<int> ranks) {
  std::ranges::reverse(ranks);
  return ranks;
}

void expect_every_operation(Communicator& group, std::uint64_t seed) {
  const std::vector<ReduceOp> ops = ops_on(some_dtype(group.capabilities()));
  for (const Operation operation : exercised_operations(group))
    for (const ReduceOp op : is_reduction(operation) ? ops : std::vector{ReduceOp::sum})
      expect_result(group,
                    {.operation = operation, .op = op, .root = group.size() - 1, .elements = 13, .seed = ++seed});
}

// The groups end at the last rank, so that no member's rank in a group but the world is its rank there.
void every_size(Context& context) {
  const int n = context.size();
  for (int size = 2; size <= n; ++size)
    if (context.rank() >= n - size)
      expect_every_operation(*context.world().create_group(ranks_between(n - size, n)), context.seed());
}

// The last rank is in none of the calls: it only hears when they are over.
void waits_for_members_only(Context& context) {
  constexpr std::int64_t kOver = 3;
  const int outside = context.size() - 1;
  if (context.rank() == outside) return expect_number(context.world(), kOver, 0);
  const auto group = context.world().create_group(ranks_between(0, outside));
  expect_every_operation(*group, context.seed());
  group->barrier();
  if (context.rank() == 0) send_number(context.world(), kOver, outside);
}

// The ranks of a group whose numbers are as even, or odd, as that one's.
std::vector<int> every_other(const Communicator& group) {
  std::vector<int> ranks;
  for (int rank = group.rank() % 2; rank < group.size(); rank += 2) ranks.push_back(rank);
  return ranks;
}

// Collectives and messages are under way while all ranks make a group and then part into two; afterwards calls of a
// part and of all begin by turns.
void made_beside_outstanding_calls(Context& context) {
  Communicator& world = context.world();
  std::vector<Exercise> exercises;
  std::vector<Work> works;
  const auto begin = [&](Communicator& group, Operation operation, std::int64_t elements) {
    exercises.emplace_back(group,
                           Trial{.operation = operation, .elements = elements, .seed = context.seed() + works.size()});
    works.push_back(exercises.back().start(group));
  };
  std::vector<Operation> operations{Operation::all_reduce, Operation::all_gather, Operation::all_to_all};
  if (can_shift(world) && world.capabilities().has(comm::Capability::coalescing)) operations.push_back(Operation::send);
  for (const Operation operation : operations)
    for (const std::int64_t elements : {3, 3000}) begin(world, operation, elements);
  const auto group = world.create_group(reversed(ranks_between(0, world.size())));
  const auto part = world.create_group(reversed(every_other(world)));
  for (Communicator* const one : {part.get(), &world, part.get(), &world}) begin(*one, Operation::all_reduce, 40);
  expect_result(*group, {.elements = 11, .seed = context.seed() + 100});
  for (std::size_t i = works.size(); i-- > 0;) works[i].wait();
  for (const Exercise& exercise : exercises) report(exercise.problem());
}

void outlive_their_parent(Context& context) {
  auto parent = context.world().duplicate();
  const auto sibling = context.world().duplicate();
  const auto child = parent->create_group(reversed(ranks_between(0, context.size())));
  parent.reset();
  std::uint64_t seed = context.seed();
  for (Communicator* group : {child.get(), sibling.get(), &context.world()})
    for (const Operation operation : {Operation::all_reduce, Operation::all_gather})
      expect_result(*group, {.operation = operation, .elements = 9, .seed = ++seed});
}

// Each member starts its calls at another group, which never matters, and waits for them in another order.
void many_at_once(Context& context) {
  constexpr std::size_t kGroups = 32;
  const auto me = static_cast<std::size_t>(context.rank());
  std::vector<std::unique_ptr<Communicator>> groups;
  std::vector<Exercise> exercises;
  for (std::size_t i = 0; i < kGroups; ++i) {
    groups.push_back(context.world().duplicate());
    exercises.emplace_back(*groups.back(), Trial{.elements = 6, .seed = context.seed() + i});
  }
  std::vector<Work> works(kGroups);
  for (std::size_t i = 0; i < kGroups; ++i) {
    const std::size_t group = (i + me * 5) % kGroups;
    works[group] = exercises[group].start(*groups[group]);
  }
  for (std::size_t i = 0; i < kGroups; ++i) works[(i * 7 + me) % kGroups].wait();  // 7 and 32 have no common factor
  for (std::size_t i = 0; i < kGroups; ++i) {
    const std::string problem = exercises[i].problem();
    if (!problem.empty()) report(fmt::format("group {} of {}: {}", i, kGroups, problem));
  }
}

// Four groups of all members in different orders, each with calls of another operation under way.
void calls_in_flight(Context& context) {
  constexpr int kRounds = 6;
  const std::vector<int> all = ranks_between(0, context.size());
  std::vector<int> rotated = all;
  std::ranges::rotate(rotated, rotated.begin() + 1);
  std::vector<std::unique_ptr<Communicator>> groups;
  for (const auto& ranks : {all, reversed(all), rotated, all}) groups.push_back(context.world().create_group(ranks));
  constexpr Operation kOperations[]{Operation::all_reduce, Operation::all_gather, Operation::all_to_all,
                                    Operation::reduce_scatter};
  for (std::size_t round = 0; round < kRounds; ++round) {
    std::vector<Exercise> exercises;
    for (std::size_t i = 0; i < groups.size(); ++i)
      exercises.emplace_back(*groups[i], Trial{.operation = kOperations[(i + round) % groups.size()],
                                               .elements = round % 2 == 0 ? 21 : 2500,
                                               .seed = context.seed() + 10 * round + i});
    std::vector<Work> works(groups.size());
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const std::size_t first = (i + static_cast<std::size_t>(context.rank())) % groups.size();
      works[first] = exercises[first].start(*groups[first]);
    }
    for (std::size_t i = groups.size(); i-- > 0;) works[i].wait();
    for (const Exercise& exercise : exercises) report(exercise.problem());
  }
}

void claim_what_their_parent_claims(Context& context) {
  const auto group = context.world().create_group(reversed(ranks_between(0, context.size())));
  const comm::Capabilities& of_world = context.capabilities();
  const comm::Capabilities& of_group = group->capabilities();
  EXPECT_EQ(of_group.claims, of_world.claims);
  EXPECT_EQ(of_group.dtypes, of_world.dtypes);
  EXPECT_EQ(of_group.rounds_each_half_addition, of_world.rounds_each_half_addition);
  for (const comm::DType dtype : claimed(of_world))
    for (const Operation operation : {Operation::all_reduce, Operation::all_gather})
      expect_result(*group, {.operation = operation, .dtype = dtype, .elements = 5, .seed = context.seed()});
}

// A group of all members of `parent`, used once. Failures belong to the rank's own thread: others give back words.
std::string make_and_use(Communicator& parent, std::uint64_t seed) {
  try {
    const auto group = parent.duplicate();
    const Exercise exercise(*group, {.elements = 7, .seed = seed});
    exercise.run(*group);
    return exercise.problem();
  } catch (const std::exception& error) {
    parent.abort(error.what());
    return error.what();
  }
}

// Each rank has a thread for each of two parents, of which odd ranks begin with the other one than even ranks. On a
// machine that is very busy they may begin together: so there are several rounds.
void made_by_several_threads_once(Context& context) {
  const auto first = context.world().duplicate();
  const auto second = context.world().duplicate();
  const bool in_order = context.rank() % 2 == 0;
  Communicator& early = in_order ? *first : *second;
  Communicator& late = in_order ? *second : *first;
  const auto seed_of = [&](const Communicator& parent) { return context.seed() + (&parent == first.get() ? 0 : 1); };
  std::atomic<bool> begins = false;
  auto waiting = std::async(std::launch::async, [&] {
    begins = true;
    return make_and_use(early, seed_of(early));
  });
  while (!begins) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  report(make_and_use(late, seed_of(late)));
  report(waiting.get());
}

void made_by_several_threads(Context& context) {
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) made_by_several_threads_once(context);
}

// Each group has the members of its parent, in reverse order.
void deeply_nested(Context& context) {
  constexpr int kLevels = 8;
  const std::vector<int> ranks = reversed(ranks_between(0, context.size()));
  std::vector<std::unique_ptr<Communicator>> groups;
  for (int level = 0; level < kLevels; ++level) {
    Communicator& parent = groups.empty() ? context.world() : *groups.back();
    groups.push_back(parent.create_group(ranks));
    EXPECT_EQ(groups.back()->rank(), context.size() - 1 - parent.rank()) << "level " << level;
    expect_result(*groups.back(), {.operation = Operation::all_gather,
                                   .elements = 5,
                                   .seed = context.seed() + static_cast<std::uint64_t>(level)});
  }
}

// The rows and columns of a mesh with two columns: calls on them and on the world by turns, as of tensor and data
// parallelism. Of an odd world the last rank is a row of its own.
void by_turns_on_a_mesh(Context& context) {
  constexpr int kColumns = 2, kRounds = 40;
  const int n = context.size();
  const int row = context.rank() / kColumns, column = context.rank() % kColumns;
  std::vector<int> along_column;
  for (int rank = column; rank < n; rank += kColumns) along_column.push_back(rank);
  const auto across = context.world().create_group(ranks_between(row * kColumns, std::min(n, (row + 1) * kColumns)));
  const auto along = context.world().create_group(along_column);
  std::uint64_t seed = context.seed();
  for (int round = 0; round < kRounds; ++round)
    for (Communicator* group : {across.get(), along.get(), &context.world()})
      expect_result(*group, {.operation = round % 2 == 0 ? Operation::all_reduce : Operation::all_gather,
                             .elements = round % 7 + 1,
                             .seed = ++seed});
}

}  // namespace

void add_several_groups_checks(suite::Suite& suite) {
  using enum comm::Capability;
  const auto add = [&](const char* id, const char* citation, std::vector<int> sizes, void (*body)(Context&),
                       std::vector<comm::Capability> needs = {}) {
    suite.add({.id = id,
               .verifies = {citation},
               .axes = {suite::worlds(std::move(sizes))},
               .needs = std::move(needs),
               .body = body});
  };
  add("collectives.groups.every_size", "COLL-067@7d18", {2, 3, 4, 5, 6, 8}, every_size);
  add("collectives.groups.waits_for_members_only", "COLL-068@b26c", {3, 4, 5}, waits_for_members_only);
  add("collectives.groups.made_beside_outstanding_calls", "COLL-069@de4f", {2, 3, 5}, made_beside_outstanding_calls);
  add("collectives.groups.outlive_their_parent", "COLL-070@7ea6", {2, 3}, outlive_their_parent);
  add("collectives.groups.many_at_once", "COLL-071@17a3", {2, 3, 5}, many_at_once);
  suite.add({.id = "collectives.groups.calls_in_flight",
             .verifies = {"COLL-072@7938"},
             .axes = {suite::worlds({2, 3, 5, 8})},
             .deadlock_prone = true,
             .body = calls_in_flight});
  add("collectives.groups.claim_what_their_parent_claims", "COLL-073@0d44", {2, 3}, claim_what_their_parent_claims);
  add("collectives.groups.deeply_nested", "COLL-096@abe4", {2, 3}, deeply_nested);
  add("collectives.groups.by_turns_on_a_mesh", "COLL-097@8532", {2, 3, 4, 6}, by_turns_on_a_mesh);
  add("collectives.groups.made_by_several_threads", "COLL-074@2323", {2, 3}, made_by_several_threads);
}

}  // namespace plumbline::conformance
