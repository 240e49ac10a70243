#include "conformance/collectives/ended_members.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "conformance/collectives/trials.hpp"
#include "harness/suite/skipped.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using comm::PeerFailed;
using comm::ReduceOp;
using suite::Context;

void require_end(const Context& context) {
  if (const std::string why = context.why_no_rank_ends(); !why.empty()) throw suite::Skipped{why};
}

void end_when_all_are_here(Context& context, Communicator& meeting, bool ends) {
  const Exercise sum(meeting, {.elements = 3});
  try {
    sum.run(meeting);
    report(sum.problem());
  } catch (const PeerFailed&) {
    // of a member that has ended
  }
  if (ends) context.end_rank();
}

std::string expect_lost(Communicator& group) {
  return words_of<PeerFailed>([&] { group.barrier(); }, "a barrier with a member that has ended");
}

void expect_all_works(Communicator& group, std::uint64_t seed) {
  for (const Operation operation : exercised_operations(group))
    for (const std::int64_t elements : {1, 5, 3000})
      expect_result(group, {.operation = operation, .root = group.size() - 1, .elements = elements, .seed = ++seed});
  for (const ReduceOp op : ops_on(some_dtype(group.capabilities())))
    expect_result(group, {.operation = Operation::all_reduce, .op = op, .elements = 17, .seed = ++seed});
  const Exercise exercise(group, {.elements = 9, .seed = ++seed});
  if (group.capabilities().has(comm::Capability::nonblocking)) {
    exercise.start(group).wait();
    report(exercise.problem());
  }
  expect_usable(*group.duplicate());
  group.barrier();
}

void expect_members(const Communicator& group, const std::vector<int>& world_ranks, int world_rank) {
  EXPECT_EQ(group.size(), std::ssize(world_ranks));
  EXPECT_EQ(group.group().ranks, world_ranks);
  EXPECT_EQ(group.rank(), std::ranges::find(world_ranks, world_rank) - world_ranks.begin());
}

}  // namespace plumbline::conformance
