// What FairScale's and BlueFog's own graphs, weights and exchanges gave.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

json with_fields(const json& from, std::initializer_list<const char*> names) {
  json some = json::object();
  for (const char* name : names)
    if (from.contains(name)) some[name] = from.at(name);
  return some;
}

json args_of_graph(const json& one) {
  json args = with_fields(one, {"graph", "world_size", "nprocs_per_node", "peers_per_itr"});
  args["convention"] = "fairscale";
  return args;
}

// The recorded cases of the class that the case is about.
template <class Judge>
void for_each_graph(Context& context, const Judge& judge) {
  const json record = recorded("gossip", "graphs");
  for (const json& one : record.at("cases"))
    if (one.at("graph") == context.parameters().text("graph")) {
      const std::string problem = judge(one);
      if (!problem.empty()) report_words(one.at("name").get<std::string>() + ": " + problem);
    }
}

void books(Context& context) {
  for_each_graph(context, [&](const json& one) -> std::string {
    json args = args_of_graph(one);
    if (one.contains("construct_error"))
      return problem_of_refusal_beside_answers(context.adapter(), "gossip.graph", args);
    if (one.contains("plan")) return {};
    json expected = with_fields(one, {"regular", "bipartite", "dynamic", "passive", "phone_book", "book_rows"});
    if (one.contains("book_rows")) {
      args["book_rows"] = json::array();
      for (const auto& [row, peers] : one.at("book_rows").items()) args["book_rows"].push_back(std::stoi(row));
    }
    return problem_of(context.adapter(), "gossip.graph", args,
                      [&](const json& result) { return first_difference(expected, result); });
  });
}

void turns(Context& context) {
  for_each_graph(context, [&](const json& one) -> std::string {
    if (!one.contains("ranks")) return {};
    json args = args_of_graph(one);
    if (one.contains("plan")) {
      args["plan"] = one.at("plan");
      return problem_of(context.adapter(), "gossip.graph", args,
                        [&](const json& result) { return first_difference(with_fields(one, {"ranks"}), result); });
    }
    std::size_t turned = 1;
    for (const json& rank : one.at("ranks")) turned = std::max(turned, rank.at("out").size());
    args["rotations"] = turned - 1;
    json expected = json::array();
    for (const json& rank : one.at("ranks")) expected.push_back(with_fields(rank, {"out", "in", "error_at"}));
    return problem_of(context.adapter(), "gossip.graph", args,
                      [&](const json& result) { return first_difference({{"ranks", expected}}, result); });
  });
}

void weights(Context& context) {
  for_each_graph(context, [&](const json& one) -> std::string {
    if (!one.contains("ranks") || one.contains("plan")) return {};
    json expected = json::array();
    for (const json& rank : one.at("ranks")) expected.push_back(with_fields(rank, {"mixing"}));
    return problem_of(context.adapter(), "gossip.graph", args_of_graph(one),
                      [&](const json& result) { return first_difference({{"ranks", expected}}, result); });
  });
}

// The rounds of graphs that call themselves regular with uniform mixing are lazy, all others are eager.
bool is_lazy(const json& one) { return one.at("mixing") == "uniform" && one.at("ranks").at(0).at("regular") == true; }

// Graphs Flagged and Hub are classes of the recording: they are asked for by their peers.
std::string graph_asked(const json& one) {
  const std::string graph = one.at("graph");
  return graph == "Flagged" || graph == "Hub" ? "phone_book" : graph;
}

json args_of_trace(const json& one) {
  json args = with_fields(one, {"algorithm", "world_size", "peers_per_itr", "dtype", "rounds"});
  args["convention"] = "fairscale";
  args["ranks"] = json::array();
  args["weights"] = json::array();
  for (const json& rank : one.at("ranks")) {
    args["ranks"].push_back({{"x0", rank.at("x0")}});
    json rounds = json::array();
    for (const json& round : rank.at("rounds")) rounds.push_back(round.at("weights"));
    args["weights"].push_back(std::move(rounds));
  }
  if (const std::string graph = graph_asked(one); graph == "phone_book") {
    args["phone_book"] = one.at("phone_book");
    args["regular"] = false;
  } else {
    args["graph"] = graph;
  }
  if (one.at("mixing") == "uniform") {
    args.erase("weights");
    args["mixing"] = "uniform";
  }
  return args;
}

