// Who sends to whom: properties of graphs, judged by definitions of their own.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "conformance/gossip/asked_graph.hpp"
#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/support/asking.hpp"
#include "harness/suite/library_words.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/graph.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

const char* const kGraph = "gossip.graph";

using JudgeGraph = std::string (*)(const GraphQuestion& question, const AskedGraph& got);

// Peers that are asked for: the graph's own number, and 1 to 3.
void judge_graphs(Context& context, std::vector<int> worlds, int rotations, JudgeGraph judge) {
  const std::string& graph = context.parameters().text("graph");
  int judged = 0;
  for (const int nodes : worlds)
    for (int peers = 0; peers <= 3; ++peers) {
      const GraphQuestion question{.graph = graph, .nodes = nodes, .peers = peers, .rotations = rotations};
      try {
        const auto got = ask_graph(context.adapter(), question);
        if (!got) continue;
        ++judged;
        const std::string problem = judge(question, *got);
        if (!problem.empty()) return report_words(question.words() + ": " + problem);
      } catch (const std::runtime_error& error) {
        return report_words(error.what());
      }
    }
  if (judged == 0) report_words(graph + ": every question is refused");
}

// As many peers as every node has entries are not too many.
std::string most_peers(Context& context, int nodes) {
  const std::string& graph = context.parameters().text("graph");
  GraphQuestion question{.graph = graph, .nodes = nodes};
  const auto own = ask_graph(context.adapter(), question);
  if (!own || graph == "n-peer-exponential") return {};
  question.peers = nodes;
  for (const auto& book : own->books) question.peers = std::min(question.peers, static_cast<int>(book.size()));
  const auto got = ask_graph(context.adapter(), question);
  if (!got) return question.words() + " is refused";
  for (const AskedPeers& node : got->nodes)
    if (node.out.front().size() != static_cast<std::size_t>(question.peers))
      return fmt::format("{}: {} are sent to", question.words(), node.out.front());
  return {};
}

std::vector<int> all_worlds() {
  std::vector<int> worlds;
  for (int nodes = 2; nodes <= 33; ++nodes) worlds.push_back(nodes);
  return worlds;
}

std::string inverse_lists(const GraphQuestion& question, const AskedGraph& got) {
  for (int turn = 0; turn <= question.rotations; ++turn) {
    std::map<std::pair<int, int>, int> messages;  // from, to
    const auto at = static_cast<std::size_t>(turn);
    for (int node = 0; node < question.nodes; ++node) {
      const AskedPeers& peers = got.nodes[static_cast<std::size_t>(node)];
      for (const int to : peers.out[at]) ++messages[{node, to}];
      for (const int from : peers.in[at]) --messages[{from, node}];
    }
    for (const auto& [edge, count] : messages)
      if (count != 0)
        return fmt::format("turn {}: node {} {} node {}", turn, edge.second,
                           count > 0 ? "does not receive from" : "waits for", edge.first);
  }
  return {};
}
void inverse(Context& context) { judge_graphs(context, all_worlds(), 9, inverse_lists); }

std::string entries_once(const GraphQuestion& question, const AskedGraph& got) {
  for (int node = 0; node < question.nodes; ++node) {
    std::set<int> seen;
    for (const int entry : got.books[static_cast<std::size_t>(node)]) {
      if (entry < 0 || entry >= question.nodes) return fmt::format("node {} has the entry {}", node, entry);
      if (entry == node) return fmt::format("node {} names itself", node);
      if (!seen.insert(entry).second) return fmt::format("node {} names node {} twice", node, entry);
    }
    for (const auto& out : got.nodes[static_cast<std::size_t>(node)].out)
      if (std::set<int>(out.begin(), out.end()).size() != out.size())
        return fmt::format("node {} sends to {} in a round", node, out);
  }
  return {};
}
void no_repeats(Context& context) { judge_graphs(context, {2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17}, 5, entries_once); }

