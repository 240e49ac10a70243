#include "conformance/gossip/asked_graph.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/support/asking.hpp"
#include "harness/suite/library_words.hpp"

namespace plumbline::conformance {

using nlohmann::json;

std::vector<std::string> fixed_graphs() {
  return {"directed-exponential",
          "n-peer-exponential",
          "bipartite-exponential",
          "directed-linear",
          "bipartite-linear",
          "ring",
          "static-exponential",
          "mesh",
          "star",
          "complete"};
}

std::vector<std::string> all_graphs() {
  auto graphs = fixed_graphs();
  graphs.emplace_back("random-matching");
  return graphs;
}

bool takes_all_neighbours(const std::string& graph) {
  return graph == "static-exponential" || graph == "mesh" || graph == "star" || graph == "complete";
}

json GraphQuestion::args() const {
  json args{{"graph", graph}, {"world_size", nodes}, {"rotations", rotations}};
  if (peers > 0) args["peers_per_itr"] = peers;
  if (ranks_per_node > 1) args["nprocs_per_node"] = ranks_per_node;
  args.update(others);
  return args;
}

std::string GraphQuestion::words() const {
  return fmt::format("{} of {} nodes, {} peers{}", graph, nodes, peers, others.empty() ? "" : ", " + others.dump());
}

std::optional<AskedGraph> ask_graph(suite::Adapter& adapter, const GraphQuestion& question) {
  const Answer answer = answer_to(adapter, "gossip.graph", question.args());
  if (answer.is_refused()) {
    const bool two_sides = question.graph.starts_with("bipartite");
    if (question.peers == 0 && (!two_sides || question.nodes % 2 == 0))
      throw std::runtime_error(fmt::format("{} is refused: {}", question.words(), answer.message));
    if (answer.kind == "invalid_argument" || answer.kind == "out_of_range") return std::nullopt;
    throw std::runtime_error(fmt::format("{} is refused as '{}': {}", question.words(), answer.kind, answer.message));
  }
  try {
    AskedGraph graph{.is_regular = answer.result.at("regular"),
                     .is_bipartite = answer.result.at("bipartite"),
                     .is_dynamic = answer.result.at("dynamic"),
                     .passive = answer.result.at("passive"),
                     .books = answer.result.at("phone_book"),
                     .nodes = {}};
    for (const json& node : answer.result.at("ranks"))
      graph.nodes.push_back({.out = node.at("out"), .in = node.at("in")});
    const auto count = static_cast<std::size_t>(question.nodes);
    if (graph.nodes.size() != count || graph.books.size() != count || graph.passive.size() != count)
      throw std::runtime_error(fmt::format("{}: {} nodes are answered", question.words(), graph.nodes.size()));
    const auto is_rank = [&](int peer) { return peer >= 0 && peer < question.nodes * question.ranks_per_node; };
    for (const AskedPeers& node : graph.nodes)
      for (const auto* turns : {&node.out, &node.in})
        for (const std::vector<int>& peers : *turns)
          if (!std::ranges::all_of(peers, is_rank))
            throw std::runtime_error(fmt::format("{}: peers {} are answered", question.words(), peers));
    for (const AskedPeers& node : graph.nodes)
      if (node.out.size() != static_cast<std::size_t>(question.rotations) + 1 || node.in.size() != node.out.size())
        throw std::runtime_error(fmt::format("{}: {} turns are answered", question.words(), node.out.size()));
    return graph;
  } catch (const json::exception& error) {
    throw std::runtime_error(fmt::format("{} is answered in another form: {}", question.words(),
                                         suite::words_without_library(error.what())));
  }
}

namespace {

bool is_power(int number, int base) {
  std::int64_t power = 1;
  while (power < number) power *= base;
  return power == number;
}

// Rows of the most square mesh.
int mesh_columns(int nodes) {
  int rows = 1;
  for (int candidate = 1; candidate * candidate <= nodes; ++candidate)
    if (nodes % candidate == 0) rows = candidate;
  return nodes / rows;
}

}  // namespace

bool is_edge(const GraphQuestion& question, int from, int to) {
  if (from == to) return false;
  const std::string& graph = question.graph;
  const int nodes = question.nodes, peers = std::max(question.peers, 1);
  const int forward = (to - from + nodes) % nodes, back = nodes - forward;
  const auto either_way = [&](const auto& holds) { return holds(forward) || holds(back); };
  if (graph == "directed-exponential") return either_way([](int distance) { return is_power(distance, 2); });
  if (graph == "static-exponential") return is_power(forward, 2);
  if (graph == "n-peer-exponential") {
    // j powers of peers + 1, round the ring: j from 1 to the number of peers.
    for (int j = 1; j <= peers; ++j)
      for (std::int64_t power = 1; power <= nodes - 1; power *= peers + 1)
        if (j * power % nodes == forward) return true;
    return false;
  }
  if (graph == "bipartite-exponential")
    return either_way([&](int distance) {
      for (std::int64_t power = 2; power <= nodes - 1; power *= 2)
        if ((1 + power) % nodes == distance) return true;
      return distance == 1;
    });
  if (graph == "directed-linear") return either_way([](int distance) { return distance % 2 == 1; });
  if (graph == "bipartite-linear") return from % 2 != to % 2;
  if (graph == "ring") return forward == 1 || back == 1;
  if (graph == "star") {
    const int center = question.others.value("center", 0);
    return from == center || to == center;
  }
  if (graph == "mesh") {
    const int rows = question.others.value("rows", 0), columns = rows == 0 ? mesh_columns(nodes) : nodes / rows;
    return std::abs(from / columns - to / columns) + std::abs(from % columns - to % columns) == 1;
  }
  return true;  // complete, random matchings
}

}  // namespace plumbline::conformance