void traces(Context& context) {
  const json record = recorded("gossip", "traces");
  const bool lazy = context.parameters().text("mixing") == "lazy";
  const std::string& graph = context.parameters().text("graph");
  for (const json& one : record.at("cases")) {
    if (one.at("algorithm") != context.parameters().text("algorithm") || graph_asked(one) != graph) continue;
    std::string problem;
    if (one.contains("errors")) {
      json args = with_fields(one, {"algorithm", "graph", "world_size", "peers_per_itr", "dtype"});
      args.update({{"convention", "fairscale"}, {"rounds", 1}, {"ranks", json::array()}});
      for (int rank = 0; rank < one.at("world_size"); ++rank) args["ranks"].push_back({{"x0", {1}}});
      problem = problem_of_refusal_beside_answers(context.adapter(), "gossip.trace", args);
    } else if (is_lazy(one) == lazy) {
      json expected = json::array();
      for (const json& rank : one.at("ranks")) {
        json rounds = json::array();
        for (const json& round : rank.at("rounds"))
          rounds.push_back(with_fields(round, {"out", "in", "x", "w", "debiased"}));
        expected.push_back({{"rounds", rounds}});
      }
      problem = problem_of(context.adapter(), "gossip.trace", args_of_trace(one),
                           [&](const json& result) { return first_difference({{"ranks", expected}}, result); });
    }
    if (!problem.empty()) report_words(one.at("name").get<std::string>() + ": " + problem);
  }
}

// Entries of each node's list in FairScale's graph of so many nodes; of a bipartite one, if their number is even.
int entries_of(const std::string& graph, int nodes, int peers) {
  int levels = 1;
  while (1 << levels <= nodes - 1) ++levels;
  if (graph == "RingGraph") return 2;
  if (graph.starts_with("NPeer")) return peers * levels;
  return graph.find("Linear") != std::string::npos ? nodes / 2 * 2 : 2 * levels;
}

// A round of a bipartite graph completes, one of another never does, if each node has as many peers as it is asked for.
std::string problem_of_blocking(suite::Adapter& adapter, const std::string& graph, int nodes, int peers) {
  const json args{{"convention", "fairscale"}, {"graph", graph}, {"world_size", nodes}, {"peers_per_itr", peers}};
  const bool is_bipartite = graph.find("Bipartite") != std::string::npos;
  if (peers > entries_of(graph, nodes, peers) || (is_bipartite && nodes % 2 != 0))
    return problem_of_refusal_beside_answers(adapter, "gossip.blocking", args);
  return problem_of(adapter, "gossip.blocking", args,
                    [&](const json& result) { return first_difference({{"blocked", !is_bipartite}}, result); });
}

void blocking(Context& context) {
  for (int nodes = 2; nodes <= 12; ++nodes)
    for (int peers = 1; peers <= 4; ++peers) {
      const std::string problem =
          problem_of_blocking(context.adapter(), context.parameters().text("graph"), nodes, peers);
      if (!problem.empty()) report_words(fmt::format("{} nodes, {} peers: {}", nodes, peers, problem));
    }
  const json record = recorded("gossip", "blocking");
  for (const json& one : record.at("cases")) {
    if (one.at("graph") != context.parameters().text("graph")) continue;
    json args = with_fields(one, {"graph", "world_size", "peers_per_itr"});
    args["convention"] = "fairscale";
    const std::string problem = one.contains("error")
                                    ? problem_of_refusal_beside_answers(context.adapter(), "gossip.blocking", args)
                                    : problem_of(context.adapter(), "gossip.blocking", args, [&](const json& result) {
                                        return first_difference(with_fields(one, {"blocked"}), result);
                                      });
    if (!problem.empty()) report_words(one.at("name").get<std::string>() + ": " + problem);
  }
}

