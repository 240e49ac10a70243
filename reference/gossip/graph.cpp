#include "reference/gossip/graph.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <numeric>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::gossip {
namespace {

constexpr std::array<std::string_view, 12> kNames{"directed-exponential",
                                                  "n-peer-exponential",
                                                  "bipartite-exponential",
                                                  "directed-linear",
                                                  "bipartite-linear",
                                                  "ring",
                                                  "static-exponential",
                                                  "mesh",
                                                  "star",
                                                  "complete",
                                                  "random-matching",
                                                  "phone-book"};
constexpr std::array<std::string_view, 6> kFairscaleNames{
    "DynamicDirectedExponentialGraph", "NPeerDynamicDirectedExponentialGraph", "DynamicBipartiteExponentialGraph",
    "DynamicDirectedLinearGraph",      "DynamicBipartiteLinearGraph",          "RingGraph"};

bool is_fairscales(GraphKind kind) { return kind <= GraphKind::ring; }
bool has_two_sides(GraphKind kind) {
  return kind == GraphKind::bipartite_exponential || kind == GraphKind::bipartite_linear;
}
// All neighbours at once, unless a number of peers is asked for.
bool takes_all(GraphKind kind) {
  return kind == GraphKind::static_exponential || kind == GraphKind::mesh || kind == GraphKind::star ||
         kind == GraphKind::complete;
}
bool is_fairscales_exponential(GraphKind kind) { return kind <= GraphKind::bipartite_exponential; }

// How many powers of `base`, from 1 on, are at most n - 1.
int levels_of(int nodes, int base) {
  int levels = 0;
  for (std::int64_t power = 1; power <= nodes - 1; power *= base) ++levels;
  return levels;
}
// The same by the quotient of two logarithms, cut: a power that is n - 1 exactly can be missed.
int levels_by_quotient(int nodes, int base) {
  return static_cast<int>(std::log(static_cast<double>(nodes - 1)) / std::log(static_cast<double>(base))) + 1;
}

std::int64_t power_of(int base, int exponent) {
  std::int64_t power = 1;
  for (int i = 0; i < exponent; ++i) power *= base;
  return power;
}

int wrapped(std::int64_t number, int nodes) {
  const std::int64_t rest = number % nodes;
  return static_cast<int>(rest < 0 ? rest + nodes : rest);
}

// The distances, forward ones above 0 and those back below, in the order of the book.
std::vector<std::int64_t> steps_of(const GraphOptions& options) {
  const int nodes = options.nodes;
  const bool as_fairscale = options.convention == Convention::fairscale;
  const auto levels = [&](int base) { return as_fairscale ? levels_by_quotient(nodes, base) : levels_of(nodes, base); };
  std::vector<std::int64_t> steps;
  const auto both_ways = [&](std::int64_t distance) { steps.insert(steps.end(), {distance, -distance}); };
  switch (options.kind) {
    case GraphKind::directed_exponential:
      for (int i = 0; i < levels(2); ++i) both_ways(power_of(2, i));
      break;
    case GraphKind::n_peer_exponential:
      for (int i = 0; i < levels(options.peers + 1); ++i)
        for (int j = 1; j <= options.peers; ++j) steps.push_back(j * power_of(options.peers + 1, i));
      break;
    case GraphKind::bipartite_exponential:
      for (int i = 0; i < levels(2); ++i) both_ways(i == 0 ? 1 : 1 + power_of(2, i));
      break;
    case GraphKind::directed_linear:
      for (int i = 1; i < nodes; i += 2) both_ways(i);
      break;
    case GraphKind::bipartite_linear:
      // Round an even number of nodes even distances lead back to the same side.
      for (int i = 1; i < nodes; i += nodes % 2 == 0 ? 2 : 1) both_ways(i);
      break;
    case GraphKind::ring:
      both_ways(1);
      break;
    case GraphKind::static_exponential:
      for (int i = 0; i < levels(2); ++i) steps.push_back(power_of(2, i));
      break;
    case GraphKind::complete:
      for (int i = 1; i < nodes; ++i) steps.push_back(i);
      break;
    default:
      break;
  }
  return steps;
}

// Each once, without the way to the node itself.
std::vector<int> without_repeats(const std::vector<std::int64_t>& steps, int nodes) {
  std::vector<bool> has(static_cast<std::size_t>(nodes));
  has[0] = true;
  std::vector<int> distances;
  for (const std::int64_t step : steps) {
    const int distance = wrapped(step, nodes);
    if (has[static_cast<std::size_t>(distance)]) continue;
    has[static_cast<std::size_t>(distance)] = true;
    distances.push_back(distance);
  }
  return distances;
}

// Books of two sides whose ways do not all lead across, as they do round an odd number of nodes.
std::vector<std::vector<int>> rows_across(const std::vector<std::int64_t>& steps, int nodes) {
  std::vector<std::vector<int>> rows(static_cast<std::size_t>(nodes));
  for (int node = 0; node < nodes; ++node)
    for (std::size_t i = 0; i + 1 < steps.size(); i += 2) {
      const int forward = wrapped(node + steps[i], nodes), back = wrapped(node + steps[i + 1], nodes);
      if (forward % 2 == node % 2 || back % 2 == node % 2) continue;
      rows[static_cast<std::size_t>(node)].insert(rows[static_cast<std::size_t>(node)].end(), {forward, back});
    }
  return rows;
}

int most_square_rows(int nodes) {
  int rows = static_cast<int>(std::sqrt(static_cast<double>(nodes)));
  while (nodes % rows != 0) --rows;
  return rows;
}

std::vector<std::vector<int>> mesh_rows(int nodes, int rows) {
  const int columns = nodes / rows;
  std::vector<std::vector<int>> book(static_cast<std::size_t>(nodes));
  for (int node = 0; node < nodes; ++node) {
    auto& row = book[static_cast<std::size_t>(node)];
    if (node % columns + 1 < columns) row.push_back(node + 1);
    if (node + columns < nodes) row.push_back(node + columns);
    if (node >= columns) row.push_back(node - columns);
    if (node % columns > 0) row.push_back(node - 1);
  }
  return book;
}

std::vector<std::vector<int>> star_rows(int nodes, int center) {
  std::vector<std::vector<int>> book(static_cast<std::size_t>(nodes));
  for (int i = 1; i < nodes; ++i) {
    const int other = (center + i) % nodes;
    book[static_cast<std::size_t>(center)].push_back(other);
    book[static_cast<std::size_t>(other)].push_back(center);
  }
  return book;
}

// The place that is paired with `place` when `count` places, an even number, play everybody once: in round i those that
// add up to i, and the last one with the one that would play itself.
int paired_place(int place, int round, int count) {
  const int others = count - 1;
  if (place == others) return wrapped(std::int64_t{round} * (count / 2), others);
  const int pair = wrapped(std::int64_t{round} - place, others);
  return pair == place ? others : pair;
}

void require_options(const GraphOptions& options) {
  const std::string_view name = name_of(options.kind);
  if (options.nodes < 1) throw InvalidArgument(fmt::format("{}: {} nodes; there is 1 at least", name, options.nodes));
  if (options.ranks_per_node < 1)
    throw InvalidArgument(fmt::format("{}: {} ranks per node; there is 1 at least", name, options.ranks_per_node));
  if (options.peers < 0) throw InvalidArgument(fmt::format("{}: {} peers; there is 1 at least", name, options.peers));
  constexpr int kMostPeers = 1 << 20;
  if (options.peers > kMostPeers)
    throw InvalidArgument(fmt::format("{}: {} peers; there are {} at most", name, options.peers, kMostPeers));
  if (options.convention == Convention::fairscale) {
    if (!is_fairscales(options.kind) && options.kind != GraphKind::phone_book)
      throw InvalidArgument(fmt::format("{}: FairScale has no such graph", name));
    if (options.nodes == 1 && is_fairscales_exponential(options.kind))
      throw InvalidArgument(fmt::format("{}: one node, the logarithm of 0 distances", name));
    return;
  }
  if (has_two_sides(options.kind) && options.nodes % 2 != 0 && options.nodes > 1)
    throw InvalidArgument(fmt::format("{}: {} nodes; two sides need an even number", name, options.nodes));
  if (options.kind == GraphKind::mesh && options.rows != 0 && (options.rows < 0 || options.nodes % options.rows != 0))
    throw InvalidArgument(
        fmt::format("{}: {} rows of {} nodes; rows divide the nodes", name, options.rows, options.nodes));
  if (options.kind == GraphKind::star && (options.center < 0 || options.center >= options.nodes))
    throw InvalidArgument(fmt::format("{}: center {} of {} nodes", name, options.center, options.nodes));
}

}  // namespace