std::string edges_of_the_name(const GraphQuestion& question, const AskedGraph& got) {
  for (int from = 0; from < question.nodes; ++from) {
    const auto& book = got.books[static_cast<std::size_t>(from)];
    for (int to = 0; to < question.nodes; ++to) {
      const bool is_there = std::ranges::find(book, to) != book.end();
      if (is_there != is_edge(question, from, to))
        return fmt::format("node {} {} node {}", from, is_there ? "can send to" : "cannot send to", to);
    }
  }
  return {};
}
// Those of the name, and a mesh of each number of rows and a star of each center that are asked for.
void named(Context& context) {
  const std::string& graph = context.parameters().text("graph");
  judge_graphs(context, {2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 16, 20, 27}, 0, edges_of_the_name);
  std::vector<json> others;
  if (graph == "mesh") others = {{{"rows", 0}}, {{"rows", 1}}, {{"rows", 2}}, {{"rows", 4}}, {{"rows", 8}}};
  if (graph == "star") others = {{{"center", 0}}, {{"center", 1}}, {{"center", 7}}};
  for (const json& other : others) try {
      const GraphQuestion question{.graph = graph, .nodes = 8, .others = other};
      const auto got = ask_graph(context.adapter(), question);
      const std::string problem = got ? edges_of_the_name(question, *got) : "is refused";
      if (!problem.empty()) return report_words(question.words() + ": " + problem);
    } catch (const std::runtime_error& error) {
      return report_words(error.what());
    }
}

// The peers at the distances that `distances_of` makes of every power of the base below the number of nodes, in the
// lists of the first and the last node. "" when none is missing.
using DistancesOfPower = std::function<std::vector<std::int64_t>(std::int64_t power)>;
std::string missing_level(suite::Adapter& adapter, json args, int base, const DistancesOfPower& distances_of) {
  const std::int64_t nodes = args.at("world_size");
  args["book_rows"] = {0, nodes - 1};
  return problem_of(adapter, kGraph, args, [&](const json& result) -> std::string {
    for (const std::int64_t node : {std::int64_t{0}, nodes - 1}) {
      const auto book = result.at("book_rows").at(std::to_string(node)).get<std::vector<std::int64_t>>();
      const std::set<std::int64_t> peers(book.begin(), book.end());
      for (std::int64_t power = 1; power <= nodes - 1; power *= base)
        for (const std::int64_t distance : distances_of(power)) {
          const std::int64_t peer = ((node + distance) % nodes + nodes) % nodes;
          if (peer != node && !peers.contains(peer))
            return fmt::format("{}: node {} has no peer at distance {}: {}", args.dump(), node, distance, book);
        }
    }
    return {};
  });
}

void levels(Context& context) {
  const int peers = static_cast<int>(context.parameters().number("peers"));
  for (std::int64_t power = 1; power < (1 << 20); power *= peers + 1)
    for (const std::int64_t nodes : {power, power + 1, power + 2}) {
      if (nodes < 2) continue;
      const json args{
          {"graph", "n-peer-exponential"}, {"world_size", nodes}, {"peers_per_itr", peers}, {"book_rows", {0}}};
      // A list with fewer entries than peers is rejected; above this number of nodes there are enough.
      if (nodes <= 2 * peers && answer_to(context.adapter(), kGraph, args).is_refused()) continue;
      const std::string problem =
          missing_level(context.adapter(), args, peers + 1, [](std::int64_t at) { return std::vector{at}; });
      if (!problem.empty()) return report_words(problem);
    }
}

// The graphs whose base is 2. Nodes of a bipartite one are joined at odd distances: 1, and one above each power.
void levels_of_two(Context& context) {
  const std::string& graph = context.parameters().text("graph");
  const bool two_sides = graph == "bipartite-exponential";
  const auto distances = [&](std::int64_t power) -> std::vector<std::int64_t> {
    if (graph == "static-exponential") return {power};
    if (!two_sides) return {power, -power};
    if (power == 1) return {1, -1};
    return {1 + power, -1 - power};
  };
  for (std::int64_t power = 1; power < (1 << 20); power *= 2)
    for (const std::int64_t nodes : {power, power + 1, power + 2}) {
      if (nodes < 2 || (two_sides && nodes % 2 != 0)) continue;
      const std::string problem =
          missing_level(context.adapter(), {{"graph", graph}, {"world_size", nodes}}, 2, distances);
      if (!problem.empty()) return report_words(problem);
    }
}

