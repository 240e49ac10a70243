// Calls that are under way when their group fails, and what can still be done then. The group that fails is a
// duplicate; the members meet on the world.
#include <chrono>
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using comm::PeerFailed;
using comm::Work;
using suite::Context;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kAtOnce = 3s;  // on a machine with more ranks than cores; limits of calls are far longer
constexpr const char* kReason = "no more of this";

// All members but the last, which makes none of them, have these under way when it aborts the group.
std::vector<Exercise> calls_without_the_last(Communicator& victim) {
  std::vector<Exercise> exercises;
  for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::all_to_all})
    for (const std::int64_t elements : {3, 3000})
      exercises.emplace_back(victim, Trial{.operation = operation, .elements = elements});
  return exercises;
}

// Whether the members made another group of all, and use it.
void expect_another_group(Context& context) {
  const auto another = context.world().duplicate();
  expect_result(*another, {.elements = 5, .seed = context.seed()});
}

void abort_ends_outstanding_calls(Context& context) {
  const auto victim = context.world().duplicate();
  const bool aborts = context.rank() == context.size() - 1;
  const std::vector<Exercise> exercises = calls_without_the_last(*victim);
  std::vector<Work> works;
  if (!aborts)
    for (const Exercise& exercise : exercises) works.push_back(exercise.start(*victim));
  expect_result(context.world(), {.elements = 3});  // all are under way
  if (aborts) victim->abort(kReason);
  const auto begin = Clock::now();
  for (Work& work : works) words_of<PeerFailed>([&] { work.wait(); }, "a wait for a call of an aborted group");
  EXPECT_LT(Clock::now() - begin, kAtOnce) << "not at once";
  expect_another_group(context);
}

void polling_ends_after_abort(Context& context) {
  const auto victim = context.world().duplicate();
  const bool aborts = context.rank() == context.size() - 1;
  const Exercise exercise(*victim, {.elements = 9});
  Work work = aborts ? Work() : exercise.start(*victim);
  expect_result(context.world(), {.elements = 3});
  if (aborts) victim->abort(kReason);
  const auto poll = [&] {
    const auto begin = Clock::now();
    while (!work.test() && Clock::now() - begin < kAtOnce) std::this_thread::yield();
  };
  if (!aborts) words_of<PeerFailed>(poll, "test() of a call of an aborted group, again and again");
  expect_another_group(context);
}

void abort_reaches_groups_made_from_it(Context& context) {
  const auto sibling = context.world().duplicate();
  const auto parent = context.world().duplicate();
  const auto child = parent->duplicate();
  expect_result(*child, {.elements = 3});
  if (context.rank() == context.size() - 1) parent->abort(kReason);
  const Exercise exercise(*child, {.elements = 7});  // which who aborts does not get to make
  const std::string words =
      words_of<PeerFailed>([&] { exercise.run(*child); }, "a call on a group that was made from an aborted one");
  EXPECT_NE(words.find(kReason), std::string::npos) << "the reason is not in: " << words;
  expect_result(*sibling, {.elements = 7, .seed = context.seed()});
}

// Rank 0 alone made the call: nobody completes it.
void dropped_work_fails_its_group(Context& context) {
  const auto victim = context.world().duplicate();
  const comm::Call barrier{.operation = Operation::barrier};  // has no buffers that a lost call could touch later
  if (context.rank() == 0) {
    {
      const Work dropped = victim->start(barrier);
    }
    words_of<PeerFailed>([&] { victim->start(barrier).wait(100ms); }, "a barrier after one that was dropped");
  }
  expect_another_group(context);
}

// A limit that overflows any clock to which it is added.
void longest_limit(Context& context) {
  const auto group = context.world().duplicate();
  const comm::Timeout longest = std::chrono::nanoseconds::max();
  expect_result(context.world(), {.elements = 3});
  if (context.rank() == context.size() - 1) std::this_thread::sleep_for(30ms);
  const Exercise exercise(*group, {.elements = 5, .seed = context.seed()});
  try {
    exercise.start(*group).wait(longest);
    report(exercise.problem());
  } catch (const Error& error) {
    report(fmt::format("a wait with the longest limit: {}", error.what()));
  }
}

// Of a call that another member never makes, and of one that is complete.
void no_time_at_all(Context& context) {
  const auto victim = context.world().duplicate();
  if (context.rank() == 0) {
    Work work = victim->start({.operation = Operation::barrier});
    const auto begin = Clock::now();
    words_of<comm::TimeoutError>([&] { work.wait(0ns); }, "a wait without any time for a call that cannot complete");
    EXPECT_LT(Clock::now() - begin, kAtOnce) << "not at once";
  }
  const Exercise exercise(context.world(), {.elements = 5, .seed = context.seed()});
  Work work = exercise.start(context.world());
  work.wait();
  work.wait(0ns);
  report(exercise.problem());
}

// Rank 0 is in a call that no other member makes.
void abort_by_another_thread(Context& context) {
  const auto victim = context.world().duplicate();
  if (context.rank() == 0) {
    auto watchdog = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(20ms);
      const auto begin = Clock::now();
      victim->abort(kReason);
      return begin;
    });
    const Exercise exercise(*victim, {.elements = 5});
    words_of<PeerFailed>([&] { exercise.run(*victim); }, "a call that another thread aborted");
    const auto end = Clock::now();
    EXPECT_LT(end - watchdog.get(), kAtOnce) << "not at once";
  }
  expect_another_group(context);
}

}  // namespace

void add_lost_group_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, void (*body)(Context&)) {
    suite.add({.id = id, .verifies = {citation}, .axes = {suite::worlds({2, 3})}, .spoils_group = true, .body = body});
  };
  add("collectives.failure.abort_ends_outstanding_calls", "COLL-083@1f7a", abort_ends_outstanding_calls);
  add("collectives.failure.polling_ends_after_abort", "COLL-084@e102", polling_ends_after_abort);
  add("collectives.failure.abort_reaches_groups_made_from_it", "COLL-085@45d3", abort_reaches_groups_made_from_it);
  add("collectives.failure.dropped_work_fails_its_group", "COLL-086@b65f", dropped_work_fails_its_group);
  add("collectives.limits.no_time_at_all", "COLL-098@ecf0", no_time_at_all);
  add("collectives.failure.abort_by_another_thread", "COLL-099@0cc5", abort_by_another_thread);
  add("collectives.limits.longest", "COLL-087@0e55", longest_limit);
}

}  // namespace plumbline::conformance