std::string_view name_of(GraphKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::string_view fairscale_name_of(GraphKind kind) {
  return is_fairscales(kind) ? kFairscaleNames[static_cast<std::size_t>(kind)] : std::string_view();
}

std::optional<GraphKind> parse_graph_kind(std::string_view name) {
  for (const GraphKind kind : kNamedGraphs)
    if (name == name_of(kind) || (is_fairscales(kind) && name == fairscale_name_of(kind))) return kind;
  return std::nullopt;
}

Graph::Graph(const GraphOptions& options) : options_(options) {
  if (options_.peers == 0 && !takes_all(options_.kind)) options_.peers = 1;
  require_options(options_);
  build();
  settle_peers();
}

Graph::Graph(std::vector<std::vector<int>> rows, int peers, Convention convention, bool regular) {
  options_ = {
      .kind = GraphKind::phone_book, .nodes = static_cast<int>(rows.size()), .peers = peers, .convention = convention};
  require_options(options_);
  for (std::size_t node = 0; node < rows.size(); ++node)
    for (const int other : rows[node])
      if (other < 0 || other >= nodes())
        throw InvalidArgument(fmt::format("node {} is to send to {} of {} nodes", node, other, nodes()));
  keep_rows(std::move(rows));
  settle_peers();
  is_regular_ = regular;
}

void Graph::build() {
  const int count = nodes();
  const bool as_fairscale = options_.convention == Convention::fairscale;
  switch (options_.kind) {
    case GraphKind::mesh:
      return keep_rows(mesh_rows(count, options_.rows != 0 ? options_.rows : most_square_rows(count)));
    case GraphKind::star:
      return keep_rows(star_rows(count, options_.center));
    case GraphKind::random_matching:
      is_regular_ = count % 2 == 0 || count == 1;
      return;
    default:
      break;
  }
  const std::vector<std::int64_t> steps = steps_of(options_);
  if (as_fairscale && has_two_sides(options_.kind) && count % 2 != 0) {
    rows_ = rows_across(steps, count);
    return;
  }
  if (as_fairscale)
    for (const std::int64_t step : steps) distances_.push_back(wrapped(step, count));
  else
    distances_ = without_repeats(steps, count);
}

void Graph::keep_rows(std::vector<std::vector<int>> rows) {
  rows_ = std::move(rows);
  senders_.assign(rows_.size(), {});
  for (std::size_t node = 0; node < rows_.size(); ++node)
    for (const int other : rows_[node]) {
      auto& senders = senders_[static_cast<std::size_t>(other)];
      if (senders.empty() || senders.back() != static_cast<int>(node)) senders.push_back(static_cast<int>(node));
    }
  // Of all neighbours at once; taken in turn they need not meet.
  is_regular_ = options_.peers == 0 && std::ranges::all_of(rows_, [this](const std::vector<int>& row) {
                  return row.size() == rows_.front().size();
                });
}

void Graph::settle_peers() {
  if (options_.convention == Convention::fairscale || nodes() == 1) return;
  const int peers = options_.peers;
  if (options_.kind == GraphKind::random_matching) {
    if (peers >= nodes())
      throw InvalidArgument(fmt::format("{}: {} peers of {} nodes", name_of(options_.kind), peers, nodes()));
    return;
  }
  for (int node = 0; node < (rows_.empty() ? 1 : nodes()); ++node)
    if (peers > entries(node))
      throw InvalidArgument(fmt::format("{}: {} peers in a round, but node {} of {} can only send to {}",
                                        name_of(options_.kind), peers, node, nodes(), entries(node)));
}

bool Graph::is_bipartite() const { return has_two_sides(options_.kind); }

bool Graph::is_dynamic() const { return options_.kind != GraphKind::ring && options_.peers != 0; }

int Graph::entries(int node) const {
  return static_cast<int>(rows_.empty() ? distances_.size() : rows_[static_cast<std::size_t>(node)].size());
}

// As many as it takes in a round.
int Graph::peers_of(int node) const { return options_.peers == 0 ? entries(node) : options_.peers; }

int Graph::entry(int node, std::int64_t index) const {
  if (rows_.empty()) return wrapped(std::int64_t{node} + distances_[static_cast<std::size_t>(index)], nodes());
  return rows_[static_cast<std::size_t>(node)][static_cast<std::size_t>(index)];
}

void Graph::require(int node, std::int64_t round) const {
  if (node < 0 || node >= nodes()) throw OutOfRange(fmt::format("node {} of {}", node, nodes()));
  if (round < 0) throw OutOfRange(fmt::format("round {}; the first one is 0", round));
}

std::vector<int> Graph::phone_book(int node) const {
  require(node, 0);
  std::vector<int> book;
  if (options_.kind == GraphKind::random_matching) {
    for (int i = 1; i < nodes(); ++i) book.push_back((node + i) % nodes());
    return book;
  }
  for (int i = 0; i < entries(node); ++i) book.push_back(entry(node, i));
  return book;
}

namespace {

// The entry of the n-th peer in a round.
std::int64_t index_of(std::int64_t round, int peers, int place, int entries) {
  return ((round % entries) * peers + place) % entries;
}

}  // namespace

std::vector<int> Graph::out_of(int node, std::int64_t round) const {
  const int count = entries(node);
  std::vector<int> out;
  const int peers = peers_of(node);
  if (options_.convention == Convention::fairscale && peers > count)
    throw OutOfRange(
        fmt::format("the peer list of node {} has {} entries, and {} peers are requested", node, count, peers));
  if (count == 0) return out;
  for (int place = 0; place < peers; ++place) out.push_back(entry(node, index_of(round, options_.peers, place, count)));
  return out;
}

// Whoever names the node among the entries of its round.
std::vector<int> Graph::in_by_entry(int node, std::int64_t round) const {
  std::vector<int> in;
  if (rows_.empty()) {
    const int count = entries(node);
    for (int place = 0; place < peers_of(node) && count > 0; ++place) {
      const std::int64_t index = index_of(round, options_.peers, place, count);
      const int sender = wrapped(std::int64_t{node} - distances_[static_cast<std::size_t>(index)], nodes());
      if (sender != node) in.push_back(sender);
    }
    return in;
  }
  for (const int sender : senders_[static_cast<std::size_t>(node)]) {
    if (sender == node) continue;
    const std::vector<int> out = out_of(sender, round);
    in.insert(in.end(), static_cast<std::size_t>(std::ranges::count(out, node)), sender);
  }
  return in;
}

// Whoever names the node in the entry where this node's own peer stands: what FairScale does.
std::vector<int> Graph::in_by_position(int node, std::int64_t round) const {
  std::vector<int> in;
  for (int place = 0; place < peers_of(node); ++place) {
    const std::int64_t index = index_of(round, options_.peers, place, entries(node));
    for (int sender = 0; sender < nodes(); ++sender) {
      if (sender == node) continue;
      if (index >= entries(sender))
        throw OutOfRange(
            fmt::format("the peer list of node {} has {} entries, none at {}", sender, entries(sender), index));
      if (entry(sender, index) == node) in.push_back(sender);
    }
  }
  return in;
}

std::vector<int> Graph::order_of(std::int64_t round) const {
  std::vector<int> order(static_cast<std::size_t>(nodes()));
  std::iota(order.begin(), order.end(), 0);
  std::seed_seq seeds{static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32),
                      static_cast<std::uint32_t>(round), static_cast<std::uint32_t>(round >> 32)};
  std::mt19937_64 random(seeds);
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[random() % left]);
  return order;
}

