// Rounds of push-sum as an adapter answers them, node by node: what they conserve, where they go, who sends to whom.
#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

constexpr const char* kTracedRounds = "gossip.trace";
constexpr std::size_t kTracedElements = 3;

using PeersOfNodes = std::vector<std::vector<int>>;

// Of a hub node 0 sends to node 1, others to node 0 and the next one in turn; of chords each to the next and the one
// after that.
PeersOfNodes peers_named(const std::string& graph, int nodes) {
  PeersOfNodes rows;
  for (int node = 0; node < nodes; ++node) {
    const int next = (node + 1) % nodes;
    if (graph == "ring") rows.push_back({next});
    if (graph == "chords") rows.push_back(nodes > 2 ? std::vector{next, (node + 2) % nodes} : std::vector{next});
    if (graph != "hub") continue;
    rows.push_back({node == 0 ? next : 0});
    if (node > 0 && next != 0) rows.back().push_back(next);
  }
  return rows;
}

// Whole numbers, and of the first element their sum is 0.
double start_value(int node, int nodes, std::size_t element) {
  return element == 0 ? 2.0 * node - (nodes - 1)
                      : static_cast<double>((node * 7 + static_cast<int>(element) * 5) % 11 - 3);
}

struct AskedRounds {
  int nodes = 3, rounds = 12;
  json options = json::object();
  [[nodiscard]] json question() const {
    json args{{"algorithm", "PushSum"},
              {"world_size", nodes},
              {"rounds", rounds},
              {"dtype", "float64"},
              {"mixing", "uniform"}};
    args.update(options);
    for (int node = 0; node < nodes; ++node) {
      json& values = args["ranks"].emplace_back(json::object())["x0"];
      for (std::size_t i = 0; i < kTracedElements; ++i) values.push_back(start_value(node, nodes, i));
    }
    return args;
  }
};

AskedRounds rounds_in(const Context& context) {
  AskedRounds asked{.nodes = static_cast<int>(context.parameters().number("nodes"))};
  if (context.parameters().has("mixing")) asked.options["mixing"] = context.parameters().text("mixing");
  const std::string& graph = context.parameters().text("graph");
  if (graph == "ring" || graph == "hub" || graph == "chords")
    asked.options.update(
        {{"phone_book", peers_named(graph, asked.nodes)}, {"regular", graph != "hub"}, {"peers_per_itr", 1}});
  else
    asked.options["graph"] = graph;
  return asked;
}

// A node after a round. Throws as at() where something is missing.
struct TracedNode {
  std::vector<double> values, estimates;
  double weight = 1;
  std::vector<int> out, in;
};

std::vector<TracedNode> nodes_after(const json& result, const AskedRounds& asked, int round) {
  std::vector<TracedNode> nodes;
  for (const json& rank : result.at("ranks")) {
    const json& row = rank.at("rounds").at(static_cast<std::size_t>(round));
    nodes.push_back({.values = row.at("x").get<std::vector<double>>(),
                     .estimates = row.at("debiased").get<std::vector<double>>(),
                     .weight = row.at("w").get<double>()});
    for (const auto& [field, list] : {std::pair("out", &nodes.back().out), {"in", &nodes.back().in}})
      for (const json& peer : row.at(field)) {
        if (!peer.is_number_integer() || peer < 0 || peer >= asked.nodes)
          throw std::out_of_range(fmt::format("node {} is no peer", peer.dump()));
        list->push_back(peer.get<int>());
      }
    if (nodes.back().values.size() != kTracedElements || nodes.back().estimates.size() != kTracedElements)
      throw std::out_of_range("another number of elements");
  }
  if (nodes.size() != static_cast<std::size_t>(asked.nodes)) throw std::out_of_range("another number of nodes");
  return nodes;
}

using JudgeRound = std::function<std::string(const std::vector<TracedNode>& nodes, int round)>;
void report_rounds(Context& context, const AskedRounds& asked, const JudgeRound& judge) {
  report_words(problem_of(context.adapter(), kTracedRounds, asked.question(), [&](const json& result) -> std::string {
    for (int round = 0; round < asked.rounds; ++round)
      if (std::string words = judge(nodes_after(result, asked, round), round); !words.empty())
        return fmt::format("after round {}: {}", round, words);
    return {};
  }));
}

double mean_at_start(int nodes, std::size_t element) {
  double sum = 0;
  for (int node = 0; node < nodes; ++node) sum += start_value(node, nodes, element);
  return sum / nodes;
}

