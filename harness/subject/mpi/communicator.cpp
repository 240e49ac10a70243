#include "harness/subject/mpi/communicator.hpp"

#include <fmt/format.h>

#include "harness/subject/mpi/issue.hpp"
#include "harness/subject/mpi/strided.hpp"
#include "harness/subject/mpi/uneven.hpp"
#include "harness/subject/mpi/work.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::mpi {

using comm::Call;

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiGroup> group)
    : Communicator(group->rank, group->identity), group_(std::move(group)) {}

bool MpiCommunicator::is_supported(const Call& call) const {
  return call.in.device.kind == comm::Device::Kind::cpu && call.out.device.kind == comm::Device::Kind::cpu &&
         (!is_point_to_point(call.operation) || call.tag <= group_->runtime->largest_tag());
}

void MpiCommunicator::refuse(const Call& call) const {
  for (const comm::Device device : {call.in.device, call.out.device})
    if (device.kind != comm::Device::Kind::cpu)
      throw Unsupported(fmt::format("{}: memory on {} is not supported by backend mpi, only cpu",
                                    name_of(call.operation), name_of(device)));
  throw Unsupported(fmt::format("{}: tag {} is above {}, the largest of this MPI", name_of(call.operation), call.tag,
                                group_->runtime->largest_tag()));
}

void MpiCommunicator::do_run(const Call& call, comm::Timeout timeout) {
  if (!is_supported(call)) [[unlikely]]
    refuse(call);
  if (group_->failed()) [[unlikely]]
    group_->throw_failed();
  if (timeout) return run_within(call, timeout);
  if (needs_staging(call, rank(), size())) return run_staged(call);
  Direct direct(*group_, call);
  issue(direct, *group_, call);
}

void MpiCommunicator::run_staged(const Call& call) {
  const Call staged = stage(call, rank(), size(), scratch_);
  Direct direct(*group_, call);
  issue(direct, *group_, staged);
  unstage(call, staged, rank(), size());
}

void MpiCommunicator::run_within(const Call& call, comm::Timeout timeout) {
  MpiWork work(group_);
  work.post(call);
  work.wait(timeout);
}

comm::Work MpiCommunicator::do_start(std::span<const Call> calls) {
  for (const Call& call : calls)
    if (!is_supported(call)) refuse(call);
  if (group_->failed()) group_->throw_failed();
  auto work = std::make_unique<MpiWork>(group_);
  for (const Call& call : calls) work->post(call);
  return comm::Work(std::move(work));
}

void MpiCommunicator::do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) {
  if (call.in.device.kind != comm::Device::Kind::cpu)
    throw Unsupported(fmt::format("{}: memory on {} is not supported by backend mpi, only cpu", describe(call),
                                  name_of(call.in.device)));
  if (group_->failed()) group_->throw_failed();
  mpi::run_uneven(*group_, call, timeout);
}

// MPI has no such sum: this rank multiplies, and MPI adds the products.
void MpiCommunicator::do_run_scaled(const Call& call, double factor, comm::Timeout timeout) {
  if (!is_supported(call)) refuse(call);
  auto sum = std::make_unique<comm::ScaledSum>(call, factor, rank());
  try {
    do_run(sum->plain(), timeout);
  } catch (...) {
    (void)sum.release();  // MPI may still be at it
    throw;
  }
  sum->finish();
}

void MpiCommunicator::do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) {
  if (!is_supported(call.call)) refuse(call.call);
  if (group_->failed()) group_->throw_failed();
  mpi::run_strided(group_, call, timeout);
}

std::unique_ptr<comm::Communicator> MpiCommunicator::do_create_group(std::span<const int> ranks) {
  std::vector<int> world_ranks;
  for (const int rank : ranks) world_ranks.push_back(group().ranks[static_cast<std::size_t>(rank)]);
  return std::make_unique<MpiCommunicator>(group_->create_subgroup(std::move(world_ranks)));
}

std::string MpiCommunicator::do_invite() {
  if (group_->failed()) group_->throw_failed();
  return Invitation::to(group(), rank()).text();
}

std::unique_ptr<comm::Communicator> MpiCommunicator::do_grow(const std::string& invitation,
                                                             std::span<const int> newcomers) {
  return std::make_unique<MpiCommunicator>(group_->grow(Invitation::parse(invitation), newcomers));
}

std::unique_ptr<comm::Communicator> MpiCommunicator::do_join(const std::string& invitation,
                                                             std::span<const int> newcomers) {
  return std::make_unique<MpiCommunicator>(MpiGroup::join(group_->runtime, Invitation::parse(invitation), newcomers));
}

}  // namespace plumbline::subject::mpi
