// `plumbline topology`: where each rank of a world sits, who is in a group with whom, and whether creations can hang.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/arguments.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/topology_view.hpp"
#include "harness/record/file.hpp"
#include "harness/run/counted.hpp"
#include "reference/comm/errors.hpp"
#include "reference/groups/lint.hpp"

namespace plumbline::cli {
namespace {

struct TopologyOptions {
  std::string axes, dims, bytes;
  std::string convention = "plumbline";
  std::string ranks_per_node, rank, world_size;
  bool compare = false;
  std::string lint;
  std::vector<std::string> partial;
  std::string rule = "all_ranks";
  std::string format = "text";
  std::string out;
};

std::optional<int> optional_number(const std::string& option, const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(whole_number(option, text));
}

// "1e9" and "4000000", exactly.
std::int64_t byte_count(const std::string& text) {
  if (const auto bytes = parse_bytes(text); bytes && *bytes <= (std::int64_t{1} << 53)) return *bytes;
  double value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr double kMost = 9007199254740992;  // beyond it a double skips numbers
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0) || value > kMost ||
      value != std::floor(value))
    throw InvalidArgument(fmt::format("--bytes: '{}' is not a whole number of bytes from 0 to 2^53", text));
  return static_cast<std::int64_t>(value);
}

topology::Volume volume_of(const std::string& text) {
  topology::Volume volume;
  if (text.empty()) return volume;
  for (const std::string& part : split(text)) {
    const std::size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InvalidArgument(fmt::format("--bytes: '{}' is not AXIS=BYTES", part));
    if (!volume.emplace(part.substr(0, equals), byte_count(part.substr(equals + 1))).second)
      throw InvalidArgument(fmt::format("--bytes: axis '{}' appears twice in '{}'", part.substr(0, equals), text));
  }
  return volume;
}

bool is_printable(const std::string& name) {
  try {
    (void)nlohmann::json(name).dump();  // throws unless it is UTF-8
  } catch (const nlohmann::json::type_error&) {
    return false;
  }
  return std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// Names go into pictures and JSON as they are.
void check_names(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!is_printable(names[i]))
      throw InvalidArgument(fmt::format("--axes: the name of axis {} is not printable UTF-8", i));
}

TopologyRequest topology_asked(const TopologyOptions& options) {
  if (options.axes.empty()) throw InvalidArgument("--axes: it names no axis; --axes pipe,data,model names three");
  if (options.dims.empty()) throw InvalidArgument("--dims: it has no size; --dims 2,4,2 is of three axes");
  TopologyRequest request{.axes = split(options.axes),
                          .convention = options.convention,
                          .ranks_per_node = optional_number("--ranks-per-node", options.ranks_per_node),
                          .bytes = volume_of(options.bytes),
                          .rank = optional_number("--rank", options.rank)};
  check_names(request.axes);
  for (const std::string& size : split(options.dims)) request.dims.push_back(whole_number("--dims", size));
  return request;
}

void write(const TopologyOptions& options, const std::string& text) {
  if (options.out.empty()) {
    fmt::print("{}", text);
    return;
  }
  const std::filesystem::path file = output_file(
      options.out, "topology." + (options.format == "text" ? "txt" : options.format), {{"--lint", options.lint}});
  record::write_file(file, text);
  fmt::print("written: {}\n", file.string());
}

std::string shown(const TopologyOptions& options) {
  const TopologyRequest request = topology_asked(options);
  const TopologyView view = view_of(request);
  if (options.format == "svg") return topology_svg(view, request.rank);
  if (options.format == "json") return request.rank ? rank_json(view, *request.rank) : topology_json(view);
  return request.rank ? rank_text(view, *request.rank) : topology_text(view);
}

std::string compared(const TopologyOptions& options) {
  const groups::Sizes sizes = sizes_of(topology_asked(options));
  const std::int64_t ranks = std::int64_t{sizes.pipeline} * sizes.data * sizes.tensor;
  if (ranks > kMostComparedRanks)
    throw InvalidArgument(
        fmt::format("--compare: {} ranks; it compares every group, of at most {} ranks", ranks, kMostComparedRanks));
  const groups::Comparison comparison = groups::compare_conventions(sizes);
  return options.format == "json" ? comparison_json(comparison) : comparison_text(comparison);
}

