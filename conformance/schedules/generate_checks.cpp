// Generated schedules: all of the work once, in an order that can be run, with the bubbles and activations of the
// papers.
#include <algorithm>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Context;
using suite::Door;

namespace {

// ---- the work ----

void complete(Context& context) { judge_plans(context, problem_of_work); }

void runs_to_the_end(Context& context) {
  judge_plans(context, [](const PlanShape&, const Schedule& schedule) { return run_of(schedule).stuck; });
}

// ---- the shapes ----

void one_first_and_one_last(Context& context) {
  judge_plans(context, [](const PlanShape& shape, const Schedule& schedule) -> std::string {
    static const std::vector<std::string> kThereAndBack{"zbv", "v-half", "v-min", "dualpipev", "auto"};
    const bool there_and_back = shape.chunks > 1 && std::ranges::count(kThereAndBack, shape.schedule) > 0;
    std::vector<int> held(static_cast<std::size_t>(shape.ranks));
    for (const int rank : schedule.stage_to_rank) ++held.at(static_cast<std::size_t>(rank));
    if (std::ranges::count(held, shape.chunks) != shape.ranks)
      return fmt::format("stages on ranks {}: each has {}", json(schedule.stage_to_rank).dump(), shape.chunks);
    // Every chunk but the last one hands on to the next rank, or to itself where the stages turn round.
    for (std::size_t stage = 1; stage < schedule.stage_to_rank.size(); ++stage) {
      const int step = schedule.stage_to_rank[stage] - schedule.stage_to_rank[stage - 1];
      const bool back = there_and_back && static_cast<int>(stage) >= shape.ranks;
      const int expected = back ? (static_cast<int>(stage) == shape.ranks ? 0 : -1) : 1;
      if ((step - expected) % shape.ranks != 0)
        return fmt::format("stage {} is on rank {}, the one before on {}", stage, schedule.stage_to_rank[stage],
                           schedule.stage_to_rank[stage - 1]);
    }
    return schedule.stage_to_rank.front() == 0 ? "" : "the first stage is not on rank 0";
  });
}

void answered(Context& context) {
  judge_plans(context, [](const PlanShape&, const Schedule& schedule) {
    return std::ranges::any_of(schedule.ranks, [](const auto& row) { return row.empty(); }) ? "a rank does nothing"
                                                                                            : "";
  });
}

// A shape that the schedule's rule allows has a plan.
std::string problem_of_allowed(suite::Adapter& adapter, const std::string& schedule) {
  for (const int chunks : {1, 2}) {
    const PlanShape shape{.schedule = schedule, .ranks = 2, .micro_batches = 4, .chunks = chunks};
    if (is_allowed(shape))
      return problem_of_plan(adapter, shape, [](const PlanShape&, const Schedule&) { return std::string(); });
  }
  return fmt::format("the check knows no shape that {} allows", schedule);
}

// The number of a shape that its schedule's rule does not allow: of micro-batches, if others are allowed with so many
// chunks, else of chunks.
int number_against_the_rule(const PlanShape& shape) {
  PlanShape other = shape;
  for (other.micro_batches = 1; other.micro_batches <= 4 * shape.ranks; ++other.micro_batches)
    if (is_allowed(other)) return shape.micro_batches;
  return shape.chunks;
}

void refused_by_rule(Context& context) {
  report_words(problem_of_allowed(context.adapter(), context.parameters().text("schedule")));
  for (const PlanShape& shape : shapes_of(context.parameters())) {
    if (is_allowed(shape)) continue;
    const Answer answer = answer_to(context.adapter(), "schedules.generate", question_of(shape));
    if (!answer.is_refused()) return report_words(text_of(shape) + " is answered");
    if (answer.kind != "invalid_argument" || !has_word(answer.message, std::to_string(number_against_the_rule(shape))))
      return report_words(text_of(shape) + " is refused without the number against the rule: " + answer.kind + ": " +
                          answer.message);
  }
}

void nothing_is_refused(Context& context) {
  for (const std::string& name : schedule_names()) report_words(problem_of_allowed(context.adapter(), name));
  const std::string& field = context.parameters().text("zero");
  for (const std::string& name : schedule_names()) {
    json args = question_of({.schedule = name, .ranks = 2, .micro_batches = 4, .chunks = 2});
    for (const int number : {0, -1}) {
      args[field] = number;
      const Answer answer = answer_to(context.adapter(), "schedules.generate", args);
      if (!answer.is_refused() || answer.kind != "invalid_argument")
        return report_words(fmt::format("{}: {}", args.dump(), answer.is_refused() ? answer.kind : "answered"));
    }
  }
}

void one_chunk_is_plain(Context& context) {
  for (const int ranks : {1, 2, 3, 4, 8}) {
    const int micro_batches = micro_batches_named(context.parameters().text("micro_batches"), ranks);
    if (micro_batches < 1) continue;
    Schedule plain;
    const PlanShape one{.schedule = "1f1b", .ranks = ranks, .micro_batches = micro_batches, .chunks = 1};
    PlanShape other = one;
    other.schedule = "interleaved";
    std::string problem = problem_of_plan(context.adapter(), one, [&](const PlanShape&, const Schedule& schedule) {
      plain = schedule;
      return std::string();
    });
    if (problem.empty())
      problem = problem_of_plan(context.adapter(), other, [&](const PlanShape&, const Schedule& schedule) {
        return first_difference(rows_of(plain), rows_of(schedule));
      });
    if (!problem.empty()) return report_words(problem);
  }
}

// ---- bubbles ----

// What is idle of the whole step, where the papers say it.
std::optional<double> bubble_of(const PlanShape& shape, const Times& times) {
  const double forward = times.forward, input = times.input_gradient, weight = times.weight_gradient;
  const int p = shape.ranks, m = shape.micro_batches;
  const double hops = p - 1, backward = input + weight;
  const bool equal = forward == input && input == weight;
  if (shape.schedule == "gpipe" || shape.schedule == "1f1b") return hops * (forward + backward);
  if (shape.schedule == "interleaved") return m % p == 0 ? std::optional(hops * (forward + backward)) : std::nullopt;
  if (shape.schedule == "looped-bfs") return m >= p ? std::optional(hops * (forward + backward)) : std::nullopt;
  if (shape.schedule == "forward-only")
    return m % p == 0 || shape.chunks == 1 ? std::optional(hops * forward) : std::nullopt;
  // What fills the bubble is the weight gradients of all micro-batches but one, as far as there are ranks to wait for.
  // A longer W delays the ranks after it instead.
  const bool fills = weight <= forward && weight <= input;
  if (shape.schedule == "zb-h1")
    return fills ? std::optional(hops * (forward + input) - (std::min(m, p) - 1) * weight) : std::nullopt;
  if (shape.schedule == "zb-h2") return m >= 2 * p && equal ? std::optional(hops * forward) : std::nullopt;
  if (shape.schedule == "interleaved-zero-bubble")
    return m % p == 0 && fills ? std::optional(hops * (forward + input - weight)) : std::nullopt;
  // Of the 2p-1 micro-batches of its pattern, each that there is not leaves a forward and a backward's half idle.
  if (shape.schedule == "zbv")
    return equal ? std::optional(std::max(hops, 2.0 * (2 * p - 1 - m)) * forward) : std::nullopt;
  if (shape.schedule == "dualpipev" && equal) return hops * (forward + backward + backward - 3 * weight);
  return {};
}

// Whole numbers, so that sums are exact.
const std::vector<Times>& times_tried() {
  static const std::vector<Times> list{{.forward = 1, .input_gradient = 1, .weight_gradient = 1},
                                       {.forward = 5, .input_gradient = 6, .weight_gradient = 4},
                                       {.forward = 2, .input_gradient = 3, .weight_gradient = 1},
                                       {.forward = 7, .input_gradient = 4, .weight_gradient = 3},
                                       {.forward = 1, .input_gradient = 2, .weight_gradient = 10}};
  return list;
}

void bubble(Context& context) {
  judge_plans(context, [](const PlanShape& shape, const Schedule& schedule) -> std::string {
    for (const Times& times : times_tried()) {
      const auto expected = bubble_of(shape, times);
      if (!expected) continue;
      const Run run = run_of(schedule, times);
      if (!run.stuck.empty()) return run.stuck;
      const double idle = run.makespan - *std::ranges::max_element(run.work);
      if (idle != *expected)
        return fmt::format("with F, I, W of {}, {}, {} the bubble is {}, not {}", times.forward, times.input_gradient,
                           times.weight_gradient, idle, *expected);
    }
    return {};
  });
}

void no_span_bubble(Context& context) {
  const std::string& name = context.parameters().text("schedule");
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const int micro_batches : {2 * ranks + 1, 2 * ranks + 2, 3 * ranks + 1, 4 * ranks, 5 * ranks + 3}) {
      const PlanShape shape{
          .schedule = name, .ranks = ranks, .micro_batches = micro_batches, .chunks = name == "zbv" ? 2 : 1};
      const std::string problem =
          problem_of_plan(context.adapter(), shape, [](const PlanShape&, const Schedule& schedule) -> std::string {
            const Run run = run_of(schedule);
            for (std::size_t rank = 0; rank < run.work.size(); ++rank)
              if (const double idle = run.last_end[rank] - run.first_start[rank] - run.work[rank]; idle != 0)
                return fmt::format("rank {} is idle for {} between its first and its last computation", rank, idle);
            return run.stuck;
          });
      if (!problem.empty()) return report_words(problem);
    }
}

