// reference/gossip/detail/round_messages.hpp: what the tensors of one type send and receive in a round, as calls of a
// communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/gossip/detail/round_state.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {

/// Kept from round to round, for its memory.
struct RoundMessages {
  explicit RoundMessages(RoundState& of_rounds) : state(of_rounds) {}

  /// Of a bucket's round: nothing is sent or received yet.
  void begin(TypeBucket& bucket);
  /// Adds to `sends` what the peers lack: all parts with their share, and the weight.
  void add_sends(const TypeBucket& bucket, MessageMemory& memory);
  void add_sent_weights(const TypeBucket& bucket);
  /// Adds to `receives` what comes from the peers of the round.
  void add_receives(TypeBucket& bucket);
  void add_received_weights();
  /// Makes the calls, and waits for them.
  void make(std::span<const comm::Call> calls) const;

  [[nodiscard]] const Peers& peers() const { return plan->peers; }
  [[nodiscard]] const Shares& shares() const { return plan->shares; }

  RoundState& state;
  const RoundPlan* plan = nullptr;
  bool has_weight = false, fused = false;
  std::vector<comm::Buffer> parts;  // what a message consists of
  std::vector<comm::Buffer> came;   // the parts of the first sender, then those of the next one
  std::vector<double> sent_weights, received_weights;
  std::vector<std::uint8_t> confirmed;
  std::vector<comm::Call> sends, receives;
  std::vector<TensorPair> pairs;  // of the list at hand
};

/// Sends the bucket's tensors to the peers that lack them, receives those of all others, adds these up in `incoming`,
/// and has all of it confirmed.
void exchange_whole(RoundMessages& messages, TypeBucket& bucket, std::span<const comm::Buffer> x, Incoming& incoming);

}  // namespace plumbline::gossip
