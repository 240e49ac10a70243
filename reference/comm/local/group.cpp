#include "reference/comm/local/group.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::comm::local {

int Creations::next(const std::vector<int>& world_ranks) {
  const std::lock_guard hold(mutex_);
  return ++count_[world_ranks];
}

LocalGroup::LocalGroup(Group identity_, const LocalOptions& options_, std::shared_ptr<Creations> creations)
    : identity(std::move(identity_)),
      options(options_),
      size(static_cast<int>(identity.ranks.size())),
      policy(WaitPolicy::of(size, options.cores)),
      members_(identity.ranks.size()),
      departed_(identity.ranks.size()),
      channels_(identity.ranks.size() * identity.ranks.size()),
      creations_(std::move(creations)) {
  for (Member& member : members_) member.stream = std::make_unique<PostingStream>(options.inline_bytes);
}

Channel& LocalGroup::channel(int from, int to) {
  std::atomic<Channel*>& place = channels_[static_cast<std::size_t>(from * size + to)];
  if (Channel* channel = place.load(std::memory_order_acquire)) return *channel;
  const std::lock_guard hold(mutex_);
  if (Channel* channel = place.load(std::memory_order_relaxed)) return *channel;
  owned_channels_.push_back(std::make_unique<Channel>());
  place.store(owned_channels_.back().get(), std::memory_order_release);
  return *owned_channels_.back();
}

Failure LocalGroup::failure() const {
  const std::lock_guard hold(mutex_);
  return failure_.value_or(Failure{});
}

void LocalGroup::fail(Failure failure) noexcept {
  const std::lock_guard hold(mutex_);
  if (failure_) return;
  failure_ = std::move(failure);
  failed_.store(true, std::memory_order_seq_cst);
}

void LocalGroup::abort(const std::string& reason) noexcept {
  fail({.kind = Failure::Kind::peer, .message = reason});
  std::vector<std::shared_ptr<LocalGroup>> subgroups;
  {
    const std::lock_guard hold(mutex_);
    for (const auto& subgroup : subgroups_)
      if (auto group = subgroup.lock()) subgroups.push_back(std::move(group));
  }
  for (const auto& group : subgroups) group->abort(reason);
}

bool LocalGroup::enter(int member) {
  std::atomic<bool>& inside = members_[static_cast<std::size_t>(member)].inside;
  inside.store(true, std::memory_order_seq_cst);
  if (!failed()) return true;
  inside.store(false, std::memory_order_release);
  return false;
}

void LocalGroup::leave(int member) {
  members_[static_cast<std::size_t>(member)].inside.store(false, std::memory_order_release);
}

void LocalGroup::await_nobody_inside(int except) const noexcept {
  for (int member = 0; member < size; ++member) {
    if (member == except) continue;
    const std::atomic<bool>& inside = members_[static_cast<std::size_t>(member)].inside;
    wait_until(policy, [&] { return !inside.load(std::memory_order_seq_cst); }, [](Clock::duration) {});
  }
}

std::shared_ptr<LocalGroup> LocalGroup::subgroup(int member, std::vector<int> world_ranks) {
  const int caller = identity.ranks[static_cast<std::size_t>(member)];
  const std::size_t wanted = world_ranks.size();
  std::shared_ptr<Subgroup> forming;
  {
    const std::lock_guard hold(mutex_);
    // The oldest forming group of this list that the caller has not joined is the one that it means.
    for (const auto& candidate : forming_)
      if (candidate->world_ranks == world_ranks && !std::ranges::count(candidate->joined, caller)) {
        forming = candidate;
        break;
      }
    if (forming == nullptr) {
      const int creation = creations_->next(world_ranks);
      Group child{fmt::format("[{}]{}", fmt::join(world_ranks, " "), creation > 1 ? fmt::format(" #{}", creation) : ""),
                  world_ranks, group_id(world_ranks, creation)};
      forming = std::make_shared<Subgroup>(
          Subgroup{std::move(world_ranks), {}, std::make_shared<LocalGroup>(std::move(child), options, creations_)});
      if (failure_) forming->group->fail({.kind = Failure::Kind::peer, .message = failure_->message});
      forming_.push_back(forming);
      std::erase_if(subgroups_, [](const auto& group) { return group.expired(); });
      subgroups_.push_back(forming->group);
    }
    forming->joined.push_back(caller);
    if (forming->joined.size() == wanted) std::erase(forming_, forming);
  }
  const auto all_joined = [&] {
    const std::lock_guard hold(mutex_);
    return forming->joined.size() == wanted;
  };
  wait_until(policy, all_joined, [&](Clock::duration elapsed) {
    if (failed()) throw PeerFailed(fmt::format("create_group on {}: {}", describe(identity), failure().message));
    if (elapsed <= options.timeout || all_joined()) return;
    std::vector<int> missing = forming->world_ranks;
    {
      const std::lock_guard hold(mutex_);
      std::erase_if(missing, [&](int rank) { return std::ranges::count(forming->joined, rank) > 0; });
    }
    throw TimeoutError(fmt::format("create_group({}) on {}, rank {}: no call from world rank {} within {} ms",
                                   describe(forming->group->identity), describe(identity), member,
                                   fmt::join(missing, ", "),
                                   std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout).count()));
  });
  return forming->group;
}

std::string describe(const Group& group) {
  if (group.name != "world") return group.name;
  return fmt::format("world [{}]", fmt::join(group.ranks, " "));
}

}  // namespace plumbline::comm::local