void traced_mass(Context& context) {
  const AskedRounds asked = rounds_in(context);
  report_rounds(context, asked, [&](const std::vector<TracedNode>& nodes, int) -> std::string {
    double weights = 0;
    for (const TracedNode& node : nodes) {
      weights += node.weight;
      if (!(node.weight > 0)) return fmt::format("a weight is {}", node.weight);
    }
    if (!(std::abs(weights - asked.nodes) <= 1e-9))
      return fmt::format("the weights of {} nodes sum to {}", asked.nodes, weights);
    for (std::size_t i = 0; i < kTracedElements; ++i) {
      double sum = 0;
      for (const TracedNode& node : nodes) sum += node.values[i];
      if (const double right = asked.nodes * mean_at_start(asked.nodes, i); !(std::abs(sum - right) <= 1e-9))
        return fmt::format("element {} sums to {}, it must sum to {}", i, sum, right);
    }
    return {};
  });
}

void traced_estimate(Context& context) {
  AskedRounds asked = rounds_in(context);
  asked.rounds = 150;
  report_rounds(context, asked, [&](const std::vector<TracedNode>& nodes, int round) -> std::string {
    for (std::size_t node = 0; node < nodes.size(); ++node)
      for (std::size_t i = 0; i < kTracedElements; ++i) {
        const double estimate = nodes[node].estimates[i], numerator = estimate * nodes[node].weight;
        if (!(std::abs(numerator - nodes[node].values[i]) <= 1e-9))
          return fmt::format("node {}: estimate times weight is {}, not the numerator {}", node, numerator,
                             nodes[node].values[i]);
        if (const double mean = mean_at_start(asked.nodes, i); round == 149 && !(std::abs(estimate - mean) <= 1e-6))
          return fmt::format("node {}: the estimate is {}, the mean {}", node, estimate, mean);
      }
    return {};
  });
}

// By the recurrence: what each node keeps, and what its one peer of the round gets.
std::vector<TracedNode> recurrence(const AskedRounds& asked, const PeersOfNodes& rows, bool is_skewed, int rounds) {
  std::vector<TracedNode> now(rows.size());
  for (std::size_t node = 0; node < rows.size(); ++node)
    for (std::size_t i = 0; i < kTracedElements; ++i)
      now[node].values.push_back(start_value(static_cast<int>(node), asked.nodes, i));
  for (int round = 0; round < rounds; ++round) {
    std::vector<TracedNode> next(rows.size());
    for (TracedNode& node : next) node.values.assign(kTracedElements, 0), node.weight = 0;
    for (std::size_t node = 0; node < rows.size(); ++node) {
      const int peer = rows[node][static_cast<std::size_t>(round) % rows[node].size()];
      const double kept = is_skewed ? 1.0 / static_cast<double>(2 + node % 3) : 0.5;
      const auto give = [&](std::size_t to, double share) {
        next[to].weight += share * now[node].weight;
        for (std::size_t i = 0; i < kTracedElements; ++i) next[to].values[i] += share * now[node].values[i];
      };
      give(node, kept);
      give(static_cast<std::size_t>(peer), 1 - kept);
      next[node].out = {peer};
      next[static_cast<std::size_t>(peer)].in.push_back(static_cast<int>(node));
    }
    now = std::move(next);
  }
  return now;
}

std::string difference_of_values(const std::vector<TracedNode>& right, const std::vector<TracedNode>& got,
                                 double near) {
  for (std::size_t node = 0; node < right.size(); ++node) {
    if (!(std::abs(got[node].weight - right[node].weight) <= 1e-6))
      return fmt::format("node {}: the weight is {}, it must be {}", node, got[node].weight, right[node].weight);
    for (std::size_t i = 0; i < kTracedElements; ++i)
      if (!(std::abs(got[node].values[i] - right[node].values[i]) <= near * 10))  // no value is larger
        return fmt::format("node {}: element {} is {}, it must be {}", node, i, got[node].values[i],
                           right[node].values[i]);
  }
  return {};
}

// Each round rounds twice or three times to the type.
void traced_types(Context& context) {
  AskedRounds asked = rounds_in(context);
  const std::string& dtype = context.parameters().text("dtype");
  asked.rounds = 6;
  asked.options["dtype"] = dtype;
  const double unit = dtype == "float16"    ? 0x1p-11
                      : dtype == "bfloat16" ? 0x1p-8
                      : dtype == "float32"  ? 0x1p-24
                                            : 0x1p-53;
  const bool is_skewed = context.parameters().text("mixing") == "skew";
  const PeersOfNodes rows = peers_named(context.parameters().text("graph"), asked.nodes);
  report_rounds(context, asked, [&](const std::vector<TracedNode>& nodes, int round) {
    return difference_of_values(recurrence(asked, rows, is_skewed, round + 1), nodes, 3 * unit * (round + 1));
  });
}

