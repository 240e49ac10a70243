// `plumbline schedule`: what each rank of a pipeline does when, what it costs, and whether a schedule is right.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/schedule_file.hpp"
#include "harness/cli/schedule_partition.hpp"
#include "harness/cli/schedule_view.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

using schedules::CheckReport;
using schedules::Schedule;
using schedules::StageTimes;

struct ScheduleOptions {
  std::string name, stages, micro_batches, chunks;
  std::string durations, latency, bandwidth, message_bytes, stragglers, jitter, seed;
  bool rendezvous = false;
  std::string memory_limit;
  bool slots = false;
  std::string lower = "none";
  std::string format = "text";
  std::string out;
  bool list = false;
  std::string file, check, notation, stage_to_rank, most_activations;
  std::string layers, partition = "optimal", memory_bytes, bytes_per_parameter;
  bool forward_only = false, fifo = false;
};

int positive(const std::string& option, const std::string& text) {
  const int value = whole_number(option, text);
  if (value < 1) throw InvalidArgument(fmt::format("{}: must be 1 or more, got {}", option, value));
  return value;
}

double amount(const std::string& option, const std::string& text, const char* what) {
  const double value = number(option, text);
  if (value < 0) throw InvalidArgument(fmt::format("{}: {} must be 0 or more, got '{}'", option, what, text));
  return value;
}

// "F=1,B=2" and, of each stage, "F=1,1,2,1,B=2,2,4,2".
std::vector<StageTimes> durations_of(const std::string& text, std::size_t stages) {
  std::vector<std::pair<char, std::vector<double>>> given;
  for (const std::string& part : split(text)) {
    const std::size_t equals = part.find('=');
    if (equals != part.npos) {
      const std::string action = part.substr(0, equals);
      if (!std::set<std::string>{"F", "B", "I", "W"}.contains(action))
        throw InvalidArgument(fmt::format("--durations: '{}' is not F, B, I or W in '{}'", action, part));
      if (std::ranges::count(given, action.front(), &std::pair<char, std::vector<double>>::first) > 0)
        throw InvalidArgument(fmt::format("--durations: {} appears twice in '{}'", action, text));
      given.emplace_back(action.front(), std::vector<double>());
    }
    if (given.empty()) throw InvalidArgument(fmt::format("--durations: '{}' is not ACTION=SECONDS", part));
    given.back().second.push_back(
        amount("--durations", part.substr(equals == part.npos ? 0 : equals + 1), "a duration"));
  }
  std::vector<StageTimes> times(1);
  for (const auto& [action, seconds] : given) {
    if (seconds.size() != 1 && seconds.size() != stages)
      throw InvalidArgument(fmt::format("--durations: {} has {} entries; it has one, or one for each of {} stages",
                                        action, seconds.size(), stages));
    if (seconds.size() > times.size()) times.resize(stages, times.front());
  }
  for (const auto& [action, seconds] : given)
    for (std::size_t stage = 0; stage < times.size(); ++stage) {
      const double value = seconds[seconds.size() == 1 ? 0 : stage];
      if (action == 'F') times[stage].forward = value;
      if (action == 'B') times[stage].backward = value;
      if (action == 'I') times[stage].input_gradient = value;
      if (action == 'W') times[stage].weight_gradient = value;
    }
  return times;
}

// "2=1.5,3=2": rank 2 takes 1.5 times as long.
std::vector<double> stragglers_of(const std::string& text, int ranks) {
  std::vector<double> factors;
  if (text.empty()) return factors;
  factors.assign(static_cast<std::size_t>(ranks), 1);
  std::set<int> given;
  for (const std::string& part : split(text)) {
    const std::size_t equals = part.find('=');
    if (equals == part.npos) throw InvalidArgument(fmt::format("--stragglers: '{}' is not RANK=FACTOR", part));
    const int rank = whole_number("--stragglers", part.substr(0, equals));
    if (rank < 0 || rank >= ranks)
      throw InvalidArgument(fmt::format("--stragglers: rank {} is not from 0 to {}", rank, ranks - 1));
    if (!given.insert(rank).second)
      throw InvalidArgument(fmt::format("--stragglers: rank {} appears twice in '{}'", rank, text));
    factors[static_cast<std::size_t>(rank)] = amount("--stragglers", part.substr(equals + 1), "a factor");
  }
  return factors;
}

