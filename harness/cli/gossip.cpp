// `plumbline gossip`: a graph's phone book and shares, how fast its nodes agree, and a simulation, in text or as a
// picture.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/arguments.hpp"
#include "harness/cli/gossip_file.hpp"
#include "harness/cli/gossip_view.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/record/file.hpp"
#include "harness/run/counted.hpp"
#include "reference/comm/errors.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/gossip/mixing.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

using gossip::Graph;
using gossip::GraphKind;
using gossip::Mixing;

struct GossipCommandOptions {
  bool list = false;
  std::string file;
  std::string graph = "n-peer-exponential", mixing = "uniform", convention = "plumbline", format = "text", out;
  int nodes = 8, peers = 0, rounds = 20, rows = 0, center = 0;
  std::uint64_t seed = 0;
};

constexpr std::ptrdiff_t kMostEntriesShown = 1024;  // of a phone book
constexpr int kMostNodesSimulated = 1 << 20;
constexpr int kMostRoundsSimulated = 10'000;

Graph gossip_graph_of(const GossipCommandOptions& options) {
  const auto kind = gossip::parse_graph_kind(options.graph);
  if (!kind) {
    std::vector<std::string> names;
    for (const GraphKind one : gossip::kNamedGraphs) names.emplace_back(name_of(one));
    throw InvalidArgument(fmt::format("--graph: there is no '{}'; {}", options.graph, there_are(options.graph, names)));
  }
  if (options.convention != "plumbline" && options.convention != "fairscale")
    throw InvalidArgument(fmt::format("--convention: there is no '{}'; {}", options.convention,
                                      there_are(options.convention, {"plumbline", "fairscale"})));
  if (options.rows > 0 && *kind != GraphKind::mesh)
    throw InvalidArgument(fmt::format("--rows {}: only for --graph mesh; {} has no rows", options.rows, options.graph));
  if (options.center > 0 && *kind != GraphKind::star)
    throw InvalidArgument(
        fmt::format("--center {}: only for --graph star; {} has no center", options.center, options.graph));
  try {
    return Graph({.kind = *kind,
                  .nodes = options.nodes,
                  .peers = options.peers,
                  .convention =
                      options.convention == "fairscale" ? gossip::Convention::fairscale : gossip::Convention::plumbline,
                  .rows = options.rows,
                  .center = options.center,
                  .seed = options.seed});
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("--graph {}: {}", options.graph, error.what()));
  }
}

constexpr int kMostNodesOfMatrices = 16;
constexpr std::int64_t kMostMatrices = 8;
constexpr int kMostNodesSummed = 512;
constexpr std::int64_t kMostRoundsSummed = 1024;

GossipFindings findings_of(const Graph& graph, const Mixing& mixing) {
  GossipFindings findings{.period = graph.period(), .matrices = {}, .sums = {}, .unheard = first_unheard(graph)};
  if (graph.nodes() <= kMostNodesSummed)
    findings.sums = sums_of(graph, mixing, std::min(findings.period, kMostRoundsSummed));
  for (std::int64_t round = 0; round < std::min(findings.period, kMostMatrices); ++round)
    if (graph.nodes() <= kMostNodesOfMatrices) findings.matrices.push_back(gossip::mixing_matrix(graph, mixing, round));
  return findings;
}

// Shares of a file are written out for all rounds that are looked at.
Mixing mixing_of_file(const GossipFile& file, const GossipCommandOptions& options, Mixing asked) {
  if (file.mixing.kind != gossip::MixingKind::given) return asked;
  if (options.mixing != "uniform")
    throw InvalidArgument(fmt::format("--mixing {}: '{}' has weights", options.mixing, options.file));
  constexpr double kMostShares = 1 << 24;
  const std::int64_t rounds = std::max<std::int64_t>(options.rounds, file.graph.period());
  if (static_cast<double>(rounds) * file.graph.nodes() > kMostShares)
    throw InvalidArgument(fmt::format("--rounds {}: {} rounds of {} nodes with weights are more than {} in all",
                                      options.rounds, rounds, file.graph.nodes(), kMostShares));
  return file.graph.is_dynamic() ? repeated(file.mixing, rounds) : file.mixing;
}

