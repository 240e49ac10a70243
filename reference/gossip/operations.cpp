#include "reference/adapter/operations.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/gossip/detail/bluefog.hpp"
#include "reference/gossip/detail/round_operations.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/gossip/push_sum.hpp"
#include "reference/gossip/simulate.hpp"

namespace plumbline::adapter {
using gossip::Graph;
using gossip::GraphKind;
using gossip::GraphOptions;
using gossip::Mixing;
using gossip::MixingKind;
using gossip::Peers;
using nlohmann::json;

namespace {

constexpr int kMostNodes = 1 << 20;
constexpr int kMostInFull = 1024;  // nodes whose every peer is answered
constexpr int kMostThreads = 64;
constexpr int kMostRounds = 10'000;
constexpr std::int64_t kMostTurns = 1 << 20;

gossip::Convention convention_of(const Arguments& arguments) {
  return arguments.convention() == Convention::fairscale ? gossip::Convention::fairscale
                                                         : gossip::Convention::plumbline;
}

GraphKind kind_in(const Arguments& arguments, std::string_view field) {
  const auto name = arguments.get<std::string>(field);
  if (const auto kind = gossip::parse_graph_kind(name)) return *kind;
  std::string names;
  for (const GraphKind kind : gossip::kNamedGraphs)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(kind));
  arguments.refuse(fmt::format("{} '{}' is unknown; it is one of {}", field, name, names));
}

// nprocs_per_node and peers_per_itr may be left out.
GraphOptions options_in(const Arguments& arguments, gossip::Convention convention) {
  GraphOptions options{.kind = kind_in(arguments, "graph"),
                       .nodes = static_cast<int>(arguments.integer_in("world_size", 1, kMostNodes)),
                       .convention = convention,
                       .rows = arguments.get<int>("rows", 0),
                       .center = arguments.get<int>("center", 0),
                       .seed = arguments.get<std::uint64_t>("seed", 0)};
  if (arguments.has("nprocs_per_node"))
    options.ranks_per_node =
        static_cast<int>(arguments.integer_in("nprocs_per_node", 1, std::numeric_limits<int>::max() / kMostNodes));
  if (arguments.has("peers_per_itr"))
    options.peers = static_cast<int>(arguments.integer_in("peers_per_itr", 1, kMostNodes));
  return options;
}

Mixing mixing_in(const Arguments& arguments) {
  return {.kind = arguments.choice<MixingKind>("mixing",
                                               {{"uniform", MixingKind::uniform},
                                                {"skew", MixingKind::skewed},
                                                {"skewed", MixingKind::skewed},
                                                {"metropolis-hastings", MixingKind::metropolis_hastings}},
                                               MixingKind::uniform)};
}

void expect_small(const Graph& graph, const char* what) {
  if (graph.nodes() > kMostInFull)
    throw Unsupported(fmt::format("{} of {} nodes; {} at most, others by book_rows", what, graph.nodes(), kMostInFull));
}

// ---- graph ----

// The first rank of each node.
std::vector<int> processes(const Graph& graph, std::vector<int> nodes) {
  for (int& node : nodes) node *= graph.options().ranks_per_node;
  return nodes;
}

// The weights of a rank before any turn, as FairScale's mixing gives them: shares, and shares over the one that stays.
json mixing_of(const Graph& graph, int node, const Peers& peers) {
  const bool as_fairscale = graph.options().convention == gossip::Convention::fairscale;
  const gossip::Shares shares = gossip::shares_of(graph, {}, node, 0);
  const auto number = [&](double value) { return as_fairscale ? double{static_cast<float>(value)} : value; };
  json plain{{"lo", number(shares.kept)}, {"uniform", number(shares.kept)}},
      adjusted{{"lo", number(shares.kept)}, {"uniform", 1.0}};
  for (std::size_t i = 0; i < peers.out.size(); ++i) {
    const std::string name = std::to_string(peers.out[i] * graph.options().ranks_per_node);
    plain[name] = number(shares.sent[i]);
    adjusted[name] = number(shares.sent[i] / shares.kept);
  }
  return {{"plain", plain}, {"adjusted", adjusted}, {"regular", gossip::is_lazy(graph, {})}, {"uniform", true}};
}

// A graph of ours that is static stays in its first round; FairScale's turns whenever it is told to.
Peers peers_behind(const Graph& graph, int node, std::int64_t turns) {
  const bool as_fairscale = graph.options().convention == gossip::Convention::fairscale;
  return graph.peers(node, as_fairscale ? turns : graph.round_after(turns));
}

json turns_of(const Graph& graph, int node, int rotations) {
  json out = json::array(), in = json::array(), mixing;
  try {
    for (int turn = 0; turn <= rotations; ++turn) {
      const Peers peers = peers_behind(graph, node, turn);
      if (turn == 0) mixing = mixing_of(graph, node, peers);
      out.push_back(processes(graph, peers.out));
      in.push_back(peers.in);
    }
  } catch (const OutOfRange& error) {
    const std::size_t at = in.size();
    return {{"out", out}, {"in", in}, {"error_at", at}, {"error", {{"kind", error.kind()}, {"message", error.what()}}}};
  }
  return {{"out", out}, {"in", in}, {"mixing", mixing}};
}

// ["rotate"] or ["set", n], one after the other.
json planned(const Arguments& arguments, const Graph& start) {
  struct Step {
    Graph graph;
    std::int64_t round;
  };
  std::vector<Step> steps{{start, 0}};
  for (const Value& step : arguments.get<std::vector<Value>>("plan")) {
    const auto what = step.at(0).as<std::string>();
    if (what == "rotate")
      steps.push_back({steps.back().graph, steps.back().round + 1});
    else if (what == "set")
      steps.push_back({steps.back().graph.with_peers(step.at(1).as<int>()), 0});
    else
      step.refuse(fmt::format("must be [\"rotate\"] or [\"set\", peers], got '{}'", what));
  }
  json ranks = json::array();
  for (int node = 0; node < start.nodes(); ++node) {
    json turns = json::array();
    for (const Step& step : steps) {
      const Peers peers = peers_behind(step.graph, node, step.round);
      turns.push_back({{"out", processes(start, peers.out)}, {"in", peers.in}});
    }
    ranks.push_back(std::move(turns));
  }
  return ranks;
}

// A list of nodes, or an object that has them as names.
std::vector<int> rows_asked(const Arguments& arguments) {
  const auto asked = arguments.get<json>("book_rows");
  if (!asked.is_object()) return arguments.get<std::vector<int>>("book_rows");
  std::vector<int> rows;
  for (const auto& [name, row] : asked.items()) {
    if (name.empty() || name.size() > 9 || name.find_first_not_of("0123456789") != std::string::npos)
      arguments.refuse(fmt::format("book_rows has the row '{}'; rows are nodes", name));
    rows.push_back(std::stoi(name));
  }
  return rows;
}

json graph(const Arguments& arguments) {
  const gossip::Convention convention = convention_of(arguments);
  const Graph graph(options_in(arguments, convention));
  if (arguments.has("book_rows")) {
    json rows = json::object();
    for (const int node : rows_asked(arguments)) rows[std::to_string(node)] = processes(graph, graph.phone_book(node));
    return {{"book_rows", rows}};
  }
  expect_small(graph, "every peer");
  if (arguments.has("plan")) return {{"ranks", planned(arguments, graph)}};
  // What is answered is a list of peers for each node and turn.
  constexpr double kMostEntries = 1e7;
  const auto rotations =
      arguments.has("rotations") ? static_cast<int>(arguments.integer_in("rotations", 0, kMostRounds)) : 0;
  arguments.expect_no_others();
  const double entries = static_cast<double>(graph.nodes()) * (rotations + 1) *
                         (graph.peers_per_round() == 0 ? graph.nodes() : graph.peers_per_round());
  if (entries > kMostEntries) throw Unsupported(fmt::format("{} peers to name; {} at most", entries, kMostEntries));
  json passive = json::array(), books = json::array(), ranks = json::array();
  for (int node = 0; node < graph.nodes(); ++node) {
    passive.push_back(graph.is_passive(node));
    books.push_back(processes(graph, graph.phone_book(node)));
    ranks.push_back(turns_of(graph, node, rotations));
  }
  return {{"regular", graph.is_regular()},
          {"bipartite", graph.is_bipartite()},
          {"dynamic",
           convention == gossip::Convention::fairscale ? graph.options().kind != GraphKind::ring : graph.is_dynamic()},
          {"passive", passive},
          {"phone_book", books},
          {"ranks", ranks}};
}

json blocking(const Arguments& arguments) {
  const Graph graph(options_in(arguments, convention_of(arguments)));
  expect_small(graph, "a round");
  return {{"blocked", gossip::blocks_one_at_a_time(graph, 0)}};
}

// ---- trace ----

struct Trace {
  Graph graph;
  Mixing mixing;
  gossip::Algorithm algorithm = gossip::Algorithm::push_sum;
  comm::DType dtype = comm::DType::f32;
  int rounds = 0;
  std::vector<std::vector<double>> start;
};

// Weights by rank and round: what stays, and by peer (or for all, uniform) what is sent over what stays.
Mixing mixing_by_weights(const Arguments& arguments, const Graph& graph) {
  Mixing mixing{.kind = MixingKind::given};
  int node = 0;
  for (const Value& rank : arguments.get<std::vector<Value>>("weights")) {
    auto& rounds = mixing.shares.emplace_back();
    for (std::size_t round = 0; round < rank.size(); ++round) {
      const auto weights = rank.at(round).as<std::map<std::string, double>>();
      const auto weight_of = [&](const std::string& name) {
        const auto found = weights.find(name);
        if (found == weights.end()) rank.refuse(fmt::format("has no weight '{}' in round {}", name, round));
        return found->second;
      };
      gossip::Shares shares{.kept = weight_of("lo"), .sent = {}};
      for (const int peer : graph.peers(node, graph.round_after(static_cast<std::int64_t>(round))).out)
        shares.sent.push_back(shares.kept * weight_of(weights.contains("uniform") ? "uniform" : std::to_string(peer)));
      rounds.push_back(std::move(shares));
    }
    ++node;
  }
  return mixing;
}

Graph graph_of_trace(const Arguments& arguments, gossip::Convention convention) {
  if (!arguments.has("phone_book")) return Graph(options_in(arguments, convention));
  (void)arguments.find<std::string>("graph");  // what it is called
  auto rows = arguments.get<std::vector<std::vector<int>>>("phone_book");
  const auto nodes = static_cast<std::size_t>(arguments.integer_in("world_size", 1, kMostThreads));
  if (rows.size() != nodes) arguments.refuse(fmt::format("phone_book has {} rows for {} nodes", rows.size(), nodes));
  const auto peers = static_cast<int>(arguments.integer_in("peers_per_itr", 1, kMostThreads));
  return Graph(std::move(rows), peers, convention, arguments.get<bool>("regular", false));
}

Trace trace_in(const Arguments& arguments) {
  const gossip::Convention convention = convention_of(arguments);
  Trace trace{.graph = graph_of_trace(arguments, convention)};
  trace.algorithm = arguments.choice<gossip::Algorithm>(
      "algorithm", {{"PushSum", gossip::Algorithm::push_sum}, {"PushPull", gossip::Algorithm::push_pull}});
  trace.dtype = floating_dtype(arguments, comm::DType::f32);
  trace.rounds = static_cast<int>(arguments.integer_in("rounds", 0, kMostRounds));
  trace.mixing = arguments.has("weights") ? mixing_by_weights(arguments, trace.graph) : mixing_in(arguments);
  for (const Arguments& rank : arguments.get<std::vector<Arguments>>("ranks"))
    trace.start.push_back(rank.get<std::vector<double>>("x0"));
  if (trace.graph.nodes() > kMostThreads)
    throw Unsupported(fmt::format("a trace of {} nodes; {} at most", trace.graph.nodes(), kMostThreads));
  if (trace.start.size() != static_cast<std::size_t>(trace.graph.nodes()))
    arguments.refuse(fmt::format("ranks has {} entries for {} nodes", trace.start.size(), trace.graph.nodes()));
  for (const auto& one : trace.start)
    if (one.size() != trace.start.front().size()) arguments.refuse("ranks have x0 of different lengths");
  arguments.expect_no_others();
  return trace;
}

json rounds_of_rank(comm::Communicator& group, const Trace& trace) {
  gossip::PushSum push_sum(group, trace.graph, trace.mixing, {.algorithm = trace.algorithm});
  const auto& start = trace.start[static_cast<std::size_t>(group.rank())];
  TypedValues x(trace.dtype, start);
  json rounds = json::array();
  for (int round = 0; round < trace.rounds; ++round) {
    const Peers peers = trace.graph.peers(group.rank(), push_sum.round());
    push_sum.mix(x.buffer());
    TypedValues estimate = x;
    const comm::Buffer debiased = estimate.buffer();
    gossip::divide(std::span(&debiased, 1), push_sum.weight());
    rounds.push_back({{"out", processes(trace.graph, peers.out)},
                      {"in", peers.in},
                      {"x", x.values()},
                      {"w", push_sum.weight()},
                      {"debiased", estimate.values()}});
  }
  return rounds;
}

json trace(const Arguments& arguments) {
  const Trace trace = trace_in(arguments);
  std::vector<json> ranks(trace.start.size());
  comm::run_ranks(trace.graph.nodes(), [&](comm::Communicator& group) {
    ranks[static_cast<std::size_t>(group.rank())] = {{"rounds", rounds_of_rank(group, trace)}};
  });
  return {{"ranks", ranks}};
}

// ---- topologies ----

json with_neighbours(std::vector<std::vector<double>> weights, bool is_regular) {
  const std::size_t count = weights.size();
  json recv = json::array(), send = json::array();
  bool rows_one = true, columns_one = true;
  for (std::size_t node = 0; node < count; ++node) {
    json from = json::object(), to = json::object();
    double row = 0, column = 0;
    for (std::size_t other = 0; other < count; ++other) {
      row += weights[node][other];
      column += weights[other][node];
      if (other == node) continue;
      if (weights[other][node] != 0) from[std::to_string(other)] = weights[other][node];
      if (weights[node][other] != 0) to[std::to_string(other)] = weights[node][other];
    }
    constexpr double rounding = 1e-12;
    rows_one = rows_one && std::abs(row - 1) < rounding;
    columns_one = columns_one && std::abs(column - 1) < rounding;
    recv.push_back({{"self", weights[node][node]}, {"neighbors", from}});
    send.push_back({{"self", weights[node][node]}, {"neighbors", to}});
  }
  return {{"weights", std::move(weights)},  {"regular", is_regular},   {"row_sums_one", rows_one},
          {"column_sums_one", columns_one}, {"recv", std::move(recv)}, {"send", std::move(send)}};
}

// Our graphs: weights[from][to] of a round.
json own_topology(const Arguments& arguments) {
  const auto args = arguments.get<Arguments>("args");
  GraphOptions options{.kind = kind_in(arguments, "topology"),
                       .nodes = static_cast<int>(args.integer_in("size", 1, kMostInFull)),
                       .peers = args.get<int>("peers", 0),
                       .rows = args.get<int>("rows", 0),
                       .center = args.get<int>("center", 0),
                       .seed = args.get<std::uint64_t>("seed", 0)};
  const Mixing mixing = mixing_in(args);
  const auto round = args.has("round") ? args.integer_in("round", 0, std::int64_t{1} << 40) : 0;
  arguments.expect_no_others();
  const Graph graph(options);
  const std::vector<double> matrix = gossip::mixing_matrix(graph, mixing, graph.round_after(round));
  const auto count = static_cast<std::size_t>(graph.nodes());
  std::vector<std::vector<double>> weights(count, std::vector<double>(count));
  for (std::size_t to = 0; to < count; ++to)
    for (std::size_t from = 0; from < count; ++from) weights[from][to] = matrix[to * count + from];
  return with_neighbours(std::move(weights), graph.is_regular());
}

json topology(const Arguments& arguments) {
  if (arguments.convention() == Convention::plumbline) return own_topology(arguments);
  const auto name = arguments.get<std::string>("topology");
  const auto args = arguments.get<Arguments>("args");
  const gossip::BluefogArguments read{.size = args.get<int>("size"),
                                      .base = args.find<int>("base"),
                                      .connect_style = args.get<int>("connect_style", 0),
                                      .center_rank = args.get<int>("center_rank", 0),
                                      .shape = args.get<std::vector<int>>("shape", {})};
  arguments.expect_no_others();
  gossip::BluefogTopology made = gossip::bluefog_topology(name, read);
  return with_neighbours(std::move(made.weights), made.is_regular);
}

// BlueFog's generators: whom each rank sends to and receives from, step by step.
json turns(const Arguments& arguments) {
  const auto generator = arguments.get<std::string>("generator");
  const bool one_peer = generator == "GetDynamicOnePeerSendRecvRanks";
  const auto ranks = static_cast<int>(arguments.integer_in(one_peer ? "size" : "world_size", 1, kMostInFull));
  const auto steps = arguments.integer_in("steps", 0, kMostRounds);
  const auto name = one_peer ? arguments.get<std::string>("topology") : "";
  const int local = one_peer ? 1 : arguments.get<int>("local_size");
  arguments.expect_no_others();
  if (steps * ranks > kMostTurns)
    throw Unsupported(fmt::format("{} turns of {} ranks; {} of all together at most", steps, ranks, kMostTurns));
  const gossip::BluefogTopology topology =
      one_peer ? gossip::bluefog_topology(name, {.size = ranks}) : gossip::BluefogTopology();
  json all(static_cast<std::size_t>(ranks), json::array());
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto made = one_peer ? gossip::bluefog_one_peer_turns(topology, step)
                               : gossip::bluefog_machine_turns(generator, ranks, local, step);
    for (std::size_t rank = 0; rank < made.size(); ++rank)
      all[rank].push_back(json::array({made[rank].send, made[rank].receive}));
  }
  return {{"ranks", std::move(all)}};
}

