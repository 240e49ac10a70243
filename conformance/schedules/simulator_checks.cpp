// A simulator of schedules has the times, bubbles and activations that a walk over the ranks has.
#include <algorithm>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/topology/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
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
}

}  // namespace plumbline::conformance