void one_node(Context& context) {
  const GraphQuestion question{.graph = context.parameters().text("graph"), .rotations = 2};
  try {
    const auto got = ask_graph(context.adapter(), question);
    if (!got) return report_words(question.words() + " is refused");
    for (const auto& out : got->nodes.front().out)
      if (!out.empty()) report_words(fmt::format("{} sends to {}", question.words(), out));
  } catch (const std::runtime_error& error) {
    return report_words(error.what());
  }
  report_words(problem_of(
      context.adapter(), "gossip.simulate",
      {{"graph", question.graph}, {"world_size", 1}, {"rounds", 2}, {"values", {3}}},
      [](const json& result) { return first_difference({{"numerators", {3.0}}, {"weights", {1.0}}}, result); }));
  report_words(problem_of(context.adapter(), "gossip.topology", {{"topology", question.graph}, {"args", {{"size", 1}}}},
                          [](const json& result) { return first_difference({{"weights", {{1.0}}}}, result); }));
}

bool turns(const std::string& graph, int peers) {
  return graph != "ring" && graph != "random-matching" && !(takes_all_neighbours(graph) && peers == 0);
}

std::string entries_in_turn(const GraphQuestion& question, const AskedGraph& got) {
  const bool takes_turns = turns(question.graph, question.peers);
  for (std::size_t node = 0; node < got.nodes.size(); ++node)
    for (int turn = 0; turn <= question.rotations; ++turn) {
      const auto& book = got.books[node];
      const bool takes_all = takes_all_neighbours(question.graph) && question.peers == 0;
      const int peers = takes_all ? static_cast<int>(book.size()) : std::max(question.peers, 1);
      if (book.empty()) return fmt::format("node {} has an empty peer list", node);
      std::vector<int> expected;
      for (int i = 0; i < peers; ++i)
        expected.push_back(book[static_cast<std::size_t>((takes_turns ? turn * peers : 0) + i) % book.size()]);
      if (got.nodes[node].out[static_cast<std::size_t>(turn)] != expected)
        return fmt::format("node {} sends to {} in turn {}, its book is {}", node,
                           got.nodes[node].out[static_cast<std::size_t>(turn)], turn, book);
    }
  return {};
}
void in_turn(Context& context) {
  judge_graphs(context, {2, 3, 4, 6, 8, 9, 12}, 7, entries_in_turn);
  for (const int nodes : {2, 4, 6, 12}) try {
      report_words(most_peers(context, nodes));
    } catch (const std::runtime_error& error) {
      return report_words(error.what());
    }
}

std::string words_of_itself(const GraphQuestion& question, const AskedGraph& got) {
  bool is_regular = true;
  for (std::size_t turn = 0; turn <= static_cast<std::size_t>(question.rotations); ++turn)
    for (const AskedPeers& node : got.nodes) {
      const std::size_t messages = got.nodes.front().out[turn].size();
      if (node.out[turn].size() != messages || node.in[turn].size() != messages) is_regular = false;
    }
  const auto words = [](const char* what, bool is_one) {
    return fmt::format("it calls itself {}{}", is_one ? "" : "not ", what);
  };
  if (got.is_regular ? !is_regular : is_regular && question.peers == 0) return words("regular", got.is_regular);
  if (got.is_bipartite != question.graph.starts_with("bipartite")) return words("bipartite", got.is_bipartite);
  const bool changes = turns(question.graph, question.peers) || question.graph == "random-matching";
  return got.is_dynamic == changes ? "" : words("dynamic", got.is_dynamic);
}
void says_of_itself(Context& context) { judge_graphs(context, {2, 3, 4, 6, 7, 9, 12, 16}, 7, words_of_itself); }

// A number of peers that is set anew starts with the first entries.
void set_anew(Context& context) {
  const std::string& graph = context.parameters().text("graph");
  for (const int peers : {1, 2}) {
    const json fresh{{"graph", graph}, {"world_size", 8}, {"plan", {{"set", peers}, {"rotate"}}}};
    json turned = fresh;
    turned["plan"] = {{"rotate"}, {"rotate"}, {"rotate"}, {"set", peers}, {"rotate"}};
    report_words(problem_of(context.adapter(), kGraph, fresh, [&](const json& expected) {
      return problem_of(context.adapter(), kGraph, turned, [&](const json& result) -> std::string {
        for (std::size_t node = 0; node < 8; ++node)
          for (const std::size_t step : {1U, 2U}) {
            const auto out = expected.at("ranks").at(node).at(step).at("out").get<std::vector<int>>();
            if (out.empty() || std::ranges::count(out, static_cast<int>(node)) > 0 ||
                expected.at("ranks").at(node).at(step) != result.at("ranks").at(node).at(step + 3))
              return fmt::format("{}: node {} with {} peers after three turns: {}", graph, node, peers,
                                 result.at("ranks").at(node).at(step + 3).dump());
          }
        return {};
      });
    }));
  }
}