groups::CreationRule rule_named(const std::string& name) {
  if (name == "all_ranks") return groups::CreationRule::all_ranks;
  if (name == "members_only") return groups::CreationRule::members_only;
  throw InvalidArgument(fmt::format("--rule '{}'; it must be all_ranks or members_only", name));
}

std::string lint_json(const groups::LintReport& report) {
  using Json = nlohmann::ordered_json;
  Json findings = Json::array();
  for (const groups::Finding& finding : report.findings)
    findings.push_back({{"severity", name_of(finding.severity)},
                        {"kind", finding.kind},
                        {"rank", finding.rank},
                        {"sequence", finding.sequence < 0 ? Json() : Json(finding.sequence)},
                        {"message", finding.message}});
  return Json{{"valid", report.valid()}, {"findings", findings}}.dump(2) + '\n';
}

std::string lint_text(const TopologyOptions& options, const groups::LintReport& report,
                      const groups::CreationLog& log) {
  std::size_t creations = 0, errors = 0;
  std::string text;
  for (const auto& own : log.creations) creations += own.size();
  for (const groups::Finding& finding : report.findings) {
    errors += finding.severity == groups::Severity::error;
    text += fmt::format("{} {}: rank {}{} {}\n", name_of(finding.severity), finding.kind, finding.rank,
                        finding.sequence < 0 ? "" : fmt::format(", creation {},", finding.sequence), finding.message);
  }
  const std::size_t warnings = report.findings.size() - errors;
  return text + fmt::format("{}: {}: {} of {} under rule {}; {}, {}\n", report.valid() ? "OK" : "NOT OK", options.lint,
                            run::counted(creations, "creation"), run::counted(log.world_size(), "rank"), options.rule,
                            run::counted(errors, "error"), run::counted(warnings, "warning"));
}

// A mode that is misspelt would excuse nobody, in silence.
void check_partial_modes(const TopologyOptions& options, const groups::CreationLog& log) {
  std::set<std::string> modes;
  for (const auto& own : log.creations)
    for (const groups::Creation& creation : own) modes.insert(creation.mode);
  modes.erase("");
  for (const std::string& mode : options.partial)
    if (!modes.contains(mode))
      throw InvalidArgument(fmt::format("--partial '{}': there is no such mode in '{}'; there are [{}]", mode,
                                        options.lint, fmt::join(modes, ", ")));
}

int lint_file(const TopologyOptions& options) {
  const auto rule = rule_named(options.rule);
  const auto world_size = optional_number("--world-size", options.world_size);
  if (world_size && (*world_size < 1 || *world_size > groups::kLargestRank + 1))
    throw InvalidArgument(fmt::format("--world-size {}; it must be 1 to {}", *world_size, groups::kLargestRank + 1));
  groups::CreationLog log;
  try {
    log = groups::parse_creation_log(read_text("--lint", options.lint), world_size);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("--lint '{}': {}", options.lint, error.what()));
  }
  if (log.world_size() == 0)
    throw InvalidArgument(fmt::format("--lint '{}': there is no creation in it", options.lint));
  check_partial_modes(options, log);
  const groups::LintReport report =
      groups::lint(log, {.rule = rule, .partial_modes = {options.partial.begin(), options.partial.end()}});
  write(options, options.format == "json" ? lint_json(report) : lint_text(options, report, log));
  return report.valid() ? 0 : 1;
}

int run_topology(const TopologyOptions& options) {
  if (std::set<std::string>{"text", "json", "svg"}.count(options.format) == 0)
    throw InvalidArgument(fmt::format("--format '{}'; it must be text, json or svg", options.format));
  if (options.format == "svg" && (options.compare || !options.lint.empty()))
    throw InvalidArgument(
        fmt::format("--format svg: {} has no picture; it is text or json", options.compare ? "--compare" : "--lint"));
  if (!options.lint.empty()) return lint_file(options);
  write(options, options.compare ? compared(options) : shown(options));
  return 0;
}