// As first_difference(), where sums of shares may be rounded in another order.
std::string difference_but_for_rounding(const json& expected, const json& got, const std::string& where) {
  if (expected.is_number() && got.is_number()) {
    const double a = expected, b = got;
    constexpr double rounding = 1e-14;
    return std::abs(a - b) <= rounding ? "" : fmt::format("{}: expected {}, got {}", where, a, b);
  }
  if (expected.is_object() && got.is_object()) {
    for (const auto& [name, value] : expected.items()) {
      if (!got.contains(name)) return fmt::format("{}.{} is missing", where, name);
      if (auto words = difference_but_for_rounding(value, got.at(name), where + "." + name); !words.empty())
        return words;
    }
    return expected.size() == got.size() ? ""
                                         : fmt::format("{} has {} fields, not {}", where, got.size(), expected.size());
  }
  if (expected.is_array() && got.is_array() && expected.size() == got.size()) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (auto words = difference_but_for_rounding(expected[i], got[i], fmt::format("{}[{}]", where, i));
          !words.empty())
        return words;
    return {};
  }
  return first_difference(expected, got, where);
}

// What BlueFog's functions assert of their arguments, beside what is recorded.
std::vector<json> bad_bluefog_arguments(const std::string& topology) {
  std::vector<json> bad{{{"size", 0}}, {{"size", -1}}};
  const auto add = [&](const char* field, std::vector<json> values) {
    for (json& value : values) bad.push_back({{"size", 6}, {field, std::move(value)}});
  };
  if (topology == "ExponentialGraph" || topology == "SymmetricExponentialGraph") add("base", {1, 0, -2});
  if (topology == "RingGraph") add("connect_style", {-1, 3, 4});
  if (topology == "MeshGrid2DGraph")
    add("shape", {{2, 2}, {3, 3}, {6}, {1, 2, 3}, {6, 1, 1}, {2, 3, 1}, {0, 6}, {6, 0}, {4, 1}, {5, 1}, {2, 4}});
  if (topology == "StarGraph") add("center_rank", {6, 7});
  return bad;
}

bool is_power(int number, int base) {
  std::int64_t power = 1;
  while (power < number) power *= base;
  return power == number;
}

using Weights = std::vector<std::vector<double>>;

// Rows and columns of a mesh, which is as square as can be.
std::pair<int, int> shape_of(int size, const json& args) {
  if (args.contains("shape")) return {args.at("shape").at(0), args.at("shape").at(1)};
  int rows = 1;
  for (int candidate = 1; candidate * candidate <= size; ++candidate)
    if (size % candidate == 0) rows = candidate;
  return {rows, size / rows};
}

// Whether a node of BlueFog's topology sends to another, by the definition of its name.
bool is_bluefog_edge(const std::string& topology, const json& args, int from, int to) {
  const int size = args.at("size"), ahead = (to - from + size) % size, back = size - ahead;
  if (from == to) return false;
  if (topology == "ExponentialTwoGraph") return is_power(ahead, 2);
  if (topology == "ExponentialGraph") return is_power(ahead, args.value("base", 2));
  if (topology == "SymmetricExponentialGraph") return is_power(2 * ahead <= size ? ahead : back, args.value("base", 4));
  if (topology == "RingGraph") {
    const int style = args.value("connect_style", 0);
    return (style != 1 && ahead == 1) || (style != 2 && back == 1);
  }
  if (topology == "StarGraph") return from == args.value("center_rank", 0) || to == args.value("center_rank", 0);
  if (topology == "MeshGrid2DGraph") {
    const int columns = shape_of(size, args).second;
    return std::abs(from / columns - to / columns) + std::abs(from % columns - to % columns) == 1;
  }
  return true;
}

// A share for each node and itself, but of a star, whose edges have a share of all nodes, and of a mesh, whose edges
// have that of the node with more of them. What is left stays.
Weights bluefog_weights(const std::string& topology, const json& args) {
  const std::size_t size = args.at("size");
  const auto is_edge = [&](std::size_t from, std::size_t to) {
    return is_bluefog_edge(topology, args, static_cast<int>(from), static_cast<int>(to));
  };
  std::vector<double> edges(size);
  for (std::size_t from = 0; from < size; ++from)
    for (std::size_t to = 0; to < size; ++to) edges[from] += is_edge(from, to) ? 1 : 0;
  Weights weights(size, std::vector<double>(size));
  for (std::size_t from = 0; from < size; ++from) {
    double left = 1;
    for (std::size_t to = 0; to < size; ++to) {
      if (!is_edge(from, to)) continue;
      const double most = topology == "MeshGrid2DGraph" ? std::max(edges[from], edges[to]) : edges[from];
      weights[from][to] = 1 / (topology == "StarGraph" ? static_cast<double>(size) : most + 1);
      left -= weights[from][to];
    }
    weights[from][from] = left;
  }
  return weights;
}

