// conformance/training/watched_memory.hpp: groups that tell in which memory training gives them tensors.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "harness/suite/check.hpp"
#include "reference/comm/communicator.hpp"

namespace plumbline::conformance {

/// How many calls were on numbers of a model, or on what one stage hands to the next, and in which memory.
struct Seen {
  std::atomic<int> on_device = 0, on_host = 0;  // a thread of gossip makes calls, too
};

/// Keeps the stream of each call on the device's memory busy before it, so that what is not ordered after it comes
/// first, and counts the calls on tensors. A thread of gossip has a group, and a stream, of its own. Seat and counts
/// must outlive it.
class SlowStream final : public comm::CommunicatorDecorator {
 public:
  SlowStream(std::unique_ptr<comm::Communicator> inner, const suite::DeviceSeat& seat, Seen& seen,
             device::Stream stream = nullptr)
      : CommunicatorDecorator(std::move(inner)), seat_(seat), seen_(seen), stream_(stream) {}
  void use_stream(void* stream) override;

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override;
  comm::Work do_start(std::span<const comm::Call> calls) override;
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override;
  void meet(const comm::Call& call);

  const suite::DeviceSeat& seat_;
  Seen& seen_;
  device::Stream stream_;
};

/// Serves the host's memory alone, whatever the group that it wraps does.
class HostsMemoryAlone final : public comm::CommunicatorDecorator {
 public:
  explicit HostsMemoryAlone(std::unique_ptr<comm::Communicator> inner);
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return can_; }

 private:
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override;

  comm::Capabilities can_;
};

}  // namespace plumbline::conformance