constexpr const char* kTopologyFooter =
    "Example: plumbline topology --axes pipe,data,model --dims 2,4,2 --ranks-per-node 8 \\\n"
    "             --bytes data=1e9,model=4e6\n"
    "         plumbline topology --axes pipe,data,model --dims 2,4,2 --format svg --out grid.svg\n"
    "         plumbline topology --axes pipe,data,model --dims 2,4,2 --rank 5\n"
    "         plumbline topology --lint groups.jsonl\n"
    "--lint reads JSON Lines, one line per group creation that a rank calls, including groups without it;\n"
    "sequence and mode may be missing:\n"
    "  {\"rank\": 0, \"sequence\": 0, \"mode\": \"data\", \"ranks\": [0, 2]}\n"
    "  {\"rank\": 0, \"sequence\": 1, \"mode\": \"data\", \"ranks\": [1, 3]}\n"
    "  {\"rank\": 1, \"sequence\": 0, \"mode\": \"data\", \"ranks\": [0, 2]}\n"
    "Exit status: 0 success; 1 --lint found an error; 2 usage error; 3 the output was not written.";

void add_view_options(CLI::App& command, TopologyOptions& options) {
  command.add_option("--axes", options.axes, "names of the axes, slowest first: pipe,data,model")->type_name("NAMES");
  command.add_option("--dims", options.dims, "sizes of the axes: 2,4,2")->type_name("SIZES");
  command
      .add_option("--convention", options.convention,
                  "order of ranks and of group creations: plumbline, deepspeed, megatron, colossalai (commit 96780e6) "
                  "or torch; megatron and colossalai order pipe, data and model by their own rule")
      ->capture_default_str();
  command.add_option("--ranks-per-node", options.ranks_per_node, "number of consecutive ranks on a node")
      ->type_name("N");
  command
      .add_option(
          "--bytes", options.bytes,
          "bytes that each rank sends along an axis: data=1e9,model=4e6; prints the bytes that stay inside nodes")
      ->type_name("AXIS=BYTES,...");
}

}  // namespace

Command add_topology(CLI::App& app, const Program&) {
  CLI::App* command = app.add_subcommand(
      "topology", "Show the coordinates and groups of each rank; check group creations for deadlocks");
  auto options = std::make_shared<TopologyOptions>();
  add_view_options(*command, *options);
  command->add_option("--rank", options->rank, "show one rank only: coordinates, groups, stage, neighbours")
      ->type_name("RANK");
  CLI::Option* const compare =
      command->add_flag("--compare", options->compare, "print all conventions side by side, for the same sizes");
  CLI::Option* const lint = command
                                ->add_option("--lint", options->lint,
                                             "check whether the group creations in this file can hang or mix members")
                                ->type_name("FILE");
  command
      ->add_option("--rule", options->rule,
                   "ranks that take part in a creation: all_ranks (torch) or members_only (MPI)")
      ->needs(lint)
      ->capture_default_str();
  command
      ->add_option("--partial", options->partial,
                   "mode whose groups may leave ranks out, such as EMBEDDING_GROUP; may be repeated")
      ->needs(lint)
      ->type_name("MODE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--world-size", options->world_size, "number of ranks, if some created no group")
      ->needs(lint)
      ->type_name("N");
  command->add_option("--format", options->format, "text, json or svg")->type_name("FORMAT")->capture_default_str();
  command
      ->add_option("--out", options->out,
                   "file to write in place of standard output; in a folder topology.txt, .json or .svg")
      ->type_name("FILE");
  for (const char* other : {"--axes", "--dims", "--convention", "--ranks-per-node", "--bytes", "--rank", "--compare"})
    lint->excludes(command->get_option(other));
  for (const char* other : {"--convention", "--ranks-per-node", "--bytes", "--rank"})
    compare->excludes(command->get_option(other));
  group_options(*command, "Grid",
                {"--axes", "--dims", "--convention", "--ranks-per-node", "--bytes", "--rank", "--compare"});
  group_options(*command, "Group creations", {"--lint", "--rule", "--partial", "--world-size"});
  group_options(*command, "Output", {"--format", "--out"});
  command->footer(kTopologyFooter);
  return [options] { return run_topology(*options); };
}

}  // namespace plumbline::cli
