// reference/gossip/simulate.hpp: push-sum of all nodes at once, one value a node, without messages.
//
// Model   The same peers and shares as PushSum, in double precision: what a plan does at sizes that no machine has. The
//         consensus error is the distance of the estimates from the mean of the start, root of the sum of squares, over
//         that of the start.
// Cost    O(n · peers) a round; 2^20 nodes take a few tens of milliseconds a round.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::gossip {

struct SimulatedRound {
  double error = 0;         // consensus error after it
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

/// Throws Unsupported, with the figure, where that number of rounds would take minutes.
void require_simulable(const Graph& graph, std::int64_t rounds);
/// The error by round.
[[nodiscard]] std::vector<SimulatedRound> simulate(const Graph& graph, const Mixing& mixing,
                                                   std::span<const double> values, int rounds);
/// Values that no rule favours: uniform in [-1, 1), of a seed.
[[nodiscard]] std::vector<double> random_values(int nodes, std::uint64_t seed);

// ---- How fast gossip agrees, by the matrices of its rounds.
//
// Model   J takes every node's value to the mean. A round with a doubly stochastic P takes the distance to the mean to
//         at most the norm |P - J| of it (largest singular value); a period to at most that of the product. Where P is
//         only column-stochastic the rate is the second largest modulus of the product's eigenvalues: what the distance
//         is multiplied with in a period in the long run, and no bound of a single one.
// Exact   Graphs that look the same from every node have circulant matrices, whose eigenvalues are sums of roots of
//         unity. Of others the norm of a high power is taken, |A^k|^(1/k) with k = 2^30, which is never below the
//         largest modulus but for rounding.
// Cost    The same from every node: O(n · peers · period), any n. Others: O(n^3) some thirty times and once a round, up
//         to 512 nodes.
// Source  Boyd et al. (2006); Horn and Johnson, Matrix Analysis (Gelfand's formula).

struct Spectrum {
  std::int64_t rounds = 1;  // that `contraction` is of
  bool is_doubly_stochastic = true;
  double contraction = 0;   // the norm, or the second largest modulus
  double per_round = 0;     // its root
  double spectral_gap = 1;  // 1 - per_round
};

/// Contractions below this are rounding errors: such a period takes every node to the mean.
inline constexpr double kExactConsensus = 1e-12;

/// Of a period from round 0 on; of random matchings, which have none, of 64 rounds. Throws Unsupported above 512 nodes
/// of graphs that do not look the same from every node, and for what would take minutes, with the figure.
[[nodiscard]] Spectrum spectrum_of(const Graph& graph, const Mixing& mixing);

}  // namespace plumbline::gossip
