// harness/cli/gossip_view.hpp: what `plumbline gossip` shows, worked out once, and its picture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/cli/gossip_file.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/simulate.hpp"

namespace plumbline::cli {

inline constexpr int kMostNodesShown = 64;

/// What is shown of a graph from a file besides.
struct GossipFindings {
  std::int64_t period = 1;
  std::vector<std::vector<double>> matrices;  // of the first rounds, row by row; none of large graphs
  GossipSums sums;
  std::string unheard;  // "" where every node hears of every other
};

struct GossipView {
  std::string name;  // of the graph, or of the file
  gossip::Graph graph;
  gossip::Mixing mixing;
  std::optional<gossip::Spectrum> spectrum;  // nothing where no form of it is at hand
  std::vector<gossip::SimulatedRound> rounds;
  std::optional<GossipFindings> findings = {};
};

/// Who sends to whom in each round, the shares of the first round, and the distance to the mean by round. Throws
/// InvalidArgument for more than kMostNodesShown nodes.
[[nodiscard]] std::string gossip_svg(const GossipView& view);

}  // namespace plumbline::cli
