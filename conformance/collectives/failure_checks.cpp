// A member that times out, is slow, leaves, or gives up. The group that fails is a duplicate; the members meet on the
// world.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::PeerFailed;
using suite::Context;
using namespace std::chrono_literals;

namespace {

void only_that_group_is_lost(Context& context) {
  const auto victim = context.world().duplicate();
  if (context.rank() == 0) {
    comm::Work work = victim->start({.operation = comm::Operation::barrier});
    words_of<comm::TimeoutError>([&] { work.wait(20ms); }, "a wait of 20 ms");
    const Exercise later(*victim, {.elements = 5});
    words_of<PeerFailed>([&] { victim->barrier(); }, "a barrier on the failed group");
    words_of<PeerFailed>([&] { later.run(*victim); }, "an all_reduce on the failed group");
    words_of<PeerFailed>([&] { later.start(*victim).wait(); }, "a started all_reduce on the failed group");
    report(later.changed_input());
    report(later.damage());
  }
  expect_usable(context.world());
  expect_usable(*context.world().duplicate());
}

void slow_is_not_dead(Context& context) {
  if (context.rank() == context.size() - 1) {
    context.progress("working outside any collective");
    std::this_thread::sleep_for(60ms);
  }
  expect_usable(context.world());  // its sum has what the late member brings
}

// "At once" on a machine with more ranks than cores, where a rank may not run for a while. Limits of calls are far
// longer.
constexpr auto kAtOnce = 3s;

// Calls that wait for the member that has left: all members', and a message of its own.
void departure_is_noticed(Context& context) {
  const int last = context.size() - 1;
  const bool leaves = context.rank() == last;
  for (const std::string call : {"barrier", "all_reduce", "recv"}) {
    if (call == "recv" && !context.capabilities().has(comm::Capability::point_to_point)) continue;
    auto victim = context.world().duplicate();
    const Exercise exercise(*victim, {.elements = 5});
    context.world().barrier();  // so that nobody's lateness is taken for the backend's
    if (leaves) victim.reset();
    for (const char* which : {"with a member that has left", "after that"}) {
      if (leaves) continue;
      const auto begin = std::chrono::steady_clock::now();
      words_of<PeerFailed>(
          [&] {
            if (call == "barrier") victim->barrier();
            if (call == "all_reduce") exercise.run(*victim);
            if (call == "recv") expect_number(*victim, 0, last);
          },
          call + " " + which);
      EXPECT_LT(std::chrono::steady_clock::now() - begin, kAtOnce) << call << " " << which;
    }
  }
  expect_usable(context.world());
}

void abort_reaches_all(Context& context) {
  const auto victim = context.world().duplicate();
  if (context.rank() == context.size() - 1) victim->abort("enough of this");
  const std::string words = words_of<PeerFailed>([&] { victim->barrier(); }, "a barrier of an aborted group");
  EXPECT_NE(words.find("enough of this"), std::string::npos) << "the reason is not in: " << words;
  expect_usable(context.world());
}

}  // namespace

void add_failure_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.failure.only_that_group_is_lost",
             .verifies = {"COLL-053@8766"},
             .axes = {suite::worlds({2, 3, 5})},
             .spoils_group = true,
             .body = only_that_group_is_lost});
  suite.add({.id = "collectives.failure.slow_is_not_dead",
             .verifies = {"COLL-054@5bf9"},
             .axes = {suite::worlds({2, 3})},
             .body = slow_is_not_dead});
  suite.add({.id = "collectives.failure.departure_is_noticed",
             .verifies = {"COLL-055@749f"},
             .axes = {suite::worlds({2, 3, 5})},
             .spoils_group = true,
             .body = departure_is_noticed});
  suite.add({.id = "collectives.failure.abort_reaches_all",
             .verifies = {"COLL-056@7c84"},
             .axes = {suite::worlds({2, 3})},
             .spoils_group = true,
             .body = abort_reaches_all});
}

}  // namespace plumbline::conformance
