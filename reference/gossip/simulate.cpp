#include "reference/gossip/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::gossip {
namespace {

double distance_to(double mean, std::span<const double> numerators, std::span<const double> weights) {
  double squares = 0;
  for (std::size_t i = 0; i < numerators.size(); ++i) {
    const double difference = numerators[i] / weights[i] - mean;
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

// One round of values alone, by whom each node sends to.
class Mixer {
 public:
  Mixer(const Graph& graph, const Mixing& mixing, std::int64_t round) {
    if (mixing.kind == MixingKind::uniform && !graph.distances().empty()) {
      // Every node's round looks the same: as far on as node 0's peers are.
      for (const int peer : graph.peers(0, round).out) alike_.push_back(static_cast<std::size_t>(peer));
      return;
    }
    sends_ = graph.sends(round);
    for (std::size_t node = 0; node < sends_.size(); ++node)
      shares_.push_back(shares_by_sends(graph, mixing, static_cast<int>(node), round, sends_));
  }

  void mix(std::span<const double> from, std::span<double> to) const {
    if (!sends_.empty()) return mix_by_node(from, to);
    const double share = 1.0 / (static_cast<double>(alike_.size()) + 1);
    std::ranges::copy(from, to.begin());
    for (const std::size_t distance : alike_) {
      for (std::size_t i = distance; i < from.size(); ++i) to[i] += from[i - distance];
      for (std::size_t i = 0; i < distance; ++i) to[i] += from[i + from.size() - distance];
    }
    for (double& value : to) value *= share;
  }

 private:
  void mix_by_node(std::span<const double> from, std::span<double> to) const {
    std::ranges::fill(to, 0);
    for (std::size_t node = 0; node < sends_.size(); ++node) {
      to[node] += shares_[node].kept * from[node];
      for (std::size_t i = 0; i < sends_[node].size(); ++i)
        to[static_cast<std::size_t>(sends_[node][i])] += shares_[node].sent[i] * from[node];
    }
  }

  std::vector<std::size_t> alike_;
  std::vector<std::vector<int>> sends_;
  std::vector<Shares> shares_;
};

}  // namespace

Simulation::Simulation(Graph graph, Mixing mixing, std::span<const double> values)
    : graph_(std::move(graph)),
      mixing_(std::move(mixing)),
      numerators_(values.begin(), values.end()),
      weights_(values.size(), 1.0),
      next_numerators_(values.size()),
      next_weights_(values.size()) {
  if (values.size() != static_cast<std::size_t>(graph_.nodes()))
    throw InvalidArgument(fmt::format("{} values for {} nodes", values.size(), graph_.nodes()));
  mean_ = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  distance_ = distance_to(mean_, numerators_, weights_);
}

SimulatedRound Simulation::step() {
  const Mixer mixer(graph_, mixing_, graph_.round_after(round_));
  mixer.mix(numerators_, next_numerators_);
  mixer.mix(weights_, next_weights_);
  numerators_.swap(next_numerators_);
  weights_.swap(next_weights_);
  ++round_;
  return {.error = distance_ > 0 ? distance_to(mean_, numerators_, weights_) / distance_ : 0,
          .sum = std::accumulate(numerators_.begin(), numerators_.end(), 0.0),
          .weight_sum = std::accumulate(weights_.begin(), weights_.end(), 0.0),
          .least_weight = *std::ranges::min_element(weights_)};
}

namespace {

// The mean over the nodes: in a star and in a mesh they have unlike numbers of neighbours.
double peers_of_a_node(const Graph& graph) {
  if (graph.peers_per_round() != 0) return graph.peers_per_round();
  const auto peers_of = [&](int node) { return static_cast<double>(graph.phone_book(node).size()); };
  if (graph.is_regular()) return peers_of(0);
  double sum = 0;
  for (int node = 0; node < graph.nodes(); ++node) sum += peers_of(node);
  return sum / graph.nodes();
}

}  // namespace

void require_simulable(const Graph& graph, std::int64_t rounds) {
  constexpr double most = 0x1p32;
  const double peers = peers_of_a_node(graph);
  const double messages = static_cast<double>(graph.nodes()) * static_cast<double>(rounds) * (peers + 1);
  if (messages > most)
    throw Unsupported(fmt::format("{} rounds of a {} of {} nodes with {:.7g} peers are {:.3g} messages; {:.3g} at most",
                                  rounds, name_of(graph.options().kind), graph.nodes(), peers, messages, most));
}

std::vector<SimulatedRound> simulate(const Graph& graph, const Mixing& mixing, std::span<const double> values,
                                     int rounds) {
  Simulation simulation(graph, mixing, values);
  std::vector<SimulatedRound> all;
  for (int round = 0; round < rounds; ++round) all.push_back(simulation.step());
  return all;
}

std::vector<double> random_values(int nodes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<std::size_t>(nodes));
  for (double& value : values) value = static_cast<double>(random() >> 11) * 0x1p-52 - 1;
  return values;
}

}  // namespace plumbline::gossip
