#include "reference/gossip/detail/agreement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/gossip/detail/round_plans.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::gossip {

using comm::DType;

namespace {

// What each node says of itself: a hash, how many peers it sends to and receives from, whether it makes rounds in
// place.
constexpr std::size_t kHeader = 4;

// Of what makes two nodes' plans differ.
std::uint64_t hash_of(const Graph& graph, const Mixing& mixing, std::int64_t round) {
  comm::Fnv1a hash;
  const GraphOptions& options = graph.options();
  for (const int value : {static_cast<int>(options.kind), options.nodes, options.peers, options.rows, options.center,
                          static_cast<int>(options.convention), static_cast<int>(mixing.kind)})
    hash.add_bytes(static_cast<std::uint64_t>(value));
  hash.add_bytes(std::uint64_t{options.seed}).add_bytes(static_cast<std::uint64_t>(round));
  if (options.kind == GraphKind::phone_book)
    for (int node = 0; node < graph.nodes(); ++node) {
      hash.add_bytes(std::uint64_t{0x626f6f6b});
      for (const int peer : graph.phone_book(node)) hash.add_bytes(static_cast<std::uint64_t>(peer));
    }
  for (const auto& rounds : mixing.shares)
    for (const Shares& shares : rounds) {
      hash.add_bytes(std::bit_cast<std::uint64_t>(shares.kept));
      for (const double sent : shares.sent) hash.add_bytes(std::bit_cast<std::uint64_t>(sent));
    }
  return hash.value();
}

}  // namespace

void Agreement::make(comm::Communicator& group, const Graph& graph, const Mixing& mixing, std::int64_t round,
                     bool can_meet, std::chrono::nanoseconds heartbeat) {
  if (is_made_) return;
  if (headers_.empty()) exchange_headers(group, graph, mixing, round, can_meet, heartbeat);
  const auto nodes = static_cast<std::size_t>(graph.nodes());
  std::size_t longest = 0;
  for (std::size_t node = 0; node < nodes; ++node)
    longest = std::max(longest, static_cast<std::size_t>(headers_[kHeader * node + 1] + headers_[kHeader * node + 2]));
  std::vector<std::int32_t> list(longest), lists(longest * nodes);
  const Peers own = graph.peers(group.rank(), round);
  std::ranges::copy(own.in, std::ranges::copy(own.out, list.begin()).out);
  group.all_gather({list.data(), static_cast<std::int64_t>(longest), DType::i32},
                   {lists.data(), static_cast<std::int64_t>(lists.size()), DType::i32}, heartbeat);
  judge(group, round, std::exchange(headers_, {}), lists);
  is_made_ = true;
}

void Agreement::exchange_headers(comm::Communicator& group, const Graph& graph, const Mixing& mixing,
                                 std::int64_t round, bool can_meet, std::chrono::nanoseconds heartbeat) {
  const Peers own = graph.peers(group.rank(), round);
  const std::array<std::int64_t, kHeader> mine{std::bit_cast<std::int64_t>(hash_of(graph, mixing, round)),
                                               static_cast<std::int64_t>(own.out.size()),
                                               static_cast<std::int64_t>(own.in.size()), can_meet ? 1 : 0};
  std::vector<std::int64_t> headers(kHeader * static_cast<std::size_t>(graph.nodes()));
  group.all_gather({mine.data(), kHeader, DType::i64},
                   {headers.data(), static_cast<std::int64_t>(headers.size()), DType::i64}, heartbeat);
  headers_ = std::move(headers);
}

// What all nodes have said: headers, and lists of peers of one length.
void Agreement::judge(const comm::Communicator& group, std::int64_t round, const std::vector<std::int64_t>& headers,
                      const std::vector<std::int32_t>& lists) {
  const std::size_t nodes = headers.size() / kHeader;
  const auto header = [&](std::size_t node, std::size_t position) { return headers[kHeader * node + position]; };
  std::vector<Peers> peers(nodes);
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto begin = lists.begin() + static_cast<std::ptrdiff_t>(lists.size() / nodes * node);
    const auto middle = begin + header(node, 1);
    peers[node] = {{begin, middle}, {middle, middle + header(node, 2)}};
  }
  const std::string problem = first_mismatch(peers);
  for (std::size_t node = 1; node < nodes; ++node)
    if (header(node, 0) != header(0, 0))
      throw comm::MismatchError(
          fmt::format("round {} of gossip over group {}: nodes 0 and {} have other graphs, mixings or rounds; "
                      "node 0 {}, node {} {}{}{}",
                      round, group.group().name, node, words_of(peers[0]), node, words_of(peers[node]),
                      problem.empty() ? "" : "; ", problem));
  if (!problem.empty())
    throw comm::MismatchError(fmt::format("round {} of gossip over group {}: {}", round, group.group().name, problem));
  bool all_can = true;
  for (std::size_t node = 0; node < nodes; ++node) all_can = all_can && header(node, 3) != 0;
  all_meet_ = all_can;
}

}  // namespace plumbline::gossip