// A node of several ranks is known to senders by its first rank, and to itself by its number.
void ranks_of_nodes(Context& context) {
  const int each = static_cast<int>(context.parameters().number("ranks"));
  for (const std::string& graph : fixed_graphs()) try {
      GraphQuestion question{.graph = graph, .nodes = 6, .rotations = 4};
      const auto single = ask_graph(context.adapter(), question);
      question.ranks_per_node = each;
      const auto several = ask_graph(context.adapter(), question);
      if (!single || !several) return report_words(question.words() + " is refused");
      if (const std::string words = edges_of_the_name(question, *single); !words.empty()) return report_words(words);
      const auto first_ranks = [&](std::vector<int> peers) {
        for (int& peer : peers) peer *= each;
        return peers;
      };
      json rows = json::object();
      for (std::size_t node = 0; node < 6; ++node) {
        rows[std::to_string(node)] = first_ranks(single->books[node]);
        if (several->books[node] != rows[std::to_string(node)])
          report_words(fmt::format("{}: node {} of {} ranks has the book {}", graph, node, each, several->books[node]));
      }
      for (const json& asked : {json(rows), json({5, 0, 1, 4, 2, 3})}) {
        json args = question.args();
        args.erase("rotations");
        args["book_rows"] = asked;
        report_words(problem_of(context.adapter(), kGraph, args,
                                [&](const json& result) { return first_difference({{"book_rows", rows}}, result); }));
      }
      for (std::size_t node = 0; node < 6; ++node)
        for (std::size_t turn = 0; turn < 5; ++turn) {
          const std::vector<int> expected = first_ranks(single->nodes[node].out[turn]);
          if (several->nodes[node].out[turn] != expected)
            report_words(fmt::format("{}: node {} of {} ranks sends to {}, not to {}", graph, node, each,
                                     several->nodes[node].out[turn], expected));
          if (several->nodes[node].in[turn] != single->nodes[node].in[turn])
            report_words(fmt::format("{}: node {} of {} ranks receives from {}", graph, node, each,
                                     several->nodes[node].in[turn]));
        }
    } catch (const std::runtime_error& error) {
      return report_words(error.what());
    }
}

std::string other_side(const GraphQuestion& question, const AskedGraph& got) {
  for (int node = 0; node < question.nodes; ++node) {
    if (got.passive[static_cast<std::size_t>(node)] != (node % 2 == 0))
      return fmt::format("node {} is {}passive", node, node % 2 == 0 ? "not " : "");
    for (const auto& out : got.nodes[static_cast<std::size_t>(node)].out)
      for (const int peer : out)
        if (peer % 2 == node % 2) return fmt::format("node {} sends to node {} of its own side", node, peer);
  }
  return {};
}
void sides(Context& context) {
  judge_graphs(context, {2, 4, 6, 8, 10, 12, 16, 22}, 7, other_side);
  for (const int odd : {3, 5, 9})
    report_words(problem_of_refusal(context.adapter(), kGraph,
                                    {{"graph", context.parameters().text("graph")}, {"world_size", odd}}));
  for (const int nodes : {2, 4, 8})
    report_words(
        problem_of(context.adapter(), "gossip.blocking",
                   {{"graph", context.parameters().text("graph")}, {"world_size", nodes}, {"peers_per_itr", 1}},
                   [](const json& result) { return first_difference({{"blocked", false}}, result); }));
}