// ---- activations ----

// By rank, in chunks, where the papers say it: at most so many, or just so many.
struct Bound {
  std::vector<int> activations;
  bool exact = true;
};
std::optional<Bound> activations_of(const PlanShape& shape) {
  const int p = shape.ranks, m = shape.micro_batches, v = shape.chunks;
  Bound bound;
  const auto each_rank = [&](auto of_rank) {
    for (int rank = 0; rank < p; ++rank) bound.activations.push_back(of_rank(rank));
    return bound;
  };
  if (shape.schedule == "gpipe" || shape.schedule == "looped-bfs") return each_rank([&](int) { return v * m; });
  if (shape.schedule == "1f1b") return each_rank([&](int rank) { return std::min(p - rank, m); });
  const int round = m / std::max(1, m / p);
  if (shape.schedule == "interleaved" && v > 1)
    return each_rank([&](int rank) { return std::min(v * m, (v - 1) * round + 2 * (p - rank - 1) + 1); });
  bound.exact = false;
  if (shape.schedule == "zb-h1") return each_rank([&](int) { return std::min(p, m); });
  if (shape.schedule == "zb-h2") return each_rank([&](int) { return std::min(2 * p - 1, m); });
  if (shape.schedule == "interleaved-zero-bubble")
    return each_rank([&](int) { return std::min(v * m, (v - 1) * round + p); });
  if (shape.schedule == "zbv") return each_rank([&](int) { return 2 * p; });
  if (shape.schedule == "dualpipev") return each_rank([&](int) { return 2 * p + 1; });
  return {};
}

