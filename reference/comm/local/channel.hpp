// reference/comm/local/channel.hpp: the messages from one rank of a group to another.
//
// Model   Sends and receives are matched by tag, first come first served; whichever side comes second moves the data.
//         Small sends on the host are complete at once: they are put into a mailbox (mailbox.hpp), without the
//         channel's lock. Who holds the lock empties it before anything else is matched, so that messages keep their
//         order: a receiver when it posts and when it looks, a sender whose message is larger, or to whom the mailbox
//         is full. They are moved in one piece, under the lock, in which no rank waits. Large messages on the host are
//         moved by both sides where the first one waits (rendezvous.hpp), those of a device by the device, in the
//         group's stream.
// Progress  A send needs nothing more from the rank that posted it, nor does a receive of a large message. A receive
//         that was posted before its small message came is complete when its rank looks: when it tests or waits.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "reference/comm/call.hpp"
#include "reference/comm/local.hpp"
#include "reference/comm/local/mailbox.hpp"
#include "reference/comm/local/rendezvous.hpp"
#include "reference/comm/local/wait.hpp"

namespace plumbline::comm::local {

/// Where a stream of a device stands; null of memory on the host.
using DevicePlace = std::shared_ptr<const DeviceCalls::Mark>;

/// One side of a message while it is under way. It belongs to the side that posted it, which keeps it until it is over:
/// from then on no rank accesses it.
struct Message {
  using State = Rendezvous::State;
  Call call;
  // In memory of a device: where this side's stream stood, and, once complete, where the copy is done.
  DevicePlace ready{}, done{};
  Rendezvous rendezvous{};
  // Of the side that came first, once they have met: what is moved, and the other side, which is complete as well when
  // the last piece is made.
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  Message* second = nullptr;
  Message* next = nullptr;  // in a queue
  // The data of a send that came through the mailbox before its receive: such a message belongs to its queue.
  std::unique_ptr<std::byte[]> copy{};
  std::string mismatch{};  // set before `mismatched`
  bool broken = false;     // then: whether a device failed to copy

  void copy_range(std::size_t begin, std::size_t end) const noexcept;
};

/// Messages without their other side, first come first served.
class MessageQueue {
 public:
  MessageQueue() = default;
  MessageQueue(const MessageQueue&) = delete;
  MessageQueue& operator=(const MessageQueue&) = delete;
  ~MessageQueue();

  void push(Message& message) {
    *end_ = &message;
    end_ = &message.next;
  }
  /// Takes the first one with this tag out; null without one.
  [[nodiscard]] Message* take(int tag) {
    return take_where([&](const Message& message) { return message.call.tag == tag; });
  }
  /// Takes it out. Returns whether it was in.
  bool remove(const Message& it) {
    return take_where([&](const Message& message) { return &message == &it; }) != nullptr;
  }

 private:
  template <class Is>
  Message* take_where(const Is& is) {
    Message** link = &first_;
    while (*link != nullptr && !is(**link)) link = &(*link)->next;
    Message* const found = *link;
    if (found == nullptr) return nullptr;
    *link = std::exchange(found->next, nullptr);
    if (*link == nullptr) end_ = link;
    return found;
  }

  Message* first_ = nullptr;
  Message** end_ = &first_;  // where the next one is linked
};

class Channel {
 public:
  /// The lane copies messages in memory of devices, where there are any. Of a message that both sides move, the sender
  /// begins at `sender_from`.
  Channel(DeviceCalls::Lane* lane, WaitPolicy policy, Rendezvous::From sender_from)
      : lane_(lane), policy_(policy), sender_from_(sender_from) {}

  /// Completes a send that is small enough. False of others: they are to be posted.
  [[nodiscard]] bool mail(const Call& send);
  /// Matches a send or a receive, or leaves it for its other side.
  void post(Message& message);
  /// Gives posted receives what has come for them.
  void look() noexcept {
    if (!mailbox_.is_empty()) deliver();
  }
  /// Takes an unmatched message back, whose state is `withdrawn` then. False when it is being moved, or was: then its
  /// state changes soon, or has.
  bool withdraw(Message& message);
  /// The same after the group has failed, when what is in the mailbox is of no use.
  bool take_back(Message& message) noexcept;
  /// Of a message that has met its other side: helps to move it, for the side that came first.
  void help(Message& message) const noexcept;

 private:
  void empty_mailbox();
  void empty_mailbox_locked();
  void deliver() noexcept;
  void deliver_locked() noexcept;
  bool take_back_locked(Message& message) noexcept;
  void move(Message& first, Message& second) const;
  void copy(Message& first, Message& second) const noexcept;
  [[nodiscard]] Rendezvous::From begin_of(const Call& call) const;

  DeviceCalls::Lane* const lane_;
  const WaitPolicy policy_;
  const Rendezvous::From sender_from_;
  Mailbox mailbox_;
  SpinLock lock_;  // of the queues, and to empty the mailbox
  MessageQueue sends_, receives_;
};

}  // namespace plumbline::comm::local
