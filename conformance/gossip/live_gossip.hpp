// conformance/gossip/live_gossip.hpp: gossip of a case, and the same worked out from its definition.
#pragma once

#include <string>
#include <vector>

#include "harness/suite/check.hpp"
#include "reference/gossip/push_sum.hpp"

namespace plumbline::conformance {

/// Directed, turns, all send to node 0 in every other round.
[[nodiscard]] gossip::Graph hub_graph(int nodes, gossip::Convention convention);
/// Graphs and mixings that a case names. "hub" and "fairscale-hub": hub_graph(); "chords": directed and static, node i
/// sends to one other if its number is even, else to two; "followers": two that send to each other, and all others to
/// the first of them; "star-of-the-last": with the last node in the middle.
[[nodiscard]] gossip::Graph live_graph(const std::string& name, int nodes);
[[nodiscard]] gossip::Mixing live_mixing(const std::string& name);
[[nodiscard]] inline comm::Buffer buffer_of(std::vector<double>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), comm::DType::f64};
}

/// Numerators (`count` of each node) and weights of all nodes.
struct World {
  std::vector<std::vector<double>> numerators;
  std::vector<double> weights;
};
/// Values that each rank can work out of all ranks.
[[nodiscard]] World start_of(suite::Context& context, std::size_t count);
/// One round, from the definition: each node's mass is dealt out by its shares.
void deal_out(World& world, const gossip::Graph& graph, const std::string& mixing, std::int64_t round);
/// What a round that began at `before` makes of a mean: the sum of numerators over the number of nodes.
[[nodiscard]] double mean_of(const World& world, std::size_t element);
/// What all ranks have, gathered over `group`.
[[nodiscard]] World gathered(comm::Communicator& group, const std::vector<double>& x, double weight);

}  // namespace plumbline::conformance
