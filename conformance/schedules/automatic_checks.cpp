// Schedules of little memory, and those made for given times and a given memory.
#include <algorithm>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

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
  int limit = 0;                 // activations, of each rank
  std::vector<int> limits = {};  // those of each, where they differ
  [[nodiscard]] int limit_of(int rank) const { return limits.empty() ? limit : limits[static_cast<std::size_t>(rank)]; }
};
// A number, or one for each where they differ.
json numbers(double number, const std::vector<double>& factors) {
  if (factors.empty()) return number;
  json all = json::array();
  for (const double factor : factors) all.push_back(number * factor);
  return all;
}
json question_of_wanted(const Wanted& wanted) {
  json args = question_of(wanted.shape);
  const Times& times = wanted.times;
  args["durations"] = {{"F", numbers(times.forward, times.of_stage)},
                       {"I", numbers(times.input_gradient, times.of_stage)},
                       {"W", numbers(times.weight_gradient, times.of_stage)}};
  args["latency"] = times.latency;
  if (times.seconds_a_message > 0) {
    args["bandwidth"] = 1000;
    args["message_bytes"] = numbers(1000 * times.seconds_a_message, times.of_boundary);
  }
  if (wanted.limits.empty())
    args["memory_limit"] = wanted.limit;
  else
    args["memory_limit"] = wanted.limits;
  return args;
}
// Whole numbers, so that sums are exact.
Wanted draw(Random& random, int chunks, const std::string& limit) {
  Wanted wanted{.shape = {.schedule = "auto",
                          .ranks = random.between(1, 5),
                          .micro_batches = random.between(1, 9),
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

// The same with times of each stage, messages that take time, of each boundary, and a limit of each rank.
Wanted draw_unequal(Random& random, int chunks, const std::string& limit) {
  Wanted wanted = draw(random, chunks, limit);
  const int stages = chunks * wanted.shape.ranks;
  const auto factors = [&](int count) {
    std::vector<double> list(static_cast<std::size_t>(count));
    for (double& factor : list) factor = random.between(1, 3);
    return list;
  };
  wanted.times.of_stage = factors(stages);
  wanted.times.seconds_a_message = random.between(0, 2);
  if (stages > 1) wanted.times.of_boundary = factors(stages - 1);
  if (limit == "some")
    for (int rank = 0; rank < wanted.shape.ranks; ++rank)
      wanted.limits.push_back(random.between(chunks, 2 * chunks * wanted.shape.ranks));
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

// ---- with times of each stage and a limit of each rank ----

std::string problem_of_limits(const Wanted& wanted, const Schedule& schedule) {
  const std::vector<int> peaks = peaks_of(schedule);
  for (int rank = 0; rank < wanted.shape.ranks; ++rank)
    if (const int peak = peaks[static_cast<std::size_t>(rank)]; peak > wanted.limit_of(rank))
      return fmt::format("rank {} keeps {} activations, its limit is {}", rank, peak, wanted.limit_of(rank));
  return {};
}

// What no schedule undercuts: one micro-batch goes through all stages and back, and a rank has its work to do from when
// the first micro-batch can have come; after its last input gradient the way back to stage 0 and the weight gradient
// there; and activations live for the way from their stage to the last one and back, at most a limit of them at once.
double least_makespan(const Wanted& wanted, const std::vector<int>& places) {
  const Times& times = wanted.times;
  const std::size_t stages = places.size();
  const auto factor = [](const std::vector<double>& of, std::size_t at) { return of.empty() ? 1 : of[at]; };
  const auto forward = [&](std::size_t s) { return times.forward * factor(times.of_stage, s); };
  const auto input = [&](std::size_t s) { return times.input_gradient * factor(times.of_stage, s); };
  const auto weight = [&](std::size_t s) { return times.weight_gradient * factor(times.of_stage, s); };
  const auto hop = [&](std::size_t s) {  // from stage s to the next
    return places[s] == places[s + 1] ? 0 : times.latency + times.seconds_a_message * factor(times.of_boundary, s);
  };
  const auto there_and_back = [&](std::size_t s) {  // from the end of a stage's forward to its input gradient
    double time = 0;
    for (std::size_t next = s + 1; next < stages; ++next) time += 2 * hop(next - 1) + forward(next) + input(next);
    return time;
  };
  double least = forward(0) + there_and_back(0) + input(0) + weight(0);
  for (int rank = 0; rank < wanted.shape.ranks; ++rank) {
    double begin = 0, way = 0, begins = -1, home = 0, work = 0, without_weights = 0, lives = 0;
    for (std::size_t s = 0; s < stages; ++s) {
      if (s > 0) begin += forward(s - 1) + hop(s - 1), way += hop(s - 1) + input(s - 1);
      if (places[s] != rank) continue;
      if (begins < 0) begins = begin, home = way;
      work += forward(s) + input(s) + weight(s);
      without_weights += forward(s) + input(s);
      lives += forward(s) + there_and_back(s) + input(s) + weight(s);
    }
    const double m = wanted.shape.micro_batches;
    least = std::max({least, begins + m * work, begins + m * without_weights + home + weight(0),
                      begins + m * lives / wanted.limit_of(rank)});
  }
  return least;
}

using JudgeMade = std::function<std::string(const Wanted& wanted, const Schedule& schedule, const json& result)>;

void judge_made(Context& context, const std::string& limit, const JudgeMade& judge) {
  const int chunks = static_cast<int>(context.parameters().number("chunks"));
  Random random(context.seed());
  for (int trial = 0; trial < 25; ++trial) {
    const Wanted wanted = draw_unequal(random, chunks, limit);
    const json args = question_of_wanted(wanted);
    const std::string problem = problem_of(context.adapter(), "schedules.generate", args, [&](const json& result) {
      return problem_of_answer(result, wanted.shape, [&](const PlanShape& shape, const Schedule& schedule) {
        if (std::string left_out = problem_of_work(shape, schedule); !left_out.empty()) return left_out;
        const Run run = run_of(schedule, wanted.times);
        return run.stuck.empty() ? judge(wanted, schedule, result) : run.stuck;
      });
    });
    if (!problem.empty()) return report_words(args.dump() + ": " + problem);
  }
}
void within_each_limit(Context& context) {
  judge_made(
      context, context.parameters().text("limit"),
      [](const Wanted& wanted, const Schedule& schedule, const json&) { return problem_of_limits(wanted, schedule); });
}
void says_its_makespan(Context& context) {
  judge_made(context, context.parameters().text("limit"),
             [](const Wanted& wanted, const Schedule& schedule, const json& result) -> std::string {
               const double told = result.at("makespan"), takes = run_of(schedule, wanted.times).makespan;
               return told == takes ? "" : fmt::format("it takes {} s, and {} s are answered", takes, told);
             });
}
void bounds_from_below(Context& context) {
  judge_made(context, context.parameters().text("limit"),
             [](const Wanted& wanted, const Schedule& schedule, const json& result) -> std::string {
               constexpr double rounding = 1e-9;
               const double told = result.at("lower_bound"), takes = run_of(schedule, wanted.times).makespan;
               const double least = least_makespan(wanted, schedule.stage_to_rank);
               if (told > takes * (1 + rounding))
                 return fmt::format("the lower bound is {}, and it takes {}", told, takes);
               if (told < least * (1 - rounding))
                 return fmt::format("the lower bound is {}, and none takes {}", told, least);
               return {};
             });
}

using JudgeFixed = std::function<std::string(const std::string& name, const Schedule& fixed)>;

// Judges the predefined schedules with the same stages on the same ranks that keep to the limits, too.
std::string problem_beside_others(Context& context, const Wanted& wanted, const Schedule& schedule,
                                  const JudgeFixed& judge) {
  for (const std::string& name : schedule_names()) {
    PlanShape other = wanted.shape;
    other.schedule = name;
    if (name == "auto" || name == "forward-only" || !is_allowed(other)) continue;
    std::string problem, found;
    problem = problem_of_plan(context.adapter(), other, [&](const PlanShape&, const Schedule& fixed) -> std::string {
      if (fixed.stage_to_rank == schedule.stage_to_rank && problem_of_limits(wanted, fixed).empty())
        found = judge(name, fixed);
      return {};
    });
    if (!problem.empty()) return problem;
    if (!found.empty()) return found;
  }
  return {};
}

// None of them takes less time.
std::string problem_of_length(Context& context, const Wanted& wanted, const Schedule& schedule) {
  const double made = run_of(schedule, wanted.times).makespan;
  return problem_beside_others(context, wanted, schedule, [&](const std::string& name, const Schedule& fixed) {
    const double takes = run_of(fixed, wanted.times).makespan;
    return made > takes ? fmt::format("it takes {}, {} takes {}", made, name, takes) : "";
  });
}
void no_longer_than_others(Context& context) {
  const auto judge = [&](const Wanted& wanted, const Schedule& schedule) {
    return problem_of_length(context, wanted, schedule);
  };
  judge_wanted(context, static_cast<int>(context.parameters().number("chunks")), "some", judge);
  judge_made(context, "some",
             [&](const Wanted& wanted, const Schedule& schedule, const json&) { return judge(wanted, schedule); });
}

// None that takes as long keeps less on its fullest rank.
void no_fuller_than_others(Context& context) {
  const auto judge = [&](const Wanted& wanted, const Schedule& schedule) {
    const double made = run_of(schedule, wanted.times).makespan;
    const int peak = std::ranges::max(peaks_of(schedule));
    return problem_beside_others(context, wanted, schedule, [&](const std::string& name, const Schedule& fixed) {
      const int kept = std::ranges::max(peaks_of(fixed));
      const bool as_long = run_of(fixed, wanted.times).makespan == made;
      return as_long && kept < peak ? fmt::format("a rank keeps {} activations, in {} {}", peak, name, kept) : "";
    });
  };
  const std::string& limit = context.parameters().text("limit");
  judge_wanted(context, static_cast<int>(context.parameters().number("chunks")), limit, judge);
  judge_made(context, limit,
             [&](const Wanted& wanted, const Schedule& schedule, const json&) { return judge(wanted, schedule); });
}

// Whole backwards are faster than their halves, as they are where a stage's activations are computed again.
void no_longer_with_whole_backwards(Context& context) {
  const int chunks = static_cast<int>(context.parameters().number("chunks"));
  Random random(context.seed());
  for (int trial = 0; trial < 15; ++trial) {
    Wanted wanted = draw(random, chunks, "some");
    const double whole = random.between(1, 4);
    wanted.times.of_action = [whole, times = wanted.times](const schedules::Action& action) {
      return action.kind == schedules::ActionKind::forward           ? times.forward
             : action.kind == schedules::ActionKind::backward        ? whole
             : action.kind == schedules::ActionKind::input_gradient  ? times.input_gradient
             : action.kind == schedules::ActionKind::weight_gradient ? times.weight_gradient
                                                                     : 0;
    };
    json args = question_of_wanted(wanted);
    args["durations"]["B"] = whole;
    const std::string problem = problem_of(context.adapter(), "schedules.generate", args, [&](const json& result) {
      return problem_of_answer(result, wanted.shape, [&](const PlanShape& shape, const Schedule& schedule) {
        std::string words = problem_of_work(shape, schedule);
        if (!words.empty()) return words;
        if (const double told = result.at("makespan"), takes = run_of(schedule, wanted.times).makespan; told != takes)
          return fmt::format("it takes {} s, and {} s are answered", takes, told);
        return problem_of_length(context, wanted, schedule);
      });
    });
    if (!problem.empty()) return report_words(args.dump() + ": " + problem);
  }
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
  for (int low = 0; low < least.shape.ranks; ++low) {
    json limits(static_cast<std::size_t>(least.shape.ranks), 20);
    limits[static_cast<std::size_t>(low)] = chunks - 1;
    args["memory_limit"] = limits;
    const Answer answer = answer_to(context.adapter(), "schedules.generate", args);
    if (answer.kind != "invalid_argument" || !has_word(answer.message, std::to_string(chunks)))
      return report_words(
          fmt::format("{} is not refused with the least limit, {}: {}", args.dump(), chunks, answer.message));
  }
  report_words(problem_of(context.adapter(), "schedules.generate", question_of_wanted(least),
                          [&](const json& result) { return problem_of_answer(result, least.shape, problem_of_work); }));
}

// One for all ranks, or one for each.
void refuses_other_limits(Context& context) {
  const int chunks = static_cast<int>(context.parameters().number("chunks"));
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (int count = 1; count <= 7; ++count) {
      const PlanShape shape{.schedule = "auto", .ranks = ranks, .micro_batches = 4, .chunks = chunks};
      json args = question_of(shape);
      args["memory_limit"] = std::vector(static_cast<std::size_t>(count), 8);
      if (count == ranks) {
        report_words(problem_of(context.adapter(), "schedules.generate", args,
                                [&](const json& result) { return problem_of_answer(result, shape, problem_of_work); }));
      } else if (count > 1) {
        const Answer answer = answer_to(context.adapter(), "schedules.generate", args);
        if (answer.kind != "invalid_argument")
          return report_words(fmt::format("{} is not refused: '{}'", args.dump(), answer.kind));
      }
    }
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
  add("less_memory", "SCHED-067@49b8", {{"schedule", {"v-half", "v-min"}}}, less_memory,
      {"schedules.generate", "schedule", {}, "schedule"});
  add("within_the_limit", "SCHED-068@aac5", {chunks, {"limit", {"least", "some", "all"}}}, within_the_limit);
  const AskedOption others{
      "schedules.generate",
      "schedule",
      {},
      "chunks",
      {{"1", {"1f1b", "auto", "gpipe", "interleaved", "interleaved-zero-bubble", "looped-bfs", "zb-h1", "zb-h2"}},
       {"2", {"auto", "dualpipev", "interleaved", "interleaved-zero-bubble", "looped-bfs", "v-half", "v-min", "zbv"}}}};
  add("no_longer_than_others", "SCHED-069@39a8", {chunks}, no_longer_than_others, others);
  add("no_fuller_than_others", "SCHED-135@02e5", {chunks, {"limit", {"some", "all"}}}, no_fuller_than_others, others);
  add("refuses_other_limits", "SCHED-136@cd61", {chunks}, refuses_other_limits);
  add("no_longer_with_whole_backwards", "SCHED-069@39a8", {chunks}, no_longer_with_whole_backwards, others);
  add("says_the_least_limit", "SCHED-070@fc73", {chunks}, says_the_least_limit);
  const suite::Axis limits{"limit", {"least", "some", "all"}};
  add("within_each_limit", "SCHED-068@aac5", {chunks, limits}, within_each_limit);
  add("says_its_makespan", "SCHED-118@6adf", {chunks, limits}, says_its_makespan);
  add("bounds_from_below", "SCHED-119@c08f", {chunks, limits}, bounds_from_below);
}

}  // namespace plumbline::conformance
