// reference/gossip/graph.hpp: which nodes send to which in each round of gossip.
//
// Model   n nodes; a node is one rank, or several that act as one (ranks_per_node). Each node has a peer list
//         (FairScale: phone book), the nodes that it can send to. In round t (from 0) with p peers it sends to the
//         entries t*p, t*p + 1, … t*p + p - 1 of it, counted round its end. It receives from exactly those that send to
//         it. A node is never told who sends: it computes that from the same graph, so all nodes must be in the same
//         round.
// Books   f(d) is the node d further on, b(d) the one d back, both round the ring of all nodes:
//           directed exponential    f(1) b(1) f(2) b(2) f(4) b(4) …
//           n-peer exponential      f(1) … f(p)  f(q) … f(p q)  f(q q) …, q = p + 1: the default
//           bipartite exponential   f(1) b(1) f(3) b(3) f(5) b(5) f(9) b(9) …, distances 1 and 1 + 2^i
//           directed linear         f(1) b(1) f(3) b(3) f(5) b(5) …, all odd distances; bipartite linear: the same
//           ring                    f(1) b(1), both in every round
//           static exponential      f(1) f(2) f(4) …
//           mesh, star, complete    the neighbours, by their distance further on
//           random matching         another matching in each round: pairs, and one node alone where n is odd
//         Of the exponential ones distances go up to the largest power that is at most n - 1.
// Here    plumbline: an entry is another node and stands in the list once. A single node has no peers. Bipartite
//         lists need an even number of nodes; more peers than entries are rejected with InvalidArgument.
//         fairscale: what FairScale 0.4.13 builds: doubled entries (f(n/2) and b(n/2)), entries that name the node
//         itself, empty books over an odd number of nodes, levels by a quotient of two logarithms in double precision.
// Cost    Books of a ring's distances are kept as distances: peers() of a node is O(p), whatever n. Others are kept as
//         rows.
// Sources Assran et al., Stochastic Gradient Push (ICML 2019); FairScale's graphs, recorded; Boyd et al., Randomized
//         Gossip Algorithms (2006) for matchings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace plumbline::gossip {

enum class GraphKind : std::uint8_t {
  directed_exponential,
  n_peer_exponential,
  bipartite_exponential,
  directed_linear,
  bipartite_linear,
  ring,
  static_exponential,
  mesh,
  star,
  complete,
  random_matching,
  phone_book,  // rows that were given
};
inline constexpr std::array kNamedGraphs{GraphKind::directed_exponential,
                                         GraphKind::n_peer_exponential,
                                         GraphKind::bipartite_exponential,
                                         GraphKind::directed_linear,
                                         GraphKind::bipartite_linear,
                                         GraphKind::ring,
                                         GraphKind::static_exponential,
                                         GraphKind::mesh,
                                         GraphKind::star,
                                         GraphKind::complete,
                                         GraphKind::random_matching};

/// "directed-exponential", …
[[nodiscard]] std::string_view name_of(GraphKind kind);
/// FairScale's class of that graph, "DynamicDirectedExponentialGraph"; "" of those that it lacks.
[[nodiscard]] std::string_view fairscale_name_of(GraphKind kind);
/// The kind with either name; nothing for others.
[[nodiscard]] std::optional<GraphKind> parse_graph_kind(std::string_view name);

enum class Convention : std::uint8_t { plumbline, fairscale };

struct GraphOptions {
  GraphKind kind = GraphKind::n_peer_exponential;
  int nodes = 1;
  int ranks_per_node = 1;
  /// Peers per round. 0: all neighbours in every round of static exponential, mesh, star and complete, else 1.
  int peers = 0;
  Convention convention = Convention::plumbline;
  int rows = 0;            // of a mesh; 0: the most of those with no more rows than columns
  int center = 0;          // of a star
  std::uint64_t seed = 0;  // of random matchings
  friend bool operator==(const GraphOptions&, const GraphOptions&) = default;
};

/// Nodes that one node sends to and receives from in a round. `out` is in the order of the peer list and may name a
/// node twice. `in` is by the place of the entry among the p of the round; of plumbline's meshes, stars and given rows
/// by rising node.
struct Peers {
  std::vector<int> out;
  std::vector<int> in;
  friend bool operator==(const Peers&, const Peers&) = default;
};

