// harness/subject/nccl/messages.hpp: sends and receives by tag, over a transport that knows only order.
//
// Model   NCCL carries what two ranks of one communicator exchange in the order in which each side asks for it, and a
//         send without a receive keeps everything after it waiting. So a sender first offers a message on the
//         board, with its group and tag; the receiver takes the oldest offer that fits its oldest receive; and only
//         what is taken is given to NCCL, by both sides in the order in which it was taken. Each direction between two
//         processes has a lane, made when it is first used and kept: it serves all groups.
//         A message can be withdrawn until it is issued; its buffers are the caller's again. The receiver may have
//         taken it, or take it before it learns of that: so of what was offered the bytes are copied aside, and a
//         receive that was taken goes into memory of the lane, which stays in step. While NCCL connects it holds the
//         buffers: the first call of a lane, which connects it, carries nothing. Should NCCL hold those of a message
//         all the same, the direction fails.
//         A direction that fails, fails for both processes, and with it the calls that have messages there; no others.
//         Of an aborted group nothing more is offered or taken; what was taken goes on, so that the lane stays in step.
//         To itself a process copies.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "harness/subject/nccl/lane.hpp"
#include "harness/subject/nccl/progress_thread.hpp"

namespace plumbline::subject::nccl {

struct Message {
  /// From now on the buffer may be used, in the order of the caller's stream.
  Message(const Process& process, std::uint64_t group_, std::shared_ptr<const Lineage> lineage_, const comm::Call& call,
          int peer_, device::Stream stream)
      : group(group_), lineage(std::move(lineage_)), peer(peer_), batch(std::make_shared<Batch>(process)) {
    batch->calls.push_back(call);
    batch->ready.record(stream);
  }
  const std::uint64_t group;
  const std::shared_ptr<const Lineage> lineage;  // of that group
  const int peer;                                // process
  const std::shared_ptr<Batch> batch;            // of this call alone; issued once it was taken
  bool is_taken = false;                         // the receiver has, and said so: the peer is missed no more
  std::string mismatch;                          // what was offered instead: the receive ended
  [[nodiscard]] comm::Call& call() const { return batch->calls.front(); }
  /// Its call is yet to learn of it, and withdraws it then.
  [[nodiscard]] bool is_aborted() const { return abort_words(*lineage) != nullptr; }
};

class Messages {
 public:
  explicit Messages(Process& process) : process_(process), copies_(process.runtime, process.device) {}
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // In a Turn.
  /// Throws RuntimeFailure where that direction has failed, DeviceFailure where this rank's device has.
  void post(std::shared_ptr<Message> message);
  Step pump();
  /// Why the direction of that message has failed, if it has.
  [[nodiscard]] const Failure& failure(const Message& message) const;
  /// Gives a message up that is not issued yet. Its buffers are not touched once its batch is `ready`; `done`, should
  /// it be issued by then.
  void withdraw(Message& message) noexcept;

 private:
  struct Side {
    std::unique_ptr<Lane> lane;
    Failure failure;
    bool has_moved = false;  // in this pump()
  };
  struct Outgoing : Side {
    std::deque<std::shared_ptr<Message>> to_offer;
    std::map<std::uint64_t, std::shared_ptr<Message>> offered;  // by number
    std::uint64_t offers = 0;
    [[nodiscard]] bool is_waiting() const { return !to_offer.empty() || !offered.empty(); }
  };
  struct Incoming : Side {
    std::deque<std::shared_ptr<Message>> waiting;
    std::deque<std::pair<std::uint64_t, Offer>> offered;
    std::uint64_t offers = 0;
    [[nodiscard]] bool is_waiting() const { return !waiting.empty(); }
  };

  [[nodiscard]] Direction& direction_of(const Message& message) const;
  [[nodiscard]] Side& side_of(const Message& message);
  template <class OneSide>
  [[nodiscard]] static Left left_of(const OneSide& side);
  static void fail(Side& side, Direction& direction, const std::exception& error) noexcept;
  /// Pumps one side that has not failed.
  template <class OneSide>
  void advance(int peer, OneSide& side, Direction& direction) noexcept;
  void pump(int peer, Outgoing& outgoing);
  void pump(int peer, Incoming& incoming);
  void offer(int peer, Outgoing& outgoing);
  /// Lets the message go with the offer of that number. False where the queue to the sender is full.
  bool take(int peer, Incoming& incoming, Message& message, std::uint64_t number);
  /// Lets it send from a copy.
  void copy_aside(Message& sent);
  void copy_to_self(const Message& sent, const Message& received);
  [[nodiscard]] Lane& lane_to(int peer, Outgoing& outgoing);
  [[nodiscard]] Lane* lane_from(int peer, Incoming& incoming);

  Process& process_;
  device::OwnStream copies_;  // to oneself
  std::map<int, Outgoing> outgoing_;
  std::map<int, Incoming> incoming_;
};

}  // namespace plumbline::subject::nccl
