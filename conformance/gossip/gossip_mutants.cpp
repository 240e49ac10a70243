// Gossip that is wrong in one known way: answers about graphs, shares and rates, and push-sum with another step.
#include "conformance/gossip/gossip_mutants.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "harness/mutants/rewriting.hpp"
#include "harness/mutants/wrong_kernels.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/gossip/push_sum.hpp"

namespace plumbline::mutants {

using gossip::Graph;
using gossip::GraphKind;
using gossip::Peers;
using gossip::PushSumSteps;
using gossip::Shares;
using nlohmann::json;

namespace {

const char* const kGossipGraph = "gossip.graph";
const char* const kGossipTopology = "gossip.topology";
const char* const kGossipSimulate = "gossip.simulate";

// ---- answers about graphs ----

Graph graph_in(const json& args) {
  return Graph({.kind = gossip::parse_graph_kind(args.at("graph").get<std::string>()).value(),
                .nodes = args.at("world_size"),
                .peers = args.value("peers_per_itr", 0)});
}

// Changes the lists of every node in every turn that was answered.
using ChangePeers = std::function<void(int node, int turn, json& out, json& in)>;
void change_turns(json& result, const ChangePeers& change) {
  if (!result.contains("ranks")) return;
  int node = 0;
  for (json& rank : result.at("ranks")) {
    if (rank.is_object())
      for (std::size_t turn = 0; turn < rank.at("out").size(); ++turn)
        change(node, static_cast<int>(turn), rank.at("out").at(turn), rank.at("in").at(turn));
    ++node;
  }
}

RewriteAnswer of_graphs(std::function<void(const json& args, json& result)> change) {
  return results_of(kGossipGraph, "plumbline", std::move(change));
}
RewriteAnswer of_fairscale(std::function<void(const json& args, json& result)> change) {
  return results_of(kGossipGraph, "fairscale", std::move(change));
}

void without_doubles(const json&, json& result) {
  if (!result.contains("phone_book")) return;
  for (json& book : result.at("phone_book")) {
    json once = json::array();
    for (const json& entry : book)
      if (std::ranges::find(once, entry) == once.end()) once.push_back(entry);
    book = once;
  }
}

// Receives from whoever stands where it sends to.
void receives_like_sender(const json&, json& result) {
  change_turns(result, [](int, int, const json& out, json& in) { in = out; });
}

void second_entry_doubled(const json&, json& result) {
  if (!result.contains("phone_book")) return;
  for (json& book : result.at("phone_book"))
    if (book.size() > 1) book.back() = book.front();
}

void last_entry_is_own(const json&, json& result) {
  if (!result.contains("phone_book")) return;
  int node = 0;
  for (json& book : result.at("phone_book")) {
    if (book.size() > 2) book.back() = node;
    ++node;
  }
}

void ring_for_mesh(const json& args, json& result) {
  if (args.at("graph") != "mesh" || !result.contains("phone_book")) return;
  const int nodes = args.at("world_size");
  for (int node = 0; node < nodes; ++node)
    result.at("phone_book").at(static_cast<std::size_t>(node)) =
        Graph({.kind = GraphKind::ring, .nodes = nodes}).phone_book(node);
}

void quotient_of_logarithms(const json& args, json& result) {
  if (args.at("graph") != "n-peer-exponential" || !result.contains("book_rows")) return;
  const int nodes = args.at("world_size"), peers = args.value("peers_per_itr", 1);
  const auto levels = static_cast<int>(std::log(nodes - 1.0) / std::log(peers + 1.0)) + 1;
  json& row = result.at("book_rows").at("0");
  while (row.size() > static_cast<std::size_t>(levels * peers)) row.erase(row.size() - 1);
}

void divides_by_no_peers(const json& args, json& result) {
  if (args.value("world_size", 2) == 1) result["numerators"] = {"nan"};
}

void turns_by_one(const json& args, json& result) {
  const int peers = args.value("peers_per_itr", 1);
  if (peers == 1) return;
  const json books = result.at("phone_book");
  change_turns(result, [&](int node, int turn, json& out, json&) {
    const json& book = books.at(static_cast<std::size_t>(node));
    for (std::size_t i = 0; i < out.size() && out.size() == static_cast<std::size_t>(peers); ++i)
      out[i] = book.at((static_cast<std::size_t>(turn) + i) % book.size());
  });
}

// Turns that were made before a number of peers was set are still counted.
void keeps_place(const json& args, json& result) {
  if (!args.contains("plan")) return;
  Graph graph = graph_in(args);
  std::int64_t turn = 0;
  for (std::size_t step = 0; step < args.at("plan").size(); ++step) {
    const json& one = args.at("plan").at(step);
    if (one.at(0) == "rotate")
      ++turn;
    else
      graph = graph.with_peers(one.at(1));
    for (int node = 0; node < graph.nodes(); ++node) {
      const Peers peers = graph.peers(node, turn);
      result.at("ranks").at(static_cast<std::size_t>(node)).at(step + 1) = {{"out", peers.out}, {"in", peers.in}};
    }
  }
}

void node_numbers(const json& args, json& result) {
  const int ranks = args.value("nprocs_per_node", 1);
  change_turns(result, [&](int, int, json& out, json&) {
    for (json& peer : out) peer = peer.get<int>() / ranks;
  });
}

void nobody_waits(const json&, json& result) {
  if (result.contains("passive"))
    for (json& passive : result.at("passive")) passive = false;
}

void same_matching(const json& args, json& result) {
  if (args.at("graph") != "random-matching" || !result.contains("ranks")) return;
  for (json& rank : result.at("ranks"))
    for (const char* side : {"out", "in"})
      for (json& turn : rank.at(side)) turn = rank.at(side).front();
}

// ---- answers about weights, rates and values ----

void plain_as_adjusted(const json&, json& result) {
  if (!result.contains("ranks")) return;
  for (json& rank : result.at("ranks"))
    if (rank.is_object() && rank.contains("mixing")) rank["mixing"]["adjusted"] = rank["mixing"]["plain"];
}

void change_rounds(json& result, const std::function<void(json& round)>& change) {
  for (json& rank : result.at("ranks"))
    for (json& round : rank.at("rounds")) change(round);
}

// The share multiplies what is sent and what stays, before they are added.
void scaled_before(const json& args, json& result) {
  if (args.value("mixing", "") != "uniform" || args.contains("phone_book") || args.value("dtype", "") != "float32")
    return;
  const auto share = static_cast<float>(1.0 / (args.at("peers_per_itr").get<int>() + 1));
  std::vector<std::vector<float>> now;
  for (const json& rank : args.at("ranks")) now.push_back(rank.at("x0").get<std::vector<float>>());
  for (std::size_t round = 0; round < args.at("rounds").get<std::size_t>(); ++round) {
    auto next = now;
    for (std::size_t node = 0; node < now.size(); ++node) {
      json& answered = result.at("ranks").at(node).at("rounds").at(round);
      for (std::size_t i = 0; i < now[node].size(); ++i) {
        next[node][i] = now[node][i] * share;
        for (const json& from : answered.at("in")) next[node][i] += now[from.get<std::size_t>()][i] * share;
      }
      answered["x"] = next[node];
      answered["debiased"] = next[node];
    }
    now = next;
  }
}

// Each node deals out by its own number of neighbours, and keeps what is left.
void own_degree(json& weights) {
  for (std::size_t node = 0; node < weights.size(); ++node) {
    double neighbours = 0;
    for (std::size_t other = 0; other < weights.size(); ++other)
      if (other != node && weights[node][other] != 0) ++neighbours;
    double kept = 1;
    for (std::size_t other = 0; other < weights.size(); ++other)
      if (other != node && weights[node][other] != 0)
        kept -= (weights[node][other] = 1 / (neighbours + 1)).get<double>();
    weights[node][node] = kept;
  }
}

RewriteAnswer of_topologies(const char* convention, std::function<void(const json& args, json& result)> change) {
  return results_of(kGossipTopology, convention, std::move(change));
}

void nothing_is_given_away(const json&, json& result) {
  json& weights = result.at("weights");
  for (std::size_t node = 0; node < weights.size(); ++node) weights[node][node] = 1.0;
}

RewriteAnswer of_rates(std::function<double(double contraction, double rounds)> per_round,
                       std::function<double(double contraction)> contraction) {
  return results_of("gossip.spectrum", [=](const json&, json& result) {
    const double all = result.at("contraction"), rounds = result.at("rounds");
    if (contraction) result["contraction"] = contraction(all);
    if (per_round) {
      result["per_round"] = per_round(all, rounds);
      result["spectral_gap"] = 1 - per_round(all, rounds);
    }
  });
}

// A simulation written once more, with a change of a round's shares.
using ChangeShares = std::function<void(int node, std::vector<int>& to, Shares& shares)>;
RewriteAnswer of_simulations(bool turns, ChangeShares change) {
  return results_of(kGossipSimulate, [turns, change](const json& args, json& result) {
    constexpr int most = 1024;
    if (args.at("world_size").get<int>() > most || !result.contains("numerators")) return;
    const Graph graph = graph_in(args);
    const std::string word = args.value("mixing", "uniform");
    const gossip::Mixing mixing{.kind = gossip::parse_mixing_kind(word).value()};
    const auto nodes = static_cast<std::size_t>(graph.nodes());
    // Where the values are not told, only what is wrong with sums can be shown.
    std::vector<double> x = args.value("values", std::vector<double>(nodes, result.at("mean").get<double>())),
                        w(nodes, 1.0);
    for (std::size_t round = 0; round < result.at("sum").size(); ++round) {
      const std::int64_t at = turns ? graph.round_after(static_cast<std::int64_t>(round)) : 0;
      std::vector<double> next_x(nodes), next_w(nodes);
      for (std::size_t node = 0; node < nodes; ++node) {
        std::vector<int> to = graph.peers(static_cast<int>(node), at).out;
        Shares shares = shares_of(graph, mixing, static_cast<int>(node), at);
        change(static_cast<int>(node), to, shares);
        next_x[node] += shares.kept * x[node];
        next_w[node] += shares.kept * w[node];
        for (std::size_t i = 0; i < to.size(); ++i) {
          next_x[static_cast<std::size_t>(to[i])] += shares.sent[i] * x[node];
          next_w[static_cast<std::size_t>(to[i])] += shares.sent[i] * w[node];
        }
      }
      x = next_x;
      w = next_w;
      double sum = 0, weights = 0;
      for (std::size_t node = 0; node < nodes; ++node) sum += x[node], weights += w[node];
      result["sum"][round] = sum;
      result["weight_sum"][round] = weights;
    }
    result["numerators"] = x;
    result["weights"] = w;
  });
}

// Beyond what 16 bits reach, nodes come no nearer.
void sixteen_levels(const json& args, json& result) {
  constexpr std::size_t levels = 16;
  if (args.value("world_size", 2) <= 1 << levels || !result.contains("error")) return;
  json& error = result.at("error");
  for (std::size_t round = levels; round < error.size(); ++round) error.at(round) = error.at(levels - 1);
}

// The same peers in every round: nodes come nearer and nearer, and never agree.
RewriteAnswer never_turning() {
  return results_of(kGossipSimulate, [](const json& args, json& result) {
    if (!graph_in(args).is_dynamic()) return;
    double error = 1;
    for (json& one : result.at("error")) one = error *= 0.5;
  });
}

std::vector<Mutant> answer_mutants_of_gossip() {
  const std::string traced = "gossip.trace.fairscale[algorithm=PushSum,";
  return {
      {"gos.fairscale_without_doubles", "GOSSIP-001", "entries that FairScale's books have twice are dropped",
       "FairScale's add_peers compares numbers with edges, so they stay",
       "gossip.graph.fairscale_books[graph=DynamicDirectedExponentialGraph]", "",
       "every class doubles entries of two nodes", of_fairscale(without_doubles)},
      {"gos.fairscale_in_by_number", "GOSSIP-002", "nodes that are received from are sorted", "sets look like lists",
       "gossip.graph.fairscale_turns[graph=DynamicDirectedExponentialGraph]", "",
       "with two peers every class has them in the order of entries", of_fairscale([](const json&, json& result) {
         change_turns(result, [](int, int, const json&, json& in) { std::sort(in.begin(), in.end()); });
       })},
      {"gos.fairscale_weights_not_adjusted", "GOSSIP-003", "weights over the share that stays are the plain ones",
       "two modes of one function", "gossip.graph.fairscale_weights[graph=RingGraph]", "", "every graph has weights",
       of_fairscale(plain_as_adjusted)},
      {"gos.estimate_is_numerator", "GOSSIP-004", "the estimate is not divided by the weight",
       "the weight is not de-biased: equal weights are 1", traced + "mixing=eager,graph=phone_book]",
       traced + "mixing=lazy,graph=NPeerDynamicDirectedExponentialGraph]",
       "weights of regular graphs with uniform mixing are 1",
       results_of("gossip.trace",
                  [](const json&, json& result) {
                    change_rounds(result, [](json& round) { round["debiased"] = round["x"]; });
                  })},
      {"gos.scaled_before_the_sum", "GOSSIP-004", "values are multiplied by their share before they are added",
       "the same by algebra, and rounded otherwise", traced + "mixing=lazy,graph=NPeerDynamicDirectedExponentialGraph]",
       traced + "mixing=eager,graph=phone_book]", "there it is so", results_of("gossip.trace", scaled_before)},
      {"gos.never_blocks", "GOSSIP-005", "no round of blocking sends is said to hang",
       "sends that are buffered hide it", "gossip.blocking.fairscale[graph=RingGraph]",
       "gossip.blocking.fairscale[graph=DynamicBipartiteLinearGraph]", "its sends are answered by receives",
       results_of("gossip.blocking", [](const json&, json& result) { result["blocked"] = false; })},
      {"gos.bluefog_mesh_of_own_degree", "GOSSIP-006", "each node of a mesh deals out by its own neighbours",
       "Metropolis-Hastings without the other side", "gossip.topology.bluefog[topology=MeshGrid2DGraph]",
       "gossip.topology.bluefog[topology=FullyConnectedGraph]", "all have equally many neighbours",
       of_topologies("bluefog",
                     [](const json& args, json& result) {
                       if (args.at("topology") == "MeshGrid2DGraph") own_degree(result.at("weights"));
                     })},
      {"gos.bluefog_receives_as_it_sends", "GOSSIP-007", "a generator's peers to receive from are those to send to",
       "GOS-02", "gossip.turns.bluefog[generator=GetInnerOuterExpo2DynamicSendRecvRanks]", "",
       "every generator turns one way round",
       results_of("gossip.turns",
                  [](const json&, json& result) {
                    for (json& rank : result.at("ranks"))
                      for (json& turn : rank) turn[1] = turn[0];
                  })},
      {"gos.recv_rule", "GOSSIP-010", "nodes receive from whom they send to", "GOS-02",
       "gossip.graph.inverse[graph=n-peer-exponential]", "gossip.graph.inverse[graph=random-matching]",
       "partners send to each other", of_graphs(receives_like_sender)},
      {"gos.doubled_entries", "GOSSIP-011", "the last entry of a book is the first once more", "FairScale's add_peers",
       "gossip.graph.no_repeats[graph=directed-exponential]", "", "every book has two entries",
       of_graphs(second_entry_doubled)},
      {"gos.names_itself", "GOSSIP-011", "the last entry of a book of three is the node itself",
       "FairScale's n-peer graph of 6 nodes and 2 peers", "gossip.graph.no_repeats[graph=n-peer-exponential]",
       "gossip.graph.no_repeats[graph=ring]", "a ring's books have two entries", of_graphs(last_entry_is_own)},
      {"gos.mesh_is_ring", "GOSSIP-012", "a mesh is built as a ring", "GOS-03", "gossip.graph.named[graph=mesh]",
       "gossip.graph.named[graph=ring]", "it is a ring", of_graphs(ring_for_mesh)},
      {"gos.level_by_logarithm", "GOSSIP-013", "levels are a quotient of logarithms, cut", "FairScale's levels",
       "gossip.graph.levels[peers=2]", "gossip.graph.levels[peers=1]", "logarithms of powers of 2 are exact enough",
       of_graphs(quotient_of_logarithms)},
      {"gos.np1", "GOSSIP-014", "one node divides by its number of peers", "GOS-01",
       "gossip.graph.one_node[graph=ring]", "", "there are several nodes",
       results_of(kGossipSimulate, divides_by_no_peers)},
      {"gos.turns_by_one", "GOSSIP-015", "a round moves on by one entry, however many peers it has",
       "one peer is the usual case", "gossip.graph.in_turn[graph=n-peer-exponential]", "",
       "every graph is asked for two peers", of_graphs(turns_by_one)},
      {"gos.set_keeps_place", "GOSSIP-016", "a number of peers that is set anew goes on where the book was",
       "an assignment that does more than it says", "gossip.graph.set_anew[graph=directed-exponential]", "",
       "every graph turns before it is set", of_graphs(keeps_place)},
      {"gos.out_by_number", "GOSSIP-017", "nodes of several ranks are sent to by their number",
       "one rank a node is the usual case", "gossip.graph.ranks_of_nodes[ranks=2]",
       "gossip.graph.ranks_of_nodes[ranks=1]", "a node is its rank", of_graphs(node_numbers)},
      {"gos.all_active", "GOSSIP-018", "no node is passive", "the source's other graphs have none",
       "gossip.graph.sides[graph=bipartite-linear]", "", "who sends first is not asked", of_graphs(nobody_waits)},
      {"gos.one_matching", "GOSSIP-019", "every round has the pairs of the first", "a seed without the round",
       "gossip.graph.matchings", "", "pairs are pairs", of_graphs(same_matching)},
      {"gos.takes_any_peers", "GOSSIP-020", "more peers are taken than a book has entries", "an index that goes round",
       "gossip.graph.refusals[what=too_many_peers]", "gossip.graph.refusals[what=no_nodes]", "no peers are asked for",
       takes(kGossipGraph, [](const json& args) { return args.value("peers_per_itr", 0) > 1; })},
      {"gos.column_not_stochastic", "GOSSIP-021", "a node keeps all that it gives away", "GOS-07",
       "gossip.shares.stochastic[graph=star,mixing=uniform]", "", "every graph of two nodes gives something away",
       of_topologies("plumbline", nothing_is_given_away)},
      {"gos.metropolis_by_own_degree", "GOSSIP-022", "shares go by a node's own number of peers alone",
       "Metropolis-Hastings without the other side", "gossip.shares.rules[graph=star,mixing=metropolis-hastings]",
       "gossip.shares.rules[graph=complete,mixing=metropolis-hastings]", "all have equally many peers",
       of_topologies("plumbline",
                     [](const json& args, json& result) {
                       if (args.at("args").value("mixing", "") == "metropolis-hastings")
                         own_degree(result.at("weights"));
                     })},
      {"gos.rate_of_a_period", "GOSSIP-023", "the rate of a round is that of a whole period",
       "a root that is forgotten", "gossip.spectrum.closed_forms", "", "a ring's period is one round",
       of_rates([](double contraction, double) { return contraction; }, {})},
      {"gos.contraction_squared", "GOSSIP-024", "the contraction is that of the variance", "squares of distances",
       "gossip.spectrum.bound[graph=ring]", "gossip.spectrum.bound[graph=complete]", "nothing is left of either",
       of_rates({}, [](double contraction) { return contraction * contraction; })},
      {"gos.contraction_of_a_root", "GOSSIP-025", "the root of the contraction is predicted",
       "singular values of the wrong matrix", "gossip.spectrum.long_run[graph=static-exponential]", "",
       "nothing is left of either", of_rates({}, [](double contraction) { return std::sqrt(contraction); })},
      {"gos.never_turns", "GOSSIP-026", "the peers of the first round stay", "a rotation that is not made",
       "gossip.simulate.exact_rounds", "", "a ring never turns", never_turning()},
      {"gos.mass_lost", "GOSSIP-027", "what node 1 sends does not arrive", "GOS-07",
       "gossip.simulate.conserves[graph=star,mixing=uniform]", "", "nobody sends",
       of_simulations(true,
                      [](int node, std::vector<int>& to, Shares& shares) {
                        if (node == 1) to.clear(), shares.sent.clear();
                      })},
      {"gos.sixteen_levels", "GOSSIP-112", "rounds behind the sixteenth change nothing", "distances of 16 bits",
       "gossip.simulate.million[graph=n-peer-exponential]", "gossip.simulate.million[graph=ring]",
       "few rounds bring a ring's million nodes no nearer", results_of(kGossipSimulate, sixteen_levels)},
      {"gos.contraction_in_single", "GOSSIP-112", "the contraction is of single precision",
       "a ring of a million nodes takes a few parts in 10^12 off the distance", "gossip.simulate.million[graph=ring]",
       "gossip.simulate.million[graph=n-peer-exponential]", "nothing is left of the distance",
       of_rates({}, [](double contraction) { return double{static_cast<float>(contraction)}; })},
      {"gos.shares_backwards", "GOSSIP-028", "uneven shares go to the peers in reverse", "two orders of one list",
       "gossip.simulate.equals_shares[graph=star,mixing=skewed]",
       "gossip.simulate.equals_shares[graph=star,mixing=uniform]", "shares are even",
       of_simulations(true, [](int, std::vector<int>&, Shares& shares) { std::ranges::reverse(shares.sent); })},
  };
}

// ---- steps of push-sum ----

MakeSteps push_sum_with(std::function<void(PushSumSteps&)> change) {
  return [change = std::move(change)] {
    PushSumSteps steps;
    change(steps);
    return suite::Steps(std::move(steps));
  };
}

// What is kept is still sent as if it had been given away.
Shares kept_whole(const Graph& graph, const gossip::Mixing& mixing, int node, std::int64_t round) {
  Shares shares = shares_of(graph, mixing, node, round);
  for (double& sent : shares.sent) sent *= 1.25;
  return shares;
}

Shares half_stays(const Graph& graph, const gossip::Mixing& mixing, int node, std::int64_t round) {
  Shares shares = shares_of(graph, mixing, node, round);
  if (!shares.sent.empty()) shares.kept = 0.5;
  return shares;
}

Peers as_it_sends(const Graph& graph, int node, std::int64_t round) {
  Peers peers = graph.peers(node, round);
  peers.in = peers.out;
  return peers;
}

double in_half(const Shares& shares, std::size_t peer) {
  return comm::to_float(comm::to_float16(static_cast<float>(shares.sent[peer])));
}

std::chrono::nanoseconds sixty_times(std::chrono::nanoseconds heartbeat) { return 60 * heartbeat; }

std::chrono::milliseconds at_once(std::chrono::milliseconds) { return std::chrono::milliseconds(0); }

void mixes_anew(PushSumSteps& steps) {
  steps.retry_mixes = [] { return true; };
}

// The lower rank's new values are taken for its old ones: in tiles, so that it is the whole of them.
void overwrites(comm::DType dtype, void* a, const comm::PairFactors& of_a, void* b, const comm::PairFactors& of_b,
                std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype);
  std::vector<std::byte> old_b(bytes), new_a(bytes);
  std::memcpy(old_b.data(), b, bytes);
  gossip::meet(dtype, a, of_a, b, of_b, count);
  std::memcpy(new_a.data(), a, bytes);
  std::memcpy(b, old_b.data(), bytes);
  gossip::meet(dtype, new_a.data(), of_a, b, of_b, count);
}

void drops_the_last(comm::DType dtype, void* a, const comm::PairFactors& of_a, void* b, const comm::PairFactors& of_b,
                    std::int64_t count) {
  gossip::meet(dtype, a, of_a, b, of_b, count - 1);
}

void of_the_others_share(comm::DType dtype, void* a, const comm::PairFactors& of_a, void* b,
                         const comm::PairFactors& of_b, std::int64_t count) {
  gossip::meet(dtype, a, of_b, b, of_a, count);
}

std::vector<Mutant> step_mutants_of_gossip() {
  return {
      {"gos.meeting_overwrites", "GOSSIP-200", "of two nodes that meet, one adds what the other has become",
       "values that are overwritten before they were read",
       "gossip.meeting.equals_messages[graph=n-peer-exponential,mixing=uniform,dtype=f32,values=few,world=2]",
       "gossip.meeting.equals_messages[graph=n-peer-exponential,mixing=uniform,dtype=f32,values=few,world=3]",
       "no two of three nodes meet only each other",
       push_sum_with([](PushSumSteps& steps) { steps.meet = overwrites; })},
      {"gos.meeting_drops_the_last", "GOSSIP-200", "the last element of each piece stays as it was",
       "a loop that ends one too soon",
       "gossip.meeting.equals_messages[graph=random-matching,mixing=uniform,dtype=f64,values=many,world=4]",
       "gossip.meeting.equals_messages[graph=n-peer-exponential,mixing=uniform,dtype=f64,values=many,world=3]",
       "no two of three nodes meet only each other",
       push_sum_with([](PushSumSteps& steps) { steps.meet = drops_the_last; })},
      {"gos.meeting_of_the_others_share", "GOSSIP-200", "each of two nodes that meet keeps the other's share",
       "two sides exchanged",
       "gossip.meeting.equals_messages[graph=n-peer-exponential,mixing=skewed,dtype=f32,values=few,world=2]",
       "gossip.meeting.equals_messages[graph=n-peer-exponential,mixing=uniform,dtype=f32,values=few,world=2]",
       "shares are even", push_sum_with([](PushSumSteps& steps) { steps.meet = of_the_others_share; })},
      {"gos.meeting_mixed_anew", "GOSSIP-201", "a round of two nodes that was cut is mixed anew",
       "mass is lost on a retry", "gossip.meeting.cut[graph=hub,mixing=skewed,again=alike,world=2]",
       "gossip.meeting.cut[graph=n-peer-exponential,mixing=uniform,again=alike,world=2]",
       "lazy values are mixed when they have come", push_sum_with(mixes_anew)},
      {"gos.meeting_adds_to_the_last", "GOSSIP-201",
       "what comes in a round of two nodes that was cut is added to the weights of the round before",
       "sums that are set to 0 only where nothing was cut",
       "gossip.meeting.cut[graph=n-peer-exponential,mixing=skewed,again=by_messages,world=4]",
       "gossip.meeting.cut[graph=n-peer-exponential,mixing=skewed,again=alike,world=4]", "nothing comes by messages",
       push_sum_with(
           [](PushSumSteps& steps) { steps.sums_anew = [](bool, bool was_interrupted) { return !was_interrupted; }; })},
      {"gos.meets_alone", "GOSSIP-202", "a node exchanges in place with one that only sends messages",
       "each side asks itself alone", "gossip.meeting.some_alone[graph=n-peer-exponential,wire=of_one,world=2]",
       "gossip.meeting.some_alone[graph=n-peer-exponential,wire=of_nobody,world=2]", "all can",
       push_sum_with([](PushSumSteps& steps) {
         steps.meets = [](bool) { return true; };
         steps.patience = [](std::chrono::nanoseconds) { return std::chrono::seconds(3); };  // for what never comes
       })},
      {"gos.weight_not_kept", "GOSSIP-030", "the weight that is sent is kept, too",
       "the weight is sent but not kept apart", "gossip.push_sum.mass[graph=hub,mixing=uniform,world=3]",
       "gossip.push_sum.mass[graph=ring,mixing=uniform,world=3]", "weights that stay 1 do not travel",
       push_sum_with([](PushSumSteps& steps) { steps.kept_weight = [](const Shares&) { return 1.0; }; })},
      {"gos.sent_and_kept", "GOSSIP-030", "more is sent than was given away", "GOS-07",
       "gossip.push_sum.mass[graph=chords,mixing=skewed,world=4]",
       "gossip.push_sum.mass[graph=ring,mixing=uniform,world=3]", "lazy values travel as they are",
       push_sum_with([](PushSumSteps& steps) { steps.shares = kept_whole; })},
      {"gos.shares_exchanged", "GOSSIP-031", "uneven shares go to the peers in reverse", "two orders of one list",
       "gossip.push_sum.rounds[graph=star,mixing=skewed,algorithm=push_sum,world=4]",
       "gossip.push_sum.rounds[graph=n-peer-exponential,mixing=skewed,algorithm=push_sum,world=4]", "there is one peer",
       push_sum_with([](PushSumSteps& steps) {
         steps.sent = [](const Shares& shares, std::size_t peer) { return shares.sent[shares.sent.size() - 1 - peer]; };
       })},
      {"gos.receives_as_it_sends", "GOSSIP-031", "nodes receive from whom they send to", "GOS-02",
       "gossip.push_sum.rounds[graph=n-peer-exponential,mixing=uniform,algorithm=push_sum,world=3]",
       "gossip.push_sum.rounds[graph=n-peer-exponential,mixing=uniform,algorithm=push_sum,world=2]",
       "two nodes send to each other", push_sum_with([](PushSumSteps& steps) { steps.peers = as_it_sends; })},
      {"gos.weight_not_sent", "GOSSIP-032", "the weight does not travel with the values", "GOS-07",
       "gossip.push_sum.estimate[graph=hub,mixing=uniform,world=3]",
       "gossip.push_sum.estimate[graph=ring,mixing=uniform,world=3]",
       "weights of regular graphs with uniform mixing are 1",
       push_sum_with([](PushSumSteps& steps) { steps.carries_weight = [](bool) { return false; }; })},
      {"gos.weight_dropped_in_fusion", "GOSSIP-033", "fused values travel without their peer's share", "GOS-05",
       "gossip.push_sum.fusion[graph=chords,mixing=skewed,messages=fused,confirms=yes,world=3]",
       "gossip.push_sum.fusion[graph=chords,mixing=skewed,messages=each,confirms=yes,world=3]",
       "each tensor is scaled alone",
       push_sum_with([](PushSumSteps& steps) { steps.scales = [](bool fused) { return !fused; }; })},
      {"gos.weight_in_half", "GOSSIP-034", "the weight is rounded to half precision", "a weight of the tensors' type",
       "gossip.push_sum.types[dtype=f32,graph=hub,world=3]",
       "gossip.push_sum.types[dtype=f32,graph=n-peer-exponential,world=3]", "the weight does not travel",
       push_sum_with([](PushSumSteps& steps) {
         steps.shares = [](const Graph& graph, const gossip::Mixing& mixing, int node, std::int64_t round) {
           return shares_of(graph, mixing, node, round);
         };
         steps.kept_weight = [](const Shares& shares) {
           return double{comm::to_float(comm::to_float16(static_cast<float>(shares.kept * 0.999)))};
         };
         steps.sent_weight = in_half;
       })},
      {"gos.weight_always_sent", "GOSSIP-035", "the weight travels where it is 1", "a wrapper without lazy mixing",
       "gossip.push_sum.messages[graph=ring,mixing=uniform,confirms=yes,world=3]",
       "gossip.push_sum.messages[graph=hub,mixing=uniform,confirms=yes,world=3]", "there it must",
       push_sum_with([](PushSumSteps& steps) { steps.carries_weight = [](bool) { return true; }; })},
      {"gos.adds_before_it_waits", "GOSSIP-111", "the memory of messages is added before they are waited for",
       "a wait in the wrong place", "gossip.push_sum.out_of_order[graph=hub,messages=late,confirms=no,world=3]",
       "gossip.push_sum.out_of_order[graph=hub,messages=late,confirms=no,world=1]", "nobody sends",
       push_sum_with([](PushSumSteps& steps) { steps.waits = [] { return false; }; })},
      {"gos.one_tag", "GOSSIP-111", "values and weights have the same tag",
       "messages that are told apart by their order",
       "gossip.push_sum.out_of_order[graph=hub,messages=overtaken,confirms=no,world=3]",
       "gossip.push_sum.out_of_order[graph=hub,messages=late,confirms=no,world=3]", "late ones keep their order",
       push_sum_with([](PushSumSteps& steps) { steps.mark = [](int kind) { return kind == 1 ? 0 : kind; }; })},
      {"gos.turns_twice", "GOSSIP-036", "a mix turns the graph twice", "two types that turn one graph",
       "gossip.push_sum.rotation[graph=n-peer-exponential,after=skips,world=3]",
       "gossip.push_sum.rotation[graph=ring,after=skips,world=3]", "a ring never turns",
       push_sum_with([](PushSumSteps& steps) {
         steps.next_round = [](std::int64_t round, bool is_dynamic, bool) {
           return is_dynamic ? round + 2 - round % 2 : round;
         };
       })},
      {"gos.static_turns", "GOSSIP-036", "a static graph turns",
       "rotating peers of a static graph, which FairScale refuses",
       "gossip.push_sum.rotation[graph=ring,after=nothing,world=3]",
       "gossip.push_sum.rotation[graph=n-peer-exponential,after=nothing,world=3]", "the graph turns",
       push_sum_with(
           [](PushSumSteps& steps) { steps.next_round = [](std::int64_t round, bool, bool) { return round + 1; }; })},
      {"gos.half_is_kept", "GOSSIP-037", "a node keeps half, whatever the number of its peers", "the share of one peer",
       "gossip.push_sum.exact[graph=complete,world=4]", "gossip.push_sum.exact[graph=n-peer-exponential,world=4]",
       "there is one peer", push_sum_with([](PushSumSteps& steps) { steps.shares = half_stays; })},
      {"gos.weight_of_the_first_type", "GOSSIP-038", "as FairScale, the first type's weight counts",
       "one weight for all types", "gossip.push_sum.two_types[convention=fairscale,world=3]",
       "gossip.push_sum.two_types[convention=plumbline,world=3]", "there is one round",
       push_sum_with(
           [](PushSumSteps& steps) { steps.weight_lane = [](bool, std::size_t) { return std::size_t{0}; }; })},
      {"gos.push_pull_at_once", "GOSSIP-039", "push-pull has all its messages under way at once",
       "an option that is never read", "gossip.push_sum.turns_of_sides[algorithm=push_pull,world=2]",
       "gossip.push_sum.turns_of_sides[algorithm=push_sum,world=2]", "there it is so",
       push_sum_with([](PushSumSteps& steps) { steps.takes_turns = [](bool, const Graph&) { return false; }; })},
      {"gos.unmatched", "GOSSIP-040", "nodes do not compare whom they send to", "GOS-04",
       "gossip.failure.unmatched[differs=peers,world=3]", "gossip.failure.unmatched[differs=nothing,world=3]",
       "all send to the same", push_sum_with([](PushSumSteps& steps) { steps.verifies = [] { return false; }; })},
      {"gos.mixed_anew", "GOSSIP-041", "a round that is repeated is mixed anew", "mass is lost on a retry",
       "gossip.failure.interrupted[graph=hub,mixing=uniform,exchange=2,world=3]",
       "gossip.failure.interrupted[graph=ring,mixing=uniform,exchange=2,world=3]",
       "lazy values are mixed when they have come", push_sum_with(mixes_anew)},
      {"gos.turns_after_retry", "GOSSIP-041", "a round that was repeated turns the graph twice",
       "the peers are refreshed by each attempt",
       "gossip.failure.interrupted[graph=n-peer-exponential,mixing=uniform,exchange=0,world=3]",
       "gossip.failure.interrupted[graph=ring,mixing=uniform,exchange=0,world=3]", "a ring never turns",
       push_sum_with([](PushSumSteps& steps) {
         steps.next_round = [](std::int64_t round, bool is_dynamic, bool was_interrupted) {
           return is_dynamic ? round + (was_interrupted ? 2 : 1) : round;
         };
       })},
      {"gos.mixed_anew_elsewhere", "GOSSIP-042", "a round that is completed over another group is mixed anew",
       "mass is lost on a retry", "gossip.failure.other_group[graph=hub,call=1,world=3]",
       "gossip.failure.other_group[graph=hub,call=9,world=3]", "no call fails", push_sum_with(mixes_anew)},
      {"gos.compares_once", "GOSSIP-184", "a comparison of nodes that was cut is not made again",
       "a flag that is set before what it stands for", "gossip.failure.comparison_cut[cut=late,world=3]",
       "gossip.failure.comparison_cut[cut=no,world=3]", "nothing is cut",
       push_sum_with([](PushSumSteps& steps) { steps.compares_again = [] { return false; }; })},
      {"gos.heartbeat_ignored", "GOSSIP-043", "a message is waited for sixty times as long as was asked for",
       "minutes for seconds", "gossip.failure.heartbeat[world=2]", "", "nobody stops",
       push_sum_with([](PushSumSteps& steps) { steps.patience = sixty_times; })},
      {"gos.gossips_in_evaluation", "GOSSIP-044", "the thread takes values in evaluation", "eval that still gossips",
       "gossip.thread.beside[graph=hub,mixing=uniform,world=3]", "", "nobody evaluates",
       push_sum_with([](PushSumSteps& steps) { steps.takes_values = [](bool) { return true; }; })},
      {"gos.torn_read", "GOSSIP-045", "values are sent from where the caller writes", "GOS-06",
       "gossip.thread.one_version[world=2]", "", "nobody writes meanwhile",
       push_sum_with([](PushSumSteps& steps) { steps.copies_on_hand_over = [] { return false; }; })},
      {"gos.thread_mixes_anew", "GOSSIP-046", "a round that is handed over again is mixed anew",
       "mass is lost on a retry", "gossip.thread.interrupted[world=3]", "", "nothing is cut",
       push_sum_with(mixes_anew)},
      {"gos.retries_at_once", "GOSSIP-110", "a round that was cut is repeated at once, again and again",
       "a loop without a pause", "gossip.thread.pauses[wire=cut,world=2]", "gossip.thread.pauses[wire=whole,world=2]",
       "nothing is cut", push_sum_with([](PushSumSteps& steps) { steps.pause = at_once; })},
      {"gos.retries_for_ever", "GOSSIP-048", "the heartbeat time starts anew with each retry",
       "a loop around a wait with a limit", "gossip.thread.gives_up[wire=cut,world=2]",
       "gossip.thread.gives_up[wire=whole,world=2]", "nothing is cut", push_sum_with([](PushSumSteps& steps) {
         steps.renews_heartbeat = [] { return true; };
         steps.pause = at_once;
       })},
      {"gos.repeats_mixed_pieces", "GOSSIP-049", "a round is repeated although some of its values are mixed",
       "mass is doubled on a retry", "gossip.failure.pieces[values=large,world=2]",
       "gossip.failure.pieces[values=small,world=2]", "they are one piece",
       push_sum_with([](PushSumSteps& steps) { steps.may_repeat = [](bool) { return true; }; })},
      {"gos.mixes_unconfirmed", "GOSSIP-203", "a piece is mixed before its peers have said that they have it",
       "values that are overwritten before they were read", "gossip.failure.unconfirmed[node=mute,world=3]",
       "gossip.failure.other_group[graph=hub,call=9,world=3]", "a few values are one piece",
       push_sum_with([](PushSumSteps& steps) { steps.awaits_confirmation = [] { return false; }; })},
      {"gos.sends_all_pieces_again", "GOSSIP-203", "over another group pieces are sent that the peer has",
       "mass is doubled on a retry", "gossip.failure.confirmed_pieces[graph=hub,again=elsewhere,call=13,world=3]",
       "gossip.failure.confirmed_pieces[graph=hub,again=elsewhere,call=999,world=3]", "no call fails",
       push_sum_with([](PushSumSteps& steps) { steps.resumes_at = [](std::size_t) { return std::size_t{0}; }; })},
      {"gos.thread_waits", "GOSSIP-047", "a peer that has stopped is waited for sixty times as long as was asked for",
       "minutes for seconds", "gossip.thread.stops[ends_by=collecting,world=2]", "", "nobody stops",
       push_sum_with([](PushSumSteps& steps) { steps.patience = sixty_times; })},
  };
}

// ---- memory of devices ----

std::vector<Mutant> device_mutants_of_gossip() {
  const auto rounds = [](const char* kind, int world) {
    return std::string("gossip.device.rounds[graph=ring,kind=") + kind + ",types=f32,world=" + std::to_string(world) +
           "]";
  };
  const auto beside = [](const char* streams) {
    return std::string("gossip.device.beside[graph=ring,streams=") + streams + ",types=f32,world=2]";
  };
  const char* const events = "an event that one of two streams forgets";
  return {
      {"gos.device_sums_whole", "GOSSIP-180", "lazy sums on a device are not multiplied by the share", "GOS-01",
       rounds("uniform", 3), rounds("skewed", 3), "values are scaled before they are sent",
       changing<gossip::MixWork>([](gossip::MixWork& work) { work.step.scales = false; })},
      racing({"gos.device_default_stream", "GOSSIP-181", "sums are put into the device's default stream",
              "a stream that was not handed on", rounds("uniform", 2), rounds("uniform", 1), "alone, nothing is added",
              launching_by_default()}),
      {"gos.device_host_waits", "GOSSIP-181", "the host waits for each sum", "a stream is synchronized",
       "gossip.device.host_goes_on[how=mix,world=2]", rounds("uniform", 2), "nobody looks at what the host does",
       waiting_for_kernels()},
      racing({"gos.device_sent_before_the_copy", "GOSSIP-182",
              "the thread's stream does not wait for what is handed over", events, beside("own"), beside("callers"),
              "there is one stream",
              push_sum_with([](PushSumSteps& steps) { steps.follows_the_caller = [] { return false; }; })}),
      racing({"gos.device_added_before_it_came", "GOSSIP-182",
              "the caller's stream does not wait for what is collected", events, beside("own"), beside("callers"),
              "there is one stream",
              push_sum_with([](PushSumSteps& steps) { steps.leads_the_caller = [] { return false; }; })}),
      {"gos.device_unserved", "GOSSIP-183", "tensors on a device are mixed over any communicator",
       "a capability that nobody asks for", "gossip.device.refuses[world=2]", rounds("uniform", 2),
       "the communicator takes them", push_sum_with([](PushSumSteps& steps) {
         steps.require_served = [](std::string_view, const comm::Communicator&, const device::MemorySpace&) {};
       })},
  };
}

}  // namespace

std::vector<Mutant> gossip_mutants() {
  std::vector<Mutant> all = answer_mutants_of_gossip();
  std::ranges::move(step_mutants_of_gossip(), std::back_inserter(all));
  std::ranges::move(device_mutants_of_gossip(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