// ---- rates ----

json spectrum(const Arguments& arguments) {
  const Graph graph(options_in(arguments, gossip::Convention::plumbline));
  const Mixing mixing = mixing_in(arguments);
  arguments.expect_no_others();
  const gossip::Spectrum found = gossip::spectrum_of(graph, mixing);
  return {{"rounds", found.rounds},
          {"doubly_stochastic", found.is_doubly_stochastic},
          {"contraction", found.contraction},
          {"per_round", found.per_round},
          {"spectral_gap", found.spectral_gap}};
}

json simulate(const Arguments& arguments) {
  const Graph graph(options_in(arguments, gossip::Convention::plumbline));
  const Mixing mixing = mixing_in(arguments);
  const auto rounds = static_cast<int>(arguments.integer_in("rounds", 0, kMostRounds));
  gossip::require_simulable(graph, rounds);
  const auto values = arguments.has("values")
                          ? arguments.get<std::vector<double>>("values")
                          : gossip::random_values(graph.nodes(), arguments.get<std::uint64_t>("value_seed", 1));
  arguments.expect_no_others();
  json error = json::array(), sum = json::array(), weight_sum = json::array(), least_weight = json::array();
  gossip::Simulation simulation(graph, mixing, values);
  for (int round = 0; round < rounds; ++round) {
    const gossip::SimulatedRound one = simulation.step();
    error.push_back(one.error);
    sum.push_back(one.sum);
    weight_sum.push_back(one.weight_sum);
    least_weight.push_back(one.least_weight);
  }
  json result{{"mean", simulation.mean()},
              {"error", error},
              {"sum", sum},
              {"weight_sum", weight_sum},
              {"least_weight", least_weight}};
  if (graph.nodes() <= kMostInFull) {
    result["numerators"] = simulation.numerators();
    result["weights"] = simulation.weights();
  }
  return result;
}

}  // namespace

