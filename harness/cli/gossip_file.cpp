#include "harness/cli/gossip_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/cli/arguments.hpp"
#include "harness/cli/json_text.hpp"
#include "harness/suite/text.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"
#include "reference/support/reading_json.hpp"

namespace plumbline::cli {

using gossip::Graph;
using gossip::Mixing;
using nlohmann::json;

namespace {

constexpr std::int64_t kMostNodesOfFile = 1 << 20;
constexpr std::int64_t kMostRoundsOfFile = 1 << 16;
constexpr std::int64_t kMostSendersOfFile = 1 << 22;  // nodes, of each round again
constexpr double kRounding = 1e-9;                    // of sums of weights that were written in decimals

struct Edge {
  int from = 0, to = 0;
  std::optional<double> weight{};
};
using Round = std::vector<Edge>;

// What is wrong with an edge, wherever it stands.
void require_edge(const Edge& edge, const std::string& where) {
  if (edge.from == edge.to)
    throw InvalidArgument(
        fmt::format("{}: node {} sends to itself; it keeps what it does not send anyway", where, edge.from));
  if (edge.weight && !(*edge.weight > 0 && *edge.weight < 1))
    throw InvalidArgument(fmt::format("{}: weight {} from node {} to {}; it must be above 0 and below 1", where,
                                      *edge.weight, edge.from, edge.to));
}

// ---- CSV ----

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields;
  while (true) {
    const std::size_t end = std::min(line.find(','), line.size());
    fields.emplace_back(trimmed(line.substr(0, end)));
    if (end == line.size()) return fields;
    line.remove_prefix(end + 1);
  }
}

// Which column of the file each name has.
std::map<std::string, std::size_t> columns_in(std::string_view header) {
  std::map<std::string, std::size_t> columns;
  for (const std::string& name : fields_of(header)) {
    if (!std::set<std::string>{"round", "from", "to", "weight"}.contains(name))
      throw InvalidArgument(fmt::format("line 1: there is no column '{}'; there are from, to, round and weight{}",
                                        printable(name), did_you_mean(name, {"from", "to", "round", "weight"})));
    if (!columns.emplace(name, columns.size()).second)
      throw InvalidArgument(fmt::format("line 1: column '{}' appears twice", name));
  }
  for (const char* needed : {"from", "to"})
    if (!columns.contains(needed)) throw InvalidArgument(fmt::format("line 1: there is no column '{}'", needed));
  return columns;
}

int whole_field(const std::string& text, const std::string& where, const char* column, std::int64_t most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value >= most)
    throw InvalidArgument(
        fmt::format("{}: {} '{}'; it must be a whole number from 0 to {}", where, column, printable(text), most - 1));
  return value;
}

std::vector<Round> rounds_in_csv(std::string_view text) {
  std::vector<Round> rounds;
  std::map<std::string, std::size_t> columns;
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (columns.empty()) {
      columns = columns_in(row);
      continue;
    }
    if (row.empty()) continue;
    const std::string where = fmt::format("line {}", line);
    const std::vector<std::string> fields = fields_of(row);
    if (fields.size() != columns.size())
      throw InvalidArgument(fmt::format("{}: {} fields for {} columns", where, fields.size(), columns.size()));
    Edge edge{.from = whole_field(fields[columns.at("from")], where, "from", kMostNodesOfFile),
              .to = whole_field(fields[columns.at("to")], where, "to", kMostNodesOfFile)};
    if (columns.contains("weight"))
      edge.weight = on_behalf_of(where, [&] { return number("weight", fields[columns.at("weight")]); });
    const int round =
        columns.contains("round") ? whole_field(fields[columns.at("round")], where, "round", kMostRoundsOfFile) : 0;
    require_edge(edge, where);
    if (std::cmp_less_equal(rounds.size(), round)) rounds.resize(static_cast<std::size_t>(round) + 1);
    rounds[static_cast<std::size_t>(round)].push_back(edge);
  }
  return rounds;
}

// ---- JSON ----

int node_in(const json& value, const std::string& where) {
  if (!value.is_number_integer() || value < 0 || value >= kMostNodesOfFile)
    throw InvalidArgument(
        fmt::format("{}: {}; a node is a whole number from 0 to {}", where, value.dump(), kMostNodesOfFile - 1));
  return value.get<int>();
}

