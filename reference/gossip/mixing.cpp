#include "reference/gossip/mixing.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::gossip {
namespace {

constexpr std::array kKinds{MixingKind::uniform, MixingKind::metropolis_hastings, MixingKind::skewed};
constexpr std::array<std::string_view, 4> kMixingNames{"uniform", "metropolis-hastings", "skewed", "given"};
constexpr int kMostDenseNodes = 4096;

Shares uniform(std::size_t peers) {
  const double share = 1.0 / (static_cast<double>(peers) + 1.0);
  return {share, std::vector<double>(peers, share)};
}

Shares skewed(int node, std::size_t peers) {
  if (peers == 0) return {};
  Shares shares{.kept = 1.0 / (2 + node % 3), .sent = {}};
  const double parts = static_cast<double>(peers * (peers + 1)) / 2;
  for (std::size_t i = 1; i <= peers; ++i) shares.sent.push_back((1 - shares.kept) * static_cast<double>(i) / parts);
  return shares;
}

Shares metropolis_hastings(const Graph& graph, int node, std::int64_t round) {
  Peers own = graph.peers(node, round);
  Shares shares;
  for (const int peer : own.out) {
    const std::size_t others = std::max(graph.peers(peer, round).out.size(), own.out.size());
    shares.sent.push_back(1.0 / (1.0 + static_cast<double>(others)));
  }
  shares.kept = 1.0 - std::accumulate(shares.sent.begin(), shares.sent.end(), 0.0);
  std::vector<int> out = own.out;
  std::ranges::sort(out);
  std::ranges::sort(own.in);
  if (out != own.in)
    throw InvalidArgument(fmt::format(
        "Metropolis-Hastings: in round {} node {} sends to {} and receives from {}; each receiver must answer", round,
        node, out, own.in));
  return shares;
}

Shares given(const Mixing& mixing, int node, std::int64_t round, std::size_t peers) {
  if (static_cast<std::size_t>(node) >= mixing.shares.size() || mixing.shares[static_cast<std::size_t>(node)].empty())
    throw InvalidArgument(fmt::format("there are no shares for node {}", node));
  const auto& rounds = mixing.shares[static_cast<std::size_t>(node)];
  const Shares& shares = rounds[std::min(static_cast<std::size_t>(round), rounds.size() - 1)];
  if (shares.sent.size() != peers)
    throw InvalidArgument(
        fmt::format("node {} has {} shares in round {} for {} peers", node, shares.sent.size(), round, peers));
  if (!(shares.kept > 0))
    throw InvalidArgument(
        fmt::format("node {} keeps the share {} in round {}; it must be above 0", node, shares.kept, round));
  return shares;
}

Shares by_number(const Mixing& mixing, int node, std::int64_t round, std::size_t peers) {
  if (mixing.kind == MixingKind::skewed) return skewed(node, peers);
  return mixing.kind == MixingKind::given ? given(mixing, node, round, peers) : uniform(peers);
}

}  // namespace

std::string_view name_of(MixingKind kind) { return kMixingNames[static_cast<std::size_t>(kind)]; }

std::optional<MixingKind> parse_mixing_kind(std::string_view name) {
  for (const MixingKind kind : kKinds)
    if (name_of(kind) == name) return kind;
  return std::nullopt;
}

Shares shares_of(const Graph& graph, const Mixing& mixing, int node, std::int64_t round) {
  if (mixing.kind == MixingKind::metropolis_hastings) return metropolis_hastings(graph, node, round);
  return by_number(mixing, node, round, graph.peers(node, round).out.size());
}

Shares shares_by_sends(const Graph& graph, const Mixing& mixing, int node, std::int64_t round,
                       const std::vector<std::vector<int>>& sends) {
  const auto& own = sends[static_cast<std::size_t>(node)];
  if (mixing.kind != MixingKind::metropolis_hastings) return by_number(mixing, node, round, own.size());
  Shares shares;
  for (const int peer : own) {
    const auto& back = sends[static_cast<std::size_t>(peer)];
    if (std::ranges::find(back, node) == back.end()) return metropolis_hastings(graph, node, round);  // says who
    shares.sent.push_back(1.0 / (1.0 + static_cast<double>(std::max(back.size(), own.size()))));
  }
  shares.kept = 1.0 - std::accumulate(shares.sent.begin(), shares.sent.end(), 0.0);
  return shares;
}

bool is_lazy(const Graph& graph, const Mixing& mixing) {
  return mixing.kind == MixingKind::uniform && graph.is_regular();
}

bool carries_weight(const Graph& graph, const Mixing& mixing) {
  return !is_lazy(graph, mixing) && mixing.kind != MixingKind::metropolis_hastings;
}

std::vector<double> mixing_matrix(const Graph& graph, const Mixing& mixing, std::int64_t round) {
  if (graph.nodes() > kMostDenseNodes)
    throw Unsupported(fmt::format("the matrix of {} nodes; {} at most", graph.nodes(), kMostDenseNodes));
  const auto count = static_cast<std::size_t>(graph.nodes());
  std::vector<double> matrix(count * count);
  for (std::size_t node = 0; node < count; ++node) {
    const Peers peers = graph.peers(static_cast<int>(node), round);
    const Shares shares = shares_of(graph, mixing, static_cast<int>(node), round);
    matrix[node * count + node] += shares.kept;
    for (std::size_t i = 0; i < peers.out.size(); ++i)
      matrix[static_cast<std::size_t>(peers.out[i]) * count + node] += shares.sent[i];
  }
  return matrix;
}

}  // namespace plumbline::gossip
