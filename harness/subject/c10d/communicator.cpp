#include "harness/subject/c10d/communicator.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "harness/subject/c10d/work.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::c10d_backend {

using comm::Call;

namespace {

// A blocking call's limit is the process group's to keep. Ours is for those that do not, and for messages, to which
// c10d gives none.
constexpr std::chrono::milliseconds kToKeepIt{250};

// A limit may be the longest that there is.
comm::Timeout with_time_to_keep(comm::Timeout limit) {
  if (!limit) return limit;
  return std::min<std::chrono::nanoseconds>(*limit, std::chrono::nanoseconds::max() - kToKeepIt) + kToKeepIt;
}

}  // namespace

C10dCommunicator::C10dCommunicator(std::shared_ptr<Group> group)
    : Communicator(group->rank, group->identity), group_(std::move(group)) {}

// What option dtypes leaves out is refused even where torch would do it: it is not claimed.
void C10dCommunicator::expect_claimed(comm::DType dtype, const std::string& where) const {
  if (!capabilities().supports(dtype))
    throw Unsupported(fmt::format("{}: backend {} has no {}", where, capabilities().backend, name_of(dtype)));
}

void C10dCommunicator::expect_supported(const Call& call) const {
  if (call.operation != comm::Operation::barrier) expect_claimed(call.dtype(), group_->where(call));
  if (call.device().kind != comm::Device::Kind::cpu)
    throw Unsupported(fmt::format("{}: memory on {} is not supported by backend {}, only the host's",
                                  group_->where(call), name_of(call.device()), group_->job->capabilities.backend));
  if (is_point_to_point(call.operation) && call.root == rank() && group_->job->backend == kGloo)
    throw Unsupported(fmt::format("{}: gloo has no messages of a rank to itself", group_->where(call)));
}

void C10dCommunicator::do_run(const Call& call, comm::Timeout timeout) {
  expect_supported(call);
  group_->expect_sound();
  C10dWork work(group_, std::span(&call, 1), timeout, false);
  work.wait(is_point_to_point(call.operation) ? timeout : with_time_to_keep(timeout));
}

// Torch has one such sum, made for NCCL: a backend of the user's that has it says so (option claims).
void C10dCommunicator::do_run_scaled(const Call& call, double factor, comm::Timeout timeout) {
  expect_supported(call);
  group_->expect_sound();
  C10dWork work(group_, std::span(&call, 1), timeout, false, factor);
  work.wait(with_time_to_keep(timeout));
}

comm::Work C10dCommunicator::do_start(std::span<const Call> calls) {
  for (const Call& call : calls) expect_supported(call);
  if (calls.empty()) return {};
  group_->expect_sound();
  return comm::Work(std::make_unique<C10dWork>(group_, calls, comm::Timeout{}, true));
}

// all_to_all alone: blocks of different lengths in the other operations torch.distributed leaves to the backends.
void C10dCommunicator::do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) {
  expect_claimed(call.in.dtype, group_->where(describe(call)));
  if (call.operation != comm::Operation::all_to_all || call.in.device.kind != comm::Device::Kind::cpu)
    throw Unsupported(fmt::format("{} is not supported by backend {}", group_->where(describe(call)),
                                  group_->job->capabilities.backend));
  group_->expect_sound();
  C10dWork work(group_, call, timeout);
  work.wait(with_time_to_keep(timeout));
}

std::unique_ptr<comm::Communicator> C10dCommunicator::do_create_group(std::span<const int> ranks) {
  return std::make_unique<C10dCommunicator>(group_->create(ranks));
}

}  // namespace plumbline::subject::c10d_backend