std::vector<Round> rounds_in_json(const json& list) {
  if (!list.is_array()) throw InvalidArgument("rounds: must be a list of rounds, each a list of edges [from, to]");
  std::vector<Round> rounds;
  for (const json& edges : list) {
    const std::string round = fmt::format("rounds[{}]", rounds.size());
    if (!edges.is_array()) throw InvalidArgument(round + ": must be a list of edges [from, to] or [from, to, weight]");
    Round& into = rounds.emplace_back();
    for (const json& one : edges) {
      const std::string where = fmt::format("{}[{}]", round, into.size());
      const bool is_edge = one.is_array() && (one.size() == 2 || (one.size() == 3 && one[2].is_number()));
      if (!is_edge) throw InvalidArgument(where + ": must be an edge [from, to] or [from, to, weight]");
      Edge edge{.from = node_in(one[0], where), .to = node_in(one[1], where)};
      if (one.size() == 3) edge.weight = one[2].get<double>();
      require_edge(edge, where);
      into.push_back(edge);
    }
  }
  return rounds;
}

std::vector<std::vector<int>> book_in(const json& list) {
  if (!list.is_array() || !std::ranges::all_of(list, [](const json& row) { return row.is_array(); }))
    throw InvalidArgument("phone_book: must be a list of peer lists, one for each node");
  std::vector<std::vector<int>> book;
  for (const json& row : list) {
    const std::string where = fmt::format("phone_book[{}]", book.size());
    std::vector<int>& into = book.emplace_back();
    for (const json& peer : row) {
      into.push_back(node_in(peer, where));
      require_edge({static_cast<int>(book.size()) - 1, into.back()}, where);
      if (std::cmp_greater_equal(into.back(), list.size()))
        throw InvalidArgument(fmt::format("{}: node {} of {} nodes", where, into.back(), list.size()));
    }
  }
  return book;
}

// ---- graphs ----

std::string round_name(std::size_t round, std::size_t rounds) {
  return rounds == 1 ? "" : fmt::format("round {}: ", round);
}

// Whom each node sends to in a round, by node, and which part each peer gets.
struct Sends {
  std::vector<int> peers;
  std::vector<double> weights;
};

std::vector<Sends> sends_of(const Round& edges, int nodes, const std::string& where) {
  std::vector<Sends> all(static_cast<std::size_t>(nodes));
  for (const Edge& edge : edges) {
    Sends& own = all[static_cast<std::size_t>(edge.from)];
    own.peers.push_back(edge.to);
    if (edge.weight) own.weights.push_back(*edge.weight);
  }
  for (std::size_t node = 0; node < all.size(); ++node) {
    std::vector<int> peers = all[node].peers;
    std::ranges::sort(peers);
    if (const auto twice = std::ranges::adjacent_find(peers); twice != peers.end())
      throw InvalidArgument(fmt::format("{}node {} sends to node {} twice", where, node, *twice));
  }
  return all;
}

// Rows that are taken cyclically have the same number of entries for each round.
int peers_of_rounds(const std::vector<std::vector<Sends>>& rounds) {
  if (rounds.size() == 1) return 0;
  const std::size_t peers = rounds.front().front().peers.size();
  for (std::size_t round = 0; round < rounds.size(); ++round)
    for (std::size_t node = 0; node < rounds[round].size(); ++node)
      if (rounds[round][node].peers.size() != peers)
        throw InvalidArgument(fmt::format(
            "round {}: node {} sends to {} nodes, but node 0 to {} in round 0; of several rounds, all must be equal",
            round, node, rounds[round][node].peers.size(), peers));
  return static_cast<int>(peers);
}

gossip::Shares shares_in(const Sends& sends, std::size_t node, const std::string& where) {
  gossip::Shares shares{.kept = 1, .sent = sends.weights};
  for (const double weight : sends.weights) shares.kept -= weight;
  if (shares.kept < kRounding)
    throw InvalidArgument(fmt::format("{}node {} sends {:.6g} of its mass and keeps {:.3g}; it must keep a part", where,
                                      node, 1 - shares.kept, std::max(0.0, shares.kept)));
  return shares;
}

void require_everybody(const std::vector<std::vector<int>>& book) {
  std::vector<bool> is_heard(book.size());
  for (std::size_t node = 0; node < book.size(); ++node) {
    if (book[node].empty() && book.size() > 1)
      throw InvalidArgument(fmt::format("node {} sends to no other node: none learns its value", node));
    for (const int peer : book[node]) is_heard[static_cast<std::size_t>(peer)] = true;
  }
  const auto deaf = std::ranges::find(is_heard, false);
  if (deaf != is_heard.end() && book.size() > 1)
    throw InvalidArgument(
        fmt::format("no node sends to node {}: it never learns another value", deaf - is_heard.begin()));
}

