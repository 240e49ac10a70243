// harness/subject/c10d/communicator.hpp: comm::Communicator over a process group of torch.distributed.
#pragma once

#include <memory>

#include "harness/subject/c10d/group.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::c10d_backend {

class C10dCommunicator final : public comm::Communicator {
 public:
  explicit C10dCommunicator(std::shared_ptr<Group> group);
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return group_->job->capabilities; }
  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override;
  comm::Work do_start(std::span<const comm::Call> calls) override;
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override;
  void do_run_scaled(const comm::Call& call, double factor, comm::Timeout timeout) override;
  std::unique_ptr<comm::Communicator> do_create_group(std::span<const int> ranks) override;

  /// Throws Unsupported for a dtype that is not claimed.
  void expect_claimed(comm::DType dtype, const std::string& where) const;
  /// The same, for memory of a device, and for what backend gloo is known to lack.
  void expect_supported(const comm::Call& call) const;

  const std::shared_ptr<Group> group_;
};

}  // namespace plumbline::subject::c10d_backend
