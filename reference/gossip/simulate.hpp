// reference/gossip/simulate.hpp: push-sum of all nodes at once, one value a node, without messages.
//
// Model   The same peers and shares as PushSum, in double precision: what a plan does at sizes that no machine has. The
//         consensus error is the distance of the estimates from the mean of the start, root of the sum of squares, over that
//         of the start.
// Cost    O(n · peers) a round; 2^20 nodes take a few tens of milliseconds a round.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::gossip {

struct SimulatedRound {
  double error = 0;         // consensus error behind it
  double sum = 0;           // of the numerators
  double weight_sum = 0;    // of the weights
  double least_weight = 0;  // of any node
};

class Simulation {
 public:
  /// Starts from the values, one a node. Throws InvalidArgument for another number of them.
  Simulation(Graph graph, Mixing mixing, std::span<const double> values);
  /// Makes the next round.
  SimulatedRound step();
  [[nodiscard]] std::int64_t round() const { return round_; }
  [[nodiscard]] const std::vector<double>& numerators() const { return numerators_; }
  [[nodiscard]] const std::vector<double>& weights() const { return weights_; }
  [[nodiscard]] double mean() const { return mean_; }

 private:
  Graph graph_;
  Mixing mixing_;
  std::vector<double> numerators_, weights_, next_numerators_, next_weights_;
  double mean_ = 0, distance_ = 0;
  std::int64_t round_ = 0;
};

/// Throws Unsupported, with the figure, where so many rounds would take minutes.
void require_simulable(const Graph& graph, std::int64_t rounds);
/// The error by round.
[[nodiscard]] std::vector<SimulatedRound> simulate(const Graph& graph, const Mixing& mixing,
                                                   std::span<const double> values, int rounds);
/// Values that no rule favours: uniform in [-1, 1), of a seed.
[[nodiscard]] std::vector<double> random_values(int nodes, std::uint64_t seed);

}  // namespace plumbline::gossip
