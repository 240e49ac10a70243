// Members that really end, and the group that the others form without them.
#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/ended_members.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using comm::PeerFailed;
using comm::ReduceOp;
using comm::Work;
using suite::Context;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kSoon = 3s;  // on a machine with more ranks than cores; limits of calls are far longer

// All ranks, beginning with rank 1: each rank in the group is another one in the world.
std::vector<int> rotated_world(int size) {
  std::vector<int> ranks;
  for (int place = 0; place < size; ++place) ranks.push_back((place + 1) % size);
  return ranks;
}

// All ranks, the last first.
std::vector<int> reversed_world(int size) {
  std::vector<int> ranks;
  for (int rank = size - 1; rank >= 0; --rank) ranks.push_back(rank);
  return ranks;
}

std::vector<int> ranks_left(const std::vector<int>& ranks, std::span<const int> places) {
  std::vector<int> left;
  for (int place = 0; place < static_cast<int>(ranks.size()); ++place)
    if (std::ranges::find(places, place) == places.end()) left.push_back(ranks[static_cast<std::size_t>(place)]);
  return left;
}

int place_named(const std::string& word, int size) {
  if (word == "first") return 0;
  return word == "last" ? size - 1 : size / 2;
}

// Those that are left meet, so that nobody who is through looks like another one that has ended. Nothing is asked of
// the group: where it has failed with the others, they do not meet.
void meet(Communicator& survivors) {
  try {
    survivors.barrier();
  } catch (const PeerFailed&) {
    // of the member that has ended
  }
}

// ---- the error ----

// One of those that are left calls when the others have had their errors, who wait for two members then, and name one.
void error_names_the_ended(Context& context) {
  require_end(context);
  const std::string& call = context.parameters().text("call");
  const auto group = context.world().create_group(rotated_world(context.size()));
  const int ending = group->size() / 2;
  const Operation operation = call == "all_gather" ? Operation::all_gather : Operation::all_reduce;
  const Exercise exercise(*group, {.operation = operation, .elements = 3000, .seed = context.seed()});
  expect_usable(*group);
  std::unique_ptr<Communicator> survivors;
  if (group->rank() != ending)
    survivors = context.world().create_group(ranks_left(rotated_world(context.size()), std::array{ending}));
  end_when_all_are_here(context, context.world(), group->rank() == ending);
  const bool is_late = group->rank() == 0;
  if (is_late) meet(*survivors);
  const auto begin = Clock::now();
  const std::string words = words_of<PeerFailed>(
      [&] {
        if (call == "barrier") return group->barrier();
        if (call == "started") return exercise.start(*group).wait();
        exercise.run(*group);
      },
      call + " with a member that has ended");
  EXPECT_LT(Clock::now() - begin, kSoon) << "not within 3 s";
  if (!is_late) meet(*survivors);
  const std::vector<int> named = ranks_at_end(words);
  EXPECT_TRUE(!named.empty() && named.front() == ending) << "rank " << ending << " has ended; the message: " << words;
  meet(*survivors);
}

// ---- the group of the others ----

void forms_a_group(Context& context) {
  require_end(context);
  const std::vector<int> before = reversed_world(context.size());
  const auto group = context.world().create_group(before);
  const std::array ended{place_named(context.parameters().text("ends"), context.size())};
  expect_usable(*group);
  end_when_all_are_here(context, context.world(), group->rank() == ended[0]);
  expect_lost(*group);
  const auto left = group->shrink(ended);
  expect_members(*left, ranks_left(before, ended), context.rank());
  expect_all_works(*left, context.seed());
}

