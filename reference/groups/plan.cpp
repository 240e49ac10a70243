#include "reference/groups/plan.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::groups {
namespace {

Membership membership_in(const Creation& creation, int number, std::size_t place) {
  const std::vector<int>& ranks = creation.ranks;
  const std::size_t size = ranks.size();
  return {.mode = creation.mode,
          .creation = number,
          .local_rank = static_cast<int>(place),
          .size = static_cast<int>(size),
          .next = ranks[(place + 1) % size],
          .previous = ranks[(place + size - 1) % size]};
}

// What is wrong with a creation's list, or nothing.
std::string fault_of(const Creation& creation, int world_size) {
  if (creation.ranks.empty()) return "has no rank";
  std::unordered_set<int> seen;
  for (const int rank : creation.ranks) {
    if (rank < 0 || rank >= world_size) return fmt::format("has rank {}, the world has {} ranks", rank, world_size);
    if (!seen.insert(rank).second) return fmt::format("has rank {} twice", rank);
  }
  return {};
}

}  // namespace

void add_groups(Plan& plan, std::string_view mode, const topology::GroupList& groups) {
  groups.for_each([&](std::span<const int> ranks) {
    plan.creations.push_back({.mode = std::string(mode), .ranks = {ranks.begin(), ranks.end()}});
  });
}

std::vector<std::string> modes_of(const Plan& plan) {
  std::vector<std::string> modes;
  for (const Creation& creation : plan.creations)
    if (std::ranges::find(modes, creation.mode) == modes.end()) modes.push_back(creation.mode);
  return modes;
}

std::vector<std::vector<int>> groups_of(const Plan& plan, std::string_view mode) {
  std::vector<std::vector<int>> groups;
  for (const Creation& creation : plan.creations)
    if (creation.mode == mode) groups.push_back(creation.ranks);
  if (groups.empty())
    throw NotFound(fmt::format("groups: there is no mode '{}'; there are [{}]", mode, fmt::join(modes_of(plan), ", ")));
  return groups;
}

std::vector<std::vector<Membership>> memberships_of(const Plan& plan) {
  validate(plan);
  std::vector<std::vector<Membership>> of_ranks(static_cast<std::size_t>(plan.world_size));
  for (const std::string& mode : modes_of(plan)) {
    std::vector<std::pair<int, std::size_t>> latest(of_ranks.size(), {-1, 0});  // creation, place in it
    for (std::size_t i = 0; i < plan.creations.size(); ++i) {
      if (plan.creations[i].mode != mode) continue;
      for (std::size_t place = 0; place < plan.creations[i].ranks.size(); ++place)
        latest[static_cast<std::size_t>(plan.creations[i].ranks[place])] = {static_cast<int>(i), place};
    }
    for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
      if (const auto [number, place] = latest[rank]; number >= 0)
        of_ranks[rank].push_back(membership_in(plan.creations[static_cast<std::size_t>(number)], number, place));
  }
  return of_ranks;
}

void validate(const Plan& plan) {
  for (std::size_t i = 0; i < plan.creations.size(); ++i) {
    const Creation& creation = plan.creations[i];
    if (const std::string fault = fault_of(creation, plan.world_size); !fault.empty())
      throw InvalidArgument(
          fmt::format("groups: creation {}, {} {}, {}", i, creation.mode, shown(creation.ranks), fault));
  }
}

std::string shown(std::span<const int> ranks) {
  constexpr std::size_t kMost = 16;
  if (ranks.size() <= kMost) return fmt::format("[{}]", fmt::join(ranks, " "));
  return fmt::format("[{} … {}: {} ranks]", fmt::join(ranks.first(kMost), " "), ranks.back(), ranks.size());
}

}  // namespace plumbline::groups
