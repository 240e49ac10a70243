// Schedules of little memory, and those made for given times and a given memory.
#include <algorithm>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Schedule;
using suite::Context;
using suite::Door;

namespace {

double bubble_of_the_busiest(const Run& run) { return run.makespan - *std::ranges::max_element(run.work); }

// ---- V-Half and V-Min ----

// In computations of a stage: of 1F1B's bubble, 6(p-1), half, or two thirds and one; of its 2p activations, half and
// two, or a third of 2p + 4, rounded up to pairs.
std::string problem_of_memory(const PlanShape& shape, const Schedule& schedule) {
  const int p = shape.ranks;
  const bool half = shape.schedule == "v-half";
  const int most = half ? p + 2 : 2 * ((p + 4) / 3);
  const int peak = std::ranges::max(peaks_of(schedule));
  if (peak > most) return fmt::format("a rank keeps {} activations, at most {} are needed", peak, most);
  const Run run = run_of(schedule);
  if (!run.stuck.empty()) return run.stuck;
  const int longest = p == 1 ? 0 : half ? 3 * (p - 1) : 4 * (p - 1) + 1;
  if (bubble_of_the_busiest(run) > longest)
    return fmt::format("the bubble is {}, {} are enough", bubble_of_the_busiest(run), longest);
  return {};
}

void less_memory(Context& context) {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 9})
    for (const int micro_batches : {ranks, ranks + 1, 2 * ranks + 1}) {
      const PlanShape shape{.schedule = context.parameters().text("schedule"),
                            .ranks = ranks,
                            .micro_batches = micro_batches,
                            .chunks = 2};
      if (std::string problem = problem_of_plan(context.adapter(), shape, problem_of_memory); !problem.empty())
        return report_words(problem);
    }
}

// ---- schedules that are made for times and memory ----

struct Wanted {
  PlanShape shape;
  Times times;
  int limit = 0;  // activations, of each rank
};
json question_of_wanted(const Wanted& wanted) {
  json args = question_of(wanted.shape);
  args["durations"] = {
      {"F", wanted.times.forward}, {"I", wanted.times.input_gradient}, {"W", wanted.times.weight_gradient}};
  args["latency"] = wanted.times.latency;
  args["memory_limit"] = wanted.limit;
  return args;
}
// Whole numbers, so that sums are exact.
Wanted draw(Random& random, int chunks, const std::string& limit) {
  Wanted wanted{.shape = {.schedule = "auto",
                          .ranks = random.between(1, 5),
                          .micro_batches = random.between(2, 9),
                          .chunks = chunks},
                .times = {.forward = static_cast<double>(random.between(1, 5)),
                          .input_gradient = static_cast<double>(random.between(1, 5)),
                          .weight_gradient = static_cast<double>(random.between(1, 5)),
                          .latency = static_cast<double>(random.between(0, 3))}};
  const int all = chunks * wanted.shape.micro_batches;
  wanted.limit = limit == "least"  ? chunks
                 : limit == "some" ? random.between(chunks, 2 * chunks * wanted.shape.ranks)
                                   : all;
  return wanted;
}

using JudgeWanted = std::function<std::string(const Wanted& wanted, const Schedule& schedule)>;

// Reports the first problem of some schedules that are made for what is drawn.
void judge_wanted(Context& context, int chunks, const std::string& limit, const JudgeWanted& judge) {
  Random random(context.seed());
  for (int trial = 0; trial < 25; ++trial) {
    const Wanted wanted = draw(random, chunks, limit);
    const json args = question_of_wanted(wanted);
    const std::string problem = problem_of(context.adapter(), "schedules.generate", args, [&](const json& result) {
      return problem_of_answer(result, wanted.shape, [&](const PlanShape& shape, const Schedule& schedule) {
        const std::string left_out = problem_of_work(shape, schedule);
        return left_out.empty() ? judge(wanted, schedule) : left_out;
      });
    });
    if (!problem.empty()) return report_words(args.dump() + ": " + problem);
  }
}

