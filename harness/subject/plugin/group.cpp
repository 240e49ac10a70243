#include "harness/subject/plugin/group.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/subject/group_identity.hpp"
#include "harness/subject/plugin/reply.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {
namespace {

constexpr std::size_t kInvitation = 512;  // room for a library's words

}  // namespace

std::shared_ptr<Group> Group::world(std::shared_ptr<Job> job, int ranks) {
  std::vector<int> world_ranks(static_cast<std::size_t>(ranks));
  std::iota(world_ranks.begin(), world_ranks.end(), 0);
  const int creation = job->next_creation(comm::kNoParent, world_ranks);
  comm::Group identity = identify_group(comm::kNoParent, std::move(world_ranks), "world", creation);
  std::shared_ptr<Group> group(new Group(std::move(job), std::move(identity)));
  group->create_handle(nullptr, nullptr, {});
  return group;
}

std::shared_ptr<Group> Group::create(std::span<const int> ranks) {
  if (job->library->create_group == nullptr)
    throw Unsupported(fmt::format("create_group([{}]): backend {} has no create_group", fmt::join(ranks, " "),
                                  job->capabilities.backend));
  expect_sound();
  const std::shared_ptr<Group> group = form(job->library->create_group, identity.id, ranks);
  pass_on_abort(*group);
  return group;
}

void Group::pass_on_abort(Group& made) const {
  std::string reason;
  {
    const std::lock_guard hold(mutex_);
    reason = reason_;
  }
  if (is_aborted_) made.abort(reason);
}

// Has an origin of its own: a member may have made a group of the same list alone, when the old one failed.
std::shared_ptr<Group> Group::shrink(std::span<const int> ranks) {
  return form(job->library->shrink, ~identity.id, ranks);
}

std::shared_ptr<Group> Group::form(CreateFunction function, std::uint64_t origin, std::span<const int> ranks) {
  std::vector<int> world_ranks;
  for (const int member : ranks) world_ranks.push_back(identity.ranks[static_cast<std::size_t>(member)]);
  const int creation = job->next_creation(origin, world_ranks);
  std::shared_ptr<Group> group(new Group(job, identify_group(origin, world_ranks, "", creation)));
  try {
    group->create_handle(function, this, ranks);
  } catch (...) {
    job->take_back_creation(origin, world_ranks);
    throw;
  }
  add_subgroup(group);
  return group;
}

void Group::add_subgroup(const std::shared_ptr<Group>& group) {
  const std::lock_guard hold(mutex_);
  std::erase_if(subgroups_, [](const auto& one) { return one.expired(); });
  subgroups_.push_back(group);
}

// ---- growth ----

std::string Group::invite() {
  expect_sound();
  std::array<char, kInvitation> words{};
  if (job->library->invite != nullptr)
    call([&] { return fmt::format("invite on {}", where()); },
         [&](plumbline_error* error) { return job->library->invite(handle_, words.data(), words.size(), error); });
  words.back() = '\0';
  return Invitation::to(identity, rank, one_line(words.data())).text();
}

std::shared_ptr<Group> Group::grow(const Invitation& invitation, std::span<const int> newcomers) {
  expect_sound();
  if (invitation.group != identity.id)
    throw InvalidArgument(fmt::format("grow: the invitation is to a group of ranks {} that is not this one, {}",
                                      fmt::join(invitation.members, " "), where()));
  auto group = grown(job, this, invitation, newcomers);
  add_subgroup(group);
  pass_on_abort(*group);
  return group;
}

std::shared_ptr<Group> Group::join(std::shared_ptr<Job> job, const Invitation& invitation,
                                   std::span<const int> newcomers) {
  return grown(std::move(job), nullptr, invitation, newcomers);
}

std::shared_ptr<Group> Group::grown(std::shared_ptr<Job> job, Group* old, const Invitation& invitation,
                                    std::span<const int> newcomers) {
  std::vector<int> all = invitation.with(newcomers, job->place.size);
  invitation.use();
  std::shared_ptr<Group> group(new Group(job, identify_group(invitation.id, std::move(all), "", 1)));
  const plumbline_group_info described = group->info();
  group->make_handle([&](plumbline_group** made, plumbline_error* error) {
    return job->library->grow(job->context(), old == nullptr ? nullptr : old->handle_, invitation.words.c_str(),
                              &described, made, error);
  });
  return group;
}

Group::Group(std::shared_ptr<Job> job_, comm::Group identity_)
    : job(std::move(job_)),
      identity(std::move(identity_)),
      rank(static_cast<int>(std::ranges::find(identity.ranks, job->place.rank) - identity.ranks.begin())),
      size(static_cast<int>(identity.ranks.size())) {}

Group::~Group() {
  for (void* const memory : allocated_) job->library->deallocate(handle_, memory);
  if (handle_ != nullptr) job->library->destroy_group(handle_);
}

void Group::create_handle(CreateFunction function, const Group* parent, std::span<const int> parent_ranks) {
  plumbline_group_info described = info();
  described.parent_ranks = parent == nullptr ? nullptr : parent_ranks.data();
  make_handle([&](plumbline_group** made, plumbline_error* error) {
    return parent == nullptr ? job->library->world(job->context(), &described, made, error)
                             : function(parent->handle_, &described, made, error);
  });
}

plumbline_group_info Group::info() const {
  return {.id = identity.id,
          .rank = rank,
          .ranks = size,
          .world_ranks = identity.ranks.data(),
          .parent_ranks = nullptr,
          .name = identity.name.c_str()};
}

void Group::make_handle(const std::function<plumbline_status(plumbline_group**, plumbline_error*)>& function) {
  plumbline_group* made = nullptr;
  call([&] { return fmt::format("creating {}", where()); },
       [&](plumbline_error* error) { return function(&made, error); });
  handle_ = made;  // of another status the library has freed it
  if (handle_ == nullptr)
    throw RuntimeFailure(fmt::format("creating {}: the plugin returned status 0 and no group", where()));
}

void Group::expect_sound() const {
  if (job->library->abort != nullptr || !is_aborted_.load(std::memory_order_acquire)) return;
  const std::lock_guard hold(mutex_);
  throw comm::PeerFailed(fmt::format("{}: the group has failed: {}", where(), reason_));
}

void Group::abort(const std::string& reason) noexcept {
  std::vector<std::shared_ptr<Group>> subgroups;
  {
    const std::lock_guard hold(mutex_);
    if (!is_aborted_.load()) {
      reason_ = reason;
      is_aborted_.store(true, std::memory_order_release);
    }
    for (const auto& one : subgroups_)
      if (auto subgroup = one.lock()) subgroups.push_back(std::move(subgroup));
  }
  if (job->library->abort != nullptr) job->library->abort(handle_, reason.c_str());
  for (const auto& subgroup : subgroups) subgroup->abort(reason);
}

std::string Group::where() const {
  if (identity.name != "world") return fmt::format("{}, rank {}", identity.name, rank);
  return fmt::format("world [{}], rank {}", fmt::join(identity.ranks, " "), rank);
}

std::string Group::where(const std::string& call) const { return fmt::format("{} on {}", call, where()); }

}  // namespace plumbline::subject::plugin