void add_gossip_operations(AdapterService& service) {
  const Words fairscale{"plumbline", "fairscale"}, ours{"plumbline"};
  Words graphs, own;
  for (const GraphKind kind : gossip::kNamedGraphs) own.emplace_back(name_of(kind));
  graphs = own;
  for (const GraphKind kind : gossip::kNamedGraphs)
    if (!gossip::fairscale_name_of(kind).empty()) graphs.emplace_back(gossip::fairscale_name_of(kind));
  const Words bluefog{"ExponentialTwoGraph", "ExponentialGraph", "SymmetricExponentialGraph", "RingGraph",
                      "MeshGrid2DGraph",     "StarGraph",        "FullyConnectedGraph"};
  Words topologies = own;
  topologies.insert(topologies.end(), bluefog.begin(), bluefog.end());
  const ArgumentRow name{"graph", "text", "our name, or FairScale's", kRequired, graphs},
      some_name{"graph", "text", "our name, or FairScale's; required without phone_book, any text with it", kOptional,
                graphs},
      nodes{"world_size", "integer", "number of nodes"}, each{"nprocs_per_node", "integer", "ranks of a node", "1"},
      peers{"peers_per_itr", "integer", "peers of a node in a round; null: 1, or all where the graph says so",
            kOptional},
      rows{"rows", "integer", "rows of a mesh; 0: as square as possible", "0"},
      center{"center", "integer", "center of a star", "0"},
      seed{"seed", "integer", "random seed of random matchings", "0"},
      mixing{"mixing",
             "text",
             "rule of the mixing weights",
             R"("uniform")",
             {"uniform", "skew", "skewed", "metropolis-hastings"}},
      rounds{"rounds", "integer", "rounds, at most 10000"};
  const RefusalRow bad_graph{"invalid_argument", "the graph does not exist, or not with so many nodes, peers or rows"},
      bad_peers{"out_of_range", "a node does not exist, or the graph has fewer peers than a round takes"},
      too_large{"unsupported", "the answer is too large: the message names the limit"};
  service.add({"gossip.graph",
               "the peers of each node, round by round",
               fairscale,
               {name,
                nodes,
                each,
                peers,
                rows,
                center,
                seed,
                {"rotations", "integer", "rotations after the first round", "0"},
                {"plan", "list of list of any", R"(["rotate"] or ["set", peers], in place of rotations)", kOptional},
                {"book_rows", "list of integer or object",
                 "nodes whose peer lists alone are wanted; an object names them by its fields", kOptional},
                {"book_rows.*", "any", "ignored; its name is a node", kOptional}},
               {{"regular", "boolean", "every node has equally many peers"},
                {"bipartite", "boolean", "passive nodes exchange with active ones only"},
                {"dynamic", "boolean", "peers change between rounds"},
                {"passive", "list of boolean [nodes]", "which nodes are passive"},
                {"phone_book", "list of list of integer [nodes]", "peer list of each node, as first ranks"},
                {"ranks",
                 "list of any [nodes]",
                 "of each node by rotation: out (first ranks of the nodes it sends to), in (nodes it receives from), "
                 "mixing, "
                 "or error and error_at; with plan a list of out and in",
                 {{"out", "list of integer or list of list of integer", "first ranks of the nodes it sends to"},
                  {"in", "list of integer or list of list of integer", "of those it receives from"},
                  {"*", "any", "the others"}}},
                {"book_rows", "map of list of integer", "peer lists by node"}},
               R"({"graph": "ring", "world_size": 3})",
               {bad_graph, bad_peers, too_large}},
              graph);
  service.add({"gossip.blocking",
               "whether a round deadlocks with blocking sends, one at a time",
               fairscale,
               {name, nodes, each, peers, rows, center, seed},
               {{"blocked", "boolean", "the round never ends"}},
               R"({"graph": "ring", "world_size": 3})",
               {bad_graph, bad_peers, too_large}},
              blocking);
  service.add(
      {"gossip.trace",
       "runs rounds of push-sum or push-pull over ranks",
       fairscale,
       {{"algorithm", "text", "FairScale's name", kRequired, {"PushSum", "PushPull"}},
        some_name,
        {"phone_book", "list of list of integer [nodes]", "peer list of each node, in place of a graph", kOptional},
        {"regular", "boolean", "with phone_book: every node has equally many peers", "false"},
        nodes,
        each,
        peers,
        rows,
        center,
        seed,
        mixing,
        {"weights", "list of list of map of number [nodes][rounds]",
         "weights in place of mixing: lo, what a node keeps; by peer, or uniform, what it sends over what it "
         "keeps",
         kOptional},
        {"dtype", "text", "element type of the values", R"("float32")", {"float16", "bfloat16", "float32", "float64"}},
        rounds,
        with_fields({"ranks", "list of object [nodes]", "each node's start"},
                    {{"x0", "list of number [elements]", "its values"}})},
       {{"ranks",
         "list of object [nodes]",
         "each node's rounds",
         {{"rounds",
           "list of object [rounds]",
           "state after each round",
           {{"out", "list of integer", "first ranks of the nodes it sent to"},
            {"in", "list of integer", "nodes it received from"},
            {"x", "list of number", "its values"},
            {"w", "number", "its push-sum weight"},
            {"debiased", "list of number", "x / w"}}}}}},
       R"({"algorithm": "PushSum", "graph": "ring", "world_size": 2, "rounds": 1, "ranks": [{"x0": [4]}, {"x0": [8]}]})",
       {bad_graph,
        bad_peers,
        too_large,
        {"invalid_argument", "a list has another length than the nodes or rounds, or a weight is missing"}}},
      trace);
  service.add(
      {"gossip.topology",
       "the mixing matrix of a graph",
       {"plumbline", "bluefog"},
       {{"topology", "text", "our name, or BlueFog's", kRequired, topologies},
        with_fields(
            {"args", "object", "arguments of the graph"},
            {{"size", "integer", "number of nodes"},
             {"base", "integer", "of ExponentialGraph, at least 2", kOptional, {}, {"bluefog"}},
             {"connect_style", "integer", "of RingGraph: 0 both neighbors, 1 left, 2 right", "0", {}, {"bluefog"}},
             {"center_rank", "integer", "of StarGraph", "0", {}, {"bluefog"}},
             {"shape",
              "list of integer [2]",
              "of MeshGrid2DGraph; null: as square as possible",
              kOptional,
              {},
              {"bluefog"}},
             {"peers", "integer", "peers of a node in a round; 0: 1, or all where the graph says so", "0", {}, ours},
             {"rows", "integer", "rows of a mesh; 0: as square as possible", "0", {}, ours},
             {"center", "integer", "center of a star", "0", {}, ours},
             {"seed", "integer", "random seed of random matchings", "0", {}, ours},
             {"round", "integer", "the round", "0", {}, ours},
             {"mixing",
              "text",
              "rule of the mixing weights",
              R"("uniform")",
              {"uniform", "skew", "skewed", "metropolis-hastings"},
              ours}})},
       {{"weights", "list of list of number [nodes][nodes]", "weight by sender and receiver"},
        {"regular", "boolean", "every node has equally many peers"},
        {"row_sums_one", "boolean", "every row sums to 1"},
        {"column_sums_one", "boolean", "every column sums to 1"},
        {"recv",
         "list of object [nodes]",
         "what each node receives",
         {{"self", "number", "weight of its own values"}, {"neighbors", "map of number", "weight by sender"}}},
        {"send",
         "list of object [nodes]",
         "what each node sends",
         {{"self", "number", "weight of its own values"}, {"neighbors", "map of number", "weight by receiver"}}}},
       R"({"topology": "ring", "args": {"size": 3}})",
       {bad_graph, bad_peers, too_large, {"not_found", "BlueFog has no such topology (convention bluefog)"}}},
      topology);
  service.add(
      {"gossip.turns",
       "BlueFog's generators of dynamic peers",
       {"bluefog"},
       {{"generator",
         "text",
         "BlueFog's function",
         kRequired,
         {"GetDynamicOnePeerSendRecvRanks", "GetExp2DynamicSendRecvMachineRanks",
          "GetInnerOuterRingDynamicSendRecvRanks", "GetInnerOuterExpo2DynamicSendRecvRanks"}},
        {"steps", "integer", "steps, at most 10000"},
        {"topology", "text", "BlueFog's graph; of GetDynamicOnePeerSendRecvRanks", kOptional, bluefog},
        {"size", "integer", "number of ranks; of GetDynamicOnePeerSendRecvRanks", kOptional},
        {"world_size", "integer", "number of ranks; of the generators over machines", kOptional},
        {"local_size", "integer", "ranks of a machine; of the generators over machines", kOptional}},
       {{"ranks", "list of list of list of list of integer [ranks][steps][2]",
         "whom each rank sends to and receives from in each step: ranks, or machines of "
         "GetExp2DynamicSendRecvMachineRanks"}},
       R"({"convention": "bluefog", "generator": "GetDynamicOnePeerSendRecvRanks", "topology": "RingGraph", "size": 3, "steps": 2})",
       {{"invalid_argument", "the sizes do not suit the generator, or an argument of it is missing"},
        {"not_found", "the generator or the topology does not exist"},
        too_large}},
      turns);
  service.add({"gossip.spectrum",
               "how fast gossip on a graph converges",
               ours,
               {name, nodes, each, peers, rows, center, seed, mixing},
               {{"rounds", "integer", "rounds of a period"},
                {"doubly_stochastic", "boolean", "rows and columns of the mixing matrix sum to 1"},
                {"contraction", "number", "factor of the error over a period"},
                {"per_round", "number", "factor of the error over a round"},
                {"spectral_gap", "number", "1 - per_round"}},
               R"({"graph": "ring", "world_size": 4})",
               {bad_graph, bad_peers, too_large}},
              spectrum);
  service.add({"gossip.simulate",
               "simulates gossip of one value for each node",
               ours,
               {name,
                nodes,
                each,
                peers,
                rows,
                center,
                seed,
                mixing,
                rounds,
                {"values", "list of number [nodes]", "value of each node", kOptional},
                {"value_seed", "integer", "random seed of values, without values; null: 1", kOptional}},
               {{"mean", "number", "of the values"},
                {"error", "list of number [rounds]", "distance from the mean after each round"},
                {"sum", "list of number [rounds]", "sum of the numerators"},
                {"weight_sum", "list of number [rounds]", "sum of the push-sum weights"},
                {"least_weight", "list of number [rounds]", "least push-sum weight"},
                {"numerators", "list of number [nodes]", "at the end; of at most 1024 nodes"},
                {"weights", "list of number [nodes]", "push-sum weights at the end; of at most 1024 nodes"}},
               R"({"graph": "ring", "world_size": 3, "rounds": 2, "values": [0, 3, 6]})",
               {bad_graph, bad_peers, too_large}},
              simulate);
  add_round_operations(service);
}

}  // namespace plumbline::adapter
