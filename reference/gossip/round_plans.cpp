#include "reference/gossip/detail/round_plans.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::gossip {

std::string words_of(const Peers& peers) {
  return fmt::format("sends to {} and receives from {}", peers.out, peers.in);
}

RoundPlans::RoundPlans(const Graph& graph, const Mixing& mixing, int node)
    : graph_(graph), mixing_(mixing), node_(node) {
  // Shares that are given need not come again with the peers. The period of rows is a common multiple, which may be any
  // number.
  constexpr std::int64_t most_plans = 64;
  const bool comes_again = graph.is_dynamic() && !graph.distances().empty() && mixing.kind != MixingKind::given;
  const std::int64_t period = comes_again ? graph.period() : 0;
  repeat_ = period >= 1 && period <= most_plans;
  plans_.resize(repeat_ ? static_cast<std::size_t>(period) : 1);
}

const RoundPlan& RoundPlans::of(std::int64_t round) {
  RoundPlan& plan = plans_[static_cast<std::size_t>(round) % plans_.size()];
  if (plan.round == round || (repeat_ && plan.round != RoundPlan::kNoRound)) return plan;
  plan.round = RoundPlan::kNoRound;  // until all of it is there
  plan.peers = graph_.peers(node_, round);
  plan.shares = shares_of(round);
  plan.met = met_in(plan.peers, round);
  plan.round = round;
  return plan;
}

// The peer, where it deals with nobody else either.
int RoundPlans::met_in(const Peers& peers, std::int64_t round) const {
  if (peers.out.size() != 1 || peers.in != peers.out) return RoundPlan::kNobody;
  const int peer = peers.out.front();
  const Peers theirs = graph_.peers(peer, round);
  return theirs.out == std::vector{node_} && theirs.in == theirs.out ? peer : RoundPlan::kNobody;
}

Shares RoundPlans::shares_of(std::int64_t round) const {
  Shares shares = gossip::shares_of(graph_, mixing_, node_, round);
  if (graph_.options().convention == Convention::fairscale) {
    // Its shares are tensors of float.
    shares.kept = static_cast<float>(shares.kept);
    // Of given ones the product with what stays is exact in double, and so is the quotient that is used.
    if (mixing_.kind != MixingKind::given)
      for (double& sent : shares.sent) sent = static_cast<float>(sent);
  }
  return shares;
}

}  // namespace plumbline::gossip
