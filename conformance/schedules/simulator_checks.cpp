// A simulator of schedules has the times, bubbles and activations that a walk over the ranks has.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/topology/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Context;
using suite::Door;

namespace {

json question(const Schedule& schedule, const Times& times) {
  json args{{"ranks", rows_of(schedule)},
            {"stage_to_rank", schedule.stage_to_rank},
            {"num_stages", schedule.stages},
            {"durations",
             {{"F", times.forward},
              {"I", times.input_gradient},
              {"W", times.weight_gradient},
              {"B", times.input_gradient + times.weight_gradient}}},
            {"latency", times.latency}};
  if (times.seconds_a_message > 0) {
    args["bandwidth"] = 1000;
    args["message_bytes"] = 1000 * times.seconds_a_message;
  }
  return args;
}

using JudgeRun = std::function<json(const Schedule& schedule, const Run& run)>;

// Whole numbers, so that sums are exact in any order.
void judge_runs(Context& context, const JudgeRun& expected) {
  const std::string& links = context.parameters().text("links");
  Random random(context.seed());
  for (int trial = 0; trial < 150; ++trial) {
    Times times{.forward = static_cast<double>(random.between(1, 5)),
                .input_gradient = static_cast<double>(random.between(1, 5)),
                .weight_gradient = static_cast<double>(random.between(1, 5))};
    if (links == "latency") times.latency = random.between(1, 4);
    if (links == "bandwidth") times.seconds_a_message = random.between(1, 4);
    const Schedule schedule = random_plan(random, false);
    const json args = question(schedule, times);
    const std::string problem = problem_of(context.adapter(), "schedules.simulate", args, [&](const json& result) {
      return first_difference(expected(schedule, run_of(schedule, times)), result);
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 500) + ": " + problem);
  }
}

void times(Context& context) {
  judge_runs(context, [](const Schedule&, const Run& run) {
    return json{{"makespan", run.makespan}, {"start_times", run.starts}};
  });
}
void bubbles(Context& context) {
  judge_runs(context, [](const Schedule&, const Run& run) {
    json span = json::array();
    for (std::size_t rank = 0; rank < run.work.size(); ++rank)
      span.push_back(run.last_end[rank] - run.first_start[rank] - run.work[rank]);
    return json{{"barrier_bubble", run.makespan - *std::ranges::max_element(run.work)}, {"span_bubble", span}};
  });
}
void activations(Context& context) {
  judge_runs(context,
             [](const Schedule& schedule, const Run&) { return json{{"peak_activations", peaks_of(schedule)}}; });
}

void refuses(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  json args = question(schedule_of(json{"0F0,0B0", "1F0,1B0"}, json{0, 1}, 1), {});
  if (fault == "negative") args["durations"]["F"] = -1;
  if (fault == "length") args["durations"]["F"] = {1, 2, 3};
  if (fault == "latency") args["latency"] = -1;
  if (fault == "stuck") args["ranks"] = {"0B0,0F0", "1F0,1B0"};
  const Answer answer = answer_to(context.adapter(), "schedules.simulate", args);
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 200));
  if (answer.kind != "invalid_argument") report_words("refused as '" + answer.kind + "': " + answer.message);
}

// ---- times of stages, rows of all kinds ----

// Seconds of each stage, by kind; B is no sum.
using StageSeconds = std::map<ActionKind, std::vector<double>>;

// In eighths of a second, beside a number that leaves no room for them in 32 bits: sums stay exact in any order.
StageSeconds random_seconds(Random& random, int stages) {
  StageSeconds seconds;
  for (const ActionKind kind :
       {ActionKind::forward, ActionKind::backward, ActionKind::input_gradient, ActionKind::weight_gradient})
    for (int stage = 0; stage < stages; ++stage)
      seconds[kind].push_back((random.between(0, 3) == 0 ? 4194304 : 0) + random.between(1, 40) / 8.0);
  return seconds;
}

// Neighbours in a row become one step, as far as the plan still comes to its end.
void join_some(Random& random, Schedule& plan) {
  for (auto& actions : plan.ranks)
    for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
      if (random.between(0, 1) == 0) continue;
      actions[i].joined = true;
      if (run_of(plan).stuck.empty())
        ++i;
      else
        actions[i].joined = false;
    }
}

// Rows with idle cells in between.
json with_idle_cells(Random& random, const Schedule& plan) {
  json rows = rows_of(plan);
  for (json& row : rows) {
    std::string spaced;
    for (const char letter : row.get<std::string>()) {
      spaced += letter;
      if (letter == ',' && random.between(0, 2) == 0) spaced += ',';
    }
    row = "," + spaced;
  }
  return rows;
}

