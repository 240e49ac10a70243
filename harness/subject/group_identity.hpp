// harness/subject/group_identity.hpp: how backend modules name groups: as the local backend does, so that records of
// different backends compare.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/communicator.hpp"

namespace plumbline::subject {

/// The identity of a group: `creation` is the index of this creation of these ranks in its parent, from 1 on. Without a
/// name it is called by its ranks, "[0 2 4]", with "#2" when its parent made the same list a second time.
[[nodiscard]] inline comm::Group identify_group(std::uint64_t parent, std::vector<int> world_ranks, std::string name,
                                                int creation) {
  if (name.empty())
    name = fmt::format("[{}]{}", fmt::join(world_ranks, " "), creation > 1 ? fmt::format(" #{}", creation) : "");
  const std::uint64_t id = comm::group_id(parent, world_ranks, creation);
  return {std::move(name), std::move(world_ranks), id};
}

}  // namespace plumbline::subject
