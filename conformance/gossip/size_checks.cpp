// Gossip of eight nodes to 1,024 and beyond: graphs by their distances, values by one walk over the rounds.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include <fmt/format.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/sizes.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;

namespace {

int levels_of(int nodes) {
  int levels = 0;
  while (1 << levels <= nodes - 1) ++levels;
  return levels;
}
// The node at distance 2^(turn mod levels), further on or back.
int further_on(int node, int turn, int nodes) { return (node + (1 << turn % levels_of(nodes))) % nodes; }
int further_back(int node, int turn, int nodes) { return (node + nodes - (1 << turn % levels_of(nodes))) % nodes; }

json book_of(int node, int nodes) {
  json book = json::array();
  for (int level = 0; level < levels_of(nodes); ++level) book.push_back(further_on(node, level, nodes));
  return book;
}

// ---- graphs ----

JudgeSize exponential_graph(const std::string& convention, const char* name) {
  return [=](Adapter& adapter, int nodes) {
    constexpr int rotations = 3, most_in_full = 1024;
    json args{{"convention", convention},
              {"graph", name},
              {"world_size", nodes},
              {"peers_per_itr", 1},
              {"nprocs_per_node", 1}};
    json rows = json::object();
    for (const int node : {0, 1, nodes / 3, nodes - 2, nodes - 1}) rows[std::to_string(node)] = book_of(node, nodes);
    json asked = args;
    for (const auto& [node, row] : rows.items()) asked["book_rows"].push_back(std::stoi(node));
    const std::string words = problem_of(adapter, "gossip.graph", asked, [&](const json& result) {
      return first_difference(rows, result.at("book_rows"), "book_rows");
    });
    if (!words.empty() || nodes > most_in_full) return words;
    args["rotations"] = rotations;
    return problem_of(adapter, "gossip.graph", args, [&](const json& result) {
      json expected{{"regular", true}, {"bipartite", false}};
      for (int node = 0; node < nodes; ++node) {
        expected["passive"].push_back(false);
        expected["phone_book"].push_back(book_of(node, nodes));
        json out = json::array(), in = json::array();
        for (int turn = 0; turn <= rotations; ++turn) {
          out.push_back({further_on(node, turn, nodes)});
          in.push_back({further_back(node, turn, nodes)});
        }
        expected["ranks"].push_back({{"out", out}, {"in", in}});
      }
      return first_difference(expected, result);
    });
  };
}

// The two sides of a bipartite graph take turns; elsewhere all send first, and nobody receives.
Choice blocking_rounds(const std::string& convention, const char* bipartite, const char* other) {
  const auto asked = [convention](const char* graph, bool blocked) {
    return [=](Adapter& adapter, int nodes) {
      const json args{{"convention", convention}, {"graph", graph}, {"world_size", nodes}, {"peers_per_itr", 1}};
      return problem_of(adapter, "gossip.blocking", args,
                        [&](const json& result) { return first_difference({{"blocked", blocked}}, result, graph); });
    };
  };
  return {"graph", {{bipartite, asked(bipartite, false)}, {other, asked(other, true)}}};
}

// ---- values ----

// One round: half stays, half goes to the one peer.
std::vector<double> mixed_once(const std::vector<double>& values, int round) {
  const int nodes = static_cast<int>(values.size());
  std::vector<double> mixed;
  for (int node = 0; node < nodes; ++node)
    mixed.push_back(
        (values[static_cast<std::size_t>(node)] + values[static_cast<std::size_t>(further_back(node, round, nodes))]) /
        2);
  return mixed;
}

// Whole numbers, so that half of them is exact for as many rounds.
double start_of(int node, int element) { return (node * 31 + element * 7) % 64 - 20; }

// As many rounds as nodes, or 20.
JudgeSize traced_values(const std::string& convention, const char* name) {
  return [=](Adapter& adapter, int nodes) {
    constexpr int elements = 9;
    const int rounds = std::min(nodes, 20);
    json args{{"convention", convention}, {"algorithm", "PushSum"}, {"graph", name},      {"world_size", nodes},
              {"peers_per_itr", 1},       {"mixing", "uniform"},    {"dtype", "float64"}, {"rounds", rounds}};
    std::vector<std::vector<double>> columns(elements, std::vector<double>(static_cast<std::size_t>(nodes)));
    for (int node = 0; node < nodes; ++node) {
      json x0 = json::array();
      for (int element = 0; element < elements; ++element)
        x0.push_back(columns[static_cast<std::size_t>(element)][static_cast<std::size_t>(node)] =
                         start_of(node, element));
      args["ranks"].push_back({{"x0", x0}});
    }
    return problem_of(adapter, "gossip.trace", args, [&](const json& result) -> std::string {
      for (int round = 0; round < rounds; ++round) {
        for (auto& column : columns) column = mixed_once(column, round);
        for (int node = 0; node < nodes; ++node) {
          json x = json::array();
          for (const auto& column : columns) x.push_back(column[static_cast<std::size_t>(node)]);
          const json expected{{"out", {further_on(node, round, nodes)}},
                              {"in", {further_back(node, round, nodes)}},
                              {"x", x},
                              {"w", 1.0},
                              {"debiased", x}};
          const json& got =
              result.at("ranks").at(static_cast<std::size_t>(node)).at("rounds").at(static_cast<std::size_t>(round));
          if (std::string words = first_difference(expected, got, fmt::format("node {}, round {}", node, round));
              !words.empty())
            return words;
        }
      }
      return {};
    });
  };
}

// All nodes have the mean after a round for each distance, where their number is a power of two.
std::string simulated_values(Adapter& adapter, int nodes) {
  constexpr int most_in_full = 1024;
  const int rounds = levels_of(nodes) + 2;
  std::vector<double> values;
  for (int node = 0; node < nodes; ++node) values.push_back(start_of(node, node / 64));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const json args{{"graph", "n-peer-exponential"}, {"world_size", nodes}, {"peers_per_itr", 1},
                  {"mixing", "uniform"},           {"rounds", rounds},    {"values", values}};
  return problem_of(adapter, "gossip.simulate", args, [&](const json& result) -> std::string {
    for (int round = 0; round < rounds; ++round) {
      values = mixed_once(values, round);
      const auto at = static_cast<std::size_t>(round);
      if (result.at("sum").at(at) != sum || result.at("weight_sum").at(at) != nodes ||
          result.at("least_weight").at(at) != 1.0)
        return fmt::format("round {}: sums {} and {}, they are {} and {}", round, result["sum"][at].dump(),
                           result["weight_sum"][at].dump(), sum, nodes);
      const bool all_equal = std::ranges::all_of(values, [&](double value) { return value == values.front(); });
      if ((result.at("error").at(at) == 0.0) != all_equal)
        return fmt::format("round {}: the error is {}, and values are {}equal", round, result["error"][at].dump(),
                           all_equal ? "" : "not ");
    }
    if (std::string words = first_difference({{"mean", sum / nodes}}, result); !words.empty()) return words;
    return nodes > most_in_full ? "" : first_difference({{"numerators", values}}, result);
  });
}

// ---- shares and rates ----

JudgeSize whole_matrix(const std::string& convention, const char* topology, const std::vector<int>& distances) {
  return [=](Adapter& adapter, int nodes) {
    const double share = 1.0 / (1 + static_cast<double>(distances.size()));
    json weights = json::array(), send = json::array();
    for (int node = 0; node < nodes; ++node) {
      std::vector<double> row(static_cast<std::size_t>(nodes));
      row[static_cast<std::size_t>(node)] = share;
      json to = json::object();
      for (const int distance : distances) {
        const int peer = (node + distance + nodes) % nodes;
        row[static_cast<std::size_t>(peer)] = share;
        to[std::to_string(peer)] = share;
      }
      weights.push_back(std::move(row));
      send.push_back({{"self", share}, {"neighbors", to}});
    }
    const json args{{"convention", convention}, {"topology", topology}, {"args", {{"size", nodes}}}};
    return problem_of(adapter, "gossip.topology", args, [&](const json& result) {
      return first_difference(
          {{"weights", weights}, {"send", send}, {"regular", true}, {"row_sums_one", true}, {"column_sums_one", true}},
          result);
    });
  };
}

// BlueFog's generator over its exponential graph.
std::string one_peer_turns(Adapter& adapter, int nodes) {
  constexpr int steps = 12;
  const json args{{"convention", "bluefog"},
                  {"generator", "GetDynamicOnePeerSendRecvRanks"},
                  {"topology", "ExponentialTwoGraph"},
                  {"size", nodes},
                  {"steps", steps}};
  return problem_of(adapter, "gossip.turns", args, [&](const json& result) {
    json ranks = json::array();
    for (int node = 0; node < nodes; ++node) {
      json turns = json::array();
      for (int step = 0; step < steps; ++step) {
        json one = json::array();
        one.push_back({further_on(node, step, nodes)});
        one.push_back({further_back(node, step, nodes)});
        turns.push_back(std::move(one));
      }
      ranks.push_back(std::move(turns));
    }
    return first_difference(ranks, result.at("ranks"), "ranks");
  });
}

// Rings and complete graphs, by their closed forms.
JudgeSize closed_rate(const char* graph, int peers) {
  return [=](Adapter& adapter, int nodes) {
    const double expected = peers == 0 ? 0 : (1 + 2 * std::cos(2 * std::numbers::pi / nodes)) / 3;
    json args{{"graph", graph}, {"world_size", nodes}};
    if (peers > 0) args["peers_per_itr"] = peers;
    return problem_of(adapter, "gossip.spectrum", args, [&](const json& result) -> std::string {
      const double got = result.at("per_round"), gap = result.at("spectral_gap");
      if (!(std::abs(got - expected) <= 1e-9) || !(std::abs(gap - (1 - expected)) <= 1e-9) ||
          result.at("doubly_stochastic") != true)
        return fmt::format("{}: {} a round and gap {}, not {}", graph, got, gap, expected);
      return {};
    });
  };
}

}  // namespace