std::vector<std::vector<int>> Graph::sends(std::int64_t round) const {
  std::vector<std::vector<int>> all(static_cast<std::size_t>(nodes()));
  if (options_.kind != GraphKind::random_matching) {
    for (int node = 0; node < nodes(); ++node) all[static_cast<std::size_t>(node)] = out_of(node, round);
    return all;
  }
  const std::vector<int> order = order_of(round);
  const int places = nodes() + nodes() % 2;  // the last of an odd number plays nobody
  for (int game = 0; game < options_.peers && nodes() > 1; ++game)
    for (int place = 0; place < nodes(); ++place) {
      const int pair = paired_place(place, game, places);
      if (pair < nodes())
        all[static_cast<std::size_t>(order[static_cast<std::size_t>(place)])].push_back(
            order[static_cast<std::size_t>(pair)]);
    }
  return all;
}

Peers Graph::peers(int node, std::int64_t round) const {
  require(node, round);
  if (options_.kind == GraphKind::random_matching) {
    std::vector<int> partners = sends(round)[static_cast<std::size_t>(node)];
    return {partners, partners};
  }
  Peers peers;
  peers.out = out_of(node, round);
  const bool by_position = options_.convention == Convention::fairscale && !rows_.empty();
  peers.in = by_position ? in_by_position(node, round) : in_by_entry(node, round);
  return peers;
}