std::uint64_t seed_of(const std::string& text) {
  const int seed = whole_number("--seed", text);
  if (seed < 0) throw InvalidArgument(fmt::format("--seed: must be 0 or more, got {}", seed));
  return static_cast<std::uint64_t>(seed);
}

schedules::SimulationOptions simulation_of(const ScheduleOptions& options, int ranks, int stages) {
  schedules::SimulationOptions simulation;
  if (!options.durations.empty()) simulation.stages = durations_of(options.durations, static_cast<std::size_t>(stages));
  if (!options.latency.empty()) simulation.links.latency = amount("--latency", options.latency, "a latency");
  if (!options.bandwidth.empty()) simulation.links.bandwidth = number("--bandwidth", options.bandwidth);
  if (simulation.links.bandwidth <= 0)
    throw InvalidArgument(fmt::format("--bandwidth: must be above 0 bytes per second, got '{}'", options.bandwidth));
  if (!options.message_bytes.empty()) {
    const auto bytes = parse_bytes(options.message_bytes);
    simulation.message_bytes = {bytes ? static_cast<double>(*bytes)
                                      : amount("--message-bytes", options.message_bytes, "a size")};
  }
  simulation.rank_slowdown = stragglers_of(options.stragglers, ranks);
  if (!options.jitter.empty()) simulation.jitter = amount("--jitter", options.jitter, "it");
  if (!options.seed.empty()) simulation.seed = seed_of(options.seed);
  simulation.rendezvous = options.rendezvous;
  return simulation;
}

std::vector<int> numbers_of(const std::string& option, const std::string& text) {
  std::vector<int> numbers;
  for (const std::string& part : split(text)) {
    numbers.push_back(whole_number(option, part));
    if (numbers.back() < 0) throw InvalidArgument(fmt::format("{}: must be 0 or more, got {}", option, numbers.back()));
  }
  return numbers;
}

std::vector<int> memory_limits_of(const ScheduleOptions& options, const ScheduleRequest& request) {
  if (options.memory_limit.empty()) return {};
  if (request.schedule_kind != schedules::ScheduleKind::automatic)
    throw InvalidArgument(
        fmt::format("--memory-limit: '{}' has an order of its own; --name auto is made for a limit", options.name));
  return numbers_of("--memory-limit", options.memory_limit);
}

// Not more than some seconds and a few gigabytes take: as much as 1,024 ranks have with 8,192 micro-batches. An idle
// rank is explained by the ranks that it waits for, one by one, which makes the square of the ranks in all.
void require_size(const schedules::Shape& shape, const std::string& format) {
  constexpr std::int64_t kMostComputations = std::int64_t{1} << 23;
  constexpr int kMostExplained = 1 << 14;
  const auto& [ranks, micro_batches, stages_per_rank] = shape;
  if (static_cast<double>(ranks) * stages_per_rank * micro_batches > static_cast<double>(kMostComputations))
    throw InvalidArgument(
        fmt::format("--stages, --micro-batches: {} ranks of {} and {} make more than {} computations of a kind", ranks,
                    counted(static_cast<std::size_t>(stages_per_rank), "stage"),
                    counted(static_cast<std::size_t>(micro_batches), "micro-batch"), kMostComputations));
  if (ranks > kMostExplained && format != "csv")
    throw InvalidArgument(
        fmt::format("--stages: --format {} explains {} ranks at most, got {}; --format csv has only the plan", format,
                    kMostExplained, ranks));
}

// An option that would change nothing is one that somebody misunderstands.
void refuse_ignored_costs(const ScheduleOptions& options, schedules::ScheduleKind schedule_kind) {
  if (!options.bandwidth.empty() && options.message_bytes.empty() && options.layers.empty())
    throw InvalidArgument(
        fmt::format("--bandwidth {}: messages have no size; give --message-bytes, too", options.bandwidth));
  if (!options.message_bytes.empty() && options.bandwidth.empty() && options.layers.empty())
    throw InvalidArgument(fmt::format("--message-bytes {}: without --bandwidth messages take no time for their size",
                                      options.message_bytes));
  if (options.format != "csv" || schedule_kind == schedules::ScheduleKind::automatic) return;
  const std::string rendezvous = options.rendezvous ? "given" : "";
  for (const auto& [option, value] : {std::pair{"--durations", &options.durations},
                                      {"--latency", &options.latency},
                                      {"--bandwidth", &options.bandwidth},
                                      {"--stragglers", &options.stragglers},
                                      {"--jitter", &options.jitter},
                                      {"--layers", &options.layers},
                                      {"--rendezvous", &rendezvous}})
    if (!value->empty())
      throw InvalidArgument(
          fmt::format("{}: --format csv has the order of actions alone, which it does not change", option));
}

