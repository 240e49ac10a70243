// reference/gossip/mixing.hpp: how much of its mass a node keeps in a round, and how much each peer gets.
//
// Model   Shares are fractions of the node's mass and add up to 1, so the mixing matrix P (to, from) is
//         column-stochastic: nothing is lost. Where rows add up to 1 too, weights stay 1 and need not travel.
//           uniform               each of the p peers and the node itself 1/(p + 1)
//           Metropolis-Hastings   a peer 1/(1 + the larger number of peers of the two), the node the rest; for rounds
//                                 in which every sender to a node also receives from it
//           skewed                node i keeps 1/(2 + i mod 3), its peers get the rest as 1 : 2 : 3 : …
// Lazy    Uniform mixing over a regular graph: values travel unscaled, and the sum is multiplied by 1/(p + 1).
// Sources Assran et al. (2019); Xiao and Boyd, Fast Linear Iterations for Distributed Averaging (2004).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reference/gossip/graph.hpp"

namespace plumbline::gossip {

enum class MixingKind : std::uint8_t { uniform, metropolis_hastings, skewed, given };
/// "uniform", "metropolis-hastings", "skewed", "given".
[[nodiscard]] std::string_view name_of(MixingKind kind);
[[nodiscard]] std::optional<MixingKind> parse_mixing_kind(std::string_view name);

struct Shares {
  double kept = 1;
  std::vector<double> sent;  // to Peers::out, in that order
  friend bool operator==(const Shares&, const Shares&) = default;
};

/// A plain value.
struct Mixing {
  MixingKind kind = MixingKind::uniform;
  /// Of `given`: [node][round], the last round for all that follow.
  std::vector<std::vector<Shares>> shares{};
};

/// What `node` keeps and sends in `round`. Throws InvalidArgument for Metropolis-Hastings where a peer
/// does not answer, or where shares that were given do not fit the peers.
[[nodiscard]] Shares shares_of(const Graph& graph, const Mixing& mixing, int node, std::int64_t round);

/// The same where it is known whom every node sends to (Graph::sends()).
[[nodiscard]] Shares shares_by_sends(const Graph& graph, const Mixing& mixing, int node, std::int64_t round,
                                     const std::vector<std::vector<int>>& sends);

/// Whether mixing is lazy: uniform over a regular graph.
[[nodiscard]] bool is_lazy(const Graph& graph, const Mixing& mixing);
/// Whether push-sum weights can differ from 1, so that they must travel with the values.
[[nodiscard]] bool carries_weight(const Graph& graph, const Mixing& mixing);

/// P of a round, row by row: matrix[to * n + from]. Throws as shares_of(), and Unsupported above 4096 nodes.
[[nodiscard]] std::vector<double> mixing_matrix(const Graph& graph, const Mixing& mixing, std::int64_t round);

}  // namespace plumbline::gossip