void activations(Context& context) {
  judge_plans(context, [](const PlanShape& shape, const Schedule& schedule) -> std::string {
    const auto bound = activations_of(shape);
    if (!bound) return {};
    const std::vector<int> peaks = peaks_of(schedule);
    for (std::size_t rank = 0; rank < peaks.size(); ++rank)
      if (peaks[rank] > bound->activations[rank] || (bound->exact && peaks[rank] != bound->activations[rank]))
        return fmt::format("rank {} keeps {} activations, {}{} are needed", rank, peaks[rank],
                           bound->exact ? "" : "at most ", bound->activations[rank]);
    return {};
  });
}

// ---- before the first backward ----

// By rank, how many forwards a rank runs before its first backward, by the schedule's definition.
std::optional<int> forwards_before_backward(const PlanShape& shape, int rank) {
  const int p = shape.ranks, m = shape.micro_batches, v = shape.chunks, hops = p - 1 - rank;
  const int round = m / std::max(1, m / p);
  if (shape.schedule == "gpipe" || shape.schedule == "looped-bfs") return v * m;
  if (shape.schedule == "1f1b" || shape.schedule == "zb-h1") return std::min(hops + 1, m);
  if (shape.schedule == "interleaved")
    return v == 1 ? std::min(hops + 1, m) : std::min(v * m, (v - 1) * round + 2 * hops + 1);
  if (shape.schedule == "interleaved-zero-bubble") return std::min(v * m, (v - 1) * round + hops + 1);
  if (shape.schedule == "zb-h2") return std::min(2 * hops + 1, m);
  // Of the pattern for 2p-1 micro-batches, those that there are.
  if (shape.schedule == "zbv") return std::min(p + hops, m) + std::min(rank + 1, m);
  // Where the V turns there is a forward at hand in place of a pair.
  if (shape.schedule == "dualpipev") return 2 * p + (hops == 0 ? 1 : 0);
  return {};
}