json bluefog_views(const Weights& weights) {
  const std::size_t size = weights.size();
  json send = json::array(), recv = json::array();
  std::set<std::size_t> ways;
  bool columns_one = true;
  for (std::size_t node = 0; node < size; ++node) {
    json to = json::object(), from = json::object();
    double column = 0;
    for (std::size_t other = 0; other < size; ++other) {
      column += weights[other][node];
      if (other == node) continue;
      if (weights[node][other] != 0) to[std::to_string(other)] = weights[node][other];
      if (weights[other][node] != 0) from[std::to_string(other)] = weights[other][node];
    }
    columns_one = columns_one && std::abs(column - 1) < 1e-9;
    ways.insert(to.size() + from.size());
    send.push_back({{"self", weights[node][node]}, {"neighbors", to}});
    recv.push_back({{"self", weights[node][node]}, {"neighbors", from}});
  }
  return {{"weights", weights},   {"regular", ways.size() == 1},
          {"row_sums_one", true}, {"column_sums_one", columns_one},
          {"recv", recv},         {"send", send}};
}

// All arguments that a topology of that size has.
std::vector<json> bluefog_arguments(const std::string& topology, int size) {
  std::vector<json> all{json{{"size", size}}};
  const auto add = [&](const char* field, const json& value) { all.push_back({{"size", size}, {field, value}}); };
  for (int base = 2; base <= 5; ++base)
    if (topology == "ExponentialGraph" || topology == "SymmetricExponentialGraph") add("base", base);
  for (int style = 0; style <= 2; ++style)
    if (topology == "RingGraph") add("connect_style", style);
  for (int one = 0; one < size; ++one) {
    if (topology == "StarGraph") add("center_rank", one);
    if (topology == "MeshGrid2DGraph" && size % (one + 1) == 0) add("shape", {one + 1, size / (one + 1)});
  }
  return all;
}

// Sizes and arguments beside the recorded ones, by the definitions of the names.
std::string problem_of_bluefog(suite::Adapter& adapter, const std::string& topology) {
  for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 20, 24, 25, 26, 27, 28})
    for (const json& args : bluefog_arguments(topology, size)) {
      const json question{{"convention", "bluefog"}, {"topology", topology}, {"args", args}};
      const std::string problem = problem_of(adapter, "gossip.topology", question, [&](const json& result) {
        return difference_but_for_rounding(
            bluefog_views(bluefog_weights(topology, args)),
            with_fields(result, {"weights", "regular", "row_sums_one", "column_sums_one", "recv", "send"}), "result");
      });
      if (!problem.empty()) return args.dump() + ": " + problem;
    }
  return {};
}

void bluefog(Context& context) {
  report_words(problem_of_bluefog(context.adapter(), context.parameters().text("topology")));
  for (const json& args : bad_bluefog_arguments(context.parameters().text("topology")))
    report_words(problem_of_refusal_beside_answers(
        context.adapter(), "gossip.topology",
        {{"convention", "bluefog"}, {"topology", context.parameters().text("topology")}, {"args", args}}));
  const json record = recorded("gossip", "bluefog");
  for (const json& one : record.at("cases")) {
    if (one.at("topology") != context.parameters().text("topology")) continue;
    json args = with_fields(one, {"topology", "args"});
    args["convention"] = "bluefog";
    std::string problem;
    if (one.contains("error")) {
      problem = problem_of_refusal_beside_answers(context.adapter(), "gossip.topology", args);
    } else {
      const json expected = with_fields(one, {"weights", "regular", "row_sums_one", "column_sums_one", "recv", "send"});
      problem = problem_of(context.adapter(), "gossip.topology", args, [&](const json& result) {
        return difference_but_for_rounding(
            expected, with_fields(result, {"weights", "regular", "row_sums_one", "column_sums_one", "recv", "send"}),
            "result");
      });
    }
    if (!problem.empty()) report_words(one.at("name").get<std::string>() + ": " + problem);
  }
  report_words(problem_of_refusal_beside_answers(
      context.adapter(), "gossip.topology",
      {{"convention", "bluefog"}, {"topology", "NoSuchGraph"}, {"args", {{"size", 4}}}}));
}