void refuse_seed_alone(const ScheduleOptions& options) {
  if (!options.seed.empty() && options.jitter.empty())
    throw InvalidArgument("--seed: only for --jitter; give --jitter, too");
}

void require_messages_to_meet(const ScheduleOptions& options, bool has_messages) {
  if (options.rendezvous && !has_messages)
    throw InvalidArgument(
        "--rendezvous: there are no messages to wait for; put them in with --lower plumbline or torch");
}

ScheduleRequest request_of(const ScheduleOptions& options) {
  if (options.name.empty())
    throw InvalidArgument("--name: it names no schedule; --list names all, --file reads one from a file");
  ScheduleRequest request{.schedule_kind = schedule_kind_named(options.name), .lowering = lowering_of(options.lower)};
  for (const auto& [option, value] :
       {std::pair{"--stages", &options.stages}, {"--micro-batches", &options.micro_batches}})
    if (value->empty())
      throw InvalidArgument(fmt::format("{}: it is missing; give --stages 4 --micro-batches 8", option));
  request.shape = {.ranks = positive("--stages", options.stages),
                   .micro_batches = positive("--micro-batches", options.micro_batches),
                   .stages_per_rank = options.chunks.empty()
                                          ? schedules::traits_of(request.schedule_kind).usual_stages_per_rank
                                          : positive("--chunks", options.chunks)};
  require_size(request.shape, options.format);
  request.options = simulation_of(options, request.shape.ranks, request.shape.ranks * request.shape.stages_per_rank);
  require_messages_to_meet(options, request.lowering != Lowering::none);
  refuse_seed_alone(options);
  request.activation_limits = memory_limits_of(options, request);
  refuse_ignored_costs(options, request.schedule_kind);
  return request;
}

// Weight, gradient and Adam's two moments, of 32 bits each.
constexpr double kBytesPerParameter = 16;

std::int64_t whole_bytes(const std::string& option, const std::string& text) {
  constexpr double kMost = 9007199254740992;  // beyond it a double skips numbers
  const auto bytes = parse_bytes(text);
  const double value = bytes ? static_cast<double>(*bytes) : amount(option, text, "a size");
  if (value > kMost || value != std::floor(value))
    throw InvalidArgument(fmt::format("{}: '{}' is not a whole number of bytes from 0 to 2^53", option, text));
  return static_cast<std::int64_t>(value);
}

// The layers of --layers as stages; nothing where none are given.
std::optional<PartitionChoice> choice_of(const ScheduleOptions& options, const ScheduleRequest& request) {
  if (options.layers.empty()) return std::nullopt;
  const double each = options.bytes_per_parameter.empty()
                          ? kBytesPerParameter
                          : amount("--bytes-per-parameter", options.bytes_per_parameter, "a size");
  LayerFile layers = parse_layers(options.layers, read_text("--layers", options.layers), each);
  if (!options.message_bytes.empty() && layers.has_output_bytes)
    throw InvalidArgument(
        fmt::format("--message-bytes: '{}' has a column output_bytes, which says it", options.layers));
  for (schedules::LayerCost& cost : layers.costs)
    if (!options.message_bytes.empty()) cost.output_bytes = whole_bytes("--message-bytes", options.message_bytes);
  std::optional<std::int64_t> memory;
  if (!options.memory_bytes.empty()) memory = whole_bytes("--memory-bytes", options.memory_bytes);
  return choose_partition(request, std::move(layers), options.partition, memory);
}

std::string extension_of(const std::string& format) {
  if (format == "text") return "txt";
  return format == "trace" ? "json" : format;
}

