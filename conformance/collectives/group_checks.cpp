// Groups: who takes part, who is who, and that groups do not meet.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using suite::Context;

namespace {

bool contains(const std::vector<int>& list, int rank) { return std::ranges::find(list, rank) != list.end(); }

std::vector<int> counting(int from, int to, int step = 1) {
  std::vector<int> list;
  for (int rank = from; rank < to; rank += step) list.push_back(rank);
  return list;
}

std::vector<int> descending(std::vector<int> list) {
  std::ranges::reverse(list);
  return list;
}

// Some of each kind; the data are those of the members' ranks in the group.
void expect_group_works(Communicator& group, std::uint64_t seed) {
  expect_result(group, {.operation = Operation::all_reduce, .elements = 17, .seed = seed});
  expect_result(group, {.operation = Operation::broadcast, .root = group.size() - 1, .elements = 9, .seed = seed});
  expect_result(group, {.operation = Operation::all_gather, .elements = 5, .seed = seed});
  group.barrier();
}

std::vector<std::vector<int>> lists_of_shape(const std::string& shape, int n) {
  if (shape == "strided") return {counting(0, n, 2), counting(1, n, 2)};
  if (shape == "without_first") return {counting(1, n)};
  return {counting(0, n / 2 + 1), counting(n / 2, n)};  // overlapping in one rank
}

void members_only(Context& context) {
  std::uint64_t seed = context.seed();
  std::vector<std::unique_ptr<Communicator>> groups;  // at once, where a rank is in both
  const auto lists = lists_of_shape(context.parameters().text("shape"), context.size());
  for (const auto& list : lists)
    if (contains(list, context.rank())) groups.push_back(context.world().create_group(list));
  for (std::size_t place = 0; const auto& list : lists) {
    seed += 7;  // groups have data of their own
    if (contains(list, context.rank())) expect_group_works(*groups[place++], seed);
  }
}

void expect_places(const Communicator& group, const std::vector<int>& world_ranks, int world_rank) {
  EXPECT_EQ(group.group().ranks, world_ranks);
  EXPECT_EQ(group.rank(), std::ranges::find(world_ranks, world_rank) - world_ranks.begin());
}

void rank_order_of_groups(Context& context) {
  const int n = context.size();
  std::vector<int> interleaved;  // last, first, last but one, second, …
  for (int i = 0; i < n; ++i) interleaved.push_back(i % 2 == 0 ? n - 1 - i / 2 : i / 2);
  for (const auto& list : {descending(counting(0, n)), interleaved}) {
    const auto group = context.world().create_group(list);
    expect_places(*group, list, context.rank());
    for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                                      Operation::all_to_all, Operation::send})
      if (operation != Operation::send || can_shift(*group))
        expect_result(*group, {.operation = operation, .elements = 5, .seed = context.seed()});
    for (const Operation operation : {Operation::gather, Operation::scatter})
      expect_result(*group, {.operation = operation, .root = n - 1, .elements = 5, .seed = context.seed()});
  }
}

void roots_and_peers(Context& context) {
  if (context.rank() == 0) return;
  const auto group = context.world().create_group(descending(counting(1, context.size())));
  for (int root = 0; root < group->size(); ++root)
    for (const Operation operation : {Operation::broadcast, Operation::reduce, Operation::gather, Operation::scatter})
      expect_result(*group, {.operation = operation, .root = root, .elements = 5, .seed = context.seed()});
  // A message from the first member to the last.
  const int last = group->size() - 1;
  if (last == 0) return;
  constexpr std::int64_t word = 41;
  if (group->rank() == 0) send_number(*group, word, last, 3);
  if (group->rank() == last) expect_number(*group, word, 0, 3);
}

void nested(Context& context) {
  if (context.rank() == 0) return;
  const std::vector<int> outer_list = counting(1, context.size());
  const auto outer = context.world().create_group(outer_list);
  if (outer->rank() == 0) return;
  const std::vector<int> inner_list = descending(counting(1, outer->size()));
  std::vector<int> world_ranks;
  for (const int place : inner_list) world_ranks.push_back(outer_list[static_cast<std::size_t>(place)]);
  const auto inner = outer->create_group(inner_list);
  expect_places(*inner, world_ranks, context.rank());
  expect_group_works(*inner, context.seed());
  if (inner->rank() > 1) return;
  const int innermost_list[] = {1, 0};
  const auto innermost = inner->create_group(innermost_list);
  expect_places(*innermost, {world_ranks[1], world_ranks[0]}, context.rank());
  expect_group_works(*innermost, context.seed());
}

