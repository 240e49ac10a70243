// Gossip that is wrong in one known way: answers about graphs, shares and rates, and kernels of devices.
#include "conformance/gossip/gossip_mutants.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "harness/mutants/rewriting.hpp"
#include "harness/mutants/wrong_kernels.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/mixing_kernel.hpp"

namespace plumbline::mutants {

using gossip::Graph;
using gossip::GraphKind;
using gossip::Peers;
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

// ---- memory of devices ----

std::vector<Mutant> device_mutants_of_gossip() {
  const auto rounds = [](const char* kind, int world) {
    return std::string("gossip.device.rounds[graph=ring,kind=") + kind + ",types=f32,world=" + std::to_string(world) +
           "]";
  };
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
  };
}

}  // namespace

std::vector<Mutant> gossip_mutants() {
  std::vector<Mutant> all = answer_mutants_of_gossip();
  std::ranges::move(device_mutants_of_gossip(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