std::string matched_pairs(const GraphQuestion& question, const AskedGraph& got) {
  std::set<std::vector<int>> rounds;
  for (int turn = 0; turn <= question.rotations; ++turn) {
    const auto at = static_cast<std::size_t>(turn);
    std::vector<int> partners;
    int alone = 0;
    for (int node = 0; node < question.nodes; ++node) {
      const AskedPeers& peers = got.nodes[static_cast<std::size_t>(node)];
      if (peers.out[at] != peers.in[at])
        return fmt::format("turn {}: node {} hears from others than it sends to", turn, node);
      if (peers.out[at].size() > 1 || std::ranges::find(peers.out[at], node) != peers.out[at].end())
        return fmt::format("turn {}: node {} is paired with {}", turn, node, peers.out[at]);
      alone += peers.out[at].empty() ? 1 : 0;
      partners.push_back(peers.out[at].empty() ? node : peers.out[at].front());
      if (!peers.out[at].empty()) {
        const auto& back = got.nodes[static_cast<std::size_t>(partners.back())].out[at];
        if (back != std::vector{node})
          return fmt::format("turn {}: node {} is paired with {}, which is with {}", turn, node, partners.back(), back);
      }
    }
    if (alone != question.nodes % 2) return fmt::format("turn {}: {} nodes are alone", turn, alone);
    rounds.insert(partners);
  }
  // Of six nodes there are 15 matchings; of as many turns as these few alike are no drawing of lots.
  const std::size_t least = question.rotations < 100 ? 3 : 15;
  if (question.nodes >= 6 && rounds.size() < least)
    return fmt::format("{} different matchings in {} turns", rounds.size(), question.rotations + 1);
  return {};
}
// Several peers a round are several matchings: each is another node's, and one node is alone in each of an odd number.
std::string several_matchings(const GraphQuestion& question, const AskedGraph& got) {
  for (std::size_t turn = 0; turn <= static_cast<std::size_t>(question.rotations); ++turn) {
    int alone = 0;
    for (const AskedPeers& node : got.nodes) {
      if (node.out[turn] != node.in[turn]) return fmt::format("turn {}: a node hears from {}", turn, node.in[turn]);
      alone += question.peers - static_cast<int>(node.out[turn].size());
    }
    if (alone != question.nodes % 2 * question.peers) return fmt::format("turn {}: {} are alone", turn, alone);
  }
  return entries_once(question, got);
}

// The same rounds and seeds but for their upper halves.
std::string draws_of_large_numbers(suite::Adapter& adapter) {
  std::set<json> drawn;
  constexpr std::int64_t far = std::int64_t{1} << 32;
  const std::vector<std::pair<std::int64_t, std::int64_t>> rounds_and_seeds{{3, 5}, {3 + far, 5}, {3, 5 + far}, {5, 3}};
  for (const auto& [round, seed] : rounds_and_seeds) {
    const json args{{"topology", "random-matching"}, {"args", {{"size", 33}, {"round", round}, {"seed", seed}}}};
    const std::string problem = problem_of(adapter, "gossip.topology", args, [&](const json& result) {
      return drawn.insert(result.at("weights")).second ? "" : args.dump() + " draws what another round or seed draws";
    });
    if (!problem.empty()) return problem;
  }
  return {};
}

void matchings(Context& context) {
  report_words(draws_of_large_numbers(context.adapter()));
  for (const int nodes : {2, 5, 6, 9}) try {
      for (const int peers : {nodes - 1, (nodes + 1) / 2}) {
        const GraphQuestion question{.graph = "random-matching", .nodes = nodes, .peers = peers, .rotations = 3};
        const auto got = ask_graph(context.adapter(), question);
        const std::string problem = got ? several_matchings(question, *got) : "it is refused";
        if (!problem.empty()) return report_words(question.words() + ": " + problem);
      }
    } catch (const std::runtime_error& error) {
      return report_words(error.what());
    }
  for (const auto& [nodes, rotations] : {std::pair{2, 9}, {3, 9}, {6, 200}, {7, 200}, {8, 9}, {12, 9}, {33, 9}}) try {
      const GraphQuestion question{.graph = "random-matching", .nodes = nodes, .rotations = rotations};
      const auto got = ask_graph(context.adapter(), question);
      if (!got) return report_words(question.words() + " is refused");
      const std::string problem = matched_pairs(question, *got);
      if (!problem.empty()) return report_words(question.words() + ": " + problem);
      json other = question.args();
      other["seed"] = 99;
      const Answer again = answer_to(context.adapter(), kGraph, question.args());
      const Answer seeded = answer_to(context.adapter(), kGraph, other);
      if (again.result.at("ranks").at(0).at("out") != json(got->nodes.front().out))
        return report_words(question.words() + ": another answer to the same question");
      if (nodes >= 6 && again.result.at("ranks") == seeded.result.at("ranks"))
        return report_words(question.words() + ": another seed draws the same");
    } catch (const std::exception& error) {
      return report_words(error.what());
    }
}