void never_meet(Context& context) {
  const auto first = context.world().duplicate();
  const auto second = context.world().duplicate();
  EXPECT_NE(first->group().id, second->group().id);
  for (std::uint64_t round = 0; round < 10; ++round) {
    const Exercise one(*first, {.elements = 40, .seed = context.seed() + 2 * round});
    const Exercise two(*second, {.elements = 40, .seed = context.seed() + 2 * round + 1});
    const bool in_order = context.rank() % 2 == 0;
    comm::Work earlier = in_order ? one.start(*first) : two.start(*second);
    comm::Work later = in_order ? two.start(*second) : one.start(*first);
    later.wait();
    earlier.wait();
    report(one.problem());
    report(two.problem());
  }
}

// Every other member, and then all, are made into groups while calls of the parent are outstanding.
void created_beside_calls(Context& context) {
  Communicator& world = context.world();
  std::uint64_t seed = context.seed();
  std::vector<Exercise> outstanding;
  std::vector<comm::Work> works;
  const auto start = [&](Operation operation, std::int64_t elements) {
    outstanding.emplace_back(world, Trial{.operation = operation, .elements = elements, .seed = ++seed});
    works.push_back(outstanding.back().start(world));
  };
  for (const std::int64_t elements : {5, 3000, 70000}) start(Operation::all_reduce, elements);
  const auto half = world.create_group(descending(counting(context.rank() % 2, context.size(), 2)));
  expect_result(*half, {.elements = 3000, .seed = ++seed});
  start(Operation::all_gather, 3000);
  const auto all = world.duplicate();
  expect_result(*all, {.elements = 3000, .seed = ++seed});
  for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
  for (const Exercise& exercise : outstanding) report(exercise.problem());
}

// A property of the interface: Communicator refuses before a backend is called, so this fails for no backend alone.
void bad_rank_lists(Context& context) {
  const int me = context.rank();
  const int n = context.size();
  std::vector<std::vector<int>> lists{{}, {me, me}, {me, n}, {-1, me}};
  if (n > 1) lists.push_back({(me + 1) % n});
  for (const auto& list : lists) {
    const auto create = [&] { (void)context.world().create_group(list); };
    words_of<InvalidArgument>(create, fmt::format("create_group([{}])", fmt::join(list, " ")));
    expect_usable_beside(context.world(), create);
  }
}

}  // namespace

void add_group_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.groups.members_only",
             .verifies = {"COLL-031@bdbb"},
             .axes = {{"shape", {"strided", "without_first", "overlapping"}}, suite::worlds({3, 4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = members_only});
  suite.add({.id = "collectives.groups.order",
             .verifies = {"COLL-032@d047"},
             .axes = {suite::worlds({2, 3, 4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = rank_order_of_groups});
  suite.add({.id = "collectives.groups.roots_and_peers",
             .verifies = {"COLL-033@cd60"},
             .axes = {suite::worlds({3, 4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = roots_and_peers});
  suite.add({.id = "collectives.groups.nested",
             .verifies = {"COLL-034@a920"},
             .axes = {suite::worlds({4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = nested});
  suite.add({.id = "collectives.groups.never_meet",
             .verifies = {"COLL-035@e460"},
             .axes = {suite::worlds({2, 3, 4, 5, 6, 8})},
             .deadlock_prone = true,
             .body = never_meet});
  suite.add({.id = "collectives.groups.created_beside_calls",
             .verifies = {"COLL-153@a4c1"},
             .axes = {suite::worlds({2, 3, 4, 5})},
             .deadlock_prone = true,
             .body = created_beside_calls});
  suite.add({.id = "collectives.groups.bad_lists",
             .verifies = {"COLL-036@9c7e"},
             .axes = {suite::worlds({1, 2, 3})},
             .body = bad_rank_lists});
}

}  // namespace plumbline::conformance
