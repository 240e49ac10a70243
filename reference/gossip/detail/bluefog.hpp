// reference/gossip/detail/bluefog.hpp: the topologies of BlueFog, with its weights.
//
// Model   weights[from][to] is the share of `from`'s value that `to` adds; BlueFog's matrices have rows that add up to
//         1.
//         Ring-like ones have a vector of shares that each node turns by its number; a 2-D mesh has Metropolis-Hastings
//         weights where a node counts itself as a neighbour; of a star every node but the center keeps 1 - 1/n.
// Turns   Its generators say whom a rank sends to and receives from in each step, one peer at a time: of a topology the
//         neighbours in turn, clockwise; machines at powers of 2; and inside machines while one rank of each, in turn,
//         goes outside.
// Source  BlueFog 0.3.0, recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::gossip {

struct BluefogArguments {
  int size = 1;
  std::optional<int> base{};  // of the exponential ones; nothing: 2, of the symmetric one 4
  int connect_style = 0;      // of a ring: 0 both neighbours, 1 the one before, 2 the one after
  int center_rank = 0;        // of a star
  std::vector<int> shape{};   // of a mesh: rows and columns; empty: as square as can be
};

struct BluefogTopology {
  std::vector<std::vector<double>> weights;
  bool is_regular = false;  // all nodes have equally many neighbours
  /// Neighbours other than the node, rising.
  [[nodiscard]] std::vector<int> sends_to(int node) const;
};

/// ExponentialTwoGraph, ExponentialGraph, SymmetricExponentialGraph, RingGraph, MeshGrid2DGraph, StarGraph,
/// FullyConnectedGraph. Throws NotFound for other names, InvalidArgument for a size below 1, a shape that is not that
/// of the size, a connect style that is none, a base below 2 and a center that is no node.
[[nodiscard]] BluefogTopology bluefog_topology(const std::string& name, const BluefogArguments& arguments);

/// Of ranks, or of machines where those are the ones that send.
struct BluefogTurn {
  std::vector<int> send, receive;
  friend bool operator==(const BluefogTurn&, const BluefogTurn&) = default;
};

/// GetDynamicOnePeerSendRecvRanks: each node sends to its neighbours one after the other, those after it first.
[[nodiscard]] std::vector<BluefogTurn> bluefog_one_peer_turns(const BluefogTopology& topology, std::int64_t step);
/// GetExp2DynamicSendRecvMachineRanks, GetInnerOuterRingDynamicSendRecvRanks, GetInnerOuterExpo2DynamicSendRecvRanks:
/// the turn of each of `ranks` ranks, `ranks_per_machine` a machine. Throws NotFound for other names, InvalidArgument
/// where machines are not filled, or too few or too small for the generator.
[[nodiscard]] std::vector<BluefogTurn> bluefog_machine_turns(const std::string& generator, int ranks,
                                                             int ranks_per_machine, std::int64_t step);

}  // namespace plumbline::gossip