void write_schedule(const ScheduleOptions& options, ScheduleRequest request) {
  const std::optional<PartitionChoice> choice = choice_of(options, request);
  if (choice) request = with_partition(std::move(request), *choice);
  const std::filesystem::path file = options.out.empty()
                                         ? ""
                                         : output_file(options.out, "schedule." + extension_of(options.format),
                                                       {{"--layers", options.layers}, {"--file", options.file}});
  const bool terminal = options.out.empty() && ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  if (options.format == "csv") {
    const Schedule schedule = made_for(request, [&] { return schedule_of(request); });
    TextOutput output(file);
    for (const auto& actions : schedule.ranks) output.write(schedules::to_csv(actions) + '\n');
    output.finish();
  } else {
    const ScheduleView view = made_for(request, [&] { return view_of(request); });
    const std::string text = options.format == "svg"    ? schedule_svg(view)
                             : options.format == "json" ? schedule_json(view)
                             : options.format == "text"
                                 ? (choice ? partition_text(*choice) : "") + schedule_text(view, terminal) +
                                       (options.slots ? slots_text(view) : "")
                                 : "";
    TextOutput output(file);
    options.format == "trace" ? write_trace(view, output) : output.write(text);
    output.finish();
  }
  if (!options.out.empty()) fmt::print("written: {}\n", file.string());
}

void list_schedules() {
  for (const schedules::ScheduleKind schedule_kind : schedules::schedule_kinds())
    fmt::print("{:<24} {}\n", schedules::name_of(schedule_kind), schedules::traits_of(schedule_kind).rule);
  fmt::print(
      "--stages counts ranks; --chunks counts the stages of the model on each of them.\n"
      "PyTorch's names (1F1B, Interleaved1F1B, ZBVZeroBubble) and those of run specifications (interleaved-1f1b) "
      "are taken, too, in upper and lower case.\n");
}

std::string deadlock_text(const CheckReport& report) {
  if (report.deadlock_free_rendezvous) return "free of deadlock, buffered and under rendezvous";
  return report.deadlock_free_buffered ? "free of deadlock where sends are buffered, not under rendezvous"
                                       : "freedom from deadlock not proved";
}

std::string check_text(const ScheduleOptions& options, const ScheduleFile& file, const CheckReport& report) {
  const Schedule& schedule = file.schedule;
  std::string text = notation_text(file);
  for (const schedules::Problem& problem : report.problems) text += to_string(problem) + '\n';
  if (report.omitted > 0) text += fmt::format("and {} more\n", report.omitted);
  if (const std::string hint = notation_hint(file); !report.valid() && !hint.empty()) text += hint + '\n';
  std::size_t actions = 0;
  for (const auto& row : schedule.ranks) actions += row.size();
  text +=
      fmt::format("{}: {}: {} on {}, {}, {}; {}; {}, {}\n", report.valid() ? "VALID" : "NOT VALID", options.check,
                  counted(static_cast<std::size_t>(schedule.stages), "stage"), counted(schedule.ranks.size(), "rank"),
                  counted(static_cast<std::size_t>(schedule.micro_batches), "micro-batch"), counted(actions, "cell"),
                  deadlock_text(report), counted(report.errors, "error"), counted(report.warnings, "warning"));
  constexpr std::size_t kShown = 64;
  if (!report.peak_activations.empty() && report.peak_activations.size() <= kShown)
    text += fmt::format("peak activations by rank: {}\n", fmt::join(report.peak_activations, " "));
  else if (!report.peak_activations.empty())
    text += fmt::format("peak activations: {} at most\n", std::ranges::max(report.peak_activations));
  return text;
}

GivenPlacement placement_of(const ScheduleOptions& options) {
  GivenPlacement placement;
  if (!options.stage_to_rank.empty()) placement.stage_to_rank = numbers_of("--stage-to-rank", options.stage_to_rank);
  if (!options.micro_batches.empty()) placement.micro_batches = positive("--micro-batches", options.micro_batches);
  if (options.notation.empty()) return placement;
  placement.notation = notation_named(options.notation);
  if (!placement.notation)
    throw InvalidArgument(fmt::format("--notation: there is no '{}'; {}", options.notation,
                                      there_are(options.notation, {"torch", "torch-old"})));
  return placement;
}

