// reference/gossip/detail/round_state.hpp: what push-sum and the parts of its rounds share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/comm/call.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/gossip/detail/round_plans.hpp"
#include "reference/gossip/push_sum.hpp"

namespace plumbline::gossip {

/// Memory of messages, which is kept from round to round.
class MessageMemory {
 public:
  /// What was taken before may be taken again.
  void rewind() { next_ = 0; }
  [[nodiscard]] comm::Buffer take(const device::MemorySpace& place, std::int64_t count, comm::DType dtype);

 private:
  std::vector<device::ScratchBuffer> buffers_;
  std::size_t next_ = 0;
};

/// Where a piece of a large tensor waits: what came for it, by sender, and what is not sent from it itself.
struct PieceMemory {
  MessageMemory received, sent;
  std::vector<comm::Buffer> came;
};

/// The tensors of one type, and the round that they are in.
struct TypeBucket {
  comm::DType dtype{};
  std::vector<std::size_t> tensors;
  std::int64_t round = 0;
  double kept = 1;  // the share of the round that was exchanged last, of the first one before that
  // Of a round under way, by the position in Peers::out; empty: nothing was done yet.
  std::vector<bool> has_sent;        // has the values
  std::vector<bool> awaits;          // has still to confirm them
  bool has_come = false;             // the values of all Peers::in
  bool confirms = true;              // they have still to be told so
  MessageMemory sent{}, received{};  // what is not sent from x; what came
  std::vector<PieceMemory> of_pieces{};
};

/// What a message is. Its tag says so, and of which round it is, so that messages may overtake each other.
enum class Message : std::uint8_t { values, weight, confirmation };

struct RoundState {
  RoundState(comm::Communicator& nodes, Graph graph, Mixing mixing, const PushSumOptions& options);
  RoundState(const RoundState&) = delete;
  RoundState& operator=(const RoundState&) = delete;

  comm::Communicator* group;
  const Graph graph;
  const Mixing mixing;
  PushSumOptions options;
  const bool is_fairscale, is_lazy, carries_weight;
  RoundPlans plans;
  device::MemorySpace place;        // of the tensors, from the first round on
  std::vector<TypeBucket> buckets;  // from then on as well
  double weight = 1;
  std::int64_t exchanges = 0;  // of buckets, that are made

  /// The tensors with which the weight travels that counts.
  [[nodiscard]] const TypeBucket& weight_bucket() const;
  /// A weight, as it is kept beside such tensors.
  [[nodiscard]] double rounded(const TypeBucket& bucket, double weight_of_it) const;
  /// What a value is multiplied with that goes to a peer with the share `sent`, once it was multiplied by the share
  /// that is kept. 1 where mixing is lazy.
  [[nodiscard]] double ratio_of(const Shares& shares, double sent) const;
  /// Whether the two sides of a bipartite graph send one after the other.
  [[nodiscard]] bool takes_turns() const;
  /// Of the exchange under way.
  [[nodiscard]] int tag_of(Message message) const;
};

[[nodiscard]] comm::Call send_of(comm::ConstBuffer values, int to, int tag);
[[nodiscard]] comm::Call receive_of(comm::Buffer values, int from, int tag);
[[nodiscard]] std::vector<comm::Buffer> some_of(std::span<const comm::Buffer> x, std::span<const std::size_t> which);

}  // namespace plumbline::gossip
