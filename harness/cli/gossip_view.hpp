// harness/cli/gossip_view.hpp: what `plumbline gossip` shows, worked out once, and its picture.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/simulate.hpp"

namespace plumbline::cli {

inline constexpr int kMostNodesShown = 64;

struct GossipView {
  gossip::Graph graph;
  gossip::Mixing mixing;
  std::optional<gossip::Spectrum> spectrum;  // nothing where no form of it is at hand
  std::vector<gossip::SimulatedRound> rounds;
};

/// Who sends to whom in each round, the shares of the first round, and the distance to the mean by round. Throws
/// InvalidArgument for more than kMostNodesShown nodes.
[[nodiscard]] std::string gossip_svg(const GossipView& view);

}  // namespace plumbline::cli