int check_file(const ScheduleOptions& options) {
  if (options.format != "text") throw InvalidArgument("--check: its report is text");
  schedules::CheckOptions how{.matching = options.fifo ? schedules::Matching::fifo : schedules::Matching::name,
                              .forward_only = options.forward_only};
  ScheduleFile checked;
  const std::filesystem::path file =
      options.out.empty() ? "" : output_file(options.out, "schedule.txt", {{"--check", options.check}});
  CheckReport report;
  try {
    checked = parse_schedule_file(read_text("--check", options.check), placement_of(options));
    if (!options.most_activations.empty()) {
      how.activation_limits = numbers_of("--most-activations", options.most_activations);
      if (how.activation_limits.size() == 1)
        how.activation_limits.resize(checked.schedule.ranks.size(), how.activation_limits[0]);
    }
    report = schedules::check(checked.schedule, how);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("--check '{}': {}", options.check, error.what()));
  }
  TextOutput output(file);
  output.write(check_text(options, checked, report));
  output.finish();
  return report.valid() ? 0 : 1;
}

bool has_kind(const Schedule& schedule, bool (*is_it)(schedules::ActionKind)) {
  return std::ranges::any_of(schedule.ranks, [&](const auto& row) {
    return std::ranges::any_of(row, [&](const schedules::Action& action) { return is_it(action.kind); });
  });
}

// What is wrong with a schedule, or needs buffers where there are none, has no times.
CheckReport require_valid(const ScheduleFile& file, bool forward_only, bool rendezvous) {
  CheckReport report = schedules::check(file.schedule, {.forward_only = forward_only});
  const auto prevents = [&](const schedules::Problem& problem) {
    return problem.severity == schedules::ProblemSeverity::error &&
           (rendezvous || !report.deadlock_free_buffered || problem.kind != schedules::ProblemKind::deadlock);
  };
  const auto first = std::ranges::find_if(report.problems, prevents);
  const std::string hint = notation_hint(file);
  if (first != report.problems.end())
    throw InvalidArgument(fmt::format("{}; {} in all, which --check reports{}", to_string(*first),
                                      counted(report.errors, "error"), hint.empty() ? "" : "; " + hint));
  return report;
}

GivenSchedule given_in(const ScheduleOptions& options, const std::string& text) {
  ScheduleFile file = parse_schedule_file(text, placement_of(options));
  using Kind = schedules::ActionKind;
  const bool forward_only =
      !has_kind(file.schedule, [](Kind kind) { return is_compute(kind) && kind != Kind::forward; });
  const CheckReport report = require_valid(file, forward_only, options.rendezvous);
  return {.name = printable(std::filesystem::path(options.file).filename().string()),
          .schedule = std::move(file.schedule),
          .notes = notation_text(file) +
                   fmt::format("checked: {}; {}\n", deadlock_text(report), counted(report.warnings, "warning")),
          .forward_only = forward_only};
}

ScheduleRequest request_of_file(const ScheduleOptions& options) {
  const std::string text = read_text("--file", options.file);
  const auto given = std::make_shared<GivenSchedule>(
      on_behalf_of(fmt::format("--file '{}'", options.file), [&] { return given_in(options, text); }));
  const Schedule& schedule = given->schedule;
  const bool has_messages = has_kind(schedule, schedules::is_message);
  ScheduleRequest request{.lowering = lowering_of(options.lower), .given = given};
  if (has_messages && request.lowering != Lowering::none)
    throw InvalidArgument(fmt::format("--lower {}: '{}' has its messages", options.lower, options.file));
  std::vector<int> stages_of_rank(schedule.ranks.size());
  for (const int rank : schedule.stage_to_rank) ++stages_of_rank[static_cast<std::size_t>(rank)];
  request.shape = {.ranks = static_cast<int>(schedule.ranks.size()),
                   .micro_batches = schedule.micro_batches,
                   .stages_per_rank = std::ranges::max(stages_of_rank)};
  require_size(request.shape, options.format);
  request.options = simulation_of(options, request.shape.ranks, schedule.stages);
  require_messages_to_meet(options, has_messages || request.lowering != Lowering::none);
  refuse_seed_alone(options);
  refuse_ignored_costs(options, request.schedule_kind);
  return request;
}

int run_schedule(const ScheduleOptions& options) {
  if (!std::set<std::string>{"text", "csv", "json", "svg", "trace"}.contains(options.format))
    throw InvalidArgument(fmt::format("--format '{}'; it must be text, csv, json, svg or trace", options.format));
  if (!options.stage_to_rank.empty() && options.file.empty() && options.check.empty())
    throw InvalidArgument("--stage-to-rank requires --file or --check");
  if (!options.notation.empty() && options.file.empty() && options.check.empty())
    throw InvalidArgument("--notation requires --file or --check");
  if (options.list) {
    list_schedules();
    return 0;
  }
  if (!options.check.empty()) return check_file(options);
  if (options.slots && options.format != "text")
    throw InvalidArgument(fmt::format("--slots: they are text, got --format {}", options.format));
  write_schedule(options, options.file.empty() ? request_of(options) : request_of_file(options));
  return 0;
}