GossipView gossip_view_of(const GossipCommandOptions& options) {
  const auto mixing = gossip::parse_mixing_kind(options.mixing);
  if (!mixing)
    throw InvalidArgument(fmt::format("--mixing: there is no '{}'; {}", options.mixing,
                                      there_are(options.mixing, {"uniform", "metropolis-hastings", "skewed"})));
  std::optional<GossipFile> file;
  const std::string text = options.file.empty() ? "" : read_text("--file", options.file);
  if (!options.file.empty())
    file = on_behalf_of(fmt::format("--file '{}'", options.file), [&] { return parse_gossip_file(text); });
  GossipView view{.name = file ? printable(std::filesystem::path(options.file).filename().string()) : "",
                  .graph = file ? file->graph : gossip_graph_of(options),
                  .mixing = {.kind = *mixing},
                  .spectrum = {},
                  .rounds = {}};
  if (!file) view.name = name_of(view.graph.options().kind);
  if (file) view.mixing = mixing_of_file(*file, options, view.mixing);
  const std::string source = file ? fmt::format("--file '{}'", options.file)
                                  : fmt::format("--graph {} --nodes {}", options.graph, options.nodes);
  try {
    gossip::require_simulable(view.graph, std::max(1, options.rounds));
  } catch (const Unsupported& error) {
    throw InvalidArgument(fmt::format("{} --rounds {}: {}", source, options.rounds, error.what()));
  }
  try {
    (void)gossip::shares_of(view.graph, view.mixing, 0, 0);
  } catch (const Error& error) {
    throw InvalidArgument(fmt::format("--mixing {}: {}", options.mixing, error.what()));
  }
  try {
    view.spectrum = gossip::spectrum_of(view.graph, view.mixing);
  } catch (const Unsupported&) {
  }
  view.rounds = gossip::simulate(view.graph, view.mixing, gossip::random_values(view.graph.nodes(), options.seed + 1),
                                 options.rounds);
  if (file) view.findings = on_behalf_of(source, [&] { return findings_of(view.graph, view.mixing); });
  return view;
}

// The first entries of a list, and how many there are.
std::pair<std::vector<int>, std::ptrdiff_t> entries_shown(std::vector<int> book) {
  const std::ptrdiff_t entries = std::ssize(book);
  book.resize(static_cast<std::size_t>(std::min(entries, kMostEntriesShown)));
  return {std::move(book), entries};
}

std::string matrix_text(const std::vector<double>& matrix, int nodes) {
  std::string text;
  for (int to = 0; to < nodes; ++to) {
    text += fmt::format("{:>6}:", to);
    for (int from = 0; from < nodes; ++from) {
      const double share = matrix[static_cast<std::size_t>(to * nodes + from)];
      text += share == 0 ? "      ." : fmt::format(" {:>6.4g}", share);
    }
    text += '\n';
  }
  return text;
}

std::string findings_text(const GossipView& view) {
  const GossipFindings& findings = *view.findings;
  std::string text = fmt::format(
      "the rounds repeat after {}; {}\n", findings.period,
      findings.unheard.empty() ? "connected: every node hears of every other" : "not connected: " + findings.unheard);
  if (view.graph.nodes() <= kMostNodesSummed) {
    const GossipSums& sums = findings.sums;
    const auto range = [](double least, double largest) {
      return largest - least < 1e-9 ? fmt::format("{:.6g}", least) : fmt::format("{:.6g} to {:.6g}", least, largest);
    };
    text += fmt::format("columns sum to {}, rows to {}: {}\n", range(sums.least_column, sums.largest_column),
                        range(sums.least_row, sums.largest_row),
                        sums.is_doubly_stochastic() ? "doubly stochastic, plain averages keep the mean"
                                                    : "not doubly stochastic, push-sum's weights must travel");
  }
  for (std::size_t round = 0; round < findings.matrices.size(); ++round)
    text += fmt::format("shares of round {}, a row for each receiver\n", round) +
            matrix_text(findings.matrices[round], view.graph.nodes());
  return text;
}

// Shares that were given may keep the mean by themselves: looked up in all matrices, where they were summed.
bool weights_must_travel(const GossipView& view) {
  const bool is_known = view.findings && view.graph.nodes() <= kMostNodesSummed &&
                        view.findings->period <= kMostRoundsSummed && view.mixing.kind == gossip::MixingKind::given;
  return is_known ? !view.findings->sums.is_doubly_stochastic() : gossip::carries_weight(view.graph, view.mixing);
}

