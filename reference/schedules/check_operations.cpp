// schedules.check, schedules.simulate.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "reference/adapter/operations.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/detail/operation_costs.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::adapter {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;

namespace {

// Rows and places, without the number of micro-batches.
Schedule read_rows(const Arguments& arguments) {
  Schedule schedule;
  schedule.stages = arguments.get<int>("num_stages");
  schedule.stage_to_rank = arguments.get<std::vector<int>>("stage_to_rank");
  for (const std::string& row : arguments.get<std::vector<std::string>>("ranks"))
    schedule.ranks.push_back(schedules::parse_row(row, static_cast<int>(schedule.ranks.size()) + 1));
  return schedule;
}

json answer_of(const schedules::Place& place) {
  json position = nullptr;
  if (place.position != schedules::kNoPosition) position = place.position;
  return {{"rank", place.rank}, {"position", std::move(position)}, {"action", to_string(place.action)}};
}

json check(const Arguments& arguments) {
  using schedules::Matching;
  Schedule schedule = read_rows(arguments);
  schedule.micro_batches = arguments.get<int>("microbatches");
  schedules::CheckOptions options;
  options.matching =
      arguments.choice<Matching>("matching", {{"name", Matching::name}, {"fifo", Matching::fifo}}, Matching::name);
  options.forward_only = arguments.get<bool>("forward_only", false);
  arguments.expect_no_others();
  const schedules::CheckReport report = schedules::check(schedule, options);
  json problems = json::array();
  for (const schedules::Problem& problem : report.problems) {
    json answer = answer_of(problem.place);
    answer["kind"] = name_of(problem.kind);
    answer["severity"] = name_of(problem.severity);
    answer["message"] = problem.message;
    for (const schedules::Place& place : problem.cycle) answer["cycle"].push_back(answer_of(place));
    problems.push_back(std::move(answer));
  }
  return {
      {"valid", report.valid()},
      {"problems", std::move(problems)},
      {"errors", report.errors},
      {"warnings", report.warnings},
      {"deadlock_free", {{"buffered", report.deadlock_free_buffered}, {"rendezvous", report.deadlock_free_rendezvous}}},
      {"peak_activations", report.peak_activations}};
}

bool uses(const Schedule& schedule, ActionKind kind) {
  return std::ranges::any_of(schedule.ranks, [&](const auto& actions) {
    return std::ranges::find(actions, kind, &Action::kind) != actions.end();
  });
}

// A kind that is not used needs no time. B is I + W unless given.
std::vector<schedules::StageTimes> times_in(const Arguments& arguments, const Schedule& schedule) {
  const schedules::StageTimes none{.forward = 0, .input_gradient = 0, .weight_gradient = 0, .backward = {}};
  std::vector<schedules::StageTimes> stages(schedule.stage_to_rank.size(), none);
  const bool whole = uses(schedule, ActionKind::backward) && !arguments.get<Arguments>("durations").has("B");
  read_durations(arguments, stages,
                 [&](ActionKind kind) { return uses(schedule, kind) || (whole && kind != ActionKind::forward); });
  return stages;
}

// How many there are, by the largest number. One that is out of all proportion to the actions must not cost memory.
int micro_batches_in(const Arguments& arguments, const Schedule& schedule) {
  constexpr std::int64_t kAlwaysAllowed = std::int64_t{1} << 22;
  std::int64_t actions = 0, last = 0;
  for (const auto& row : schedule.ranks)
    for (const Action& action : row) {
      ++actions;
      last = std::max<std::int64_t>(last, action.micro_batch);
    }
  if ((last + 1) * schedule.stages > std::max(actions, kAlwaysAllowed))
    arguments.refuse(
        fmt::format("ranks have {} stages and a micro-batch {}, but {} actions", schedule.stages, last, actions));
  return static_cast<int>(last) + 1;
}

json answer_of(const std::vector<schedules::LinkTraffic>& links) {
  json answer = json::array();
  for (const schedules::LinkTraffic& link : links)
    answer.push_back({{"from", link.from}, {"to", link.to}, {"messages", link.messages}, {"bytes", link.bytes}});
  return answer;
}

json answer_of(const std::vector<schedules::IdleTime>& idle, bool is_measured) {
  json answer = json::array();
  for (const schedules::IdleTime& rank : idle) {
    json& parts = answer.emplace_back(json::object());
    for (const schedules::IdleCause& cause : schedules::kSimulatedIdleCauses) parts[cause.name] = rank.*cause.seconds;
    if (is_measured) parts["overhead"] = rank.overhead;
  }
  return answer;
}

using MeasuredPeriods = std::vector<std::vector<schedules::Period>>;

std::optional<MeasuredPeriods> periods_in(const Arguments& arguments) {
  const auto rows = arguments.find<std::vector<std::vector<std::vector<double>>>>("periods");
  if (!rows) return std::nullopt;
  MeasuredPeriods periods;
  for (const auto& row : *rows) {
    auto& of_rank = periods.emplace_back();
    for (const std::vector<double>& period : row) {
      if (period.size() != 2)
        arguments.refuse(fmt::format("periods has one of {} numbers; each is a start and an end", period.size()));
      of_rank.push_back({.start = period[0], .end = period[1]});
    }
  }
  return periods;
}

json simulate(const Arguments& arguments) {
  Schedule schedule = read_rows(arguments);
  schedule.micro_batches = micro_batches_in(arguments, schedule);
  schedules::SimulationOptions options;
  options.stages = times_in(arguments, schedule);
  read_messages(arguments, options);
  options.forward_only = arguments.get<bool>("forward_only", false);
  options.rank_slowdown = arguments.get<std::vector<double>>("straggling", {});
  options.rendezvous = arguments.get<bool>("rendezvous", options.rendezvous);
  options.overlap = arguments.get<double>("overlap", options.overlap);
  if (arguments.has("activation_bytes")) options.activation_bytes = read_numbers(arguments, "activation_bytes");
  options.jitter = arguments.get<double>("jitter", options.jitter);
  options.seed = arguments.get<std::uint64_t>("seed", options.seed);
  const auto periods = periods_in(arguments);
  arguments.expect_no_others();
  const schedules::Timeline timeline =
      periods ? schedules::timeline_of(schedule, *periods, options) : schedules::simulate(schedule, options);
  json span_bubble = json::array(), starts = json::array(), peaks = json::array(), bytes = json::array();
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    span_bubble.push_back(timeline.ranks[rank].span_bubble);
    peaks.push_back(timeline.ranks[rank].peak_activations);
    bytes.push_back(timeline.ranks[rank].peak_activation_bytes);
    json& row = starts.emplace_back(json::array());
    for (const schedules::Period& period : timeline.of_rank(static_cast<int>(rank))) row.push_back(period.start);
  }
  return {{"makespan", timeline.makespan},
          {"barrier_bubble", timeline.barrier_bubble()},
          {"span_bubble", std::move(span_bubble)},
          {"start_times", std::move(starts)},
          {"peak_activations", std::move(peaks)},
          {"peak_activation_bytes", std::move(bytes)},
          {"links", answer_of(timeline.links)},
          {"idle", answer_of(periods ? schedules::attribute_measured_idle_time(schedule, options, timeline)
                                     : schedules::attribute_idle_time(schedule, options, timeline),
                             periods.has_value())}};
}

}  // namespace

