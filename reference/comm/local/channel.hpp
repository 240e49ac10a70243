// reference/comm/local/channel.hpp: the messages from one rank of a group to another.
//
// Model   Sends and receives are matched by tag, first come first served; whichever side comes second moves the data,
//         so a posted message needs nothing more from the rank that posted it. Small messages to a receive that is not
//         yet posted are copied and their send is complete at once; larger ones, and those in memory of a device, wait
//         for their receive. Then a device does the copy, in the group's stream.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "reference/comm/call.hpp"
#include "reference/comm/local.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

/// One side of a message, for as long as it is under way.
struct Message {
  enum class State : std::uint8_t { waiting, complete, mismatched, withdrawn };
  Call call;
  std::unique_ptr<std::byte[]> copy;  // of a small send's data
  std::atomic<State> state{State::waiting};
  std::string mismatch;  // set before `mismatched`
  bool broken = false;   // then: whether a device failed to copy
  // In memory of a device: where this side's stream stood, and, once complete, where the copy is done.
  std::shared_ptr<const DeviceCalls::Mark> ready, done;
};

class Channel {
 public:
  /// Sends at most this large are copied when no receive is posted.
  static constexpr std::size_t kEagerBytes = 4096;

  /// What copies messages in memory of devices, where there are any.
  explicit Channel(DeviceCalls::Lane* lane = nullptr) : lane_(lane) {}

  /// Matches or posts a send. The message must live until it is complete or withdrawn; a copied send is complete.
  void send(const std::shared_ptr<Message>& message);
  /// Matches or posts a receive.
  void receive(const std::shared_ptr<Message>& message);
  /// Takes an unmatched message back, whose state is `withdrawn` then. False when it is being moved, or was: then its
  /// state changes soon, or has.
  bool withdraw(const std::shared_ptr<Message>& message);

 private:
  using Queue = std::list<std::shared_ptr<Message>>;
  static std::shared_ptr<Message> take(Queue& queue, int tag);
  void move(Message& send, Message& receive);

  DeviceCalls::Lane* const lane_;
  SpinLock lock_;
  Queue sends_;     // without a receive yet
  Queue receives_;  // without a send yet
};

}  // namespace plumbline::comm::local