std::string gossip_text(const GossipView& view) {
  const Graph& graph = view.graph;
  std::string text = fmt::format(
      "{}, {}, {} per round, {} shares: {}regular, {}, weights {}\n", view.name, run::counted(graph.nodes(), "node"),
      graph.peers_per_round() == 0 ? "all peers" : run::counted(graph.peers_per_round(), "peer"),
      name_of(view.mixing.kind), graph.is_regular() ? "" : "not ", graph.is_dynamic() ? "dynamic" : "static",
      weights_must_travel(view) ? "travel" : "stay 1");
  for (int node = 0; node < std::min(graph.nodes(), kMostNodesShown); ++node) {
    // Where all rounds are the same, whom it sends to: of FairScale's ring, one of the two in its list.
    const auto [book, entries] = entries_shown(graph.is_dynamic() ? graph.phone_book(node) : graph.peers(node, 0).out);
    text += fmt::format("{:>6}: {}{}\n", node, fmt::join(book, " "),
                        entries > kMostEntriesShown ? fmt::format(" ... {} more", entries - kMostEntriesShown) : "");
  }
  if (graph.nodes() > kMostNodesShown)
    text += fmt::format("   ...: {} more\n", run::counted(graph.nodes() - kMostNodesShown, "node"));
  if (view.findings) text += findings_text(view);
  if (view.spectrum) {
    text += fmt::format(
        "distance to the mean after {1}: {0:.6g} of the initial one, {2:.6g} per round; spectral gap {3:.6g}{4}\n",
        view.spectrum->contraction, run::counted(view.spectrum->rounds, "round"), view.spectrum->per_round,
        view.spectrum->spectral_gap, view.spectrum->is_doubly_stochastic ? "" : " in the long run");
  } else {
    text += "spectral gap: not computed for this number of nodes of this graph\n";
  }
  if (graph.nodes() <= kMostNodesShown && gossip::blocks_one_at_a_time(graph, 0))
    text += "blocking sends, one at a time, deadlock\n";
  if (!view.rounds.empty()) text += " round  error\n";
  for (std::size_t round = 0; round < view.rounds.size(); ++round)
    text += fmt::format("{:>6}  {:.3e}\n", round + 1, view.rounds[round].error);
  return text;
}

nlohmann::json gossip_json(const GossipView& view) {
  nlohmann::json books = nlohmann::json::array(), errors = nlohmann::json::array();
  for (int node = 0; node < std::min(view.graph.nodes(), kMostNodesShown); ++node)
    books.push_back(entries_shown(view.graph.phone_book(node)).first);
  for (const auto& round : view.rounds) errors.push_back(round.error);
  nlohmann::json all{{"graph", name_of(view.graph.options().kind)},
                     {"nodes", view.graph.nodes()},
                     {"peers", view.graph.peers_per_round()},
                     {"regular", view.graph.is_regular()},
                     {"dynamic", view.graph.is_dynamic()},
                     {"phone_book", books},
                     {"error", errors}};
  if (view.spectrum)
    all["spectrum"] = {{"rounds", view.spectrum->rounds},
                       {"contraction", view.spectrum->contraction},
                       {"per_round", view.spectrum->per_round},
                       {"spectral_gap", view.spectrum->spectral_gap}};
  if (view.findings) {
    const GossipSums& sums = view.findings->sums;
    all["file"] = view.name;
    all["period"] = view.findings->period;
    all["connected"] = view.findings->unheard.empty();
    if (view.graph.nodes() <= kMostNodesSummed)
      all["sums"] = {{"rows", {sums.least_row, sums.largest_row}},
                     {"columns", {sums.least_column, sums.largest_column}},
                     {"doubly_stochastic", sums.is_doubly_stochastic()}};
    all["matrices"] = view.findings->matrices;
  }
  return all;
}

int run_gossip(const GossipCommandOptions& options) {
  if (options.format != "text" && options.format != "json" && options.format != "svg")
    throw InvalidArgument(fmt::format("--format: there is no '{}'; {}", options.format,
                                      there_are(options.format, {"text", "json", "svg"})));
  const GossipView view = gossip_view_of(options);
  const std::string text = options.format == "svg"    ? gossip_svg(view)
                           : options.format == "json" ? gossip_json(view).dump() + '\n'
                                                      : gossip_text(view);
  if (options.out.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  const auto file = output_file(options.out, options.format == "text" ? "gossip.txt" : "gossip." + options.format,
                                {{"--file", options.file}});
  record::write_file(file, text);
  fmt::print("written: {}\n", file.string());
  return 0;
}

// The peers of a node, by their distance along the ring of all nodes.
std::string_view peers_of(GraphKind kind) {
  switch (kind) {
    case GraphKind::directed_exponential:
      return "1, 2, 4, ... nodes after and before it, one after the other";
    case GraphKind::n_peer_exponential:
      return "powers of p + 1 after it, p peers per round";
    case GraphKind::bipartite_exponential:
      return "1 and 1 + 2^i nodes after and before it; an even number of nodes";
    case GraphKind::directed_linear:
      return "every odd distance after and before it";
    case GraphKind::bipartite_linear:
      return "every odd distance after and before it; an even number of nodes";
    case GraphKind::ring:
      return "the next and the previous node";
    case GraphKind::static_exponential:
      return "1, 2, 4, ... nodes after it, all in every round";
    case GraphKind::mesh:
      return "the neighbours in a grid of --rows rows";
    case GraphKind::star:
      return "the center; of the center all other nodes";
    case GraphKind::complete:
      return "all other nodes";
    case GraphKind::random_matching:
      return "one other node, drawn in each round from --seed";
    case GraphKind::phone_book:
      break;
  }
  return "";
}

int list_graphs() {
  fmt::print("{:<23}{:<38}peers of a node\n", "graph", "name in FairScale");
  for (const GraphKind kind : gossip::kNamedGraphs)
    fmt::print("{:<23}{:<38}{}\n", gossip::name_of(kind), gossip::fairscale_name_of(kind), peers_of(kind));
  return 0;
}

}  // namespace

