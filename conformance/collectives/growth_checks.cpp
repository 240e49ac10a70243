// Calls leave no memory allocated, and destroyed groups nothing.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"
#include "conformance/support/holdings.hpp"
#include "harness/suite/skipped.hpp"

namespace plumbline::conformance {

using comm::Operation;
using suite::Context;

namespace {

// Calls that are made again and again on the same buffers.
class Rounds {
 public:
  explicit Rounds(Context& context) : context_(context) {
    for (const Operation operation : exercised_operations(context_.world()))
      usual_.emplace_back(context.world(), Trial{.operation = operation, .elements = 16});
    for (const Operation operation : {Operation::all_reduce, Operation::send})
      if (operation != Operation::send || can_shift(context.world()))
        long_.emplace_back(context.world(), Trial{.operation = operation, .elements = 70000});
  }
  void make(int rounds) {
    constexpr int kFromLongToLong = 25;
    for (int round = 0; round < rounds; ++round) {
      for (const Exercise& exercise : usual_) exercise.run(context_.world());
      if (starts_) usual_.front().start(context_.world()).wait();
      if (round % kFromLongToLong == 0)
        for (const Exercise& exercise : long_) exercise.run(context_.world());
    }
    for (auto* exercises : {&usual_, &long_})
      for (Exercise& exercise : *exercises) {
        report(exercise.problem());
        exercise.renew(++seed_);
      }
    context_.progress("making calls");
  }

 private:
  Context& context_;
  const bool starts_ = context_.capabilities().has(comm::Capability::nonblocking);
  std::uint64_t seed_ = context_.seed();
  std::vector<Exercise> usual_, long_;
};

// What grows in every window grows with the calls: an allocator's caches, a runtime's lists of free requests and its
// buffers that are touched for the first time come to their end. Open MPI has been seen to fill a list over eight
// windows.
void does_not_grow(Context& context) {
  constexpr int kRounds = 100, kWindows = 16;
  // An allocation has 32 bytes at least; 16 are allowed a round, for what a runtime notes of itself now and then.
  constexpr std::int64_t kAllocated = 16 * kRounds;
  constexpr std::int64_t kResident = 256 * 1024;  // in pages of mappings of the backend's own
  if (!figures_of_memory_tell()) throw suite::Skipped{"a sanitizer's allocator keeps no figures of what is allocated"};
  Rounds rounds(context);
  rounds.make(kRounds);
  Holdings before = holdings_at_rest(context.world());
  std::int64_t allocated = std::numeric_limits<std::int64_t>::max(), resident = allocated;
  for (int window = 0; window < kWindows; ++window) {
    rounds.make(kRounds);
    const Holdings after = holdings_at_rest(context.world());
    allocated = std::min(allocated, after.allocated - before.allocated);
    resident = std::min(resident, after.anonymous - before.anonymous);
    before = after;
  }
  if (allocated > kAllocated || resident > kResident)
    report(
        fmt::format("memory grows with the calls: in each of {} times {} rounds of calls by {} bytes allocated and "
                    "{} bytes resident or more",
                    kWindows, kRounds, allocated, resident));
}

// Groups that are made, used and destroyed. The first window fills what an allocator or a runtime keeps for later.
void groups_do_not_grow(Context& context) {
  constexpr int kGroups = 16, kWindows = 8;
  constexpr std::int64_t kAllocated = 256 * kGroups;  // what a runtime notes of a group's name, at most
  if (!figures_of_memory_tell()) throw suite::Skipped{"a sanitizer's allocator keeps no figures of what is allocated"};
  std::uint64_t seed = context.seed();
  const auto make_and_destroy = [&] {
    for (int i = 0; i < kGroups; ++i) expect_result(*context.world().duplicate(), {.elements = 1000, .seed = ++seed});
    context.progress("making groups");
  };
  make_and_destroy();
  Holdings before = holdings_at_rest(context.world());
  std::int64_t allocated = std::numeric_limits<std::int64_t>::max();
  std::int64_t threads = allocated, descriptors = allocated;
  for (int window = 0; window < kWindows; ++window) {
    make_and_destroy();
    const Holdings after = holdings_at_rest(context.world());
    allocated = std::min(allocated, after.allocated - before.allocated);
    threads = std::min(threads, after.threads - before.threads);
    descriptors = std::min(descriptors, after.descriptors - before.descriptors);
    before = after;
  }
  if (allocated > kAllocated || threads > 0 || descriptors > 0)
    report(
        fmt::format("destroyed groups leave something: in each of {} windows {} groups left {} bytes allocated, {} "
                    "threads and {} file descriptors or more",
                    kWindows, kGroups, allocated, threads, descriptors));
}

}  // namespace

void add_growth_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.memory.does_not_grow",
             .verifies = {"COLL-065@2f59"},
             .axes = {suite::worlds({1, 2, 3})},
             .limit = std::chrono::seconds(60),
             .body = does_not_grow});
  suite.add({.id = "collectives.memory.groups_do_not_grow",
             .verifies = {"COLL-088@c7c6"},
             .axes = {suite::worlds({2, 3})},
             .limit = std::chrono::seconds(60),
             .body = groups_do_not_grow});
}

}  // namespace plumbline::conformance
