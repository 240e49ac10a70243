// Shares, rates of agreement, and values without messages.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <regex>
#include <set>

#include <fmt/format.h>

#include "conformance/gossip/asked_graph.hpp"
#include "conformance/gossip/gossip_checks.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

const char* const kTopology = "gossip.topology";
const char* const kSpectrum = "gossip.spectrum";
const char* const kSimulate = "gossip.simulate";
const char* const kGraphAnswers = "gossip.graph";

using Rows = std::vector<std::vector<double>>;

bool near(double a, double b, double bound) { return std::abs(a - b) <= bound; }

json with_peers(json args, const char* field, int peers) {
  if (peers > 0) args[field] = peers;
  return args;
}

// The weights of an answer about so many nodes; std::out_of_range for those of others.
Rows rows_of(const json& answer, std::size_t nodes) {
  Rows rows = answer.at("weights");
  if (rows.size() != nodes || !std::ranges::all_of(rows, [&](const auto& row) { return row.size() == nodes; }))
    throw std::out_of_range("weights");
  return rows;
}

// ---- shares ----

// A round's weights, beside which peers nodes have in it, asked as a graph.
struct Asked {
  json answer;
  Rows weights;
  AskedGraph graph;
  std::size_t round = 0;
  [[nodiscard]] const std::vector<int>& out(std::size_t node) const { return graph.nodes[node].out[round]; }
};

// Whether each node is sent to by exactly those that it sends to, in one round.
bool all_answer(const AskedGraph& graph, std::size_t round) {
  return std::ranges::all_of(graph.nodes, [&](const AskedPeers& node) {
    const std::multiset<int> out(node.out[round].begin(), node.out[round].end());
    return out == std::multiset<int>(node.in[round].begin(), node.in[round].end());
  });
}

// Metropolis-Hastings weights exist where whoever is sent to answers.
template <class Judge>
std::string problem_of_shares(Context& context, const GraphQuestion& question, const Judge& judge) {
  const auto asked = ask_graph(context.adapter(), question);
  if (!asked) return {};
  const bool exist = context.parameters().text("mixing") != "metropolis-hastings" ||
                     all_answer(*asked, static_cast<std::size_t>(question.rotations));
  json args{{"size", question.nodes}, {"mixing", context.parameters().text("mixing")}, {"round", question.rotations}};
  if (question.peers > 0) args["peers"] = question.peers;
  args.update(question.others);
  if (!exist) return {};
  const std::string problem =
      problem_of(context.adapter(), kTopology, {{"topology", question.graph}, {"args", args}}, [&](const json& result) {
        return judge({.answer = result,
                      .weights = rows_of(result, asked->nodes.size()),
                      .graph = *asked,
                      .round = static_cast<std::size_t>(question.rotations)});
      });
  return problem.empty() ? "" : question.words() + ": " + problem;
}

// Shares of every graph that takes that many nodes, with the mixing of the case: in several rounds, with its own number
// of peers and with others, of another shape.
template <class Judge>
void judge_shares(Context& context, const Judge& judge) {
  const std::string& graph = context.parameters().text("graph");
  std::vector<GraphQuestion> questions;
  for (const int nodes : {1, 2, 3, 4, 5, 6, 7, 9, 12})
    for (const int peers : {0, 1, 2})
      for (const int rotations : {0, 3})
        if (!graph.starts_with("bipartite") || nodes % 2 == 0 || nodes == 1)
          questions.push_back({.graph = graph, .nodes = nodes, .peers = peers, .rotations = rotations});
  const std::map<std::string, json> others{
      {"mesh", {{"rows", 4}}}, {"star", {{"center", 7}}}, {"random-matching", {{"seed", 77}}}};
  if (others.contains(graph)) questions.push_back({.graph = graph, .nodes = 8, .others = others.at(graph)});
  for (const GraphQuestion& question : questions) try {
      const std::string problem = problem_of_shares(context, question, judge);
      if (!problem.empty()) return report_words(problem);
    } catch (const std::runtime_error& error) {
      return report_words(error.what());
    }
}

// What nodes send and receive, once more by node, and what is said of all.
std::string problem_of_views(const Asked& asked) {
  const std::size_t nodes = asked.weights.size();
  json send = json::array(), recv = json::array();
  bool columns_one = true;
  for (std::size_t node = 0; node < nodes; ++node) {
    json to = json::object(), from = json::object();
    double received = 0;
    for (std::size_t other = 0; other < nodes; ++other) {
      received += asked.weights[other][node];
      if (other == node) continue;
      if (asked.weights[node][other] != 0) to[std::to_string(other)] = asked.weights[node][other];
      if (asked.weights[other][node] != 0) from[std::to_string(other)] = asked.weights[other][node];
    }
    columns_one = columns_one && near(received, 1, 1e-9);
    send.push_back({{"self", asked.weights[node][node]}, {"neighbors", to}});
    recv.push_back({{"self", asked.weights[node][node]}, {"neighbors", from}});
    for (const auto& [list, views] : {std::pair{"send", &send}, {"recv", &recv}})
      if (asked.answer.at(list).at(node) != views->back())
        return fmt::format("{} of node {} is {}, by the weights {}", list, node, asked.answer.at(list).at(node).dump(),
                           views->back().dump());
  }
  return first_difference(
      {{"row_sums_one", true}, {"column_sums_one", columns_one}, {"regular", asked.graph.is_regular}}, asked.answer);
}