// Whether in each round every node sends as many messages as it receives, and all nodes as many.
bool is_regular_in_every_round(const Graph& graph) {
  constexpr std::int64_t kMostRoundsCompared = 4096;
  if (graph.period() > kMostRoundsCompared) return false;
  for (std::int64_t round = 0; round < graph.period(); ++round) {
    const std::vector<std::vector<int>> sends = graph.sends(round);
    std::vector<std::size_t> heard(sends.size());
    for (const auto& row : sends)
      for (const int peer : row) ++heard[static_cast<std::size_t>(peer)];
    for (std::size_t node = 0; node < sends.size(); ++node)
      if (sends[node].size() != sends[0].size() || heard[node] != sends[0].size()) return false;
  }
  return true;
}

// A round has the entries from a multiple of the greatest common divisor on, round the end of the list: two places of
// one node are in a round together if such a multiple lies far enough before the later one.
void require_each_once(const std::vector<int>& list, std::size_t node, int peers) {
  const auto count = std::ssize(list);
  const std::ptrdiff_t in_a_round = peers == 0 ? count : peers, divisor = std::gcd(count, in_a_round);
  std::vector<std::ptrdiff_t> places(list.size());
  std::iota(places.begin(), places.end(), 0);
  const auto node_at = [&](std::ptrdiff_t place) { return list[static_cast<std::size_t>(place)]; };
  std::ranges::stable_sort(places, {}, node_at);
  for (std::size_t first = 0, next = 0; first < places.size(); first = next) {
    while (next < places.size() && node_at(places[next]) == node_at(places[first])) ++next;
    for (std::size_t i = first; next - first > 1 && i < next; ++i) {
      const std::ptrdiff_t one = places[i], other = i + 1 < next ? places[i + 1] : places[first] + count;
      if (one / divisor * divisor > other - in_a_round)
        throw InvalidArgument(fmt::format("phone_book[{}]: entries {} and {} send to node {} twice in a round", node,
                                          std::min(one, other % count), std::max(one, other % count), node_at(one)));
    }
  }
}

Graph graph_of_book(const std::vector<std::vector<int>>& book, int peers) {
  require_everybody(book);
  const auto make = [&](bool regular) { return Graph(book, peers, gossip::Convention::plumbline, regular); };
  const Graph graph = make(false);
  for (std::size_t node = 0; node < book.size(); ++node) require_each_once(book[node], node, peers);
  return is_regular_in_every_round(graph) ? make(true) : graph;
}

GossipFile graph_of_rounds(const std::vector<Round>& rounds, std::optional<int> nodes) {
  int last = -1;
  std::size_t edges = 0, weights = 0;
  for (const Round& round : rounds)
    for (const Edge& edge : round) {
      last = std::max({last, edge.from, edge.to});
      ++edges;
      weights += edge.weight ? 1 : 0;
    }
  if (edges == 0) throw InvalidArgument("there is no edge in it");
  if (weights != 0 && weights != edges)
    throw InvalidArgument(fmt::format("{} of {} edges have a weight; all must have one, or none", weights, edges));
  if (nodes && last >= *nodes) throw InvalidArgument(fmt::format("an edge names node {} of {} nodes", last, *nodes));
  const int count = nodes.value_or(last + 1);
  if (std::cmp_greater(rounds.size(), kMostSendersOfFile / count))
    throw InvalidArgument(fmt::format("{} rounds of {} nodes; rounds times nodes may be {} at most", rounds.size(),
                                      count, kMostSendersOfFile));
  std::vector<std::vector<Sends>> sends;
  for (const Round& round : rounds) sends.push_back(sends_of(round, count, round_name(sends.size(), rounds.size())));
  const int peers = peers_of_rounds(sends);
  std::vector<std::vector<int>> book(static_cast<std::size_t>(count));
  Mixing mixing{.kind = weights == 0 ? gossip::MixingKind::uniform : gossip::MixingKind::given};
  if (weights != 0) mixing.shares.resize(book.size());
  for (std::size_t round = 0; round < sends.size(); ++round)
    for (std::size_t node = 0; node < book.size(); ++node) {
      const Sends& own = sends[round][node];
      book[node].insert(book[node].end(), own.peers.begin(), own.peers.end());
      if (weights != 0) mixing.shares[node].push_back(shares_in(own, node, round_name(round, sends.size())));
    }
  return {.graph = graph_of_book(book, peers), .mixing = std::move(mixing)};
}

std::optional<int> count_of_file(const json& object, const char* field, int least) {
  if (!object.contains(field)) return std::nullopt;
  const json& value = object.at(field);
  if (!value.is_number_integer() || value < least || value > kMostNodesOfFile)
    throw InvalidArgument(
        fmt::format("{}: must be a whole number from {} to {}, got {}", field, least, kMostNodesOfFile, value.dump()));
  return value.get<int>();
}

