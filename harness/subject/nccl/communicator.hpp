// harness/subject/nccl/communicator.hpp: comm::Communicator over NCCL.
#pragma once

#include <memory>

#include "harness/subject/nccl/group.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::nccl {

class NcclCommunicator final : public comm::Communicator {
 public:
  NcclCommunicator(std::shared_ptr<Group> group, device::Stream stream);
  ~NcclCommunicator() override { group_->leave(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] const comm::Capabilities& capabilities() const override { return group_->job->process.capabilities; }
  void use_stream(void* stream) override { *stream_ = stream; }
  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override;
  void do_run_scaled(const comm::Call& call, double factor, comm::Timeout timeout) override;
  comm::Work do_start(std::span<const comm::Call> calls) override;
  std::unique_ptr<comm::Communicator> do_create_group(std::span<const int> ranks) override;
  comm::Registration do_register(comm::Buffer memory) override;
  void do_deregister(comm::Registration registration) override { group_->deregister(registration); }

  /// Throws Unsupported for memory that is not our device's.
  void expect_supported(const comm::Call& call) const;

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<device::Stream> stream_;  // calls under way know it, too
};

}  // namespace plumbline::subject::nccl
