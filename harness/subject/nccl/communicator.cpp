#include "harness/subject/nccl/communicator.hpp"

#include <fmt/format.h>

#include "harness/subject/nccl/work.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {

using comm::Call;

NcclCommunicator::NcclCommunicator(std::shared_ptr<Group> group, device::Stream stream)
    : Communicator(group->rank, group->identity),
      group_(std::move(group)),
      stream_(std::make_shared<device::Stream>(stream)) {}

void NcclCommunicator::expect_supported(const Call& call) const {
  const Process& process = group_->job->process;
  if (const std::string functions = process.library.lacking(call.operation); !functions.empty()) [[unlikely]]
    throw Unsupported(fmt::format("{}: '{}' has no {}", name_of(call.operation), process.library.file(), functions));
  const comm::Device ours{process.options.runtime, static_cast<std::int16_t>(process.device)};
  process.memory->expect_memory(call, rank());
  const auto expect = [&](const comm::ConstBuffer& buffer) {
    if (buffer.count > 0 && buffer.device != ours)
      throw Unsupported(fmt::format("{}: memory on {} is not supported by backend nccl on this rank, only {}",
                                    name_of(call.operation), name_of(buffer.device), name_of(ours)));
  };
  if (call.uses_in(rank())) expect(call.in);
  if (call.uses_out(rank())) expect(call.out);
}

void NcclCommunicator::do_run(const Call& call, comm::Timeout timeout) {
  expect_supported(call);
  NcclWork work(group_, stream_);
  work.post(std::span(&call, 1));
  work.wait(timeout);
}

void NcclCommunicator::do_run_scaled(const Call& call, double factor, comm::Timeout timeout) {
  expect_supported(call);
  NcclWork work(group_, stream_);
  work.post(call, factor);
  work.wait(timeout);
}

comm::Work NcclCommunicator::do_start(std::span<const Call> calls) {
  for (const Call& call : calls) expect_supported(call);
  if (calls.empty()) return {};
  auto work = std::make_unique<NcclWork>(group_, stream_);
  work->post(calls);
  return comm::Work(std::move(work));
}

comm::Registration NcclCommunicator::do_register(comm::Buffer memory) {
  const Process& process = group_->job->process;
  const comm::Device ours{process.options.runtime, static_cast<std::int16_t>(process.device)};
  if (memory.device != ours)
    throw Unsupported(
        fmt::format("register_memory: memory on {} is not supported by backend nccl on this rank, only {}",
                    name_of(memory.device), name_of(ours)));
  return group_->register_memory(memory.data, memory.bytes());
}

std::unique_ptr<comm::Communicator> NcclCommunicator::do_create_group(std::span<const int> ranks) {
  std::vector<int> world_ranks;
  for (const int member : ranks) world_ranks.push_back(group_->identity.ranks[static_cast<std::size_t>(member)]);
  return std::make_unique<NcclCommunicator>(Group::create(group_->job, group_, std::move(world_ranks), ""), *stream_);
}

}  // namespace plumbline::subject::nccl
