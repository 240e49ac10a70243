// 8 nodes average by push-sum over a one-peer exponential graph: how far from the mean they are after each round.
#include <cstdio>
#include <vector>

#include "reference/gossip/simulate.hpp"

using namespace plumbline;

int main() {
  const gossip::Graph graph({.kind = gossip::GraphKind::n_peer_exponential, .nodes = 8});
  const std::vector<double> values{0, 1, 2, 3, 4, 5, 6, 7};
  int round = 0;
  for (const gossip::SimulatedRound& after : gossip::simulate(graph, {}, values, 3))
    std::printf("round %d: error %.3g, sum of weights %g\n", ++round, after.error, after.weight_sum);
}