void add_gossip_size_checks(suite::Suite& suite) {
  const auto add = [&](SizedCheck one) { add_sized_check(suite, "gossip", std::move(one)); };
  const std::vector<int> nodes{8, 60, 334, 1024}, books{8, 60, 334, 1024, 1'000'002}, threads{4, 12, 33, 64};
  const char* const exponential = "NPeerDynamicDirectedExponentialGraph";
  add(asking({{"graph", {"n-peer-exponential"}}},
             {"gossip.graph", "GOSSIP-015@aa7c", books, exponential_graph("plumbline", "n-peer-exponential")}));
  // FairScale makes the books of all nodes for each of them.
  add(asking(
      {{"graph", {exponential}}},
      {"gossip.graph", "GOSSIP-002@d831", {8, 60, 334}, exponential_graph("fairscale", exponential), "fairscale"}));
  const auto add_blocking = [&](const char* requirement, const char* convention, const char* bipartite,
                                const char* other) {
    add({"gossip.blocking",
         requirement,
         nodes,
         {},
         convention,
         "",
         {},
         {},
         blocking_rounds(convention, bipartite, other)});
  };
  add_blocking("GOSSIP-018@0b91", "plumbline", "bipartite-exponential", "n-peer-exponential");
  add_blocking("GOSSIP-005@2329", "fairscale", "DynamicBipartiteExponentialGraph", exponential);
  add(asking(
      {{"algorithm", {"PushSum"}}, {"dtype", {"float64"}}, {"graph", {"n-peer-exponential"}}, {"mixing", {"uniform"}}},
      {"gossip.trace", "GOSSIP-031@028c", threads, traced_values("plumbline", "n-peer-exponential")}));
  add(asking({{"algorithm", {"PushSum"}}, {"dtype", {"float64"}}, {"graph", {exponential}}, {"mixing", {"uniform"}}},
             {"gossip.trace", "GOSSIP-004@adb7", threads, traced_values("fairscale", exponential), "fairscale"}));
  add(asking({{"graph", {"n-peer-exponential"}}, {"mixing", {"uniform"}}},
             {"gossip.simulate", "GOSSIP-028@4f0c", {8, 60, 1024, 65'536}, simulated_values}));
  add(asking({{"topology", {"n-peer-exponential"}}, {"args.mixing", {"uniform"}}},
             {"gossip.topology", "GOSSIP-022@32f6", nodes, whole_matrix("plumbline", "n-peer-exponential", {1})}));
  add(asking({{"topology", {"RingGraph"}}},
             {"gossip.topology", "GOSSIP-006@13e6", nodes, whole_matrix("bluefog", "RingGraph", {1, -1}), "bluefog"}));
  add(asking({{"generator", {"GetDynamicOnePeerSendRecvRanks"}}, {"topology", {"ExponentialTwoGraph"}}},
             {"gossip.turns", "GOSSIP-007@0766", nodes, one_peer_turns, "bluefog"}));
  add({"gossip.spectrum",
       "GOSSIP-023@1210",
       nodes,
       {},
       "plumbline",
       "",
       {},
       {{"gossip.spectrum", {{"mixing", {"uniform"}}}}},
       {"graph", {{"complete", closed_rate("complete", 0)}, {"ring", closed_rate("ring", 2)}}}});
}

}  // namespace plumbline::conformance
