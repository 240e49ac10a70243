// reference/gossip/spectrum.hpp: how fast gossip agrees, by the matrices of its rounds.
//
// Model   J takes every node's value to the mean. A round with a doubly stochastic P takes the distance to the mean to at most
//         the norm |P - J| of it (largest singular value); a period to at most that of the product. Where P is only
//         column-stochastic the rate is the second largest modulus of the product's eigenvalues: what the distance is
//         multiplied with in a period in the long run, and no bound of a single one.
// Cost    Graphs of distances alike on all nodes: exact from the eigenvalues of circulant matrices, O(n · peers · period).
//         Others: O(n^3), up to 1024 nodes.
// Source  Boyd et al. (2006); Horn and Johnson, Matrix Analysis.
#pragma once

#include <cstdint>

#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::gossip {

struct Spectrum {
  std::int64_t rounds = 1;  // of a period: those that `contraction` is of
  bool is_doubly_stochastic = true;
  double contraction = 0;           // of a period: the norm, or the second largest modulus
  double per_round = 0;             // its root
  double spectral_gap = 1;          // 1 - per_round
  bool is_exact_consensus = false;  // a period takes every node to the mean, but for rounding
};

/// Of the rounds from `first` on: a period; of random matchings `most` rounds. Throws Unsupported above 1024 nodes where no
/// closed form helps, InvalidArgument for a period above `most` rounds.
[[nodiscard]] Spectrum spectrum_of(const Graph& graph, const Mixing& mixing, std::int64_t first = 0,
                                   std::int64_t most = 4096);
/// |product of the rounds first … first + rounds - 1, less J|: a bound of what is left of the distance.
[[nodiscard]] double contraction_of(const Graph& graph, const Mixing& mixing, std::int64_t first, std::int64_t rounds);

}  // namespace plumbline::gossip
