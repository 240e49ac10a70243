#include "reference/comm/local/group.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/invitations.hpp"

namespace plumbline::comm::local {

LocalGroup::LocalGroup(Group identity_, const LocalOptions& options_, WaitPolicy policy_)
    : identity(std::move(identity_)),
      options(options_),
      size(static_cast<int>(identity.ranks.size())),
      policy(policy_),
      lane(options.device_calls == nullptr ? nullptr : options.device_calls->open_lane()),
      members_(identity.ranks.size()),
      departed_(identity.ranks.size()),
      channels_{std::vector<std::atomic<Channel*>>(identity.ranks.size() * identity.ranks.size()), {}},
      meeting_places_{std::vector<std::atomic<PairExchangeQueue*>>(identity.ranks.size() * identity.ranks.size()), {}} {
  for (Member& member : members_) member.stream = std::make_unique<PostingStream>(options.inline_bytes);
}

template <class Meeting, class... Arguments>
Meeting& LocalGroup::of_pair(Pairs<Meeting>& pairs, int from, int to, Arguments... arguments) {
  std::atomic<Meeting*>& place = pairs.places[static_cast<std::size_t>(from * size + to)];
  if (Meeting* meeting = place.load(std::memory_order_acquire)) return *meeting;
  const std::lock_guard hold(mutex_);
  if (Meeting* meeting = place.load(std::memory_order_relaxed)) return *meeting;
  pairs.owned.push_back(std::make_unique<Meeting>(arguments...));
  place.store(pairs.owned.back().get(), std::memory_order_release);
  return *pairs.owned.back();
}

Channel& LocalGroup::channel(int from, int to) {
  using enum Rendezvous::From;
  return of_pair(channels_, from, to, lane.get(), policy, from < to ? front : back);
}

PairExchangeQueue& LocalGroup::meeting_place(int lower, int higher) { return of_pair(meeting_places_, lower, higher); }

DevicePosting& LocalGroup::device_posting(int member, std::uint64_t consumed_by_all) {
  auto& postings = members_[static_cast<std::size_t>(member)].on_device;
  while (!postings.empty() && postings.front().sequence <= consumed_by_all) postings.pop_front();
  return postings.emplace_back();
}

Failure LocalGroup::failure() const {
  const std::lock_guard hold(mutex_);
  return failure_.value_or(Failure{});
}

void LocalGroup::fail(const Failure& failure) noexcept {
  const std::lock_guard hold(mutex_);
  note(failure);
}

void LocalGroup::note(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  failed_.store(true, std::memory_order_seq_cst);
}

void LocalGroup::abort(const std::string& reason) noexcept {
  fail({.kind = Failure::Kind::peer, .message = reason});
  std::vector<std::shared_ptr<LocalGroup>> subgroups;
  std::string first;  // of several ranks that give up one after the other, the first is the cause
  {
    const std::lock_guard hold(mutex_);
    first = failure_->message;
    for (const auto& subgroup : subgroups_)
      if (auto group = subgroup.lock()) subgroups.push_back(std::move(group));
  }
  for (const auto& group : subgroups) group->abort(first);
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
    wait_until(policy, [&] { return !inside.load(std::memory_order_seq_cst); }, [](Clock::time_point) {});
  }
}

// ---- groups made from this one ----

const char* LocalGroup::Making::function() const {
  if (of_those_left) return "shrink";
  return invitation.empty() ? "create_group" : "grow";
}

std::shared_ptr<LocalGroup> LocalGroup::form(int world_rank, const std::vector<int>& world_ranks,
                                             const Making& making) {
  const auto forming = join_subgroup(world_rank, world_ranks, making);
  const auto all_joined = [&] {
    const std::lock_guard hold(mutex_);
    return forming->missing.empty();
  };
  Deadline deadline(options.timeout);
  wait_until(policy, all_joined, [&](Clock::time_point now) { watch(forming, deadline.has_passed(now)); });
  return forming->group;
}