/// A plain value; equal on all nodes.
class Graph {
 public:
  /// Throws InvalidArgument: nodes, ranks or peers below 1, more peers than the book has entries, an odd number of
  /// nodes of a bipartite graph, rows that do not divide the nodes, a center that is no node. As fairscale only what
  /// that FairScale rejects: one node of an exponential graph, a kind that it lacks. There, too many peers and empty
  /// books fail in peers().
  explicit Graph(const GraphOptions& options);
  /// A graph of rows that are given, taken cyclically, `peers` entries at a time; 0: all in every round. `regular` says
  /// that every node sends and receives equally much; as fairscale it is believed.
  Graph(std::vector<std::vector<int>> rows, int peers, Convention convention, bool regular);

  [[nodiscard]] const GraphOptions& options() const { return options_; }
  [[nodiscard]] int nodes() const { return options_.nodes; }
  /// Peers per round, of a graph that takes its entries cyclically; 0 where all neighbours are peers in every round.
  [[nodiscard]] int peers_per_round() const { return options_.peers; }
  /// Whether in each round every node sends the number of messages that it receives, and all nodes the same number.
  [[nodiscard]] bool is_regular() const { return is_regular_; }
  [[nodiscard]] bool is_bipartite() const;
  /// Whether peers change from round to round.
  [[nodiscard]] bool is_dynamic() const;
  /// Whether a node receives first where exchanges are one message at a time: the even nodes of bipartite graphs.
  [[nodiscard]] bool is_passive(int node) const { return is_bipartite() && node % 2 == 0; }

  /// The nodes that `node` can send to, in order. Of a random matching: all others. Throws OutOfRange.
  [[nodiscard]] std::vector<int> phone_book(int node) const;
  /// The peers of `node` in `round`. Throws OutOfRange for a node or round out of range, and as fairscale for books
  /// with fewer entries than peers.
  [[nodiscard]] Peers peers(int node, std::int64_t round) const;
  /// Whom each node sends to in `round`, by node: the `out` of all peers().
  [[nodiscard]] std::vector<std::vector<int>> sends(std::int64_t round) const;
  /// Throws OutOfRange, with the figure, for a node that does not exist and for rounds below 0.
  void require(int node, std::int64_t round) const;
  /// The round that a node is in after `steps` rounds: static graphs stay in round 0.
  [[nodiscard]] std::int64_t round_after(std::int64_t steps) const { return is_dynamic() ? steps : 0; }
  /// The same graph with another number of peers per round, which starts again at round 0. The peer list stays.
  [[nodiscard]] Graph with_peers(int peers) const;
  /// Rounds after which the same peers come again; 1 for static graphs, 0 where they never do (random matchings).
  /// Throws Unsupported where rows of many lengths come together only after 2^53 rounds or more.
  [[nodiscard]] std::int64_t period() const;
  /// Distances, in nodes further on, that are the same for every node, in the order of its book; nothing of other
  /// graphs.
  [[nodiscard]] const std::vector<int>& distances() const { return distances_; }

  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  void build();
  void keep_rows(std::vector<std::vector<int>> rows);
  void settle_peers();
  [[nodiscard]] int entries(int node) const;
  [[nodiscard]] int peers_of(int node) const;
  [[nodiscard]] int entry(int node, std::int64_t index) const;
  [[nodiscard]] std::vector<int> out_of(int node, std::int64_t round) const;
  [[nodiscard]] std::vector<int> in_by_entry(int node, std::int64_t round) const;
  [[nodiscard]] std::vector<int> in_by_position(int node, std::int64_t round) const;
  [[nodiscard]] std::vector<int> order_of(std::int64_t round) const;

  GraphOptions options_;
  bool is_regular_ = true;
  std::vector<int> distances_;             // of graphs that look the same from every node
  std::vector<std::vector<int>> rows_;     // of others
  std::vector<std::vector<int>> senders_;  // who names the node anywhere in its row, rising
};

/// Pairs of nodes that send to or hear from each other without the other knowing: "node 2 sends to node 5, which
/// receives from [1, 3]", the first of them; "" when every receive list is the exact inverse of the send lists.
/// peers[i] is node i's.
[[nodiscard]] std::string first_mismatch(const std::vector<Peers>& peers);

/// Whether a round never ends when each message is sent by a blocking call that waits for its receiver, one entry after
/// the other: nodes that are not passive send first, passive ones receive first.
[[nodiscard]] bool blocks_one_at_a_time(const Graph& graph, std::int64_t round);

}  // namespace plumbline::gossip