std::string problem_of_rows(const Asked& asked) {
  for (std::size_t from = 0; from < asked.weights.size(); ++from) {
    const auto& row = asked.weights[from];
    if (row.size() != asked.weights.size()) return fmt::format("node {} has {} shares", from, row.size());
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    if (!near(sum, 1, 1e-14)) return fmt::format("the shares of node {} add up to {}", from, sum);
    if (!(row[from] > 0)) return fmt::format("node {} keeps {}", from, row[from]);
    const auto& out = asked.out(from);
    for (std::size_t to = 0; to < row.size(); ++to) {
      const bool is_peer = std::ranges::find(out, static_cast<int>(to)) != out.end();
      if (to != from && (row[to] > 0) != is_peer)
        return fmt::format("node {} sends {} to node {}, which is {} peer", from, row[to], to, is_peer ? "a" : "no");
    }
  }
  return problem_of_views(asked);
}
void stochastic(Context& context) { judge_shares(context, problem_of_rows); }

std::string uniform_shares(const Asked& asked) {
  for (std::size_t from = 0; from < asked.weights.size(); ++from) {
    const auto& out = asked.out(from);
    const double share = 1.0 / (static_cast<double>(out.size()) + 1);
    for (const int to : out)
      if (!near(asked.weights[from][static_cast<std::size_t>(to)], share, 1e-15))
        return fmt::format("node {} sends {} of its mass to each of {} peers", from,
                           asked.weights[from][static_cast<std::size_t>(to)], out.size());
    if (!near(asked.weights[from][from], share, 1e-15))
      return fmt::format("node {} keeps {}", from, asked.weights[from][from]);
  }
  return {};
}

std::string metropolis_shares(const Asked& asked) {
  const auto degree = [&](std::size_t node) { return asked.out(node).size(); };
  for (std::size_t a = 0; a < asked.weights.size(); ++a)
    for (const int peer : asked.out(a)) {
      const auto b = static_cast<std::size_t>(peer);
      const double expected = 1.0 / (1.0 + static_cast<double>(std::max(degree(a), degree(b))));
      if (!near(asked.weights[a][b], expected, 1e-15) || !near(asked.weights[b][a], expected, 1e-15))
        return fmt::format("nodes {} and {} exchange {} and {}, not {}", a, b, asked.weights[a][b], asked.weights[b][a],
                           expected);
    }
  for (std::size_t to = 0; to < asked.weights.size(); ++to) {
    double sum = 0;
    for (const auto& row : asked.weights) sum += row[to];
    if (!near(sum, 1, 1e-14)) return fmt::format("what node {} receives adds up to {}", to, sum);
  }
  return {};
}
void share_rules(Context& context) {
  judge_shares(context, context.parameters().text("mixing") == "uniform" ? uniform_shares : metropolis_shares);
}

// ---- rates ----

struct ClosedForm {
  const char* graph;
  int nodes;
  int peers;
  double per_round;
};

std::vector<ClosedForm> closed_forms() {
  constexpr double pi = std::numbers::pi;
  std::vector<ClosedForm> forms;
  for (const int n : {4, 5, 8, 11, 16}) {
    forms.push_back({"ring", n, 2, std::abs(1 + 2 * std::cos(2 * pi / n)) / 3});
    forms.push_back({"ring", n, 1, std::cos(pi / n)});
  }
  for (const int n : {4, 8, 16, 32, 64, 128}) {
    const double levels = std::ceil(std::log2(n));
    forms.push_back({"static-exponential", n, 0, 1 - 2 / (1 + levels)});
  }
  for (const int n : {1, 2, 3, 5, 8}) forms.push_back({"complete", n, 0, 0});
  forms.insert(forms.end(), {{"n-peer-exponential", 3, 1, 0.5},
                             {"n-peer-exponential", 4, 1, 0},
                             {"n-peer-exponential", 16, 1, 0},
                             {"n-peer-exponential", 9, 2, 0},
                             {"n-peer-exponential", 27, 2, 0},
                             {"n-peer-exponential", 16, 3, 0}});
  return forms;
}

void closed(Context& context) {
  for (const ClosedForm& form : closed_forms()) {
    const json args = with_peers({{"graph", form.graph}, {"world_size", form.nodes}}, "peers_per_itr", form.peers);
    report_words(problem_of(context.adapter(), kSpectrum, args, [&](const json& result) -> std::string {
      const double got = result.at("per_round"), gap = result.at("spectral_gap");
      if (!near(got, form.per_round, 1e-9) || !near(gap, 1 - form.per_round, 1e-9))
        return fmt::format("{} of {} nodes, {} peers: {} a round, not {} (gap {})", form.graph, form.nodes, form.peers,
                           got, form.per_round, gap);
      return {};
    }));
  }
}

std::vector<double> times(const Rows& weights, const std::vector<double>& values) {
  std::vector<double> mixed(values.size());
  for (std::size_t from = 0; from < values.size(); ++from)
    for (std::size_t to = 0; to < values.size(); ++to) mixed[to] += weights[from][to] * values[from];
  return mixed;
}
std::vector<double> times_transposed(const Rows& weights, const std::vector<double>& values) {
  std::vector<double> mixed(values.size());
  for (std::size_t from = 0; from < values.size(); ++from)
    for (std::size_t to = 0; to < values.size(); ++to) mixed[from] += weights[from][to] * values[to];
  return mixed;
}
void take_mean_away(std::vector<double>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  for (double& value : values) value -= mean;
}
double length_of(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

// The largest factor by which the rounds can stretch what is beside the mean, found by going there and back many times.
double largest_stretch(const std::vector<Rows>& rounds, std::size_t nodes) {
  std::vector<double> values(nodes);
  for (std::size_t i = 0; i < nodes; ++i) values[i] = std::sin(1 + 2.7 * static_cast<double>(i * i));
  take_mean_away(values);
  double stretch = 0;
  for (int i = 0; i < 600; ++i) {
    const double before = length_of(values);
    if (before < 1e-200) return 0;
    for (double& value : values) value /= before;
    std::vector<double> mixed = values;
    for (const Rows& round : rounds) mixed = times(round, mixed);
    take_mean_away(mixed);
    stretch = length_of(mixed);
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) mixed = times_transposed(*round, mixed);
    take_mean_away(mixed);
    values = std::move(mixed);
  }
  return stretch;
}

