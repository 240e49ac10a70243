// reference/groups/plan.hpp: which groups a world makes, and in which order: a plain value, without communicators.
//
// Model   A Plan is the list of group creations that every rank makes in the same order, each under the name of its
//         mode ("DATA", "PIPELINE", …). Rank lists are in group order: a member's position is its rank in the group. A
//         rank takes part in a mode through the one group of that mode that lists it; modes whose groups do not cover
//         the world (embeddings) leave the others out.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reference/topology/topology.hpp"

namespace plumbline::groups {

/// One group, as it is made.
struct Creation {
  std::string mode;
  std::vector<int> ranks;
  bool operator==(const Creation&) const = default;
};

struct Plan {
  std::string convention;  // whose rule: "deepspeed", "megatron", "colossalai", "plumbline"
  int world_size = 1;
  std::vector<Creation> creations;
  bool operator==(const Plan&) const = default;
};

/// Adds the creations of a mode, in the order of the list.
void add_groups(Plan& plan, std::string_view mode, const topology::GroupList& groups);

/// The modes of a plan, in the order in which they are first made.
[[nodiscard]] std::vector<std::string> modes_of(const Plan& plan);
/// The groups of a mode, in creation order. Throws NotFound, naming the known modes.
[[nodiscard]] std::vector<std::vector<int>> groups_of(const Plan& plan, std::string_view mode);

/// A rank's part in a mode. Neighbours wrap around; no groups of their own are made for them.
struct Membership {
  std::string mode;
  int creation = 0;    // position in Plan::creations
  int local_rank = 0;  // in the group
  int size = 1;
  int next = 0, previous = 0;  // world ranks
  bool operator==(const Membership&) const = default;
};
/// The memberships of each rank, in the order of modes_of(). Of several groups of a mode that list a rank, the last
/// counts, as in ColossalAI and Megatron-LM. Throws as validate().
[[nodiscard]] std::vector<std::vector<Membership>> memberships_of(const Plan& plan);

/// Throws InvalidArgument unless each creation has at least one rank, none twice, and all below the world size; names
/// the creation by number, mode and list.
void validate(const Plan& plan);
/// "[0 4]"; of more than 16 ranks the first 16, the last and the number: "[0 1 … 63: 64 ranks]". For messages.
[[nodiscard]] std::string shown(std::span<const int> ranks);

}  // namespace plumbline::groups
