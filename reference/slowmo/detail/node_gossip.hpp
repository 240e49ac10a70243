// reference/slowmo/detail/node_gossip.hpp: stochastic gradient push between nodes: a round a step, or one beside the
// forward and backward.
//
// Model   Masters alone exchange messages. Every rank of a node knows the weight w: its parameters are numerators x,
//         and the estimate of the mean is x / w.
// Failure A round that was cut is made again, with the same values, as often as the heartbeat time allows.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "reference/comm/communicator.hpp"
#include "reference/gossip/gossip_thread.hpp"
#include "reference/gossip/push_sum.hpp"
#include "reference/slowmo/options.hpp"

namespace plumbline::slowmo {

class NodeGossip {
 public:
  /// `masters` is null on ranks that are none. Throws InvalidArgument for a graph of another number of nodes.
  NodeGossip(comm::Communicator* masters, const Options& options, const Setting& setting);

  /// Whether weights stay 1 and parameters travel unscaled.
  [[nodiscard]] bool is_lazy() const { return is_lazy_; }
  [[nodiscard]] double weight() const { return weight_; }
  void set_weight(double weight);
  /// The master's weight, on all ranks of its node. Rounds go on from what they had themselves.
  void follow(double weight) { weight_ = weight; }
  /// Of the graph; of a master alone.
  [[nodiscard]] std::int64_t round() const { return thread_ ? thread_->round() : push_sum_->round(); }
  void set_round(std::int64_t round);

  /// One round. On other ranks than masters nothing.
  void mix(std::span<const comm::Buffer> x);

  // One that overlaps, in two halves. On other ranks than masters nothing but what becomes of the weight.
  /// Takes the memory and the share that hand_over() needs, which then fails no more for want of them: before each.
  void reserve(std::span<const comm::Buffer> x);
  /// Leaves in x what the node keeps, and begins a round. False where the one before is not collected yet.
  [[nodiscard]] bool hand_over(std::span<const comm::Buffer> x);
  /// Waits for the round and adds it to x. Not `mixed` where none was handed over.
  [[nodiscard]] gossip::GossipThread::Collected collect(std::span<const comm::Buffer> x);

 private:
  using Clock = std::chrono::steady_clock;
  void mix_again(std::span<const comm::Buffer> x, std::string interruption, Clock::time_point until);

  const gossip::Graph graph_;
  const gossip::Mixing mixing_;
  const std::chrono::nanoseconds heartbeat_;
  const int node_;
  bool is_lazy_ = false;
  double weight_ = 1;
  double kept_ = 1;  // what hand_over() multiplies the weight with
  // Of a master: one of these.
  std::optional<gossip::PushSum> push_sum_;
  std::unique_ptr<gossip::GossipThread> thread_;
};

}  // namespace plumbline::slowmo
