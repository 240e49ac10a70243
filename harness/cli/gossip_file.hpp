// harness/cli/gossip_file.hpp: a gossip graph that a user wrote.
//
// Model   A CSV names its columns in its first line: from, to and, where they are known, round (from 0) and weight, the
//         part of the sender's mass that the receiver gets. Every other line is an edge. JSON has the same edges as
//         {"rounds": [[[FROM, TO, WEIGHT], …], …]}, a list a round, or peer lists as --format json prints them:
//         {"phone_book": [[1], [2], [0]], "peers": 1}, of which each node takes `peers` entries a round, cyclically; 0
//         or none: all in every round. "nodes" is optional. A node keeps what it does not send: without weights as
//         much as each of its peers gets.
// Rounds  Of several rounds, in each of which a node sends to as many peers as in every other, and as all other nodes.
//         One round may have any numbers.
// Cost    O(rounds nodes + edges log edges); rounds times nodes are 2^22 at most.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::cli {

struct GossipFile {
  gossip::Graph graph;
  gossip::Mixing mixing;  // `given` where the edges have weights
};

/// Throws InvalidArgument for a line or field that is none, and for a graph that cannot agree at a glance: a node that
/// sends to itself, twice to another or to none, one that no other sends to, weights of a node that leave it nothing,
/// rounds in which nodes send to unequal numbers of peers.
[[nodiscard]] GossipFile parse_gossip_file(const std::string& whole);

/// Shares of rounds that come again and again, up to that many rounds.
[[nodiscard]] gossip::Mixing repeated(const gossip::Mixing& mixing, std::int64_t rounds);

/// What the matrices of a graph's rounds are like, over a period.
struct GossipSums {
  double least_row = 1, largest_row = 1;
  double least_column = 1, largest_column = 1;
  [[nodiscard]] bool is_doubly_stochastic() const;
};
/// Of the first `rounds` rounds.
[[nodiscard]] GossipSums sums_of(const gossip::Graph& graph, const gossip::Mixing& mixing, std::int64_t rounds);

/// "" when every node hears of every other, else the first pair that never does: "node 0 never hears of node 2".
[[nodiscard]] std::string first_unheard(const gossip::Graph& graph);

}  // namespace plumbline::cli
