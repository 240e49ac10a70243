// conformance/collectives/ended_members.hpp: members that really end, and what groups that were formed then must do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/suite/check.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::conformance {

/// Throws Skipped where no rank can end. On every rank, before any of them waits for another.
void require_end(const suite::Context& context);

/// No member leaves this sum before every other one has begun it, and is through with all that it called earlier. The
/// first to leave may end while others are in it, who then lose the sum and no call of the group that is asked.
void end_when_all_are_here(suite::Context& context, comm::Communicator& meeting, bool ends);

/// The words of the PeerFailed that a barrier throws, which is reported if it throws nothing.
std::string expect_lost(comm::Communicator& group);

/// Reports unless the members are these ranks of the world, in this order.
void expect_members(const comm::Communicator& group, const std::vector<int>& world_ranks, int world_rank);

/// Sums and copies of all members, messages, and a group that is made from it.
void expect_all_works(comm::Communicator& group, std::uint64_t seed);

}  // namespace plumbline::conformance
