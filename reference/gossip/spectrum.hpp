// reference/gossip/spectrum.hpp: how fast gossip agrees, by the matrices of its rounds.
//
// Model   J takes every node's value to the mean. A round with a doubly stochastic P takes the distance to the mean to at most
//         the norm |P - J| of it (largest singular value); a period to at most that of the product. Where P is only
//         column-stochastic the rate is the second largest modulus of the product's eigenvalues: what the distance is
//         multiplied with in a period in the long run, and no bound of a single one.
// Exact   Graphs that look alike from every node have circulant matrices, whose eigenvalues are sums of roots of unity. Of
//         others the norm of a high power is taken, |A^k|^(1/k) with k = 2^30, which is never below the largest modulus but
//         for rounding.
// Cost    Alike: O(n · peers · period), any n. Others: O(n^3) some thirty times and once a round, up to 512 nodes.
// Source  Boyd et al. (2006); Horn and Johnson, Matrix Analysis (Gelfand's formula).
#pragma once

#include <cstdint>

#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::gossip {

struct Spectrum {
  std::int64_t rounds = 1;  // that `contraction` is of
  bool is_doubly_stochastic = true;
  double contraction = 0;   // the norm, or the second largest modulus
  double per_round = 0;     // its root
  double spectral_gap = 1;  // 1 - per_round
};

/// Contractions below this are none but rounding: such a period takes every node to the mean.
inline constexpr double kExactConsensus = 1e-12;

/// Of a period from round 0 on; of random matchings, which have none, of 64 rounds. Throws Unsupported above 512 nodes of
/// graphs that do not look alike from every node, and for what would take minutes, with the figure.
[[nodiscard]] Spectrum spectrum_of(const Graph& graph, const Mixing& mixing);
/// |product of the rounds first … first + rounds - 1, less J|: a bound of what is left of the distance, for doubly
/// stochastic rounds. Throws as spectrum_of(), and InvalidArgument where a round is not doubly stochastic.
[[nodiscard]] double contraction_of(const Graph& graph, const Mixing& mixing, std::int64_t first, std::int64_t rounds);

}  // namespace plumbline::gossip