Command add_gossip(CLI::App& app, const Program&) {
  CLI::App* command =
      app.add_subcommand("gossip", "Show a gossip graph: the peers of each node, and how fast the nodes agree");
  auto options = std::make_shared<GossipCommandOptions>();
  command->add_option("--graph", options->graph, "graph by its name here or in FairScale; --list prints all")
      ->capture_default_str();
  CLI::Option* const file =
      command->add_option("--file", options->file, "show the graph in this CSV or JSON")->type_name("FILE");
  const auto add_number = [&](const char* name, int& to, int least, int most, const char* words) {
    command->add_option(name, to, words)->check(at_least(least, most))->capture_default_str();
  };
  add_number("--nodes", options->nodes, 1, kMostNodesSimulated, "number of nodes");
  add_number("--peers", options->peers, 0, kMostNodesSimulated, "peers per round; 0 is the graph's own number");
  command->add_option("--mixing", options->mixing, "mixing weights: uniform, metropolis-hastings or skewed")
      ->capture_default_str();
  add_number("--rounds", options->rounds, 0, kMostRoundsSimulated, "number of simulated rounds");
  add_number("--rows", options->rows, 0, kMostNodesSimulated, "rows of a mesh; 0 is the most nearly square mesh");
  add_number("--center", options->center, 0, kMostNodesSimulated, "center node of a star");
  command->add_option("--seed", options->seed, "random seed of matchings and of the simulated values")
      ->check(seed_number())
      ->capture_default_str();
  command
      ->add_option("--convention", options->convention,
                   "plumbline, or fairscale (graphs exactly as FairScale 0.4.13 builds them)")
      ->capture_default_str();
  command->add_option("--format", options->format, "text, json or svg")->type_name("FORMAT")->capture_default_str();
  command
      ->add_option("--out", options->out,
                   "file to write in place of standard output; in a folder gossip.txt, .json or .svg")
      ->type_name("FILE");
  CLI::Option* const list =
      command->add_flag("--list", options->list, "print the graphs with their peers, and show none");
  for (CLI::Option* other : command->get_options())
    if (other != list && other != command->get_help_ptr()) list->excludes(other);
  for (const char* other : {"--graph", "--nodes", "--peers", "--rows", "--center", "--convention"})
    file->excludes(command->get_option(other));
  group_options(
      *command, "Graph",
      {"--list", "--graph", "--file", "--nodes", "--peers", "--rows", "--center", "--convention", "--mixing"});
  group_options(*command, "Simulation", {"--rounds", "--seed"});
  group_options(*command, "Output", {"--format", "--out"});
  command->footer(
      "Example: plumbline gossip --graph mesh --nodes 12 --mixing metropolis-hastings\n"
      "         plumbline gossip --list\n"
      "         plumbline gossip --file edges.csv --rounds 8\n"
      "A graph file is a CSV of edges, or JSON: peer lists, of which each node takes `peers` entries per\n"
      "round (0: all), or the edges of each round. A round repeats after the last; round and weight, the\n"
      "sender's share, may be missing.\n"
      "  round,from,to,weight                {\"phone_book\": [[1, 2], [2, 0], [0, 1]], \"peers\": 1}\n"
      "  0,0,1,0.5                           {\"rounds\": [[[0, 1, 0.5], [1, 0, 0.5]]]}\n"
      "Words of the text:\n"
      "  regular       in each round every node sends and receives the same number of messages\n"
      "  dynamic       peers change from round to round; static: they do not\n"
      "  shares        the part of its value that a node keeps, and sends to each peer (--mixing)\n"
      "  weights       of push-sum: they travel with the values, which are divided by them, where the\n"
      "                shares alone do not keep the mean; else they stay 1 and are not sent\n"
      "  NODE: PEERS   the list that a node takes its peers from; of a static graph its peers\n"
      "  distance      of all values to their mean, at worst, after the rounds until the graph repeats\n"
      "  spectral gap  1 less the distance that one round leaves: 1 is at once the mean, 0 is never\n"
      "  round, error  distance to the mean of the simulated values after that round, over the first one\n"
      "Exit status: 0 success; 2 usage error; 3 the output was not written.");
  return [options] { return options->list ? list_graphs() : run_gossip(*options); };
}

}  // namespace plumbline::cli