void within_the_limit(Context& context) {
  const int chunks = static_cast<int>(context.parameters().number("chunks"));
  judge_wanted(context, chunks, context.parameters().text("limit"),
               [](const Wanted& wanted, const Schedule& schedule) -> std::string {
                 if (const Run run = run_of(schedule, wanted.times); !run.stuck.empty()) return run.stuck;
                 const int peak = std::ranges::max(peaks_of(schedule));
                 return peak > wanted.limit ? fmt::format("a rank keeps {} activations", peak) : "";
               });
}

// Of schedules with the same stages on the same ranks that keep to the limit too, none takes less time.
std::string problem_of_length(Context& context, const Wanted& wanted, const Schedule& schedule) {
  const double made = run_of(schedule, wanted.times).makespan;
  for (const std::string& name : schedule_names()) {
    PlanShape other = wanted.shape;
    other.schedule = name;
    if (name == "auto" || name == "forward-only" || !is_allowed(other)) continue;
    std::string longer;
    const std::string problem =
        problem_of_plan(context.adapter(), other, [&](const PlanShape&, const Schedule& fixed) -> std::string {
          if (fixed.stage_to_rank != schedule.stage_to_rank) return {};
          if (std::ranges::max(peaks_of(fixed)) > wanted.limit) return {};
          const double takes = run_of(fixed, wanted.times).makespan;
          if (made > takes) longer = fmt::format("it takes {}, {} takes {}", made, name, takes);
          return {};
        });
    if (!problem.empty()) return problem;
    if (!longer.empty()) return longer;
  }
  return {};
}
void no_longer_than_others(Context& context) {
  judge_wanted(
      context, static_cast<int>(context.parameters().number("chunks")), "some",
      [&](const Wanted& wanted, const Schedule& schedule) { return problem_of_length(context, wanted, schedule); });
}

void says_the_least_limit(Context& context) {
  const int chunks = static_cast<int>(context.parameters().number("chunks"));
  const Wanted least{
      .shape = {.schedule = "auto", .ranks = 4, .micro_batches = 8, .chunks = chunks}, .times = {}, .limit = chunks};
  json args = question_of_wanted(least);
  for (int limit = -1; limit < chunks; ++limit) {
    args["memory_limit"] = limit;
    const Answer answer = answer_to(context.adapter(), "schedules.generate", args);
    if (!answer.is_refused()) return report_words(args.dump() + " is answered");
    if (answer.kind != "invalid_argument" || answer.message.find(std::to_string(chunks)) == std::string::npos)
      return report_words(fmt::format("{} is refused without the least limit, {}: {}: {}", args.dump(), chunks,
                                      answer.kind, answer.message));
  }
  report_words(problem_of(context.adapter(), "schedules.generate", question_of_wanted(least),
                          [&](const json& result) { return problem_of_answer(result, least.shape, problem_of_work); }));
}

}  // namespace

void add_automatic_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       AskedOption schedules = {"schedules.generate", "schedule", {"auto"}}) {
    suite.add({.id = std::string("schedules.memory.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {"schedules.generate"},
               .options = options_of({std::move(schedules)}),
               .body = body});
  };
  const suite::Axis chunks{"chunks", {"1", "2"}};
  add("less_memory", "SCHED-067@6ecd", {{"schedule", {"v-half", "v-min"}}}, less_memory,
      {"schedules.generate", "schedule", {}, "schedule"});
  add("within_the_limit", "SCHED-068@bbed", {chunks, {"limit", {"least", "some", "all"}}}, within_the_limit);
  add("no_longer_than_others", "SCHED-069@3a16", {chunks}, no_longer_than_others,
      {"schedules.generate",
       "schedule",
       {},
       "chunks",
       {{"1", {"1f1b", "auto", "gpipe", "interleaved", "interleaved-zero-bubble", "looped-bfs", "zb-h1", "zb-h2"}},
        {"2",
         {"auto", "dualpipev", "interleaved", "interleaved-zero-bubble", "looped-bfs", "v-half", "v-min", "zbv"}}}});
  add("says_the_least_limit", "SCHED-070@31ec", {chunks}, says_the_least_limit);
}

}  // namespace plumbline::conformance
