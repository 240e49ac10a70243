#include "harness/subject/c10d/group.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include "harness/subject/c10d/python_side.hpp"
#include "harness/subject/group_identity.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::c10d_backend {

struct Group::Handle {
  std::string name;  // in torch's registry
  c10::intrusive_ptr<::c10d::ProcessGroup> group;
};

std::shared_ptr<Group> Group::world(std::shared_ptr<Job> job, int ranks) {
  std::vector<int> world_ranks(static_cast<std::size_t>(ranks));
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  const int creation = job->next_creation(comm::kNoParent, world_ranks);
  comm::Group identity = identify_group(comm::kNoParent, std::move(world_ranks), "world", creation);
  return std::shared_ptr<Group>(new Group(std::move(job), std::move(identity)));
}

std::shared_ptr<Group> Group::create(std::span<const int> ranks) {
  expect_sound();
  std::vector<int> world_ranks;
  for (const int member : ranks) world_ranks.push_back(identity.ranks[static_cast<std::size_t>(member)]);
  const int creation = job->next_creation(identity.id, world_ranks);
  std::shared_ptr<Group> group(new Group(job, identify_group(identity.id, std::move(world_ranks), "", creation)));
  std::string reason;
  {
    const std::lock_guard hold(mutex_);
    std::erase_if(subgroups_, [](const auto& one) { return one.expired(); });
    subgroups_.push_back(group);
    reason = reason_;
  }
  if (has_failed_) group->fail(reason);  // a failure in the meantime has not met it
  return group;
}

Group::Group(std::shared_ptr<Job> job_, comm::Group identity_)
    : job(std::move(job_)),
      identity(std::move(identity_)),
      rank(static_cast<int>(std::ranges::find(identity.ranks, job->place.rank) - identity.ranks.begin())),
      size(static_cast<int>(identity.ranks.size())) {
  try {
    // Equal on all members, and of no other group.
    const std::string name =
        ask_python(
            {{"do", "create"}, {"name", fmt::format("plumbline-{:016x}", identity.id)}, {"ranks", identity.ranks}})
            .at("group");
    handle_ = std::make_unique<Handle>(name, ::c10d::resolve_process_group(name));
  } catch (const std::exception& error) {
    throw RuntimeFailure(fmt::format("creating {}: {}", where(), error.what()));
  }
}

Group::~Group() {
  if (handle_ == nullptr) return;
  if (has_failed_) {
    (void)handle_.release();
    return;
  }
  handle_->group.reset();
  try {
    (void)ask_python({{"do", "drop"}, {"group", handle_->name}});
  } catch (const std::exception&) {
    return;  // of a group that is not used any more
  }
}

::c10d::ProcessGroup& Group::process_group() const { return *handle_->group; }

void Group::expect_sound() const {
  if (!has_failed_.load(std::memory_order_acquire)) return;
  const std::lock_guard hold(mutex_);
  throw comm::PeerFailed(fmt::format("{}: the group has failed: {}", where(), reason_));
}

void Group::fail(const std::string& reason) noexcept {
  const std::lock_guard hold(mutex_);
  if (has_failed_.load()) return;
  reason_ = reason;
  has_failed_.store(true, std::memory_order_release);
}

void Group::abort(const std::string& reason) noexcept {
  fail(reason);
  try {
    handle_->group->abort();
  } catch (const std::exception&) {
    // It has failed for this rank, whatever its backend makes of it.
  }
  std::vector<std::shared_ptr<Group>> subgroups;
  {
    const std::lock_guard hold(mutex_);
    for (const auto& one : subgroups_)
      if (auto subgroup = one.lock()) subgroups.push_back(std::move(subgroup));
  }
  for (const auto& subgroup : subgroups) subgroup->abort(reason);
}

std::string Group::where() const {
  if (identity.name != "world") return fmt::format("{}, rank {}", identity.name, rank);
  return fmt::format("world [{}], rank {}", fmt::join(identity.ranks, " "), rank);
}

std::string Group::where(const std::string& call) const { return fmt::format("{} on {}", call, where()); }

}  // namespace plumbline::subject::c10d_backend