// One rotation a round: the peers of each round, and what they have of it.
void traced_rotation(Context& context) {
  AskedRounds asked = rounds_in(context);
  asked.rounds = 7;
  const PeersOfNodes rows = peers_named(context.parameters().text("graph"), asked.nodes);
  report_rounds(context, asked, [&](std::vector<TracedNode> nodes, int round) -> std::string {
    std::vector<TracedNode> right = recurrence(asked, rows, false, round + 1);
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      std::ranges::sort(nodes[node].in);
      if (nodes[node].out != right[node].out || nodes[node].in != right[node].in)
        return fmt::format("node {} sends to {} and receives from {}, it must be {} and {}", node,
                           json(nodes[node].out).dump(), json(nodes[node].in).dump(), json(right[node].out).dump(),
                           json(right[node].in).dump());
    }
    return difference_of_values(right, nodes, 1e-9);
  });
}

// After one round of a complete graph, or log2(n) of the one-peer exponential one.
void traced_exact(Context& context) {
  AskedRounds asked = rounds_in(context);
  const bool is_complete = context.parameters().text("graph") == "complete";
  int needed = 0;
  while (!is_complete && 1 << needed < asked.nodes) ++needed;
  needed = is_complete ? 1 : needed;
  asked.rounds = needed + 1;
  report_rounds(context, asked, [&](const std::vector<TracedNode>& nodes, int round) -> std::string {
    for (std::size_t node = 0; node < nodes.size() && round + 1 >= needed; ++node)
      for (std::size_t i = 0; i < kTracedElements; ++i)
        if (const double mean = mean_at_start(asked.nodes, i); !(std::abs(nodes[node].estimates[i] - mean) <= 1e-9))
          return fmt::format("node {}: element {} is {}, the mean is {}", node, i, nodes[node].estimates[i], mean);
    return {};
  });
}

bool has_power_of_two(const suite::Parameters& parameters) {
  const auto nodes = parameters.number("nodes");
  return !parameters.has("graph") || parameters.text("graph") != "n-peer-exponential" || (nodes & (nodes - 1)) == 0;
}

}  // namespace

void add_gossip_trace_checks(suite::Suite& suite) {
  const suite::Axis mixing{"mixing", {"uniform", "skew"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<AskedOption> options = {}, std::vector<std::string> nodes = {"2", "3", "5"}) {
    const bool mixes = axes.size() > 1 && axes[1].name == "mixing";
    axes.push_back({"nodes", std::move(nodes)});
    options.push_back({kTracedRounds, "algorithm", {"PushSum"}});
    if (options.front().argument != "dtype") options.push_back({kTracedRounds, "dtype", {"float64"}});
    options.push_back(mixes ? AskedOption{kTracedRounds, "mixing", {}, "mixing"}
                            : AskedOption{kTracedRounds, "mixing", {"uniform"}});
    suite.add({.id = std::string("gossip.rounds.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .applies = has_power_of_two,
               .operations = {kTracedRounds},
               .options = options_of(std::move(options)),
               .body = body});
  };
  const AskedOption graph{
      kTracedRounds, "graph", {}, "graph", {{"random-matching", {"random-matching"}}, {"star", {"star"}}}};
  add("mass", "GOSSIP-030@007e", {{"graph", {"hub", "chords", "ring", "star"}}, mixing}, traced_mass, {graph});
  add("estimate", "GOSSIP-032@d398", {{"graph", {"hub", "chords", "ring"}}, mixing}, traced_estimate);
  add("types", "GOSSIP-034@f873",
      {{"graph", {"hub", "ring"}}, mixing, {"dtype", {"float16", "bfloat16", "float32", "float64"}}}, traced_types,
      {{kTracedRounds, "dtype", {}, "dtype"}});
  add("rotation", "GOSSIP-036@9dfa", {{"graph", {"hub", "chords", "ring"}}}, traced_rotation);
  add("exact", "GOSSIP-037@c6d2", {{"graph", {"complete", "n-peer-exponential"}}}, traced_exact,
      {{kTracedRounds, "graph", {}, "graph"}}, {"2", "3", "4", "5", "8"});
}

}  // namespace plumbline::conformance
