// Time limits of waits. The group that loses a call is a duplicate; the members meet on the world.
#include <algorithm>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Operation;
using suite::Context;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

constexpr auto kLimit = 20ms;

const comm::Call kBarrier{.operation = Operation::barrier};  // has no buffers that a lost call could touch later

// The members except the last start a call. Each but the last waits for one, alone: of members that wait together the
// first to give up fails the group, and none of them could say for how long it was waited. Then they wait for one
// together. A member's clock starts when all have started, so that what it measures is its wait.
void wait(Context& context) {
  const int absent = context.size() - 1;
  for (int waiting = 0; waiting <= absent; ++waiting) {
    const bool together = waiting == absent;
    const auto victim = context.world().duplicate();
    comm::Work work = context.rank() == absent ? comm::Work() : victim->start(kBarrier);
    context.world().barrier();  // all have started before the first gives up
    if (!together && context.rank() == waiting) expect_timeout(kLimit, [&] { work.wait(kLimit); });
    if (together && context.rank() != absent)
      words_of<comm::TimeoutError>([&] { work.wait(kLimit); }, "a wait of 20 ms, of members together");
    context.world().barrier();
  }
}

// The same of messages that are never sent, whose Work is dropped afterwards.
void receive(Context& context) {
  const auto victim = context.world().duplicate();
  if (context.rank() == 0) {
    const comm::Call nothing{.operation = Operation::recv,
                             .root = context.size() - 1,
                             .out = conformance::nothing(*victim)};  // no buffer to touch later
    const comm::Call both[] = {nothing, nothing};
    comm::Work work = victim->start(both);
    expect_timeout(kLimit, [&] { work.wait(kLimit); });
  }
  context.world().barrier();
}

void blocking(Context& context) {
  constexpr auto kLong = 200ms;  // one that gave up at once can be held up for 20 ms where processors are busy
  const auto victim = context.world().duplicate();
  if (context.rank() == 0) expect_timeout(kLong, [&] { victim->barrier(kLong); });
  context.world().barrier();
}

// The last member is late, but comes long before the limit of those that wait.
constexpr auto kLate = 30ms;
constexpr auto kGenerous = 5s;  // not a matter of how busy the machine is

void expect_patience(Context& context, const std::function<void(comm::Communicator& group)>& wait) {
  const auto group = context.world().duplicate();
  context.world().barrier();  // all are here, so that lateness is what follows
  if (context.rank() == context.size() - 1) std::this_thread::sleep_for(kLate);
  try {
    wait(*group);
  } catch (const comm::TimeoutError& error) {
    report(fmt::format("a wait of 5 s for a member that came after 30 ms: {}", error.what()));
  }
  context.world().barrier();
}

void late_but_in_time(Context& context) {
  expect_patience(context, [](comm::Communicator& group) { group.start(kBarrier).wait(kGenerous); });
}

void blocking_late_but_in_time(Context& context) {
  expect_patience(context, [](comm::Communicator& group) { group.barrier(kGenerous); });
}

void names_the_missing(Context& context) {
  const auto victim = context.world().duplicate();
  std::vector<int> missing;
  for (int rank = 1; rank < context.size(); rank += 2) missing.push_back(rank);
  const bool absent = context.rank() % 2 == 1;
  comm::Work work = absent ? comm::Work() : victim->start(kBarrier);
  context.world().barrier();
  if (!absent) {
    const std::string words = words_of<comm::TimeoutError>([&] { work.wait(kLimit); }, "a wait of 20 ms");
    std::vector<int> named = ranks_at_end(words);
    std::ranges::sort(named);  // in whatever order
    EXPECT_EQ(named, missing) << "the message: " << words;
  }
  context.world().barrier();
}

}  // namespace

void add_limit_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.limits.wait",
             .verifies = {"COLL-050@7c37"},
             .axes = {suite::worlds({2, 3, 5})},
             .spoils_group = true,
             .body = wait});
  suite.add({.id = "collectives.limits.receive",
             .verifies = {"COLL-050@7c37"},
             .axes = {suite::worlds({2, 3})},
             .needs = {comm::Capability::point_to_point, comm::Capability::coalescing},
             .spoils_group = true,
             .body = receive});
  suite.add({.id = "collectives.limits.blocking",
             .verifies = {"COLL-051@4338"},
             .axes = {suite::worlds({2, 3})},
             .spoils_group = true,
             .body = blocking});
  suite.add({.id = "collectives.limits.late_but_in_time",
             .verifies = {"COLL-050@7c37"},
             .axes = {suite::worlds({2, 3, 5})},
             .spoils_group = true,
             .body = late_but_in_time});
  suite.add({.id = "collectives.limits.blocking_late_but_in_time",
             .verifies = {"COLL-051@4338"},
             .axes = {suite::worlds({2, 3})},
             .spoils_group = true,
             .body = blocking_late_but_in_time});
  suite.add({.id = "collectives.limits.names_the_missing",
             .verifies = {"COLL-052@ebe5"},
             .axes = {suite::worlds({3, 4, 5, 6, 8})},
             .spoils_group = true,
             .body = names_the_missing});
}

}  // namespace plumbline::conformance
