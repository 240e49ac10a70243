#include "harness/subject/mpi/group.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/subject/group_identity.hpp"
#include "harness/subject/mpi/errors.hpp"

namespace plumbline::subject::mpi {

std::shared_ptr<MpiGroup> MpiGroup::create(std::shared_ptr<Runtime> runtime, std::uint64_t parent,
                                           std::vector<int> world_ranks, std::string name) {
  const int creation = runtime->next_creation(parent, world_ranks);
  return std::shared_ptr<MpiGroup>(
      new MpiGroup(std::move(runtime), identify_group(parent, std::move(world_ranks), std::move(name), creation)));
}

MpiGroup::MpiGroup(std::shared_ptr<Runtime> runtime_, comm::Group identity_)
    : runtime(std::move(runtime_)),
      identity(std::move(identity_)),
      handle(runtime->create(identity.ranks, identity.id)),
      rank(static_cast<int>(std::ranges::find(identity.ranks, runtime->rank()) - identity.ranks.begin())),
      size(static_cast<int>(identity.ranks.size())),
      segment_elements(runtime->options().segment_elements) {}

MpiGroup::~MpiGroup() {
  if (failed()) return;
  MPI_Comm made = handle;
  MPI_Comm_free(&made);
}

std::shared_ptr<MpiGroup> MpiGroup::create_subgroup(std::vector<int> world_ranks) {
  if (failed()) throw_failed();
  auto subgroup = create(runtime, identity.id, std::move(world_ranks), "");
  add_subgroup(subgroup);
  return subgroup;
}

std::shared_ptr<MpiGroup> MpiGroup::grow(const Invitation& invitation, std::span<const int> newcomers) {
  if (failed()) throw_failed();
  if (invitation.group != identity.id)
    throw InvalidArgument(fmt::format("grow: the invitation is to a group of ranks {} that is not this one, {}",
                                      fmt::join(invitation.members, " "), place()));
  auto grown = join(runtime, invitation, newcomers);
  add_subgroup(grown);
  return grown;
}

std::shared_ptr<MpiGroup> MpiGroup::join(std::shared_ptr<Runtime> runtime, const Invitation& invitation,
                                         std::span<const int> newcomers) {
  std::vector<int> all = invitation.with(newcomers, runtime->size());
  invitation.use();
  return create(std::move(runtime), invitation.id, std::move(all), "");
}

void MpiGroup::add_subgroup(const std::shared_ptr<MpiGroup>& subgroup) {
  const std::lock_guard hold(mutex_);
  if (failed()) subgroup->fail(reason_);
  std::erase_if(subgroups_, [](const auto& group) { return group.expired(); });
  subgroups_.push_back(subgroup);
}

void MpiGroup::fail(const std::string& reason) noexcept {
  runtime->note_failure();
  const std::lock_guard hold(mutex_);
  if (failed()) return;
  reason_ = reason;
  failed_.store(true, std::memory_order_release);
}

void MpiGroup::abort(const std::string& reason) noexcept {
  fail(reason);
  std::vector<std::shared_ptr<MpiGroup>> subgroups;
  {
    const std::lock_guard hold(mutex_);
    for (const auto& subgroup : subgroups_)
      if (auto group = subgroup.lock()) subgroups.push_back(std::move(group));
  }
  for (const auto& group : subgroups) group->abort(reason);
}

void MpiGroup::throw_failed() const {
  const std::lock_guard hold(mutex_);
  throw comm::PeerFailed(fmt::format("{}: the group has failed: {}", place(), reason_));
}

void MpiGroup::throw_error(const comm::Call& call, int code) { throw_error(place(call), code); }

void MpiGroup::throw_error(const std::string& place, int code) {
  const std::string message = fmt::format("{}: {}", place, text_of_error(code));
  fail(message);
  throw RuntimeFailure(message);
}

void MpiGroup::throw_late(const std::string& place, std::chrono::nanoseconds limit, std::span<const int> ranks) {
  const std::string message =
      fmt::format("{}: waited {} ms for rank {}", place,
                  std::chrono::duration_cast<std::chrono::milliseconds>(limit).count(), fmt::join(ranks, ", "));
  fail(message);
  throw comm::TimeoutError(message);
}

std::vector<int> MpiGroup::others() const {
  std::vector<int> ranks;
  for (int member = 0; member < size; ++member)
    if (member != rank) ranks.push_back(member);
  return ranks;
}

void MpiGroup::check_length(const comm::Call& receive, const MPI_Status& status) {
  MPI_Count received = 0;
  MPI_Get_elements_x(&status, type_of(receive.out.dtype), &received);
  if (received == receive.out.count) [[likely]]
    return;
  std::string length = fmt::format("{} elements", received);
  if (received == MPI_UNDEFINED) {
    MPI_Get_elements_x(&status, MPI_BYTE, &received);
    length = fmt::format("{} bytes, no whole number of {} elements", received, name_of(receive.out.dtype));
  }
  const std::string message = fmt::format("{}: the message has {}", place(receive), length);
  fail(message);
  throw RuntimeFailure(message);
}

std::string MpiGroup::place() const {
  if (identity.name != "world") return fmt::format("{}, rank {}", identity.name, rank);
  return fmt::format("world [{}], rank {}", fmt::join(identity.ranks, " "), rank);
}

std::string MpiGroup::place(const std::string& call) const { return fmt::format("{} on {}", call, place()); }

}  // namespace plumbline::subject::mpi