int modulo(int number, int size) { return (number % size + size) % size; }

// BlueFog's generators over machines, by their definitions: the peers that a rank of a machine sends to and receives
// from in a step.
json machine_turn(const std::string& generator, int machines, int ranks, int machine, int rank, int step) {
  const bool doubles = generator != "GetInnerOuterRingDynamicSendRecvRanks";
  // Distances 1, 2, 4, … up to the largest power that is at most `most`.
  const auto distance_of = [&](int most) {
    int powers = 0;
    while (1 << powers <= most) ++powers;
    return doubles ? 1 << step % powers : 1;
  };
  json send = json::array(), receive = json::array();
  if (generator == "GetExp2DynamicSendRecvMachineRanks") {
    send.push_back(modulo(machine + distance_of(machines - 1), machines));
    receive.push_back(modulo(machine - distance_of(machines - 1), machines));
    return json::array({send, receive});
  }
  const int outside = step % ranks;
  if (rank == outside) {
    const int distance = distance_of(machines - 1);
    send.push_back(modulo(machine + distance, machines) * ranks + rank);
    receive.push_back(modulo(machine - distance, machines) * ranks + rank);
    return json::array({send, receive});
  }
  // Round the machine without the rank that is outside.
  std::vector<int> inside;
  for (int i = 0; i < ranks; ++i)
    if (i != outside) inside.push_back(i);
  const int count = ranks - 1, at = static_cast<int>(std::ranges::find(inside, rank) - inside.begin());
  const int distance = distance_of(ranks - 2);
  send.push_back(machine * ranks + inside[static_cast<std::size_t>(modulo(at + distance, count))]);
  receive.push_back(machine * ranks + inside[static_cast<std::size_t>(modulo(at - distance, count))]);
  return json::array({send, receive});
}

// Machines of other sizes than the recorded ones.
std::string problem_of_machines(suite::Adapter& adapter, const std::string& generator, int machines, int ranks) {
  constexpr int steps = 13;
  json expected = json::array();
  for (int machine = 0; machine < machines; ++machine)
    for (int rank = 0; rank < ranks; ++rank) {
      json turns = json::array();
      for (int step = 0; step < steps; ++step)
        turns.push_back(machine_turn(generator, machines, ranks, machine, rank, step));
      expected.push_back(std::move(turns));
    }
  const json args{{"convention", "bluefog"},
                  {"generator", generator},
                  {"world_size", machines * ranks},
                  {"local_size", ranks},
                  {"steps", steps}};
  return problem_of(adapter, "gossip.turns", args,
                    [&](const json& result) { return first_difference({{"ranks", expected}}, result); });
}

// Each node sends to its neighbours one after the other, clockwise from itself.
std::string problem_of_one_peer(suite::Adapter& adapter, const std::string& topology, int size) {
  const int steps = 2 * size + 3;
  json expected = json::array();
  for (int node = 0; node < size; ++node) expected.push_back(json::array());
  for (int step = 0; step < steps; ++step) {
    std::vector<int> sends;
    for (int node = 0; node < size; ++node) {
      std::vector<int> clockwise;
      for (int ahead = 1; ahead < size; ++ahead)
        if (is_bluefog_edge(topology, {{"size", size}}, node, (node + ahead) % size))
          clockwise.push_back((node + ahead) % size);
      sends.push_back(clockwise[static_cast<std::size_t>(step) % clockwise.size()]);
    }
    for (std::size_t node = 0; node < sends.size(); ++node) {
      std::vector<std::size_t> from;
      for (std::size_t other = 0; other < sends.size(); ++other)
        if (sends[other] == static_cast<int>(node)) from.push_back(other);
      expected[node].push_back(json::array({json::array({sends[node]}), from}));
    }
  }
  const json args{{"convention", "bluefog"},
                  {"generator", "GetDynamicOnePeerSendRecvRanks"},
                  {"topology", topology},
                  {"size", size},
                  {"steps", steps}};
  return problem_of(adapter, "gossip.turns", args,
                    [&](const json& result) { return first_difference({{"ranks", expected}}, result, args.dump()); });
}