void runs_ahead(Context& context) {
  judge_plans(context, [](const PlanShape& shape, const Schedule& schedule) -> std::string {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const auto expected = forwards_before_backward(shape, rank);
      if (!expected) return {};
      const auto& actions = schedule.ranks[static_cast<std::size_t>(rank)];
      const auto first = std::ranges::find_if(actions, [](const Action& action) {
        return action.kind == ActionKind::backward || action.kind == ActionKind::input_gradient;
      });
      const auto forwards = std::count_if(actions.begin(), first,
                                          [](const Action& action) { return action.kind == ActionKind::forward; });
      if (forwards != *expected)
        return fmt::format("rank {} runs {} forwards before its first backward, not {}", rank, forwards, *expected);
    }
    return {};
  });
}

// ---- names ----

// A schedule's other names, in run specifications and as PyTorch's class, where they differ from its own.
std::vector<std::string> all_names_of(const std::string& schedule) {
  static const std::map<std::string, std::vector<std::string>> others{
      {"gpipe", {"GPipe", "ScheduleGPipe"}},
      {"1f1b", {"1F1B", "Schedule1F1B"}},
      {"interleaved", {"interleaved-1f1b", "Interleaved1F1B", "ScheduleInterleaved1F1B"}},
      {"looped-bfs", {"LoopedBFS", "ScheduleLoopedBFS"}},
      {"interleaved-zero-bubble", {"interleaved-zb", "InterleavedZeroBubble", "ScheduleInterleavedZeroBubble"}},
      {"zbv", {"ZBVZeroBubble", "ScheduleZBVZeroBubble"}},
      {"dualpipev", {"DualPipeV", "ScheduleDualPipeV"}}};
  std::vector<std::string> names{schedule};
  if (const auto found = others.find(schedule); found != others.end())
    names.insert(names.end(), found->second.begin(), found->second.end());
  return names;
}
std::string in_case(std::string name, int (*change)(int)) {
  std::ranges::transform(name, name.begin(), [&](unsigned char letter) { return static_cast<char>(change(letter)); });
  return name;
}
// Under every name the rows are the same, and complete.
void found_by_its_names(Context& context) {
  const std::string& schedule = context.parameters().text("schedule");
  PlanShape shape{schedule, 2, 4, 1};
  if (!is_allowed(shape)) shape.chunks = 2;
  json rows;
  for (const std::string& name : all_names_of(schedule))
    for (const std::string& asked : {name, in_case(name, std::toupper), in_case(name, std::tolower)}) {
      json args = question_of(shape);
      args["schedule"] = asked;
      const std::string problem = problem_of(context.adapter(), "schedules.generate", args, [&](const json& result) {
        if (rows.is_null()) rows = result.at("compute_only");
        if (result.at("compute_only") != rows) return "the rows are others than those of " + schedule;
        return problem_of_answer(result, shape, [](const PlanShape&, const Schedule&) { return std::string(); });
      });
      if (!problem.empty()) return report_words(asked + ": " + problem);
    }
}
void found_by_no_other_name(Context& context) {
  json args = question_of({"1f1b", 2, 4, 1});
  report_words(problem_of(context.adapter(), "schedules.generate", args, [](const json& result) {
    return problem_of_answer(result, {"1f1b", 2, 4, 1},
                             [](const PlanShape&, const Schedule&) { return std::string(); });
  }));
  args["schedule"] = context.parameters().text("name");
  const Answer answer = answer_to(context.adapter(), "schedules.generate", args);
  if (answer.kind != "not_found")
    report_words(fmt::format("{} is {}", args.dump(), answer.is_refused() ? "rejected as " + answer.kind : "answered"));
}

}  // namespace

