#include "reference/groups/parallel_context.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/groups/detail/agreement.hpp"
#include "reference/groups/lint.hpp"

namespace plumbline::groups {
namespace {

using comm::Communicator;
using comm::Timeout;

// The world rank `distance` positions after this one, around the end.
int neighbour(std::span<const int> ranks, int world_rank, int distance) {
  const auto size = static_cast<std::ptrdiff_t>(ranks.size());
  const std::ptrdiff_t position = std::ranges::find(ranks, world_rank) - ranks.begin();
  return ranks[static_cast<std::size_t>((position + distance + size) % size)];
}

}  // namespace

ParallelContext::ParallelContext(Communicator& parent, Plan plan, const ContextOptions& options)
    : plan_(std::move(plan)), rank_(parent.rank()), modes_(modes_of(plan_)), next_sequence_(options.first_sequence) {
  or_give_up(parent, [&] { log_creations(options.log); });
  agree_on(parent, plan_, options.timeout);
  or_give_up(parent, [&] { create_groups(parent); });
}

ParallelContext::~ParallelContext() { release(); }

// Others must not wait for a rank that goes no further.
void ParallelContext::or_give_up(Communicator& parent, const std::function<void()>& stage) {
  try {
    stage();
  } catch (...) {
    parent.abort(fmt::format("groups: rank {} failed to make its groups", rank_));
    release();
    throw;
  }
}

void ParallelContext::log_creations(const std::function<void(const std::string& line)>& log) {
  for (const Creation& creation : plan_.creations) {
    if (log) log(creation_line(rank_, next_sequence_, creation));
    ++next_sequence_;
  }
}

void ParallelContext::create_groups(Communicator& parent) {
  for (const Creation& creation : plan_.creations) {
    if (std::ranges::find(creation.ranks, rank_) == creation.ranks.end()) continue;
    groups_.push_back({.creation = creation, .communicator = parent.create_group(creation.ranks)});
  }
}

// The last made first, on all ranks.
void ParallelContext::release() {
  while (!groups_.empty()) groups_.pop_back();
}

bool ParallelContext::has(std::string_view mode) const {
  return std::ranges::any_of(groups_, [mode](const LiveGroup& group) { return group.creation.mode == mode; });
}

const LiveGroup& ParallelContext::group_of(std::string_view mode) const {
  for (std::size_t i = groups_.size(); i > 0; --i)
    if (groups_[i - 1].creation.mode == mode) return groups_[i - 1];
  if (std::ranges::find(modes_, mode) == modes_.end())
    throw NotFound(fmt::format("groups: there is no mode '{}'; there are [{}]", mode, fmt::join(modes_, ", ")));
  throw StateError(fmt::format("groups: this rank has no part in mode '{}'", mode));
}

Communicator& ParallelContext::communicator(std::string_view mode) const { return *group_of(mode).communicator; }
int ParallelContext::local_rank(std::string_view mode) const { return communicator(mode).rank(); }
int ParallelContext::size(std::string_view mode) const { return communicator(mode).size(); }
const std::vector<int>& ParallelContext::ranks(std::string_view mode) const { return group_of(mode).creation.ranks; }

int ParallelContext::next(std::string_view mode) const { return neighbour(ranks(mode), rank_, +1); }
int ParallelContext::previous(std::string_view mode) const { return neighbour(ranks(mode), rank_, -1); }
int ParallelContext::root(std::string_view mode) const { return ranks(mode).front(); }

int ParallelContext::to_group_rank(std::string_view mode, int world_rank) const {
  const std::vector<int>& members = ranks(mode);
  const auto position = std::ranges::find(members, world_rank);
  if (position == members.end())
    throw InvalidArgument(fmt::format("groups: rank {} is no member of {}", world_rank, shown(members)));
  return static_cast<int>(position - members.begin());
}

int ParallelContext::to_world_rank(std::string_view mode, int group_rank) const {
  const std::vector<int>& members = ranks(mode);
  if (static_cast<std::size_t>(group_rank) >= members.size())  // nor is one below 0
    throw OutOfRange(fmt::format("groups: there is no group rank {} in {}", group_rank, shown(members)));
  return members[static_cast<std::size_t>(group_rank)];
}

void ParallelContext::broadcast(std::string_view mode, comm::Buffer buffer, int root_world_rank,
                                Timeout timeout) const {
  communicator(mode).broadcast(buffer, to_group_rank(mode, root_world_rank), timeout);
}
void ParallelContext::broadcast_initial(std::string_view mode, comm::Buffer buffer, Timeout timeout) const {
  broadcast(mode, buffer, root(mode), timeout);
}

}  // namespace plumbline::groups