// The starts of the cells that compute.
json computations_of(const json& rows, const json& starts) {
  json computed = json::array();
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const auto actions = schedules::parse_row(rows[rank].get<std::string>());
    json& row = computed.emplace_back(json::array());
    for (std::size_t i = 0; i < actions.size(); ++i)
      if (is_compute(actions[i].kind)) row.push_back(starts.at(rank).at(i));
    if (starts.at(rank).size() != actions.size()) row.push_back("a start for each cell");
  }
  return computed;
}

Schedule without_messages(Schedule plan) {
  for (auto& actions : plan.ranks) std::erase_if(actions, [](const Action& action) { return is_message(action.kind); });
  return plan;
}

void rows_of_all_kinds(Context& context) {
  const std::string& kind = context.parameters().text("rows");
  Random random(context.seed());
  for (int trial = 0; trial < 150; ++trial) {
    Schedule plan = random_plan(random, kind == "messages");
    if (kind == "pairs") join_some(random, plan);
    const StageSeconds seconds = random_seconds(random, plan.stages);
    Times times;
    times.latency = random.between(0, 4) / 4.0;
    times.seconds_a_message = random.between(1, 4) / 4.0;
    times.of_action = [&](const Action& action) {
      return seconds.at(action.kind).at(static_cast<std::size_t>(action.stage));
    };
    json args = question(plan, times);
    args["durations"] = {{"F", seconds.at(ActionKind::forward)},
                         {"B", seconds.at(ActionKind::backward)},
                         {"I", seconds.at(ActionKind::input_gradient)},
                         {"W", seconds.at(ActionKind::weight_gradient)}};
    if (kind == "idle_cells") args["ranks"] = with_idle_cells(random, plan);
    const Schedule computations = without_messages(plan);
    const Run run = run_of(computations, times);
    const std::string problem = problem_of(context.adapter(), "schedules.simulate", args, [&](const json& result) {
      json got = result;
      got["start_times"] = computations_of(args["ranks"], result.at("start_times"));
      return first_difference(
          {{"makespan", run.makespan}, {"start_times", run.starts}, {"peak_activations", peaks_of(computations)}}, got);
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 700) + ": " + problem);
  }
}

void refuses_costs(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  json args = question(schedule_of(json{"0F0,0B0", "1F0,1B0"}, json{0, 1}, 1), {});
  args["bandwidth"] = 1000;
  args["message_bytes"] = 8;
  if (fault == "no_bandwidth") args["bandwidth"] = 0;
  if (fault == "negative_bandwidth") args["bandwidth"] = -1;
  if (fault == "negative_bytes") args["message_bytes"] = -8;
  if (fault == "negative_backward") args["durations"]["B"] = -1;
  if (fault == "not_a_number") args["durations"]["F"] = "nan";
  if (fault == "endless") args["durations"]["F"] = "inf";
  if (fault == "overflow") args["durations"] = {{"F", 1e308}, {"B", 1e308}};
  if (fault == "no_forward") args["durations"].erase("F");
  if (fault == "cell") args["ranks"] = {"0F0,0X0", "1F0,1B0"};
  if (fault == "places") args["stage_to_rank"] = {0, 2};
  if (fault == "huge_micro_batch") args["ranks"] = {"0F2147483000,0B0", "1F0,1B0"};
  const Answer answer = answer_to(context.adapter(), "schedules.simulate", args);
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 200));
  if (answer.kind != "invalid_argument") report_words("refused as '" + answer.kind + "': " + answer.message);
}

}  // namespace

void add_simulator_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, suite::Axis axis, void (*body)(Context&)) {
    suite.add({.id = std::string("schedules.simulator.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {std::move(axis)},
               .operations = {"schedules.simulate"},
               .body = body});
  };
  const suite::Axis links{"links", {"none", "latency", "bandwidth"}};
  add("times", "SCHED-046@8b65", links, times);
  add("bubbles", "SCHED-047@4ea2", links, bubbles);
  add("activations", "SCHED-048@9d1c", {"links", {"none"}}, activations);
  add("refuses", "SCHED-049@f925", {"fault", {"negative", "length", "latency", "stuck"}}, refuses);
  add("rows_of_all_kinds", "SCHED-086@8133", {"rows", {"computations", "pairs", "messages", "idle_cells"}},
      rows_of_all_kinds);
  add("refuses_costs", "SCHED-087@3e28",
      {"fault",
       {"no_bandwidth", "negative_bandwidth", "negative_bytes", "negative_backward", "not_a_number", "endless",
        "overflow", "no_forward", "cell", "places", "huge_micro_batch"}},
      refuses_costs);
}

}  // namespace plumbline::conformance
