// reference/gossip/gossip_thread.hpp: push-sum rounds on a thread of their own, beside the caller's work.
//
// Model   The caller hands its values over and continues; the thread exchanges a copy of what is sent; the caller
//         collects what came and adds it. At most one round is under way. Two flags say who may touch what: handed over
//         (the thread's turn) and ready (the caller's), under one lock. The thread's group is its own.
// Devices Values in a device's memory are mixed, copied and added in the caller's stream (PushSumOptions::device), and
//         exchanged in one of the thread's own, beside it (use_streams). Events order the two: the exchange begins
//         after the copy, what came is added after the exchange. The host waits for the thread, which waits for other
//         nodes' calls; neither waits for the device. What a failed exchange put into the thread's stream comes before
//         its repetition.
// Retry   An exchange that failed without spoiling the group is marked with weight -1; collect() then hands the same
//         values again without mixing, and reports that, until the heartbeat time since the hand-over has passed; the
//         thread pauses before each such try (Backoff). Not one that failed on a device, or found no memory
//         there: its DeviceFailure comes from collect() at once.
// Errors  TimeoutError from collect() when the round has not come within the heartbeat time, with the round, its peers
//         and what cut it last. PeerFailed and others of the exchange come from collect(), too. After them only close()
//         and the destructor may be called.
// Threads One caller. The destructor, like close(), lets the round under way end or, when it does not within the
//         heartbeat time, aborts the thread's group, and joins.
// Source  The gossip thread of FairScale's SlowMoDistributedDataParallel.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/push_sum.hpp"

namespace plumbline::gossip {

class GossipThread {
 public:
  enum class Collected : std::uint8_t {
    nothing,      // no round is under way, or gossip is off
    not_yet,      // one is, and is not ready
    interrupted,  // it failed and its values were sent again
    mixed,        // it was added
  };

  /// Runs over `group`, which it owns: a duplicate of the nodes' group. Throws as PushSum.
  GossipThread(std::unique_ptr<comm::Communicator> group, Graph graph, Mixing mixing = {}, PushSumOptions options = {});
  ~GossipThread();
  GossipThread(const GossipThread&) = delete;
  GossipThread& operator=(const GossipThread&) = delete;

  /// Hands x over: leaves in it what this node keeps, and begins a round. False, with x as it was, when the round
  /// before was not collected yet, or gossip is off. Throws what PushSum::prepare() throws, and OutOfMemory, with x and
  /// the weight as they were.
  [[nodiscard]] bool hand_over(std::span<const comm::Buffer> x);
  /// Takes the memory that hand_over(x) needs of a device, which it does otherwise itself, before x is changed: for who
  /// changes something along with x. Nothing while a round is under way. Throws as hand_over().
  void reserve(std::span<const comm::Buffer> x);
  /// Adds to x what came. `waits`: until the round is ready, or the heartbeat time since its hand-over has passed.
  [[nodiscard]] Collected collect(std::span<const comm::Buffer> x, bool waits);
  /// Whether a round is under way.
  [[nodiscard]] bool is_gossiping() const;
  /// Gossip on (training, the default) or off (evaluation). Turning it off collects the round under way into x first.
  void turn_on();
  void turn_off(std::span<const comm::Buffer> x);

  /// Of push-sum; to be asked and set while no round is under way. Throws StateError otherwise.
  [[nodiscard]] double weight() const;
  void set_weight(double weight);
  [[nodiscard]] std::int64_t round() const;
  void set_round(std::int64_t round);
  /// Rounds that were added.
  [[nodiscard]] std::int64_t rounds_mixed() const;

  /// Ends the thread. Nothing may be called afterwards but the destructor.
  void close() noexcept;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// ---- Whether a round of gossip that was interrupted is made again, and how long to wait before that.
//
// Model   1 ms, then each time twice as long: what passes soon costs little time, and what lasts little work. At most 1
//         s, and a fourth of the heartbeat time, so that it allows several tries.

/// Whether it may go better the next time: a wire may hold again, but no memory comes back by itself, and no device.
[[nodiscard]] inline bool may_pass(const RuntimeFailure& error) {
  return dynamic_cast<const DeviceFailure*>(&error) == nullptr;
}

class Backoff {
 public:
  explicit Backoff(std::chrono::nanoseconds heartbeat)
      : longest_(std::min(std::chrono::duration_cast<std::chrono::milliseconds>(heartbeat / 4),
                          std::chrono::milliseconds(1000))) {}

  /// The pause before the next try.
  std::chrono::milliseconds next() { return std::min(std::exchange(pause_, std::min(2 * pause_, longest_)), longest_); }

 private:
  std::chrono::milliseconds longest_, pause_{1};
};

}  // namespace plumbline::gossip