constexpr const char* kScheduleFooter =
    "Example: plumbline schedule --name zb-h1 --stages 4 --micro-batches 8\n"
    "         plumbline schedule --name 1f1b --stages 4 --micro-batches 8 \\\n"
    "             --durations F=1,1,2,1,B=2,2,4,2 --format svg --out 1f1b.svg\n"
    "         plumbline schedule --name zbv --stages 4 --micro-batches 8 --lower plumbline \\\n"
    "             --latency 0.1 --format trace --out zbv.json\n"
    "         plumbline schedule --name auto --stages 4 --micro-batches 8 \\\n"
    "             --durations F=1,1,2,1,I=1,W=0.5 --memory-limit 4\n"
    "         plumbline schedule --name 1f1b --stages 4 --micro-batches 8 --layers layers.csv\n"
    "         plumbline schedule --check mine.csv\n"
    "         plumbline schedule --file mine.csv --durations F=1,B=2 --latency 0.1\n"
    "A schedule file is in PyTorch's CSV notation, one line per rank: 0F0,0F1,0B0,0B1 or, with messages,\n"
    "0F0,0SEND_F0,0RECV_B0,0I0,0W0. PyTorch's old notation (B and W for I and W, BW for B) is recognized\n"
    "by a BW; without one give --notation torch-old. Or it is JSON as --format json prints it:\n"
    "{\"ranks\": [\"0F0,0B0\"]}. A layers file is a CSV with the columns name, type, parameters,\n"
    "forward, backward and activation_bytes, and optionally weight_gradient, parameter_bytes and\n"
    "output_bytes.\n"
    "Exit status: 0 success; 1 the checked schedule is not valid; 2 usage error; 3 the output was not\n"
    "written.";

void add_cost_options(CLI::App& command, ScheduleOptions& options) {
  command
      .add_option("--durations", options.durations,
                  "seconds of F, B, I and W on one micro-batch, for all stages or for each: F=1,B=2 or F=1,1,2,1,B=2 "
                  "(default 1; B is I + W)")
      ->type_name("ACTION=SECONDS,...");
  command.add_option("--latency", options.latency, "latency of a message (default 0)")->type_name("SECONDS");
  command.add_option("--bandwidth", options.bandwidth, "bandwidth between two ranks in bytes per second")
      ->type_name("BYTES");
  command.add_option("--message-bytes", options.message_bytes, "bytes of a stage's output, and of its gradient")
      ->type_name("BYTES");
  command.add_option("--stragglers", options.stragglers, "slowdown factor of single ranks: 2=1.5")
      ->type_name("RANK=FACTOR,...");
  command.add_option("--jitter", options.jitter, "largest random slowdown of a computation, as a share of its time")
      ->type_name("SHARE");
  command.add_option("--seed", options.seed, "random seed of the jitter")->type_name("N");
  command.add_flag("--rendezvous", options.rendezvous,
                   "complete a send only once its receive is posted; needs messages (--lower, or a --file with them)");
}

void add_layer_options(CLI::App& command, ScheduleOptions& options) {
  CLI::Option* const layers =
      command
          .add_option(
              "--layers", options.layers,
              "file of the model's measured layers: compare partitions of them, and draw the times of the chosen one")
          ->type_name("FILE")
          ->excludes(command.get_option("--durations"));
  command
      .add_option("--partition", options.partition,
                  "rule that assigns layers to stages: uniform, parameters, optimal or type:EXPRESSION")
      ->type_name("RULE")
      ->capture_default_str()
      ->needs(layers);
  command
      .add_option("--memory-bytes", options.memory_bytes,
                  "memory of a rank in bytes, for parameters and activations; for one stage per rank")
      ->needs(layers)
      ->type_name("BYTES");
  command
      .add_option("--bytes-per-parameter", options.bytes_per_parameter,
                  "bytes kept per parameter where the file has no parameter_bytes (default 16: Adam in 32 bits)")
      ->needs(layers)
      ->type_name("BYTES");
}

}  // namespace

