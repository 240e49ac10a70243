// reference/comm/local/channel.hpp: the messages from one rank of a group to another.
//
// Model   Sends and receives are matched by tag, first come first served; whichever side comes second moves the data,
//         so a posted message needs nothing more from the rank that posted it. Small messages to a receive that is not
//         yet posted are copied and their send is complete at once; larger ones, and those in memory of a device, wait
//         for their receive. Large ones on the host are moved by both sides where the first one waits (rendezvous.hpp),
//         those of a device by the device, in the group's stream.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "reference/comm/call.hpp"
#include "reference/comm/local.hpp"
#include "reference/comm/local/rendezvous.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

/// Where a stream of a device stands; null of memory on the host.
using DevicePlace = std::shared_ptr<const DeviceCalls::Mark>;

/// One side of a message, for as long as it is under way.
struct Message {
  using State = Rendezvous::State;
  Message(const Call& of, DevicePlace stands) : call(of), ready(std::move(stands)) {}
  Rendezvous rendezvous;
  Call call;
  std::unique_ptr<std::byte[]> copy;  // of a small send's data, which is complete for its sender
  const std::byte* from = nullptr;    // of the side that came first, once they have met: what is moved
  std::byte* to = nullptr;
  std::string mismatch;  // set before `mismatched`
  bool broken = false;   // then: whether a device failed to copy
  // In memory of a device: where this side's stream stood, and, once complete, where the copy is done.
  DevicePlace ready, done;

  void copy_range(std::size_t begin, std::size_t end) const noexcept;
};

class Channel {
 public:
  /// Sends at most this large are copied when no receive is posted.
  static constexpr std::size_t kEagerBytes = 4096;

  /// The lane copies messages in memory of devices, where there are any. Of a message that both sides move, the sender
  /// begins at `sender_from`.
  Channel(DeviceCalls::Lane* lane, WaitPolicy policy, Rendezvous::From sender_from)
      : lane_(lane), policy_(policy), sender_from_(sender_from) {}

  /// Matches or posts a send or a receive. Returns this side of the message, or null where the call is complete: its
  /// data were copied, or moved on the host. Then the other side is complete, too, or is a copy that waits for its
  /// receive.
  [[nodiscard]] std::shared_ptr<Message> post(const Call& call, DevicePlace ready);
  /// Takes an unmatched message back, whose state is `withdrawn` then. False when it is being moved, or was: then its
  /// state changes soon, or has.
  bool withdraw(const std::shared_ptr<Message>& message);
  /// Of a message that has met its other side: helps to move it, for the side that came first.
  void help(Message& message) const noexcept;

 private:
  using Queue = std::deque<std::shared_ptr<Message>>;
  static std::shared_ptr<Message> take(Queue& queue, int tag);
  [[nodiscard]] std::shared_ptr<Message> move(Message& first, const Call& call, DevicePlace ready);
  void copy(Message& first, const Call& second) const noexcept;
  [[nodiscard]] Rendezvous::From begin_of(const Call& call) const;

  DeviceCalls::Lane* const lane_;
  const WaitPolicy policy_;
  const Rendezvous::From sender_from_;
  SpinLock lock_;
  Queue sends_;     // without a receive yet
  Queue receives_;  // without a send yet
};

}  // namespace plumbline::comm::local