void refusals(Context& context) {
  const std::string what = context.parameters().text("what");
  const auto set_peers = [](int peers) { return json::array({json::array({"set", peers})}); };
  const std::map<std::string, std::vector<json>> questions{
      {"unknown_graph", {{{"graph", "torus"}, {"world_size", 4}}, {{"graph", ""}, {"world_size", 4}}}},
      {"too_many_peers",
       {{{"graph", "ring"}, {"world_size", 6}, {"peers_per_itr", 3}},
        {{"graph", "n-peer-exponential"}, {"world_size", 3}, {"peers_per_itr", 3}},
        {{"graph", "star"}, {"world_size", 6}, {"peers_per_itr", 2}},
        {{"graph", "complete"}, {"world_size", 5}, {"peers_per_itr", 5}},
        {{"graph", "random-matching"}, {"world_size", 4}, {"peers_per_itr", 4}},
        {{"graph", "ring"}, {"world_size", 6}, {"plan", set_peers(3)}}}},
      {"no_peers",
       {{{"graph", "ring"}, {"world_size", 6}, {"peers_per_itr", 0}},
        {{"graph", "ring"}, {"world_size", 6}, {"peers_per_itr", -1}},
        {{"graph", "ring"}, {"world_size", 6}, {"plan", set_peers(0)}},
        {{"graph", "ring"}, {"world_size", 6}, {"plan", set_peers(-1)}}}},
      {"no_nodes", {{{"graph", "ring"}, {"world_size", 0}}, {{"graph", "ring"}, {"world_size", -2}}}},
      {"no_ranks",
       {{{"graph", "ring"}, {"world_size", 4}, {"nprocs_per_node", 0}},
        {{"graph", "ring"}, {"world_size", 4}, {"nprocs_per_node", -1}},
        {{"graph", "ring"}, {"world_size", 4}, {"book_rows", {4}}},
        {{"graph", "ring"}, {"world_size", 4}, {"book_rows", {-1}}}}},
      {"odd_sides",
       {{{"graph", "bipartite-linear"}, {"world_size", 7}}, {{"graph", "bipartite-exponential"}, {"world_size", 3}}}},
      {"no_mesh",
       {{{"graph", "mesh"}, {"world_size", 6}, {"rows", 4}},
        {{"graph", "mesh"}, {"world_size", 6}, {"rows", 7}},
        {{"graph", "mesh"}, {"world_size", 6}, {"rows", -2}},
        {{"graph", "star"}, {"world_size", 6}, {"center", 6}},
        {{"graph", "star"}, {"world_size", 6}, {"center", -1}}}}};
  for (const json& args : questions.at(what)) report_words(problem_of_refusal(context.adapter(), kGraph, args));
}

// The same of the library, which nobody asks but programs.
void refuses_options(Context&) {
  using gossip::GraphKind;
  const std::vector<gossip::GraphOptions> wrong{{.kind = GraphKind::ring, .nodes = 0},
                                                {.kind = GraphKind::complete, .nodes = -2},
                                                {.kind = GraphKind::random_matching, .nodes = 0},
                                                {.kind = GraphKind::ring, .nodes = 4, .ranks_per_node = 0},
                                                {.kind = GraphKind::star, .nodes = 4, .ranks_per_node = -1},
                                                {.kind = GraphKind::ring, .nodes = 6, .peers = -1},
                                                {.kind = GraphKind::random_matching, .nodes = 4, .peers = 4},
                                                {.kind = GraphKind::bipartite_linear, .nodes = 7},
                                                {.kind = GraphKind::mesh, .nodes = 6, .rows = 4},
                                                {.kind = GraphKind::mesh, .nodes = 6, .rows = -2},
                                                {.kind = GraphKind::star, .nodes = 6, .center = 6},
                                                {.kind = GraphKind::star, .nodes = 6, .center = -1}};
  for (std::size_t i = 0; i < wrong.size(); ++i)
    EXPECT_THROW((void)gossip::Graph(wrong[i]), InvalidArgument) << "GOSSIP-020: options " << i;
  const auto of_rows = [](std::vector<std::vector<int>> rows, int peers) {
    return gossip::Graph(std::move(rows), peers, gossip::Convention::plumbline, false);
  };
  for (const int other : {-1, 2, 3})
    EXPECT_THROW((void)of_rows({{1}, {other}}, 1), InvalidArgument) << "GOSSIP-020: a row of node " << other;
  EXPECT_THROW((void)of_rows({}, 1), InvalidArgument) << "GOSSIP-020: no rows";
  EXPECT_THROW((void)of_rows({{1}, {0}}, 2), InvalidArgument) << "GOSSIP-020: more peers than entries";
  EXPECT_EQ(of_rows({{1}, {0}}, 1).nodes(), 2) << "GOSSIP-020";
}

}  // namespace

