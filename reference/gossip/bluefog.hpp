// reference/gossip/bluefog.hpp: the topologies of BlueFog, with its weights.
//
// Model   weights[from][to] is the share of `from`'s value that `to` adds; BlueFog's matrices have rows that add up to 1.
//         Ring-like ones have a vector of shares that each node turns by its number; a 2-D mesh has Metropolis-Hastings
//         weights where a node counts itself as a neighbour; of a star every node but the center keeps 1 - 1/n.
//         Dynamic: which nodes send to which at a step, one peer at a time.
// Source  BlueFog 0.3.0, recorded.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::gossip {

struct BluefogArguments {
  int size = 1;
  int base = 0;            // of the exponential ones; 0: 2, of the symmetric one 4
  int connect_style = 0;   // of a ring: 0 both neighbours, 1 the one before, 2 the one behind
  int center_rank = 0;     // of a star
  std::vector<int> shape;  // of a mesh: rows and columns; empty: as square as can be
};

struct BluefogTopology {
  std::vector<std::vector<double>> weights;
  bool is_regular = false;  // all nodes have equally many neighbours
  /// Neighbours other than the node, rising.
  [[nodiscard]] std::vector<int> receives_from(int node) const;
  [[nodiscard]] std::vector<int> sends_to(int node) const;
};

/// ExponentialTwoGraph, ExponentialGraph, SymmetricExponentialGraph, RingGraph, MeshGrid2DGraph, StarGraph,
/// FullyConnectedGraph. Throws NotFound for other names, InvalidArgument for a size below 1, a shape that is not that of the
/// size, a connect style that is none, a base below 2 and a center that is no node.
[[nodiscard]] BluefogTopology bluefog_topology(const std::string& name, const BluefogArguments& arguments);

}  // namespace plumbline::gossip
