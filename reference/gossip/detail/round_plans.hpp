// reference/gossip/detail/round_plans.hpp: whom a node deals with in a round, and how it shares.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"

namespace plumbline::gossip {

/// "sends to [1] and receives from [2]".
[[nodiscard]] std::string words_of(const Peers& peers);

struct RoundPlan {
  static constexpr std::int64_t kNoRound = std::numeric_limits<std::int64_t>::min();
  static constexpr int kNobody = -1;

  std::int64_t round = kNoRound;
  Peers peers;
  Shares shares;
  int met = kNobody;  // the peer, where the two meet only each other
};

/// Plans are kept where rounds come again.
class RoundPlans {
 public:
  /// Of `node`. Graph and mixing outlive this.
  RoundPlans(const Graph& graph, const Mixing& mixing, int node);

  /// Until the next call. Throws as Graph::peers() and shares_of().
  [[nodiscard]] const RoundPlan& of(std::int64_t round);
  [[nodiscard]] Shares shares_of(std::int64_t round) const;

 private:
  [[nodiscard]] int met_in(const Peers& peers, std::int64_t round) const;

  const Graph& graph_;
  const Mixing& mixing_;
  int node_;
  bool repeat_ = false;           // the rounds of a period have a plan each
  std::vector<RoundPlan> plans_;  // of a period, or of one round
};

}  // namespace plumbline::gossip