void add_generate_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       bool (*applies)(const suite::Parameters&) = nullptr, std::vector<std::string> schedules = {}) {
    const bool named = schedules.empty();  // by the case
    suite.add(
        {.id = std::string("schedules.plans.") + name,
         .verifies = {requirement},
         .door = Door::adapter,
         .axes = std::move(axes),
         .applies = applies,
         .operations = {"schedules.generate"},
         .options = options_of({{"schedules.generate", "schedule", std::move(schedules), named ? "schedule" : ""}}),
         .body = body});
  };
  const std::vector<suite::Axis> shapes{schedules_axis(), micro_batches_axis()};
  add("complete", "SCHED-014@8808", shapes, complete, some_allowed);
  add("runs_to_the_end", "SCHED-015@2d9b", shapes, runs_to_the_end, some_allowed);
  add("one_first_and_one_last", "SCHED-016@f146", shapes, one_first_and_one_last, some_allowed);
  add("answered", "SCHED-017@9847", shapes, answered, some_allowed);
  add("refused_by_rule", "SCHED-018@5238", shapes, refused_by_rule, some_refused);
  add("nothing_is_refused", "SCHED-019@e6b0", {{"zero", {"pp", "microbatches", "stages_per_rank"}}}, nothing_is_refused,
      nullptr, schedule_names());
  add("one_chunk_is_plain", "SCHED-020@67e4", {micro_batches_axis()}, one_chunk_is_plain, nullptr,
      {"1f1b", "interleaved"});
  add("bubble", "SCHED-021@5ed4", shapes, bubble, some_allowed);
  add("no_span_bubble", "SCHED-022@6643", {{"schedule", {"zb-h2", "zbv"}}}, no_span_bubble);
  add("activations", "SCHED-023@f54d", shapes, activations, some_allowed);
  add("runs_ahead", "SCHED-085@bf41", shapes, runs_ahead, some_allowed);
  AskedOption named{"schedules.generate", "schedule", {}, "schedule"};
  for (const std::string& schedule : schedule_names()) {
    named.by[schedule] = {schedule};
    for (const std::string& name : all_names_of(schedule))
      if (name.starts_with("Schedule")) named.by[schedule].push_back(name);
  }
  suite.add({.id = "schedules.names.found",
             .verifies = {"SCHED-131@c282"},
             .door = Door::adapter,
             .axes = {schedules_axis()},
             .operations = {"schedules.generate"},
             .options = options_of({std::move(named)}),
             .body = found_by_its_names});
  suite.add({.id = "schedules.names.others",
             .verifies = {"SCHED-131@c282"},
             .door = Door::adapter,
             .axes = {{"name", {"", "schedule", "2f2b", "1f1b ", "schedulezb-h1", "gpip"}}},
             .operations = {"schedules.generate"},
             .options = options_of({{"schedules.generate", "schedule", {"1f1b"}}}),
             .body = found_by_no_other_name});
}

}  // namespace plumbline::conformance