// The mixing weights of the first rounds.
std::vector<Rows> rounds_of(Context& context, json args, int count) {
  std::vector<Rows> rounds;
  for (int round = 0; round < count; ++round) {
    args["round"] = round;
    const json question{{"topology", context.parameters().text("graph")}, {"args", args}};
    rounds.push_back(
        rows_of(answer_to(context.adapter(), kTopology, question).result, args.at("size").get<std::size_t>()));
  }
  return rounds;
}

// "" where the mixing weights come again after so many rounds.
std::string problem_of_period(Context& context, const json& args, int period) {
  const std::vector<Rows> rounds = rounds_of(context, args, 2 * period);
  const auto are_near = [](const Rows& a, const Rows& b) {
    return std::ranges::equal(a, b, [](const std::vector<double>& one, const std::vector<double>& other) {
      return std::ranges::equal(one, other, [](double x, double y) { return near(x, y, 1e-14); });
    });
  };
  for (int round = 0; round < period; ++round)
    if (!are_near(rounds[static_cast<std::size_t>(round)], rounds[static_cast<std::size_t>(round + period)]))
      return fmt::format("{}: the period is called {} rounds, and round {} is another than round {}", args.dump(),
                         period, round, round + period);
  return {};
}

void bound(Context& context) {
  const std::string& graph = context.parameters().text("graph");
  const std::string mixing = graph == "mesh" || graph == "star" ? "metropolis-hastings" : "uniform";
  // Of drawn rounds as many are predicted as leave little of few nodes' distance.
  std::vector<std::pair<int, int>> nodes_and_peers{{2, 0}, {3, 0}, {4, 0}, {5, 0}, {6, 0},
                                                   {8, 0}, {4, 2}, {5, 2}, {6, 2}, {8, 3}};
  if (graph == "random-matching") nodes_and_peers = {{6, 0}, {33, 0}};
  for (const auto& [nodes, peers] : nodes_and_peers) {
    if (graph.starts_with("bipartite") && nodes % 2 != 0) continue;
    if (peers > 0 && mixing != "uniform") continue;
    json args = with_peers({{"graph", graph}, {"world_size", nodes}, {"mixing", mixing}}, "peers_per_itr", peers);
    if (peers > 0 && refuses_bad_value(answer_to(context.adapter(), kSpectrum, args), args)) continue;  // too many
    const json of_rounds = with_peers({{"size", nodes}, {"mixing", mixing}}, "peers", peers);
    report_words(problem_of(context.adapter(), kSpectrum, args, [&](const json& spectrum) -> std::string {
      if (spectrum.at("doubly_stochastic") != true)
        return fmt::format("{} with {} is not doubly stochastic", graph, mixing);
      const int period = spectrum.at("rounds");
      const double contraction = spectrum.at("contraction");
      if (period < 1 || period > 1000)
        return fmt::format("{} of {} nodes: a period of {} rounds", graph, nodes, period);
      if (graph != "random-matching")
        if (std::string words = problem_of_period(context, of_rounds, period); !words.empty()) return words;
      const std::vector<Rows> rounds = rounds_of(context, of_rounds, period);
      const double stretch = largest_stretch(rounds, static_cast<std::size_t>(nodes));
      if (!near(stretch, contraction, 1e-6))
        return fmt::format("{} of {} nodes: contraction {} in {} rounds, {} is reached", graph, nodes, contraction,
                           period, stretch);
      args["rounds"] = 3 * period;
      args["value_seed"] = context.seed() % 1000;
      return problem_of(context.adapter(), kSimulate, args, [&](const json& result) -> std::string {
        double allowed = 1;
        for (int periods = 1; periods <= 3; ++periods) {
          allowed *= contraction;
          const double error = result.at("error").at(static_cast<std::size_t>(periods * period - 1));
          if (error > allowed + 1e-7)
            return fmt::format("{} of {} nodes: error {} after {} periods, the bound is {}", graph, nodes, error,
                               periods, allowed);
        }
        return {};
      });
    }));
  }
}

// By how much a period shrinks the error late in a simulation, before all is rounding.
double late_rate(const json& error, int period) {
  const auto distance_after = [&](int periods) {
    return error.at(static_cast<std::size_t>(periods * period - 1)).get<double>();
  };
  int last = 30;
  while (last > 8 && distance_after(last) < 1e-12) --last;
  return std::pow(distance_after(last) / distance_after(last - 6), 1.0 / 6);
}

constexpr int kMillion = 1 << 20;

// What formulas say of a million nodes: either rounds after which they agree, or what a round takes off the distance.
struct KnownOfMillion {
  int exact_behind = 0;
  double gap = 1;
};

KnownOfMillion known_of_million(const std::string& graph) {
  constexpr int levels = 20;
  const double half_angle = std::sin(std::numbers::pi / (2.0 * kMillion));
  if (graph == "n-peer-exponential") return {.exact_behind = levels};
  if (graph == "directed-exponential") return {.exact_behind = 2 * levels - 1};
  if (graph == "static-exponential") return {.gap = 2.0 / (1 + levels)};
  return {.gap = 2 * half_angle * half_angle};  // a ring: 1 - cos(pi / n)
}

