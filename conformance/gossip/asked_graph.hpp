// conformance/gossip/asked_graph.hpp: what the checks of graphs ask, and what graphs are by their definitions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/suite/check.hpp"

namespace plumbline::conformance {

/// Our names of all graphs but random matchings, and with them.
[[nodiscard]] std::vector<std::string> fixed_graphs();
[[nodiscard]] std::vector<std::string> all_graphs();
/// Whether a graph's peers are all its neighbours unless a number is asked for.
[[nodiscard]] bool takes_all_neighbours(const std::string& graph);

struct GraphQuestion {
  std::string graph;
  int nodes = 1;
  int peers = 0;  // 0: the graph's own
  int rotations = 0;
  int ranks_per_node = 1;
  nlohmann::json others = nlohmann::json::object();  // rows, center, seed
  [[nodiscard]] nlohmann::json args() const;
  [[nodiscard]] std::string words() const;
};

struct AskedPeers {
  std::vector<std::vector<int>> out, in;  // by turn; of nodes
};
/// What came, or nothing where the question was refused as the asker's fault.
struct AskedGraph {
  bool is_regular = false, is_bipartite = false, is_dynamic = false;
  std::vector<bool> passive;
  std::vector<std::vector<int>> books;
  std::vector<AskedPeers> nodes;
};
/// Nothing where the question was refused as the asker's fault. Throws std::runtime_error with words for an answer of
/// another form, another refusal, and a refusal of a graph with its own number of peers, unless it has two sides and an
/// odd number of nodes.
[[nodiscard]] std::optional<AskedGraph> ask_graph(suite::Adapter& adapter, const GraphQuestion& question);

/// Whether `to` can be sent to by `from` in the graph that is asked for, by its definition.
[[nodiscard]] bool is_edge(const GraphQuestion& question, int from, int to);

}  // namespace plumbline::conformance
