// reference/device/host_staging.hpp: calls on a device's memory over a group that takes the host's, by way of the host.
//
// Model   What a call gives is copied to the host in the order of the caller's stream, and waited for; then the call is made on the
//         host's memory; what it got is copied back in the order of the stream that is the caller's at the wait,
//         behind all that was in the one of the start; at a further wait the stream of then goes on behind it. Calls on the
//         host's memory go through as they are. Groups made from this one are staged alike.
// Bits    Those of the group on the host's memory.
// Cost    The host waits for the stream at each call that gives something, and for the call itself. Memory of the host is kept,
//         and used again once the copies out of it are done.
// Threads, errors  As communicator.hpp says; and the runtime's.
#pragma once

#include <memory>

#include "reference/comm/communicator.hpp"
#include "reference/device/place.hpp"

namespace plumbline::device {

class HostStaging final : public comm::Communicator {
 public:
  /// Around a group that outlives it, for memory of the devices of `use`, which must have a runtime.
  HostStaging(comm::Communicator& inner, DeviceUse use);
  /// The same, and owns the group.
  HostStaging(std::unique_ptr<comm::Communicator> inner, DeviceUse use);
  ~HostStaging() override;

  /// The group's, and memory of the devices beside the host's.
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return capabilities_; }
  void use_stream(void* stream) override;
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }

 private:
  struct Shared;
  class Staged;
  class StagedWork;
  void do_run(const comm::Call& call, comm::Timeout timeout) override;
  comm::Work do_start(std::span<const comm::Call> calls) override;
  std::unique_ptr<comm::Communicator> do_create_group(std::span<const int> ranks) override;

  std::unique_ptr<comm::Communicator> owned_;
  comm::Communicator& inner_;
  comm::Capabilities capabilities_;
  std::shared_ptr<Shared> shared_;  // with calls that outlive this
};

}  // namespace plumbline::device