Graph Graph::with_peers(int peers) const {
  if (peers < 1) throw InvalidArgument(fmt::format("{} peers; there is 1 at least", peers));
  Graph other = *this;
  other.options_.peers = peers;
  other.settle_peers();
  return other;
}

std::int64_t Graph::period() const {
  if (!is_dynamic() || nodes() == 1) return 1;
  if (options_.kind == GraphKind::random_matching) return 0;
  constexpr std::int64_t most = std::int64_t{1} << 53;
  std::int64_t period = 1;
  for (int node = 0; node < (rows_.empty() ? 1 : nodes()); ++node)
    if (const int count = entries(node); count > 0) {
      const std::int64_t turns = count / std::gcd(count, options_.peers), part = turns / std::gcd(period, turns);
      if (period > most / part)
        throw Unsupported(
            fmt::format("rows of many lengths, of node {} with {} turns among them, come together again only after "
                        "more than 2^53 rounds",
                        node, turns));
      period *= part;
    }
  return period;
}

std::string first_mismatch(const std::vector<Peers>& peers) {
  std::map<std::pair<int, int>, int> open;  // from, to
  for (std::size_t node = 0; node < peers.size(); ++node) {
    for (const int to : peers[node].out) ++open[{static_cast<int>(node), to}];
    for (const int from : peers[node].in) --open[{from, static_cast<int>(node)}];
  }
  for (const auto& [edge, count] : open) {
    const auto& [from, to] = edge;
    if (count != 0)
      return fmt::format("node {} sends to {}, but node {} receives from {}", from,
                         peers[static_cast<std::size_t>(from)].out, to, peers[static_cast<std::size_t>(to)].in);
  }
  return {};
}