void add_gossip_graph_checks(suite::Suite& suite) {
  const AskedOption of_case{kGraph, "graph", {}, "graph"};
  const auto of_graphs = [](std::vector<std::string> graphs) {
    return std::vector<AskedOption>{{kGraph, "graph", std::move(graphs)}};
  };
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<std::string> operations = {kGraph}, std::vector<AskedOption> options = {}) {
    if (options.empty()) options = {of_case};
    suite.add({.id = std::string("gossip.graph.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = std::move(operations),
               .options = options_of(std::move(options)),
               .body = body});
  };
  const suite::Axis all{"graph", all_graphs()};
  add("inverse", "GOSSIP-010@3251", {all}, inverse);
  add("no_repeats", "GOSSIP-011@2de6", {all}, no_repeats);
  add("named", "GOSSIP-012@1d18", {all}, named);
  add("levels", "GOSSIP-013@3ab0", {{"peers", {"1", "2", "3", "4", "9"}}}, levels, {kGraph},
      of_graphs({"n-peer-exponential"}));
  add("levels_of_two", "GOSSIP-013@3ab0",
      {{"graph", {"bipartite-exponential", "directed-exponential", "static-exponential"}}}, levels_of_two);
  add("one_node", "GOSSIP-014@4d3b", {all}, one_node, {kGraph, "gossip.simulate", "gossip.topology"},
      {of_case,
       {"gossip.simulate", "graph", {}, "graph"},
       {"gossip.simulate", "mixing", {"uniform"}},
       {"gossip.topology", "topology", {}, "graph"},
       {"gossip.topology", "args.mixing", {"uniform"}}});
  add("in_turn", "GOSSIP-015@aa7c",
      {{"graph",
        {"directed-exponential", "n-peer-exponential", "bipartite-exponential", "directed-linear", "bipartite-linear",
         "ring", "static-exponential", "mesh", "star", "complete"}}},
      in_turn);
  add("says_of_itself", "GOSSIP-029@da1b", {all}, says_of_itself);
  add("set_anew", "GOSSIP-016@b325",
      {{"graph",
        {"directed-exponential", "n-peer-exponential", "bipartite-exponential", "directed-linear", "bipartite-linear",
         "ring"}}},
      set_anew);
  add("ranks_of_nodes", "GOSSIP-017@5af0", {{"ranks", {"1", "2", "3"}}}, ranks_of_nodes, {kGraph},
      of_graphs({"bipartite-exponential", "bipartite-linear", "complete", "directed-exponential", "directed-linear",
                 "mesh", "n-peer-exponential", "ring", "star", "static-exponential"}));
  add("sides", "GOSSIP-018@0b91", {{"graph", {"bipartite-exponential", "bipartite-linear"}}}, sides,
      {kGraph, "gossip.blocking"}, {of_case, {"gossip.blocking", "graph", {}, "graph"}});
  add("matchings", "GOSSIP-019@9866", {}, matchings, {kGraph, "gossip.topology"},
      {{kGraph, "graph", {"random-matching"}},
       {"gossip.topology", "topology", {"random-matching"}},
       {"gossip.topology", "args.mixing", {"uniform"}}});
  add("refusals", "GOSSIP-020@95c6",
      {{"what", {"unknown_graph", "too_many_peers", "no_peers", "no_nodes", "no_ranks", "odd_sides", "no_mesh"}}},
      refusals, {kGraph},
      {{kGraph,
        "graph",
        {},
        "what",
        {{"unknown_graph", {"ring"}},
         {"too_many_peers", {"complete", "n-peer-exponential", "random-matching", "ring", "star"}},
         {"no_peers", {"ring"}},
         {"no_nodes", {"ring"}},
         {"no_ranks", {"ring"}},
         {"odd_sides", {"bipartite-exponential", "bipartite-linear"}},
         {"no_mesh", {"mesh", "star"}}}}});
  suite.add({.id = "gossip.graph.refuses_options",
             .verifies = {"GOSSIP-020@95c6"},
             .axes = {suite::worlds({1})},
             .body = refuses_options});
}

}  // namespace plumbline::conformance