void add_schedule_check_operations(AdapterService& service) {
  const std::vector<ArgumentRow> rows{{"ranks", "list of text [ranks]", "CSV row of each rank's actions, as 0F0,0B0"},
                                      {"stage_to_rank", "list of integer [num_stages]", "rank of each stage"},
                                      {"num_stages", "integer", "stages"},
                                      {"forward_only", "boolean", "backward passes are not required", "false"}};
  const auto with_rows = [&](std::vector<ArgumentRow> arguments) {
    arguments.insert(arguments.begin(), rows.begin(), rows.end());
    return arguments;
  };
  const ResultRow peaks{"peak_activations", "list of integer [ranks]",
                        "most activations that each rank keeps at a time"};
  const RefusalRow bad_row{"invalid_argument", "a row is malformed; the message names line and column"},
      bad_places{"invalid_argument", "stage_to_rank does not place num_stages stages on the ranks"};
  service.add({"schedules.check",
               "checks whether a schedule is valid: complete, ordered and free of deadlocks",
               {"plumbline"},
               with_rows({{"microbatches", "integer", "micro-batches of a step"},
                          {"matching", "text", "how a message finds its receive: name or fifo", R"("name")"}}),
               {{"valid", "boolean", "no problem is an error"},
                {"problems",
                 "list of object",
                 "at most 20 of a kind",
                 {{"kind", "text", "the rule that is broken"},
                  {"severity", "text", "error or warning"},
                  {"rank", "integer", "rank concerned"},
                  {"position", "any", "index in its row; null of a missing action"},
                  {"action", "text", "the action"},
                  {"message", "text", "the problem in words"},
                  {"cycle", "list of object", "actions that wait for each other: rank, position, action"}}},
                {"errors", "integer", "number of errors, unlisted ones included"},
                {"warnings", "integer", "number of warnings, unlisted ones included"},
                {"deadlock_free",
                 "object",
                 "whether it terminates",
                 {{"buffered", "boolean", "with sends that return at once"},
                  {"rendezvous", "boolean", "with sends that wait for their receive"}}},
                peaks},
               R"({"ranks": ["0F0,0B0", "1F0,1B0"], "stage_to_rank": [0, 1], "num_stages": 2, "microbatches": 1})",
               {bad_row, bad_places, {"invalid_argument", "microbatches is below 1"}}},
              check);
  service.add(
      {"schedules.simulate",
       "simulates the times of a schedule",
       {"plumbline"},
       with_rows({with_fields({"durations", "object", "times of the kinds of computation that the rows have"},
                              duration_rows()),
                  {"latency", "number [s]", "of a message", "0.0"},
                  {"bandwidth", "number [bytes/s]", "of a link; null: bytes take no time", kOptional},
                  {"message_bytes", "number or list of number [bytes]", "of every message, or of each stage boundary",
                   kOptional},
                  {"straggling", "list of number [ranks]", "slowdown factor of each rank", kOptional},
                  where_named({"rendezvous", "boolean", "a send waits for its receive", "false"}),
                  where_named(
                      {"overlap", "number", "part of the sum of their times that overlapped computations take", "1.0"}),
                  where_named({"activation_bytes", "number or list of number [bytes]",
                               "activations of one micro-batch on every stage, or on each", kOptional}),
                  where_named({"periods", "list of list of list of number [s] [ranks][cells][2]",
                               "measured start and end of each action, in place of simulated ones", kOptional}),
                  {"jitter", "number", "relative spread of times", "0.0"},
                  {"seed", "integer", "random seed of the jitter", kOptional}}),
       {{"makespan", "number [s]", "from the first start to the last end"},
        {"barrier_bubble", "number [s]", "idle time of the busiest rank until the last end"},
        {"span_bubble", "list of number [s]", "idle time of each rank between its first start and its last end"},
        {"start_times", "list of list of number [s]", "start of each cell, by rank"},
        peaks,
        {"peak_activation_bytes", "list of number [bytes]",
         "most bytes of activations that each rank keeps at a time; without activation_bytes one for each"},
        {"links",
         "list of object",
         "traffic of each pair of ranks",
         {{"from", "integer", "sender"},
          {"to", "integer", "receiver"},
          {"messages", "integer", "number of messages"},
          {"bytes", "number [bytes]", "their sum"}}},
        {"idle",
         "list of object [ranks]",
         "why each rank is idle",
         {{"transfer", "number [s]", "a message is on its way"},
          {"sent_late", "number [s]", "a peer has computed what it sends only after something else"},
          {"straggler", "number [s]", "a peer is slower by its factor"},
          {"imbalance", "number [s]", "a peer's stages take longer"},
          {"fill", "number [s]", "before its first computation"},
          {"drain", "number [s]", "after its last computation"},
          {"dependency", "number [s]", "the order leaves nothing to compute"},
          {"overhead", "number [s]", "of periods: input was there, and nothing was computed"}}}},
       R"({"ranks": ["0F0,0B0", "1F0,1B0"], "stage_to_rank": [0, 1], "num_stages": 2, "durations": {"F": 1, "B": 2}})",
       {bad_row,
        bad_places,
        {"invalid_argument",
         "a time is missing, negative or not finite, a list has another length, or the schedule does not "
         "terminate"}}},
      simulate);
}

}  // namespace plumbline::adapter