GossipFile graph_of_json(const json& object) {
  if (!object.is_object()) throw InvalidArgument("it must be an object with the field rounds or phone_book");
  // With those of `plumbline gossip --format json`, of which the first four are read.
  reading::refuse_other_fields(object, "the graph",
                               {"nodes", "peers", "rounds", "phone_book", "graph", "regular", "dynamic", "error",
                                "spectrum", "file", "period", "connected", "sums", "matrices"});
  const std::optional<int> nodes = count_of_file(object, "nodes", 1);
  if (object.contains("rounds") == object.contains("phone_book"))
    throw InvalidArgument("it must have one of the fields rounds, a list of edges a round, and phone_book");
  if (object.contains("rounds")) return graph_of_rounds(rounds_in_json(object.at("rounds")), nodes);
  const std::vector<std::vector<int>> book = book_in(object.at("phone_book"));
  if (book.empty()) throw InvalidArgument("phone_book: there is no node in it");
  if (nodes && std::cmp_not_equal(*nodes, book.size()))
    throw InvalidArgument(fmt::format("nodes is {}, but phone_book has {} lists", *nodes, book.size()));
  return {.graph = graph_of_book(book, count_of_file(object, "peers", 0).value_or(0)), .mixing = {}};
}

}  // namespace

Mixing repeated(const Mixing& mixing, std::int64_t rounds) {
  Mixing all = mixing;
  for (std::vector<gossip::Shares>& shares : all.shares) {
    const std::size_t period = shares.size();
    while (std::cmp_less(shares.size(), rounds)) shares.push_back(shares[shares.size() - period]);
  }
  return all;
}

GossipFile parse_gossip_file(const std::string& whole) {
  const std::string text(without_byte_order_mark(whole));
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) throw InvalidArgument("there is nothing in it; an edge a line, after the line 'from,to'");
  if (text[first] == '{' || text[first] == '[') return graph_of_json(parse_json(text, "graph"));
  return graph_of_rounds(rounds_in_csv(std::string_view(text).substr(first)), std::nullopt);
}

bool GossipSums::is_doubly_stochastic() const {
  return std::max({1 - least_row, largest_row - 1, 1 - least_column, largest_column - 1}) < kRounding;
}

GossipSums sums_of(const Graph& graph, const Mixing& mixing, std::int64_t rounds) {
  GossipSums sums;
  const auto nodes = static_cast<std::size_t>(graph.nodes());
  for (std::int64_t round = 0; round < rounds; ++round) {
    const std::vector<double> matrix = gossip::mixing_matrix(graph, mixing, graph.round_after(round));
    for (std::size_t node = 0; node < nodes; ++node) {
      double row = 0, column = 0;
      for (std::size_t other = 0; other < nodes; ++other) {
        row += matrix[node * nodes + other];
        column += matrix[other * nodes + node];
      }
      sums.least_row = std::min(sums.least_row, row), sums.largest_row = std::max(sums.largest_row, row);
      sums.least_column = std::min(sums.least_column, column);
      sums.largest_column = std::max(sums.largest_column, column);
    }
  }
  return sums;
}

namespace {

// Which nodes the values of a node come to, or whose values come to it.
std::vector<bool> reached_from_first(const std::vector<std::vector<int>>& next) {
  std::vector<bool> reached(next.size());
  std::vector<int> open{0};
  reached[0] = true;
  while (!open.empty()) {
    const auto node = static_cast<std::size_t>(open.back());
    open.pop_back();
    for (const int other : next[node])
      if (!reached[static_cast<std::size_t>(other)]) {
        reached[static_cast<std::size_t>(other)] = true;
        open.push_back(other);
      }
  }
  return reached;
}

}  // namespace

std::string first_unheard(const Graph& graph) {
  const auto nodes = static_cast<std::size_t>(graph.nodes());
  std::vector<std::vector<int>> sends(nodes), hears(nodes);
  for (std::size_t node = 0; node < nodes; ++node) {
    sends[node] = graph.phone_book(static_cast<int>(node));
    for (const int peer : sends[node]) hears[static_cast<std::size_t>(peer)].push_back(static_cast<int>(node));
  }
  const std::vector<bool> heard = reached_from_first(hears), told = reached_from_first(sends);
  if (const auto other = std::ranges::find(heard, false); other != heard.end())
    return fmt::format("node 0 never hears of node {}", other - heard.begin());
  if (const auto other = std::ranges::find(told, false); other != told.end())
    return fmt::format("node {} never hears of node 0", other - told.begin());
  return {};
}

}  // namespace plumbline::cli