std::string problem_of_million(const KnownOfMillion& known, const json& spectrum) {
  const int period = spectrum.at("rounds");
  const double contraction = spectrum.at("contraction");
  if (period < 1 || period > 1000) return fmt::format("a period of {} rounds", period);
  if (known.exact_behind == 0 && !near(1 - contraction, known.gap, 1e-3 * known.gap))
    return fmt::format("a round leaves {} of the distance, by formula 1 - {}", contraction, known.gap);
  if (known.exact_behind > 0 && (period != known.exact_behind || contraction > 1e-12))
    return fmt::format("{} rounds leave {} of the distance, by formula {} leave none", period, contraction,
                       known.exact_behind);
  return {};
}

// A million nodes: the bound is that of the spectrum, which formulas know as well.
void million(Context& context) {
  constexpr int nodes = kMillion;
  const std::string& graph = context.parameters().text("graph");
  json args{{"graph", graph}, {"world_size", nodes}};
  report_words(problem_of(context.adapter(), kSpectrum, args, [&](const json& spectrum) -> std::string {
    const KnownOfMillion known = known_of_million(graph);
    if (const std::string problem = problem_of_million(known, spectrum); !problem.empty()) return problem;
    const int period = spectrum.at("rounds");
    const double contraction = spectrum.at("contraction");
    constexpr int least_rounds = 8;
    const int periods = std::max(1, least_rounds / period);
    args["rounds"] = periods * period;
    args["value_seed"] = context.seed() % 1000;
    return problem_of(context.adapter(), kSimulate, args, [&](const json& result) -> std::string {
      double allowed = 1;
      for (int made = 1; made <= periods; ++made) {
        allowed *= contraction;
        const double error = result.at("error").at(static_cast<std::size_t>(made * period - 1));
        if (error > allowed * (1 + 1e-9) + 1e-12)
          return fmt::format("{} of {} nodes: error {} after {} periods of {} rounds, the bound is {}", graph, nodes,
                             error, made, period, allowed);
      }
      const double sum = result.at("weight_sum").at(static_cast<std::size_t>(periods * period) - 1);
      if (!near(sum, nodes, 1e-9 * nodes)) return fmt::format("{} nodes: weights add up to {}", nodes, sum);
      return {};
    });
  }));
}

Rows product_of(const Rows& then, const Rows& first) {
  Rows product(first.size());
  for (std::size_t from = 0; from < first.size(); ++from) product[from] = times(then, first[from]);
  return product;
}
double norm_of(const Rows& rows) {
  double squares = 0;
  for (const auto& row : rows)
    for (const double value : row) squares += value * value;
  return std::sqrt(squares);
}

// The largest modulus of the eigenvalues of a period but for the one of what does not change: by what its powers shrink
// what is beside their limit, at 2^30 periods.
double shrinks_in_the_long_run(const std::vector<Rows>& rounds) {
  Rows period = rounds.front();
  for (std::size_t round = 1; round < rounds.size(); ++round) period = product_of(rounds[round], period);
  Rows limit = period;
  for (int i = 0; i < 40; ++i) {
    limit = product_of(limit, limit);
    for (auto& row : limit) {
      const double sum = std::accumulate(row.begin(), row.end(), 0.0);
      for (double& value : row) value /= sum;
    }
  }
  Rows power = period;
  for (auto& row : power)
    for (std::size_t to = 0; to < row.size(); ++to) row[to] -= limit.front()[to];
  double logarithm = 0;
  for (int i = 0; i < 30; ++i) {
    const double norm = norm_of(power);
    if (norm < 1e-200) return 0;
    logarithm += std::log(norm) / static_cast<double>(std::int64_t{1} << i);
    for (auto& row : power)
      for (double& value : row) value /= norm;
    power = product_of(power, power);
  }
  return std::exp(logarithm);
}

// "" where the prediction for a graph of so many peers is that of its mixing weights.
std::string problem_of_weights(Context& context, const json& of_rounds, const json& spectrum) {
  const int period = spectrum.at("rounds");
  const double contraction = spectrum.at("contraction");
  if (spectrum.at("doubly_stochastic") != false) return of_rounds.dump() + " skewed is doubly stochastic";
  if (period < 1 || period > 1000) return fmt::format("{}: a period of {} rounds", of_rounds.dump(), period);
  if (std::string words = problem_of_period(context, of_rounds, period); !words.empty()) return words;
  const double expected = shrinks_in_the_long_run(rounds_of(context, of_rounds, period));
  return near(contraction, expected, 1e-6)
             ? ""
             : fmt::format("{}: predicted {} a period, by the weights {}", of_rounds.dump(), contraction, expected);
}

// The largest of what several starts come to.
std::string problem_of_late_rounds(Context& context, json args, const json& spectrum) {
  const int period = spectrum.at("rounds");
  const double contraction = spectrum.at("contraction");
  args["rounds"] = 30 * period;
  double measured = 0;
  for (int seed = 1; seed <= 6; ++seed) {
    args["value_seed"] = seed;
    const Answer answer = answer_to(context.adapter(), kSimulate, args);
    if (answer.is_refused()) return answer.message;
    measured = std::max(measured, late_rate(answer.result.at("error"), period));
  }
  if (std::abs(measured - contraction) > 0.15 * contraction + 0.02)
    return fmt::format("{}: predicted {} a period, simulated {}", args.dump(), contraction, measured);
  return {};
}