Command add_schedule(CLI::App& app, const Program&) {
  CLI::App* command = app.add_subcommand(
      "schedule", "Draw the timeline and bubbles of a pipeline schedule; time or check a schedule from a file");
  auto options = std::make_shared<ScheduleOptions>();
  command->add_option("--name", options->name, "name of the schedule; --list prints all");
  command
      ->add_option("--stages", options->stages, "number of pipeline ranks; each computes --chunks stages of the model")
      ->type_name("N");
  command
      ->add_option("--micro-batches", options->micro_batches,
                   "number of micro-batches per step; with --file or --check, if the file does not hold all")
      ->type_name("N");
  command
      ->add_option("--chunks", options->chunks,
                   "stages of the model per rank (default 1, or 2 for schedules with several)")
      ->type_name("N");
  add_cost_options(*command, *options);
  command
      ->add_option("--memory-limit", options->memory_limit,
                   "with --name auto: the most activations kept at once, for all ranks or for each: 4 or 4,4,3,3")
      ->type_name("N,...");
  command->add_flag("--slots", options->slots, "also print in which slot of its rank each activation is kept");
  add_layer_options(*command, *options);
  command
      ->add_option("--lower", options->lower,
                   "insert the messages as this implementation does: none, torch or plumbline")
      ->capture_default_str();
  CLI::Option* const list = command->add_flag("--list", options->list, "print the schedules with their rules");
  CLI::Option* const check =
      command->add_option("--check", options->check, "prove the schedule in this file valid, or print each problem")
          ->type_name("FILE");
  CLI::Option* const file =
      command->add_option("--file", options->file, "time and draw the schedule in this file, if it is valid")
          ->type_name("FILE");
  command
      ->add_option("--notation", options->notation,
                   "what B means in the file: torch, or torch-old (B and W for I and W, BW for B; default: old if a "
                   "cell of a CSV is BW; requires --file or --check)")
      ->type_name("NAME");
  command
      ->add_option("--stage-to-rank", options->stage_to_rank,
                   "rank of each stage: 0,1,1,0 (default the rank that computes it; requires --file or --check)")
      ->type_name("RANK,...");
  command
      ->add_option("--most-activations", options->most_activations,
                   "the most activations kept at once, for all ranks or for each; more are an error")
      ->needs(check)
      ->type_name("N,...");
  command->add_flag("--forward-only", options->forward_only, "the schedule has no backward pass")->needs(check);
  command->add_flag("--fifo", options->fifo, "match messages first in, first out, not by name")->needs(check);
  command->add_option("--format", options->format, "text, csv, json, svg or trace (Chrome trace format, for Perfetto)")
      ->type_name("FORMAT")
      ->capture_default_str();
  command
      ->add_option("--out", options->out,
                   "file to write in place of standard output; in a folder schedule.txt, .csv, .svg or .json")
      ->type_name("FILE");
  for (const char* other :
       {"--name", "--stages", "--chunks", "--durations", "--latency", "--bandwidth", "--message-bytes", "--stragglers",
        "--jitter", "--seed", "--rendezvous", "--memory-limit", "--slots", "--lower", "--layers"}) {
    check->excludes(command->get_option(other));
    list->excludes(command->get_option(other));
  }
  for (const char* other : {"--format", "--out"}) list->excludes(command->get_option(other));
  list->excludes(check);
  for (const char* other : {"--name", "--stages", "--chunks", "--memory-limit", "--layers", "--check", "--list"})
    file->excludes(command->get_option(other));
  group_options(
      *command, "Schedule",
      {"--list", "--name", "--stages", "--micro-batches", "--chunks", "--lower", "--memory-limit", "--slots"});
  group_options(*command, "Times",
                {"--durations", "--latency", "--bandwidth", "--message-bytes", "--stragglers", "--jitter", "--seed",
                 "--rendezvous"});
  group_options(*command, "Measured layers", {"--layers", "--partition", "--memory-bytes", "--bytes-per-parameter"});
  group_options(
      *command, "Schedule from a file",
      {"--file", "--check", "--notation", "--stage-to-rank", "--most-activations", "--forward-only", "--fifo"});
  group_options(*command, "Output", {"--format", "--out"});
  command->footer(kScheduleFooter);
  return [options] { return run_schedule(*options); };
}

}  // namespace plumbline::cli