std::shared_ptr<LocalGroup::Subgroup> LocalGroup::join_subgroup(int world_rank, const std::vector<int>& world_ranks,
                                                                const Making& making) {
  const std::lock_guard hold(mutex_);
  if (failure_ && making.fails_with_us())
    throw PeerFailed(fmt::format("{} on {}: {}", making.function(), describe(identity), failure_->message));
  // The oldest forming group of this list that the caller has not joined is the one that it means.
  auto found = std::ranges::find_if(forming_, [&](const auto& forming) {
    return forming->making == making && forming->group->identity.ranks == world_ranks &&
           std::ranges::count(forming->missing, world_rank) > 0;
  });
  if (found == forming_.end()) {
    const int creation = ++creations_[world_ranks];
    Group child{fmt::format("[{}]{}", fmt::join(world_ranks, " "), creation > 1 ? fmt::format(" #{}", creation) : ""),
                world_ranks, group_id(identity.id, world_ranks, creation)};
    forming_.push_back(std::make_shared<Subgroup>(
        Subgroup{world_ranks, std::make_shared<LocalGroup>(std::move(child), options, policy), making}));
    found = std::prev(forming_.end());
    if (making.fails_with_us()) add_subgroup((*found)->group);
  }
  const auto forming = *found;
  std::erase(forming->missing, world_rank);
  if (!forming->missing.empty()) return forming;
  forming_.erase(found);
  // Not before: who aborts this group does not end what those that are left form after it.
  if (making.of_those_left) add_subgroup(forming->group);
  if (!making.invitation.empty()) use_up(making.invitation);
  return forming;
}

void LocalGroup::add_subgroup(const std::shared_ptr<LocalGroup>& group) {
  std::erase_if(subgroups_, [](const auto& other) { return other.expired(); });
  subgroups_.push_back(group);
}

// What a member that waits for a group to form looks at now and then: throws when it will not. Who waits for the same
// group is told the same.
void LocalGroup::watch(const std::shared_ptr<Subgroup>& forming, bool late) {
  std::vector<int> left;  // looked at first: a member may have joined just before it left
  for (int member = 0; member < size; ++member)
    if (departed(member)) left.push_back(identity.ranks[static_cast<std::size_t>(member)]);
  const std::lock_guard hold(mutex_);
  if (forming->missing.empty()) return;
  const auto failure = failure_of(*forming, left, late);
  if (!failure) return;
  if (forming->making.fails_us()) note(*failure);
  if (!forming->making.invitation.empty()) use_up(forming->making.invitation);
  forming->group->fail(*failure);
  std::erase(forming_, forming);
  if (failure->kind == Failure::Kind::timeout) throw TimeoutError(failure->message);
  throw PeerFailed(failure->message);
}

std::optional<Failure> LocalGroup::failure_of(const Subgroup& forming, std::vector<int> left, bool late) const {
  if (forming.group->failed()) return forming.group->failure();
  const auto because = [&](Failure::Kind kind, const std::string& why) {
    return Failure{.kind = kind,
                   .message = fmt::format("{}({}) on {}: {}", forming.making.function(),
                                          describe(forming.group->identity), describe(identity), why)};
  };
  if (failure_ && forming.making.fails_with_us()) return because(Failure::Kind::peer, failure_->message);
  std::erase_if(left, [&](int rank) { return std::ranges::count(forming.missing, rank) == 0; });
  if (!left.empty())
    return because(Failure::Kind::peer, fmt::format("world rank {} has left the group", fmt::join(left, ", ")));
  if (!late) return std::nullopt;
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout);
  return because(Failure::Kind::timeout, fmt::format("no call from world rank {} within {} ms",
                                                     fmt::join(forming.missing, ", "), limit.count()));
}

std::string describe(const Group& group) {
  if (group.name != "world") return group.name;
  return fmt::format("world [{}]", fmt::join(group.ranks, " "));
}

}  // namespace plumbline::comm::local