// Rows that do not add up to 1.
void long_run(Context& context) {
  const std::string& graph = context.parameters().text("graph");
  // Two nodes keep 1/2 and 1/3, and a third one 1/4: the rates are roots of quadratic equations.
  if (graph == "ring")
    for (const auto& [nodes, expected] : {std::pair{2, 1.0 / 6}, {3, std::sqrt(7.0 / 24)}})
      report_words(problem_of(context.adapter(), kSpectrum,
                              {{"graph", graph}, {"world_size", nodes}, {"mixing", "skewed"}}, [&](const json& result) {
                                const double got = result.at("contraction");
                                return near(got, expected, 1e-7)
                                           ? ""
                                           : fmt::format("{} nodes: {} a period, not {}", nodes, got, expected);
                              }));
  for (const int nodes : {3, 4, 5, 6, 7})
    for (const int peers : {0, 1}) {
      const json args =
          with_peers({{"graph", graph}, {"world_size", nodes}, {"mixing", "skewed"}}, "peers_per_itr", peers);
      const json of_rounds = with_peers({{"size", nodes}, {"mixing", "skewed"}}, "peers", peers);
      report_words(problem_of(context.adapter(), kSpectrum, args, [&](const json& spectrum) -> std::string {
        std::string words = problem_of_weights(context, of_rounds, spectrum);
        const bool simulated = peers == 0 && (nodes == 3 || nodes == 5 || nodes == 6);
        return words.empty() && simulated ? problem_of_late_rounds(context, args, spectrum) : words;
      }));
    }
}

// ---- simulation ----

struct ExactAfter {
  const char* graph;
  int nodes;
  int peers;
  int rounds;
};

void exact_rounds(Context& context) {
  for (const ExactAfter& one : std::vector<ExactAfter>{{"complete", 7, 0, 1},
                                                       {"ring", 3, 2, 1},
                                                       {"ring", 2, 1, 1},
                                                       {"static-exponential", 2, 0, 1},
                                                       {"n-peer-exponential", 32, 1, 5},
                                                       {"n-peer-exponential", 27, 2, 3},
                                                       {"n-peer-exponential", 64, 3, 3},
                                                       {"directed-exponential", 8, 1, 5},
                                                       {"directed-exponential", 32, 1, 9}}) {
    json args = with_peers({{"graph", one.graph}, {"world_size", one.nodes}, {"rounds", one.rounds}}, "peers_per_itr",
                           one.peers);
    args["value_seed"] = context.seed() % 1000;
    report_words(problem_of(context.adapter(), kSimulate, args, [&](const json& result) -> std::string {
      const auto& error = result.at("error");
      const double last = error.at(static_cast<std::size_t>(one.rounds - 1));
      if (last > 1e-14)
        return fmt::format("{} of {} nodes: error {} after {} rounds", one.graph, one.nodes, last, one.rounds);
      if (one.rounds > 1 && error.at(static_cast<std::size_t>(one.rounds - 2)).get<double>() < 1e-9)
        return fmt::format("{} of {} nodes agree a round early", one.graph, one.nodes);
      return {};
    }));
  }
}

