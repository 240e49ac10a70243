// reference/gossip/push_sum_steps.hpp: what decides the numbers of push-sum, as functions.
//
// Model   A value made without arguments has the right ones; push-sum with another one in place of one of them is wrong in
//         one known way, which is how the checks are tested.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "reference/device/place.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {

struct PushSumSteps {
  std::function<Peers(const Graph& graph, int node, std::int64_t round)> peers =
      [](const Graph& graph, int node, std::int64_t round) { return graph.peers(node, round); };
  std::function<Shares(const Graph& graph, const Mixing& mixing, int node, std::int64_t round)> shares = shares_of;
  /// The share with which a value travels to the peer of that place in Peers::out, and its weight.
  std::function<double(const Shares& of_node, std::size_t peer)> sent = [](const Shares& of_node, std::size_t peer) {
    return of_node.sent[peer];
  };
  std::function<double(const Shares& of_node, std::size_t peer)> sent_weight =
      [](const Shares& of_node, std::size_t peer) { return of_node.sent[peer]; };
  /// The share with which the weight stays.
  std::function<double(const Shares& of_node)> kept_weight = [](const Shares& of_node) { return of_node.kept; };
  /// With which of so many types the weight travels that counts.
  std::function<std::size_t(bool as_fairscale, std::size_t types)> weight_lane =
      [](bool as_fairscale, std::size_t types) { return as_fairscale ? types - 1 : 0; };
  /// Whether the weight travels, given whether it can differ from 1.
  std::function<bool(bool can_differ)> carries_weight = [](bool can_differ) { return can_differ; };
  /// Whether values travel scaled by their peer's share.
  std::function<bool(bool fused)> scales = [](bool) { return true; };
  /// What tells messages of one round apart, given their kind: values are 0, weights 1, confirmations 2.
  std::function<int(int kind)> mark = [](int kind) { return kind; };
  /// Whether messages are waited for before they are added.
  std::function<bool()> waits = [] { return true; };
  /// Whether the two sides take turns in sending.
  std::function<bool(bool is_push_pull, const Graph& graph)> takes_turns = [](bool is_push_pull, const Graph& graph) {
    return is_push_pull && graph.is_bipartite();
  };
  /// What two nodes that meet make of their values.
  comm::PairUpdate meet = gossip::meet;
  /// Whether a round of two nodes may be made in place, given whether all nodes of the group can do so.
  std::function<bool(bool all_can)> meets = [](bool all_can) { return all_can; };
  /// Whether a retry multiplies by the kept share once more.
  std::function<bool()> retry_mixes = [] { return false; };
  /// The round that follows, given whether the graph turns and whether the round was repeated.
  std::function<std::int64_t(std::int64_t round, bool is_dynamic, bool was_interrupted)> next_round =
      [](std::int64_t round, bool is_dynamic, bool) { return is_dynamic ? round + 1 : round; };
  /// How long a message is waited for.
  std::function<std::chrono::nanoseconds(std::chrono::nanoseconds heartbeat)> patience =
      [](std::chrono::nanoseconds heartbeat) { return heartbeat; };
  /// Whether the heartbeat time of the gossip thread starts anew when a round that was cut is handed over again.
  std::function<bool()> renews_heartbeat = [] { return false; };
  /// The pause before a round that was cut is made again, given the one that is due.
  std::function<std::chrono::milliseconds(std::chrono::milliseconds due)> pause = [](std::chrono::milliseconds due) {
    return due;
  };
  /// Whether a round that was cut may be repeated, given whether some of its pieces are mixed.
  std::function<bool(bool is_torn)> may_repeat = [](bool is_torn) { return !is_torn; };
  /// Whether what comes is added up from nothing, given whether anything of the round has come, and whether it was cut.
  std::function<bool(bool has_come, bool was_interrupted)> sums_anew = [](bool has_come, bool) { return !has_come; };
  /// Whether a piece is mixed only when its peers have said that they have it.
  std::function<bool()> awaits_confirmation = [] { return true; };
  /// From which piece on a peer is sent to over another group, given how many it has.
  std::function<std::size_t(std::size_t has)> resumes_at = [](std::size_t has) { return has; };
  /// Whether the gossip thread takes values, given whether gossip is on.
  std::function<bool(bool is_on)> takes_values = [](bool is_on) { return is_on; };
  /// Of a gossip thread on a device: whether its stream waits for the caller's when values are handed over, and the caller's for
  /// it when they are collected.
  std::function<bool()> follows_the_caller = [] { return true; };
  std::function<bool()> leads_the_caller = [] { return true; };
  /// Throws where the group does not take the tensors' memory.
  std::function<void(std::string_view what, const comm::Communicator& group, const device::Place& place)>
      require_served = device::require_served;
  /// Whether values are copied before they are handed to the gossip thread.
  std::function<bool()> copies_on_hand_over = [] { return true; };
  /// Whether nodes compare their graphs and rounds.
  std::function<bool()> verifies = [] { return true; };
  /// Whether a comparison that was cut is made again.
  std::function<bool()> compares_again = [] { return true; };
};

}  // namespace plumbline::gossip
