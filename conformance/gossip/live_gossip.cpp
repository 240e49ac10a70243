#include "conformance/gossip/live_gossip.hpp"

#include <algorithm>
#include <random>

namespace plumbline::conformance {

using gossip::Graph;
using gossip::Mixing;
using gossip::MixingKind;

Graph hub_graph(int nodes, gossip::Convention convention) {
  std::vector<std::vector<int>> rows(static_cast<std::size_t>(nodes));
  for (int node = 0; node < nodes && nodes > 1; ++node)
    rows[static_cast<std::size_t>(node)] = {node == 0 ? 1 : 0, (node + 1) % nodes};
  return Graph(std::move(rows), nodes > 1 ? 1 : 0, convention, false);
}

Graph live_graph(const std::string& name, int nodes) {
  if (name == "hub") return hub_graph(nodes, gossip::Convention::plumbline);
  if (name == "fairscale-hub") return hub_graph(nodes, gossip::Convention::fairscale);
  if (name == "chords") {
    std::vector<std::vector<int>> rows(static_cast<std::size_t>(nodes));
    for (int node = 0; node < nodes && nodes > 1; ++node) {
      auto& row = rows[static_cast<std::size_t>(node)];
      row = {(node + 1) % nodes};
      if (node % 2 == 1 && nodes > 2) row.push_back((node + 2) % nodes);
    }
    return Graph(std::move(rows), 0, gossip::Convention::plumbline, false);
  }
  if (name == "followers") {
    // Two that send to each other, and all others to the first of them.
    std::vector<std::vector<int>> rows(static_cast<std::size_t>(nodes), std::vector<int>{std::max(nodes - 2, 0)});
    if (nodes > 1) rows[static_cast<std::size_t>(nodes) - 2] = {nodes - 1};
    return Graph(nodes > 1 ? std::move(rows) : std::vector<std::vector<int>>(1), nodes > 1 ? 1 : 0,
                 gossip::Convention::plumbline, false);
  }
  if (name == "star-of-the-last") return Graph({.kind = gossip::GraphKind::star, .nodes = nodes, .center = nodes - 1});
  return Graph({.kind = gossip::parse_graph_kind(name).value(), .nodes = nodes});
}

Mixing live_mixing(const std::string& name) { return {.kind = gossip::parse_mixing_kind(name).value()}; }

World start_of(suite::Context& context, std::size_t count) {
  std::mt19937_64 random(context.seed() + 17);
  World world;
  for (int node = 0; node < context.size(); ++node) {
    std::vector<double> x;
    for (std::size_t i = 0; i < count; ++i) x.push_back(static_cast<double>(random() >> 11) * 0x1p-50 - 2);
    world.numerators.push_back(std::move(x));
    world.weights.push_back(1);
  }
  return world;
}

namespace {

// The definition of shares once more: what a node keeps, and what it sends to each of so many peers.
std::pair<double, std::vector<double>> dealt(const std::string& mixing, int node, std::size_t peers) {
  std::vector<double> sent(peers, 1.0 / (static_cast<double>(peers) + 1));
  if (mixing == "uniform" || peers == 0) return {1.0 / (static_cast<double>(peers) + 1), sent};
  const double kept = 1.0 / (2 + node % 3);
  double parts = 0;
  for (std::size_t i = 0; i < peers; ++i) parts += static_cast<double>(i + 1);
  for (std::size_t i = 0; i < peers; ++i) sent[i] = (1 - kept) / parts * static_cast<double>(i + 1);
  return {kept, sent};
}

}  // namespace

void deal_out(World& world, const Graph& graph, const std::string& mixing, std::int64_t round) {
  const std::size_t nodes = world.weights.size();
  World next{.numerators = std::vector(nodes, std::vector<double>(world.numerators.front().size())),
             .weights = std::vector<double>(nodes)};
  const auto give = [&](std::size_t from, std::size_t to, double share) {
    for (std::size_t i = 0; i < next.numerators[to].size(); ++i)
      next.numerators[to][i] += share * world.numerators[from][i];
    next.weights[to] += share * world.weights[from];
  };
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto out = graph.peers(static_cast<int>(node), graph.round_after(round)).out;
    const auto [kept, sent] = dealt(mixing, static_cast<int>(node), out.size());
    give(node, node, kept);
    for (std::size_t i = 0; i < out.size(); ++i) give(node, static_cast<std::size_t>(out[i]), sent[i]);
  }
  world = std::move(next);
}

double mean_of(const World& world, std::size_t element) {
  double sum = 0;
  for (const auto& x : world.numerators) sum += x[element];
  return sum / static_cast<double>(world.numerators.size());
}

World gathered(comm::Communicator& group, const std::vector<double>& x, double weight) {
  const auto nodes = static_cast<std::size_t>(group.size());
  std::vector<double> mine = x, all((x.size() + 1) * nodes);
  mine.push_back(weight);
  group.all_gather({mine.data(), static_cast<std::int64_t>(mine.size()), comm::DType::f64},
                   {all.data(), static_cast<std::int64_t>(all.size()), comm::DType::f64});
  World world;
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(node * mine.size());
    world.numerators.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(x.size()));
    world.weights.push_back(*(begin + static_cast<std::ptrdiff_t>(x.size())));
  }
  return world;
}

}  // namespace plumbline::conformance