void conserves(Context& context) {
  const std::string& graph = context.parameters().text("graph");
  for (const int nodes : {2, 6, 12, 1000, 20'000}) {
    if ((graph == "directed-linear" || graph == "bipartite-linear" || graph == "complete") && nodes > 1000) continue;
    // As many messages as if each node of a large star had all as neighbours would be too many.
    const int rounds = graph == "star" ? 12 : 6;
    const json args{
        {"graph", graph}, {"world_size", nodes}, {"mixing", context.parameters().text("mixing")}, {"rounds", rounds}};
    report_words(problem_of(context.adapter(), kSimulate, args, [&](const json& result) -> std::string {
      const double mean = result.at("mean");
      for (std::size_t round = 0; round < 6; ++round) {
        const double sum = result.at("sum").at(round), weights = result.at("weight_sum").at(round);
        if (!near(sum, mean * nodes, 1e-9 * nodes))
          return fmt::format("{} nodes, round {}: the sum is {}, it was {}", nodes, round, sum, mean * nodes);
        if (!near(weights, nodes, 1e-11 * nodes))
          return fmt::format("{} nodes, round {}: weights add up to {}", nodes, round, weights);
        if (!(result.at("least_weight").at(round).get<double>() > 0))
          return fmt::format("{} nodes, round {}: a weight is not above 0", nodes, round);
      }
      return {};
    }));
  }
}

struct Simulated {
  std::vector<double> values, weights;
};

// What a round's line says, of the values after it.
json line_of(const Simulated& now, double mean, double first_distance) {
  double squares = 0;
  for (std::size_t i = 0; i < now.values.size(); ++i) {
    const double apart = now.values[i] / now.weights[i] - mean;
    squares += apart * apart;
  }
  return {{"error", first_distance > 0 ? std::sqrt(squares) / first_distance : 0.0},
          {"sum", std::accumulate(now.values.begin(), now.values.end(), 0.0)},
          {"weight_sum", std::accumulate(now.weights.begin(), now.weights.end(), 0.0)},
          {"least_weight", *std::ranges::min_element(now.weights)}};
}

std::string problem_of_simulation(const std::vector<Simulated>& expected, const json& result) {
  const std::vector<double>& start = expected.front().values;
  const double mean = std::accumulate(start.begin(), start.end(), 0.0) / static_cast<double>(start.size());
  if (!near(result.at("mean"), mean, 1e-12)) return fmt::format("the mean is {}", result.at("mean").dump());
  std::vector<double> apart = start;
  take_mean_away(apart);
  for (std::size_t round = 0; round + 1 < expected.size(); ++round) {
    const json line = line_of(expected[round + 1], mean, length_of(apart));
    for (const auto& [field, value] : line.items())
      if (const double got = result.at(field).at(round); !near(got, value, 1e-12))
        return fmt::format("round {}: {} is {}, not {}", round, field, got, value.dump());
  }
  for (std::size_t node = 0; node < start.size(); ++node) {
    const double x = result.at("numerators").at(node), w = result.at("weights").at(node);
    if (!near(x, expected.back().values[node], 1e-12) || !near(w, expected.back().weights[node], 1e-12))
      return fmt::format("node {} has {} and weight {}, not {} and {}", node, x, w, expected.back().values[node],
                         expected.back().weights[node]);
  }
  return {};
}

// Values of a simulation are what the shares of its rounds make of those at the start; `topology` has the arguments of
// the graph, in the question of shares.
std::string problem_of_rounds(Context& context, const std::vector<double>& values, const json& simulation,
                              const json& topology) {
  const std::string& graph = context.parameters().text("graph");
  const std::string mixing = context.parameters().text("mixing");
  constexpr int rounds = 5;
  json asked{
      {"graph", graph}, {"world_size", values.size()}, {"mixing", mixing}, {"rounds", rounds}, {"values", values}};
  asked.update(simulation);
  std::vector<Simulated> expected{{values, std::vector<double>(values.size(), 1.0)}};
  for (int round = 0; round < rounds; ++round) {
    json args{{"size", values.size()}, {"mixing", mixing}, {"round", round}};
    args.update(topology);
    const json question{{"topology", graph}, {"args", args}};
    if (mixing == "metropolis-hastings" &&
        refuses_bad_value(answer_to(context.adapter(), kTopology, question), question))
      return {};
    Rows shares;
    const std::string problem =
        problem_of(context.adapter(), kTopology, question, [&](const json& result) -> std::string {
          shares = rows_of(result, values.size());
          for (const std::vector<double>& row : shares)
            if (const double sum = std::accumulate(row.begin(), row.end(), 0.0); !near(sum, 1, 1e-14))
              return fmt::format("{}: a node's shares add up to {}", question.dump(), sum);
          return {};
        });
    if (!problem.empty()) return problem;
    expected.push_back({times(shares, expected.back().values), times(shares, expected.back().weights)});
  }
  return problem_of(context.adapter(), kSimulate, asked,
                    [&](const json& result) { return problem_of_simulation(expected, result); });
}

void equals_shares(Context& context) {
  const std::string& graph = context.parameters().text("graph");
  report_words(problem_of_rounds(context, {3, -1, 4, 1, -5, 9}, json::object(), json::object()));
  report_words(problem_of_rounds(context, {2, 2, 2, 2, 2, 2}, json::object(), json::object()));
  report_words(problem_of_rounds(context, {3}, json::object(), json::object()));
  report_words(problem_of_rounds(context, {3, -1, 4, 1, -5, 9, 2, 6}, {{"peers_per_itr", 1}}, {{"peers", 1}}));
  if (graph != "star")
    report_words(problem_of_rounds(context, {3, -1, 4, 1, -5, 9, 2, 6}, {{"peers_per_itr", 2}}, {{"peers", 2}}));
  if (!graph.starts_with("bipartite"))
    report_words(problem_of_rounds(context, {3, -1, 4, 1, -5, 9, 2}, json::object(), json::object()));
  const std::map<std::string, json> others{
      {"mesh", {{"rows", 4}}}, {"star", {{"center", 7}}}, {"random-matching", {{"seed", 77}}}};
  if (others.contains(graph))
    report_words(problem_of_rounds(context, {3, -1, 4, 1, -5, 9, 2, 6}, others.at(graph), others.at(graph)));
}

// A thousand values of each seed, before any round.
void values_of_seed(Context& context) {
  constexpr int nodes = 1000;
  std::map<json, std::int64_t> drawn;
  const auto values_of = [&](const json& args) {
    json asked{{"graph", "ring"}, {"world_size", nodes}, {"rounds", 0}};
    asked.update(args);
    return asked;
  };
  for (const int seed : {0, 1, 2, 1'000'000'000}) {
    const json args = values_of({{"value_seed", seed}});
    report_words(problem_of(context.adapter(), kSimulate, args, [&](const json& result) -> std::string {
      const auto values = result.at("numerators").get<std::vector<double>>();
      if (values.size() != nodes) return fmt::format("{} values", values.size());
      const auto [least, most] = std::ranges::minmax(values);
      if (least < -1 || least > -0.97 || most >= 1 || most < 0.97)
        return fmt::format("the values of seed {} are from {} to {}", seed, least, most);
      const double mean = std::accumulate(values.begin(), values.end(), 0.0) / nodes;
      const double square = std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / nodes;
      if (!near(mean, 0, 0.1) || !near(square, 1.0 / 3, 0.06))
        return fmt::format("seed {}: a mean of {} and a mean square of {}", seed, mean, square);
      if (!drawn.emplace(result.at("numerators"), seed).second) return "two seeds have the same values";
      return problem_of(context.adapter(), kSimulate, args,
                        [&](const json& again) { return first_difference(result, again); });
    }));
  }
}

// Whether a message has a number that the question does not have.
bool has_own_number(const std::string& message, const std::string& question) {
  static const std::regex number(R"(\d+(\.\d+)?)");
  for (std::sregex_iterator one(message.begin(), message.end(), number), end; one != end; ++one)
    if (question.find(one->str()) == std::string::npos) return true;
  return false;
}

// The distance to the mean is told round by round.
std::string problem_of_length(const json& result, int rounds) {
  const bool has_all = result.is_object() && result.contains("error") && result["error"].is_array() &&
                       std::ssize(result["error"]) == rounds;
  return has_all ? "" : fmt::format("no errors of {} rounds", rounds);
}

// Either an answer, or a refusal that says where the limit is.
void limits(Context& context) {
  report_words(problem_of(
      context.adapter(), kSimulate, {{"graph", "complete"}, {"world_size", 3}, {"rounds", 1}, {"values", {0, 3, 6}}},
      [](const json& result) { return first_difference({{"numerators", {3.0, 3.0, 3.0}}}, result); }));
  const auto expect = [&](const char* op, const char* graph, int nodes, const json& others) {
    json args{{"graph", graph}, {"world_size", nodes}};
    args.update(others);
    const Answer answer = answer_to(context.adapter(), op, args);
    if (!answer.is_refused()) {
      if (std::string_view(op) == kSimulate) report_words(problem_of_length(answer.result, others.at("rounds")));
      return;
    }
    if (answer.kind != "unsupported" || !has_own_number(answer.message, args.dump()))
      report_words(fmt::format("{} {} is refused as '{}': {}", op, args.dump(), answer.kind, answer.message));
  };
  expect(kSimulate, "complete", kMillion, {{"rounds", 1}});
  expect(kSimulate, "mesh", kMillion, {{"rounds", 10'000}});
  expect(kSimulate, "star", kMillion, {{"rounds", 10'000}});
  expect(kSimulate, "ring", kMillion, {{"rounds", 10'000}});
  expect(kSpectrum, "directed-linear", kMillion, json::object());
  expect(kSpectrum, "mesh", 10'000, json::object());
  expect(kSpectrum, "ring", 10'000, {{"mixing", "skewed"}});
}

// ---- lists of a question ----

const char* const kTrace = "gossip.trace";

struct FaultyLists {
  const char* op;
  json right;                                      // is answered
  json values;                                     // of each node after the last round of that
  std::map<std::string, std::vector<json>> wrong;  // each list that is not, by its field
};

FaultyLists faulty_lists(const std::string& lists) {
  const json graph{{"graph", "ring"}, {"world_size", 4}, {"rounds", 1}};
  json values = graph, starts = graph, books{{"algorithm", "PushSum"}, {"world_size", 2}, {"rounds", 2}};
  values["values"] = {1, 2, 3, 4};
  starts.update({{"algorithm", "PushSum"}, {"ranks", json::array()}});
  for (int node = 0; node < 4; ++node) starts["ranks"].push_back({{"x0", {node, 1}}});
  books.update({{"phone_book", {{1}, {0}}}, {"peers_per_itr", 1}, {"ranks", {{{"x0", {4}}}, {{"x0", {8}}}}}});
  json weights = books;
  const json uniform{{"lo", 0.5}, {"uniform", 1}}, by_peer{{"lo", 0.5}, {"0", 1}};
  weights["weights"] = {{uniform}, {by_peer, by_peer}};
  if (lists == "values")
    return {kSimulate, values, {2.5, 1.5, 2.5, 3.5}, {{"values", {{1, 2, 3}, {1, 2, 3, 4, 5}, json::array()}}}};
  if (lists == "starts") {
    json fewer = starts.at("ranks"), more = fewer, longer = fewer, shorter = fewer;
    fewer.erase(3);
    more.push_back(more.front());
    longer[3]["x0"] = {1, 2, 3};
    shorter[1]["x0"] = {1};
    return {kTrace, starts, {{1.5, 1}, {0.5, 1}, {1.5, 1}, {2.5, 1}}, {{"ranks", {fewer, more, longer, shorter}}}};
  }
  if (lists == "books")
    return {kTrace,
            books,
            {{6}, {6}},
            {{"phone_book", {{{1}}, {{1}, {0}, {0}}, {{2}, {0}}, {{-1}, {0}}, {{0}, {0}}, {{1}, json::array()}}},
             {"peers_per_itr", {2, 0}}}};
  json one_node = json::array({json::array({uniform})});
  return {kTrace,
          weights,
          {{6}, {6}},
          {{"weights",
            {one_node,
             {{uniform}, json::array()},
             {{uniform}, {{{"lo", 0.5}}}},
             {{uniform}, {{{"lo", 0.5}, {"1", 1}}}},
             {{uniform}, {{{"uniform", 1}}}},
             {{uniform}, {{{"lo", 0}, {"uniform", 1}}}}}}}};
}

// Each node keeps half and gets half of the node that sends to it.
std::string problem_of_right(const FaultyLists& lists, const json& result) {
  json values = json::array();
  const bool simulated = std::string_view(lists.op) == kSimulate;
  if (simulated) values = result.at("numerators");
  const json& nodes = simulated ? values : result.at("ranks");
  if (!simulated)
    for (const json& node : nodes) {
      if (node.at("rounds").size() != lists.right.at("rounds").get<std::size_t>())
        return fmt::format("{} rounds of a node", node.at("rounds").size());
      values.push_back(node.at("rounds").back().at("x"));
    }
  return values == lists.values ? "" : fmt::format("the values are {}, not {}", values.dump(), lists.values.dump());
}

void bad_lists(Context& context) {
  const FaultyLists lists = faulty_lists(context.parameters().text("lists"));
  report_words(problem_of(context.adapter(), lists.op, lists.right,
                          [&](const json& result) { return problem_of_right(lists, result); }));
  for (const auto& [field, all] : lists.wrong)
    for (const json& wrong : all) {
      json args = lists.right;
      args[field] = wrong;
      report_words(problem_of_refusal_beside_answers(context.adapter(), lists.op, args));
    }
}

}  // namespace

void add_gossip_rate_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes,
                       std::vector<std::string> operations, void (*body)(Context&), std::vector<AskedOption> options,
                       std::function<bool(const suite::Parameters&)> applies = {}) {
    suite.add({.id = std::string("gossip.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .applies = std::move(applies),
               .operations = std::move(operations),
               .options = options_of(std::move(options)),
               .body = body});
  };
  // Of those where whoever is sent to answers.
  const auto mixes = [](const suite::Parameters& parameters) {
    const std::string& graph = parameters.text("graph");
    return parameters.text("mixing") != "metropolis-hastings" || graph == "mesh" || graph == "star" ||
           graph == "complete" || graph == "random-matching";
  };
  const AskedOption weighed{kTopology, "topology", {}, "graph"}, weights{kTopology, "args.mixing", {}, "mixing"},
      graph{kGraphAnswers, "graph", {}, "graph"}, spectrum{kSpectrum, "graph", {}, "graph"},
      simulated{kSimulate, "graph", {}, "graph"}, simulated_weights{kSimulate, "mixing", {}, "mixing"};
  const auto mixed = [](const char* operation, const char* argument, const char* value) {
    return AskedOption{operation, argument, {value}};
  };
  // Of graphs whose nodes have other numbers of peers.
  const auto by_graph = [](const char* operation, const char* argument) {
    AskedOption option{operation, argument, {}, "graph"};
    for (const std::string& name : all_graphs())
      option.by[name] = {name == "mesh" || name == "star" ? "metropolis-hastings" : "uniform"};
    return option;
  };
  const suite::Axis all{"graph", all_graphs()}, mixing{"mixing", {"uniform", "skewed", "metropolis-hastings"}};
  add("shares.stochastic", "GOSSIP-021@ea6b", {all, mixing}, {kTopology, kGraphAnswers}, stochastic,
      {weighed, weights, graph}, mixes);
  add("shares.rules", "GOSSIP-022@32f6", {all, {"mixing", {"uniform", "metropolis-hastings"}}},
      {kTopology, kGraphAnswers}, share_rules, {weighed, weights, graph}, mixes);
  add("spectrum.closed_forms", "GOSSIP-023@1210", {}, {kSpectrum}, closed,
      {{kSpectrum, "graph", {"complete", "n-peer-exponential", "ring", "static-exponential"}},
       mixed(kSpectrum, "mixing", "uniform")});
  add("spectrum.bound", "GOSSIP-024@04ed",
      {{"graph",
        {"directed-exponential", "n-peer-exponential", "bipartite-exponential", "directed-linear", "bipartite-linear",
         "ring", "static-exponential", "mesh", "star", "complete", "random-matching"}}},
      {kSpectrum, kSimulate, kTopology}, bound,
      {simulated, spectrum, weighed, by_graph(kSimulate, "mixing"), by_graph(kSpectrum, "mixing"),
       by_graph(kTopology, "args.mixing")});
  add("simulate.million", "GOSSIP-112@2b46",
      {{"graph", {"directed-exponential", "n-peer-exponential", "ring", "static-exponential"}}}, {kSpectrum, kSimulate},
      million, {simulated, spectrum, mixed(kSimulate, "mixing", "uniform"), mixed(kSpectrum, "mixing", "uniform")});
  add("spectrum.long_run", "GOSSIP-025@8da8",
      {{"graph", {"directed-exponential", "directed-linear", "ring", "static-exponential", "mesh", "star"}}},
      {kSpectrum, kSimulate, kTopology}, long_run,
      {simulated, spectrum, weighed, mixed(kSimulate, "mixing", "skewed"), mixed(kSpectrum, "mixing", "skewed"),
       mixed(kTopology, "args.mixing", "skewed")});
  add("simulate.exact_rounds", "GOSSIP-026@7e0b", {}, {kSimulate}, exact_rounds,
      {{kSimulate, "graph", {"complete", "directed-exponential", "n-peer-exponential", "ring", "static-exponential"}},
       mixed(kSimulate, "mixing", "uniform")});
  add("simulate.conserves", "GOSSIP-027@4390", {all, {"mixing", {"uniform", "skewed"}}}, {kSimulate}, conserves,
      {simulated, simulated_weights});
  add("simulate.values_of_seed", "GOSSIP-114@110e", {}, {kSimulate}, values_of_seed,
      {mixed(kSimulate, "graph", "ring"), mixed(kSimulate, "mixing", "uniform")});
  add("simulate.limits", "GOSSIP-117@024e", {}, {kSimulate, kSpectrum}, limits,
      {{kSimulate, "graph", {"complete", "mesh", "ring", "star"}},
       mixed(kSimulate, "mixing", "uniform"),
       {kSpectrum, "graph", {"directed-linear", "mesh", "ring"}},
       {kSpectrum, "mixing", {"skewed", "uniform"}}});
  add("simulate.bad_lists", "GOSSIP-113@465b", {{"lists", {"values"}}}, {kSimulate}, bad_lists,
      {mixed(kSimulate, "graph", "ring"), mixed(kSimulate, "mixing", "uniform")});
  add("trace.bad_lists", "GOSSIP-113@465b", {{"lists", {"starts", "books", "weights"}}}, {kTrace}, bad_lists,
      {{kTrace, "graph", {}, "lists", {{"starts", {"ring"}}}},
       mixed(kTrace, "algorithm", "PushSum"),
       mixed(kTrace, "mixing", "uniform"),
       mixed(kTrace, "dtype", "float32")});
  add("simulate.equals_shares", "GOSSIP-028@4f0c", {all, mixing}, {kSimulate, kTopology}, equals_shares,
      {simulated, simulated_weights, weighed, weights}, mixes);
}

}  // namespace plumbline::conformance