// One node, which has no node to send to; machines that are not filled, or have no ranks, or are too few or too small.
std::vector<json> bad_turns(const std::string& generator) {
  std::vector<json> bad;
  if (generator == "GetDynamicOnePeerSendRecvRanks") {
    for (const char* topology : {"ExponentialTwoGraph", "FullyConnectedGraph", "MeshGrid2DGraph", "RingGraph",
                                 "StarGraph", "SymmetricExponentialGraph"})
      bad.push_back({{"topology", topology}, {"size", 1}});
    return bad;
  }
  bad = {{{"world_size", 8}, {"local_size", 3}},
         {{"world_size", 8}, {"local_size", 0}},
         {{"world_size", 8}, {"local_size", -4}},
         {{"world_size", 8}, {"local_size", 16}}};
  const bool of_machines = generator == "GetExp2DynamicSendRecvMachineRanks";
  for (int ranks = 1; ranks <= 4; ++ranks)
    if (generator != "GetInnerOuterRingDynamicSendRecvRanks")
      bad.push_back({{"world_size", ranks}, {"local_size", ranks}});
  for (const int ranks : {1, 2})
    for (const int machines : {1, 2, 3})
      if (!of_machines) bad.push_back({{"world_size", machines * ranks}, {"local_size", ranks}});
  return bad;
}

// Machines of other sizes than the recorded ones, and topologies.
std::string problem_of_all_turns(suite::Adapter& adapter, const std::string& generator) {
  if (generator == "GetDynamicOnePeerSendRecvRanks") {
    for (const char* topology : {"ExponentialTwoGraph", "FullyConnectedGraph", "MeshGrid2DGraph", "RingGraph",
                                 "StarGraph", "SymmetricExponentialGraph"})
      for (int size = 2; size <= 12; ++size)
        if (std::string words = problem_of_one_peer(adapter, topology, size); !words.empty()) return words;
    return {};
  }
  const bool of_machines = generator == "GetExp2DynamicSendRecvMachineRanks";
  const bool alone = generator == "GetInnerOuterRingDynamicSendRecvRanks";
  for (int machines = alone ? 1 : 2; machines <= 6; ++machines)
    for (int ranks = of_machines ? 1 : 3; ranks <= 6; ++ranks)
      if (std::string words = problem_of_machines(adapter, generator, machines, ranks); !words.empty()) return words;
  for (const auto& [machines, ranks] : {std::pair{3, 7}, {9, 6}, {2, 10}})
    if (std::string words = problem_of_machines(adapter, generator, machines, ranks); !words.empty()) return words;
  return {};
}

void bluefog_turns(Context& context) {
  const std::string& generator = context.parameters().text("generator");
  for (json args : bad_turns(generator)) {
    args.update({{"convention", "bluefog"}, {"generator", generator}, {"steps", 1}});
    report_words(problem_of_refusal_beside_answers(context.adapter(), "gossip.turns", args));
  }
  report_words(problem_of_all_turns(context.adapter(), generator));
  const json record = recorded("gossip", "bluefog_turns");
  for (const json& one : record.at("cases")) {
    if (one.at("generator") != context.parameters().text("generator")) continue;
    json args = with_fields(one, {"generator", "topology", "size", "world_size", "local_size", "steps"});
    args["convention"] = "bluefog";
    const std::string problem = one.contains("error")
                                    ? problem_of_refusal_beside_answers(context.adapter(), "gossip.turns", args)
                                    : problem_of(context.adapter(), "gossip.turns", args, [&](const json& result) {
                                        return first_difference(with_fields(one, {"ranks"}), result);
                                      });
    if (!problem.empty()) report_words(one.at("name").get<std::string>() + ": " + problem);
  }
  report_words(problem_of_refusal_beside_answers(context.adapter(), "gossip.turns",
                                                 {{"convention", "bluefog"},
                                                  {"generator", "NoSuchGenerator"},
                                                  {"world_size", 8},
                                                  {"local_size", 4},
                                                  {"steps", 1}}));
}

