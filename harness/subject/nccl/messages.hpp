// harness/subject/nccl/messages.hpp: sends and receives by tag, over a transport that knows only order.
//
// Model   NCCL carries what two ranks of one communicator exchange in the order in which each side asks for it, and a send that
//         nobody receives keeps everything behind it waiting. So a sender first offers a message on the board, with its group and
//         tag; the receiver takes the oldest offer that fits its oldest receive; and only what is taken is given to NCCL, by both
//         sides in the order in which it was taken. Each direction between two processes has a lane, made when it is first used
//         and kept: it serves all groups.
//         What was never taken can be withdrawn. Of what a sender withdraws and the receiver takes all the same, other bytes are
//         sent: the receiver's group has failed by then, and the lane must stay in step.
//         To itself a process copies.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "harness/subject/nccl/lane.hpp"

namespace plumbline::subject::nccl {

struct Message {
  /// From now on the buffer may be used, in the order of the caller's stream.
  Message(const Process& process, std::uint64_t group_, const comm::Call& call, int peer_, device::Stream stream)
      : group(group_), peer(peer_), batch(std::make_shared<Batch>(process)) {
    batch->calls.push_back(call);
    batch->ready.record(stream);
  }
  const std::uint64_t group;
  const int peer;                      // process
  const std::shared_ptr<Batch> batch;  // of this call alone; issued once it was taken
  std::string mismatch;                // what was offered instead: the receive ended
  bool is_withdrawn = false;
  [[nodiscard]] comm::Call& call() const { return batch->calls.front(); }
};

class Messages {
 public:
  explicit Messages(Process& process) : process_(process), copies_(process.runtime, process.device) {}

  // In a Turn.
  /// Throws RuntimeFailure where the lane to or from that process has failed.
  void post(std::shared_ptr<Message> message);
  /// Throws RuntimeFailure.
  void pump();
  /// Gives a message up that was not taken yet. Its buffers are not touched from now on.
  void withdraw(Message& message) noexcept;

 private:
  struct Outgoing {
    std::deque<std::shared_ptr<Message>> to_offer;
    std::map<std::uint64_t, std::shared_ptr<Message>> offered;  // by number
    std::uint64_t offers = 0;
    std::unique_ptr<Lane> lane;
  };
  struct Incoming {
    std::deque<std::shared_ptr<Message>> waiting;
    std::deque<std::pair<std::uint64_t, Offer>> offered;
    std::uint64_t offers = 0;
    std::unique_ptr<Lane> lane;
  };

  void pump(int peer, Outgoing& outgoing);
  void pump(int peer, Incoming& incoming);
  void offer(int peer, Outgoing& outgoing);
  /// Lets the message go with the offer of that number. False where the queue to the sender is full.
  bool take(int peer, Incoming& incoming, Message& message, std::uint64_t number);
  void copy_to_self(const Message& sent, const Message& received);
  [[nodiscard]] Lane& lane_to(int peer, Outgoing& outgoing);
  [[nodiscard]] Lane* lane_from(int peer, Incoming& incoming);

  Process& process_;
  device::OwnStream copies_;  // to oneself
  std::map<int, Outgoing> outgoing_;
  std::map<int, Incoming> incoming_;
};

}  // namespace plumbline::subject::nccl