// Calls and messages of the old group that nobody completes have the shapes of those of the new one, and other data.
// All are under way before the member ends: on a group that has failed no call need start.
void nothing_of_the_old_group(Context& context) {
  require_end(context);
  const auto group = context.world().duplicate();
  const std::array ended{1};
  const int last = group->size() - 1;
  const std::int64_t old_number = 17, new_number = 42;
  std::vector<Exercise> stale;
  for (const std::int64_t elements : {5, 3000})
    stale.emplace_back(*group, Trial{.elements = elements, .seed = context.seed()});
  const GuardedInput message(std::vector{old_number});
  const bool ends = group->rank() == ended[0];
  std::vector<Work> works;
  if (group->rank() == 0)
    works.push_back(group->start({.operation = Operation::send, .root = last, .in = carried(*group, message)}));
  if (!ends)
    for (const Exercise& exercise : stale) works.push_back(exercise.start(*group));
  end_when_all_are_here(context, context.world(), ends);
  words_of<PeerFailed>([&] { works.back().wait(); }, "a wait for a call with a member that has ended");
  const auto left = group->shrink(ended);
  if (left->rank() == 0) send_number(*left, new_number, left->size() - 1);
  if (left->rank() == left->size() - 1) expect_number(*left, new_number, 0);
  for (const std::int64_t elements : {5, 3000})
    expect_result(*left, {.elements = elements, .seed = context.seed() + 1});
  works.clear();
  expect_result(*left, {.elements = 5, .seed = context.seed() + 2});
}

// ---- more than one ----

// Two members end: at once, or the second one when the first has been left out, or while the others leave it out.
void shrinks_again(Context& context) {
  require_end(context);
  const std::string& second = context.parameters().text("second");
  const std::vector<int> before = reversed_world(context.size());
  const auto group = context.world().create_group(before);
  const std::array one{1};
  const std::array both{1, 0};
  expect_usable(*group);
  end_when_all_are_here(context, context.world(), group->rank() == 1 || (group->rank() == 0 && second == "together"));
  expect_lost(*group);
  std::unique_ptr<Communicator> left;
  if (second == "later") {
    const auto between = group->shrink(one);
    expect_members(*between, ranks_left(before, one), context.rank());
    expect_usable(*between);
    end_when_all_are_here(context, *between->duplicate(), between->rank() == 0);
    expect_lost(*between);
    left = between->shrink(std::array{0});
  } else {
    if (group->rank() == 0) context.end_rank();  // where it is needed to form the group
    if (second == "meanwhile")
      words_of<PeerFailed>([&] { group->shrink(one)->barrier(); }, "a group that a member should form and has ended");
    left = group->shrink(both);
  }
  expect_members(*left, ranks_left(before, both), context.rank());
  expect_all_works(*left, context.seed());
}

// ---- a group that a member has aborted ----

// The last member is alive, and left out. It aborts before the others shrink the group, or while all but rank 0 do.
void shrinks_after_abort(Context& context) {
  const auto group = context.world().duplicate();
  const std::array excluded{group->size() - 1};
  const bool before = context.parameters().text("abort") == "before";
  expect_usable(*group);
  expect_result(context.world(), {.elements = 3});  // all are through with it
  if (group->rank() == excluded[0]) {
    group->abort("no more of this");
    send_number(context.world(), 1, 0);
    return;
  }
  if (before) words_of<PeerFailed>([&] { group->barrier(); }, "a barrier of an aborted group");
  if (group->rank() == 0) expect_number(context.world(), 1, excluded[0]);
  const auto left = group->shrink(excluded);
  expect_members(*left, ranks_left(group->group().ranks, excluded), context.rank());
  expect_all_works(*left, context.seed());
}

}  // namespace

void add_shrink_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, const suite::Axis& axis, const std::vector<int>& worlds,
                       void (*body)(Context&)) {
    suite.add(
        {.id = id, .verifies = {citation}, .axes = {axis, suite::worlds(worlds)}, .spoils_group = true, .body = body});
  };
  add("collectives.shrink.error_names_the_ended", "COLL-115@4ae0",
      {"call", {"barrier", "all_reduce", "all_gather", "started"}}, {3, 4, 5}, error_names_the_ended);
  add("collectives.shrink.forms_a_group", "COLL-116@a31c", {"ends", {"first", "middle", "last"}}, {2, 3, 4, 5},
      forms_a_group);
  // Two are left at least: of a group of one rank most calls are right that do nothing.
  add("collectives.shrink.again", "COLL-118@b72a", {"second", {"together", "later", "meanwhile"}}, {4, 5},
      shrinks_again);
  add("collectives.shrink.after_abort", "COLL-119@5424", {"abort", {"before", "meanwhile"}}, {3, 4, 5},
      shrinks_after_abort);
  suite.add({.id = "collectives.shrink.nothing_of_the_old_group",
             .verifies = {"COLL-117@bf01"},
             .axes = {suite::worlds({3, 4, 5})},
             .spoils_group = true,
             .body = nothing_of_the_old_group});
}

}  // namespace plumbline::conformance