// Which runs are recorded.
bool is_traced(const suite::Parameters& parameters) {
  const std::string& graph = parameters.text("graph");
  if (parameters.text("mixing") == "lazy") return graph != "phone_book";
  return graph == "phone_book" ||
         graph == (parameters.text("algorithm") == "PushSum" ? "NPeerDynamicDirectedExponentialGraph" : "RingGraph");
}

// What they are of.
suite::OptionValues traced_options(const suite::Parameters& parameters) {
  const bool push_sum = parameters.text("algorithm") == "PushSum", lazy = parameters.text("mixing") == "lazy";
  const std::string& graph = parameters.text("graph");
  auto options = options_of({{"gossip.trace", "algorithm", {}, "algorithm"},
                             {"gossip.trace", "mixing", {"uniform"}},
                             {"gossip.trace", "dtype", {"float32"}}})(parameters);
  auto& asked = options["gossip.trace"];
  const bool is_book = graph == "phone_book";
  if (!is_book) asked["graph"] = {graph};
  if (push_sum && (lazy ? graph == "NPeerDynamicDirectedExponentialGraph" : is_book)) asked["dtype"].insert("float16");
  if (push_sum && !lazy && is_book) asked["dtype"].insert("float64");
  return options;
}

}  // namespace

void add_recorded_gossip_checks(suite::Suite& suite) {
  const suite::Axis graphs{
      "graph",
      {"DynamicDirectedExponentialGraph", "NPeerDynamicDirectedExponentialGraph", "DynamicBipartiteExponentialGraph",
       "DynamicDirectedLinearGraph", "DynamicBipartiteLinearGraph", "RingGraph"}};
  const auto add = [&](const char* name, const char* requirement, const char* operation, suite::Axis axis,
                       void (*body)(Context&), const char* convention = "fairscale",
                       std::vector<AskedOption> options = {}) {
    if (options.empty()) options = {{operation, axis.name, {}, axis.name}};
    std::vector<suite::Axis> axes;
    if (!axis.name.empty()) axes.push_back(std::move(axis));
    suite.add({.id = std::string("gossip.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {operation},
               .convention = convention,
               .options = options_of(std::move(options)),
               .body = body});
  };
  add("graph.fairscale_books", "GOSSIP-001@95e8", "gossip.graph", graphs, books);
  add("graph.fairscale_turns", "GOSSIP-002@d831", "gossip.graph", graphs, turns);
  add("graph.fairscale_weights", "GOSSIP-003@5b28", "gossip.graph", graphs, weights);
  suite::Axis graphs_and_books = graphs;
  graphs_and_books.values.emplace_back("phone_book");
  suite.add({.id = "gossip.trace.fairscale",
             .verifies = {"GOSSIP-004@adb7"},
             .door = Door::adapter,
             .axes = {{"algorithm", {"PushSum", "PushPull"}}, {"mixing", {"lazy", "eager"}}, graphs_and_books},
             .applies = is_traced,
             .operations = {"gossip.trace"},
             .convention = "fairscale",
             .options = traced_options,
             .body = traces});
  add("blocking.fairscale", "GOSSIP-005@2329", "gossip.blocking", graphs, blocking);
  add("topology.bluefog", "GOSSIP-006@13e6", "gossip.topology",
      {"topology",
       {"ExponentialTwoGraph", "ExponentialGraph", "SymmetricExponentialGraph", "RingGraph", "MeshGrid2DGraph",
        "StarGraph", "FullyConnectedGraph"}},
      bluefog, "bluefog");
  add("turns.bluefog", "GOSSIP-007@0766", "gossip.turns",
      {"generator",
       {"GetDynamicOnePeerSendRecvRanks", "GetExp2DynamicSendRecvMachineRanks", "GetInnerOuterRingDynamicSendRecvRanks",
        "GetInnerOuterExpo2DynamicSendRecvRanks"}},
      bluefog_turns, "bluefog",
      {{"gossip.turns", "generator", {}, "generator"},
       {"gossip.turns",
        "topology",
        {},
        "generator",
        {{"GetDynamicOnePeerSendRecvRanks",
          {"ExponentialTwoGraph", "FullyConnectedGraph", "MeshGrid2DGraph", "RingGraph", "StarGraph",
           "SymmetricExponentialGraph"}}}}});
}

}  // namespace plumbline::conformance
