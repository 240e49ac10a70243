// harness/subject/plugin/communicator.hpp: comm::Communicator over a group of the plugin's.
#pragma once

#include <memory>

#include "harness/subject/plugin/group.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::subject::plugin {

class PluginCommunicator final : public comm::Communicator {
 public:
  explicit PluginCommunicator(std::shared_ptr<Group> group);
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return group_->job->capabilities; }
  void abort(const std::string& reason) noexcept override { group_->abort(reason); }

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override;
  comm::Work do_start(std::span<const comm::Call> calls) override;
  void do_run_uneven(const comm::UnevenCall& call, comm::Timeout timeout) override;
  void do_run_scaled(const comm::Call& call, double factor, comm::Timeout timeout) override;
  void do_run_strided(const comm::StridedCall& call, comm::Timeout timeout) override;
  std::unique_ptr<comm::Communicator> do_create_group(std::span<const int> ranks) override;
  std::unique_ptr<comm::Communicator> do_shrink(std::span<const int> excluded) override;
  std::string do_invite() override { return group_->invite(); }
  std::unique_ptr<comm::Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override;
  std::unique_ptr<comm::Communicator> do_join(const std::string& invitation, std::span<const int> newcomers) override;
  comm::Registration do_register(comm::Buffer memory) override;
  void do_deregister(comm::Registration registration) override { group_->deregister(registration); }
  void* do_allocate(std::size_t bytes) override { return group_->allocate(bytes); }
  void do_deallocate(void* memory) override { group_->deallocate(memory); }

  /// Throws Unsupported for what is not in the plugin's masks, and for memory of a device.
  void expect_supported(const comm::Call& call) const;
  void expect_supported(const comm::UnevenCall& call) const;

  const std::shared_ptr<Group> group_;
};

}  // namespace plumbline::subject::plugin