namespace {

struct Step {
  bool is_send;
  int peer;
};

std::deque<Step> steps_in_turn(const Peers& peers, bool receives_first) {
  std::deque<Step> steps;
  for (std::size_t i = 0; i < peers.out.size() || i < peers.in.size(); ++i) {
    if (receives_first && i < peers.in.size()) steps.push_back({false, peers.in[i]});
    if (i < peers.out.size()) steps.push_back({true, peers.out[i]});
    if (!receives_first && i < peers.in.size()) steps.push_back({false, peers.in[i]});
  }
  return steps;
}

}  // namespace

bool blocks_one_at_a_time(const Graph& graph, std::int64_t round) {
  std::vector<std::deque<Step>> left;
  for (int node = 0; node < graph.nodes(); ++node)
    left.push_back(steps_in_turn(graph.peers(node, round), graph.is_passive(node)));
  // A message passes where both sides have come to it.
  const auto passes = [&](int node) {
    std::deque<Step>& own = left[static_cast<std::size_t>(node)];
    if (own.empty()) return false;
    std::deque<Step>& theirs = left[static_cast<std::size_t>(own.front().peer)];
    if (theirs.empty() || theirs.front().peer != node || theirs.front().is_send == own.front().is_send) return false;
    own.pop_front();
    theirs.pop_front();
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int node = 0; node < graph.nodes(); ++node)
      if (passes(node)) moved = true;
  }
  return std::ranges::any_of(left, [](const std::deque<Step>& steps) { return !steps.empty(); });
}

}  // namespace plumbline::gossip
