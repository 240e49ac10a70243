// A simulator of schedules has the times, bubbles and activations that a walk over the ranks has.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Context;
using suite::Door;

namespace {

// A number, or one for each where they differ.
json numbers(double number, const std::vector<double>& factors) {
  if (factors.empty()) return number;
  json all = json::array();
  for (const double factor : factors) all.push_back(number * factor);
  return all;
}

json question(const Schedule& schedule, const Times& times) {
  json args{{"ranks", rows_of(schedule)},
            {"stage_to_rank", schedule.stage_to_rank},
            {"num_stages", schedule.stages},
            {"durations",
             {{"F", numbers(times.forward, times.of_stage)},
              {"I", numbers(times.input_gradient, times.of_stage)},
              {"W", numbers(times.weight_gradient, times.of_stage)},
              {"B", numbers(times.input_gradient + times.weight_gradient, times.of_stage)}}},
            {"latency", times.latency}};
  if (times.seconds_a_message > 0) {
    args["bandwidth"] = 1000;
    args["message_bytes"] = numbers(1000 * times.seconds_a_message, times.of_boundary);
  }
  if (!times.of_rank.empty()) args["straggling"] = times.of_rank;
  return args;
}

using JudgeRun = std::function<json(const Schedule& schedule, const Run& run, const Times& times)>;

std::vector<double> factors(Random& random, std::size_t count) {
  std::vector<double> list(count);
  for (double& factor : list) factor = random.between(1, 4);
  return list;
}

// Whole numbers, so that sums are exact in any order.
void judge_runs(Context& context, const JudgeRun& expected) {
  const auto is_there = [&](const char* axis, const char* value) {
    return context.parameters().has(axis) && context.parameters().text(axis) == value;
  };
  Random random(context.seed());
  for (int trial = 0; trial < 150; ++trial) {
    Times times{.forward = static_cast<double>(random.between(1, 5)),
                .input_gradient = static_cast<double>(random.between(1, 5)),
                .weight_gradient = static_cast<double>(random.between(1, 5))};
    if (is_there("links", "latency")) times.latency = random.between(1, 4);
    if (is_there("links", "bandwidth") || is_there("part", "boundaries"))
      times.seconds_a_message = random.between(1, 4);
    const Schedule schedule = random_plan(random, false);
    const auto stages = static_cast<std::size_t>(schedule.stages);
    if (is_there("part", "stages")) times.of_stage = factors(random, stages);
    if (is_there("part", "boundaries")) times.of_boundary = factors(random, stages > 1 ? stages - 1 : 0);
    if (is_there("part", "stragglers")) times.of_rank = factors(random, schedule.ranks.size());
    const json args = question(schedule, times);
    const std::string problem = problem_of(context.adapter(), "schedules.simulate", args, [&](const json& result) {
      return first_difference(expected(schedule, run_of(schedule, times), times), result);
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 500) + ": " + problem);
  }
}

void times(Context& context) {
  judge_runs(context, [](const Schedule&, const Run& run, const Times&) {
    return json{{"makespan", run.makespan}, {"start_times", run.starts}};
  });
}
void bubbles(Context& context) {
  judge_runs(context, [](const Schedule&, const Run& run, const Times&) {
    json span = json::array();
    for (std::size_t rank = 0; rank < run.work.size(); ++rank)
      span.push_back(run.last_end[rank] - run.first_start[rank] - run.work[rank]);
    return json{{"barrier_bubble", run.makespan - *std::ranges::max_element(run.work)}, {"span_bubble", span}};
  });
}
void activations(Context& context) {
  judge_runs(context, [](const Schedule& schedule, const Run&, const Times&) {
    return json{{"peak_activations", peaks_of(schedule)}};
  });
}

// ---- traffic ----

json traffic_of(const Schedule& schedule, double bytes) {
  std::map<std::pair<int, int>, int> messages;
  for (int stage = 0; stage + 1 < schedule.stages; ++stage) {
    const int lower = schedule.stage_to_rank[static_cast<std::size_t>(stage)];
    const int upper = schedule.stage_to_rank[static_cast<std::size_t>(stage) + 1];
    if (lower == upper) continue;
    messages[{lower, upper}] += schedule.micro_batches;
    messages[{upper, lower}] += schedule.micro_batches;
  }
  json links = json::array();
  for (const auto& [link, count] : messages)
    links.push_back({{"from", link.first}, {"to", link.second}, {"messages", count}, {"bytes", count * bytes}});
  return {{"links", links}};
}
void traffic(Context& context) {
  judge_runs(context, [](const Schedule& schedule, const Run&, const Times& times) {
    return traffic_of(schedule, 1000 * times.seconds_a_message);
  });
}

// ---- chance ----

json answer_with(Context& context, const Schedule& schedule, double jitter, int seed, std::string& problem) {
  json args = question(schedule, {.forward = 4, .input_gradient = 3, .weight_gradient = 2});
  args["jitter"] = jitter;
  args["seed"] = seed;
  json answer;
  problem += problem_of(context.adapter(), "schedules.simulate", args, [&](const json& result) {
    answer = result.at("start_times");
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      if (answer.at(rank).size() != schedule.ranks[rank].size())
        return fmt::format("rank {} has {} times for {} computations", rank, answer.at(rank).size(),
                           schedule.ranks[rank].size());
    answer.push_back(result.at("makespan").get<double>());
    return std::string();
  });
  return answer;
}

// Of one rank, each computation begins when the one before it ends: how long each took is seen from its start to the
// next one's.
std::string problem_of_lengthening(Context& context, int seed, double most) {
  const Schedule schedule =
      schedule_of(json{"0F0,1F0,2F0,2B0,1B0,0I0,0F1,1F1,2F1,2I1,1I1,0B1,2W1,1W1,0W0"}, json{0, 0, 0}, 2);
  std::string problem;
  const json answer = answer_with(context, schedule, most, seed, problem);
  if (!problem.empty()) return problem;
  const auto starts = [&](json row, const json& makespan) {
    row.push_back(makespan);
    return row.get<std::vector<double>>();
  };
  const std::vector<double> found = starts(answer.at(0), answer.back());
  for (std::size_t i = 0; i + 1 < found.size(); ++i) {
    const ActionKind kind = schedule.ranks[0][i].kind;
    const double given = kind == ActionKind::forward           ? 4
                         : kind == ActionKind::input_gradient  ? 3
                         : kind == ActionKind::weight_gradient ? 2
                                                               : 5;
    const double takes = found[i + 1] - found[i];
    if (!(takes > given) || takes > given * (1 + most) + 1e-9)
      return fmt::format("seed {}: {} of {} s takes {} s with up to {} more", seed, to_string(schedule.ranks[0][i]),
                         given, takes, most);
  }
  return {};
}

void jitter_of_each(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 40; ++trial)
    if (const std::string problem = problem_of_lengthening(context, random.between(0, 1000), 0.25); !problem.empty())
      return report_words(problem);
}

// The makespan is the last of an answer.
void jitter(Context& context) {
  if (context.parameters().text("of") == "computations") return jitter_of_each(context);
  constexpr double most = 0.25;
  const bool seeds = context.parameters().text("of") == "seeds";
  Random random(context.seed());
  for (int trial = 0; trial < 40; ++trial) {
    const Schedule schedule = random_plan(random, false);
    const int seed = random.between(0, 1000);
    std::string problem;
    const json some = answer_with(context, schedule, most, seed, problem);
    const json same = answer_with(context, schedule, most, seed, problem);
    const json other = answer_with(context, schedule, most, seed + 1, problem);
    const json none = answer_with(context, schedule, 0, seed, problem);
    if (!problem.empty()) return report_words(problem);
    if (seeds && some != same) return report_words(fmt::format("seed {} gives two results", seed));
    if (seeds && some == other) return report_words(fmt::format("seeds {} and {} give one result", seed, seed + 1));
    const double least = none.back(), ends = some.back();
    if (!seeds && (ends <= least || ends > least * (1 + most)))
      return report_words(fmt::format("a step of {} ends at {} with up to {} more each", least, ends, most));
  }
}

// ---- why ranks are idle ----

Schedule without_messages(Schedule plan) {
  for (auto& actions : plan.ranks) std::erase_if(actions, [](const Action& action) { return is_message(action.kind); });
  return plan;
}

const std::vector<std::string>& causes() {
  static const std::vector<std::string> names{"transfer", "straggler", "imbalance", "fill", "drain", "dependency"};
  return names;
}

std::string problem_of_idle_sums(const Run& run, const json& result) {
  for (std::size_t rank = 0; rank < run.work.size(); ++rank) {
    double sum = 0;
    for (const std::string& cause : causes()) {
      const double seconds = result.at("idle").at(rank).at(cause);
      if (seconds < 0) return fmt::format("rank {} is idle for {} s of {}", rank, seconds, cause);
      sum += seconds;
    }
    sum += result.at("idle").at(rank).value("sent_late", 0.0);  // of a subject that names it
    if (sum != run.makespan - run.work[rank])
      return fmt::format("rank {} is idle for {} s, and {} s have a cause", rank, run.makespan - run.work[rank], sum);
  }
  return {};
}

void idle_sums(Context& context) {
  const std::string& part = context.parameters().text("part");
  Random random(context.seed());
  for (int trial = 0; trial < 150; ++trial) {
    const Schedule schedule = random_plan(random, false);
    Times times{.forward = 2, .input_gradient = 3, .weight_gradient = 1};
    if (part == "latency") times.latency = random.between(1, 4);
    if (part == "stages") times.of_stage = factors(random, static_cast<std::size_t>(schedule.stages));
    if (part == "stragglers") times.of_rank = factors(random, schedule.ranks.size());
    const Run run = run_of(schedule, times);
    const json args = question(schedule, times);
    const std::string problem = problem_of(context.adapter(), "schedules.simulate", args,
                                           [&](const json& result) { return problem_of_idle_sums(run, result); });
    if (!problem.empty()) return report_words(args.dump().substr(0, 500) + ": " + problem);
  }
}

// Where nothing takes longer than elsewhere, it is the time before a rank's computations, after them and in between.
void idle_places(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 100; ++trial) {
    const Schedule schedule = random_plan(random, context.parameters().text("rows") == "messages");
    const Times times{.forward = static_cast<double>(random.between(1, 5)),
                      .input_gradient = static_cast<double>(random.between(1, 5)),
                      .weight_gradient = static_cast<double>(random.between(1, 5))};
    const Run run = run_of(without_messages(schedule), times);
    const json args = question(schedule, times);
    const std::string problem = problem_of(context.adapter(), "schedules.simulate", args, [&](const json& result) {
      for (std::size_t rank = 0; rank < run.work.size(); ++rank) {
        if (schedule.ranks[rank].empty()) continue;  // any computation takes longer than those that it has
        const double before = run.first_start[rank], after = run.makespan - run.last_end[rank];
        const json expected{
            {"fill", before},  {"drain", after},   {"dependency", run.makespan - run.work[rank] - before - after},
            {"transfer", 0.0}, {"straggler", 0.0}, {"imbalance", 0.0}};
        if (std::string words = first_difference(expected, result.at("idle").at(rank), fmt::format("rank {}", rank));
            !words.empty())
          return words;
      }
      return std::string();
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 500) + ": " + problem);
  }
}

// One micro-batch goes up and down a line of ranks, so that everything happens one after the other: rank r waits r
// forwards at the start, r backwards at the end, and in between for the stages after it. What one stage, rank or link
// takes longer is all that is added, to every rank but the slow one.
json idle_in_line(int ranks, int slow, const std::string& cause, const Times& times, double added) {
  const double forward = times.forward, backward = times.input_gradient + times.weight_gradient;
  json idle = json::array();
  for (int rank = 0; rank < ranks; ++rank) {
    json one{{"fill", rank * forward}, {"drain", rank * backward}};
    one["dependency"] = (ranks - 1 - rank) * (forward + backward);
    for (const char* name : {"transfer", "straggler", "imbalance"}) one[name] = 0.0;
    if (cause == "transfer" || (cause != "none" && rank != slow)) one[cause] = added;
    idle.push_back(std::move(one));
  }
  return {{"idle", idle}};
}
void idle_alone(Context& context) {
  const std::string& cause = context.parameters().text("cause");
  constexpr double slower = 4;
  for (const int ranks : {2, 3, 5})
    for (int slow = 0; slow < ranks; ++slow) {
      Times times{.forward = 2, .input_gradient = 3, .weight_gradient = 1};
      const double step = times.forward + times.input_gradient + times.weight_gradient;
      std::vector<double> factor(static_cast<std::size_t>(ranks), 1);
      factor[static_cast<std::size_t>(slow)] = slower;
      double added = (slower - 1) * step;
      if (cause == "straggler") times.of_rank = factor;
      if (cause == "imbalance") times.of_stage = factor;
      if (cause == "transfer") {
        if (slow + 1 == ranks) continue;  // there is a boundary less
        times.seconds_a_message = 3;
        times.of_boundary.assign(static_cast<std::size_t>(ranks) - 1, 0);
        times.of_boundary[static_cast<std::size_t>(slow)] = 1;
        added = 2 * times.seconds_a_message;
      }
      json rows = json::array(), places = json::array();
      for (int rank = 0; rank < ranks; ++rank) {
        rows.push_back(fmt::format("{0}F0,{0}B0", rank));
        places.push_back(rank);
      }
      const std::string problem = problem_of(
          context.adapter(), "schedules.simulate", question(schedule_of(rows, places, 1), times),
          [&](const json& result) { return first_difference(idle_in_line(ranks, slow, cause, times, added), result); });
      if (!problem.empty()) return report_words(fmt::format("{} ranks, of which {}: {}", ranks, slow, problem));
    }
}

// All ranks of a line have all micro-batches before they send the first. Rank r then has its turn alone, and every
// other waits for it: while it computes the one that comes next, and while it computes the others before it sends.
json rows_of_late_outputs(int ranks, int micro_batches) {
  json rows = json::array();
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> cells, sends;
    for (int i = 0; i < micro_batches; ++i) {
      if (rank > 0) cells.push_back(fmt::format("{}RECV_F{}", rank, i));
      cells.push_back(fmt::format("{}F{}", rank, i));
      if (rank + 1 < ranks) sends.push_back(fmt::format("{}SEND_F{}", rank, i));
    }
    cells.insert(cells.end(), sends.begin(), sends.end());
    rows.push_back(fmt::format("{}", fmt::join(cells, ",")));
  }
  return rows;
}
json idle_of_late_outputs(int ranks, int micro_batches, double forward) {
  const double others = forward * (micro_batches - 1);
  json idle = json::array();
  for (int rank = 0; rank < ranks; ++rank) {
    const int after = ranks - 1 - rank;
    idle.push_back({{"fill", rank * forward},
                    {"drain", after == 0 ? 0.0 : after * forward + others},
                    {"sent_late", (rank + std::max(0, after - 1)) * others}});
  }
  return idle;
}

// One micro-batch goes up a line of ranks and down again, and each rank sends its gradient after its weight gradient.
json rows_of_late_gradients(int ranks) {
  json rows = json::array();
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> cells;
    const auto add = [&](const char* action) { cells.push_back(fmt::format("{}{}0", rank, action)); };
    if (rank > 0) add("RECV_F");
    add("F");
    if (rank + 1 < ranks) add("SEND_F"), add("RECV_B");
    add("I"), add("W");
    if (rank > 0) add("SEND_B");
    rows.push_back(fmt::format("{}", fmt::join(cells, ",")));
  }
  return rows;
}
json idle_of_late_gradients(int ranks, const Times& times) {
  json idle = json::array();
  for (int rank = 0; rank < ranks; ++rank) {
    const int after = ranks - 1 - rank;
    idle.push_back({{"fill", rank * times.forward},
                    {"dependency", after * (times.forward + times.input_gradient)},
                    {"drain", rank == 0 ? 0.0 : rank * times.input_gradient + times.weight_gradient},
                    {"sent_late", (after + std::max(0, rank - 1)) * times.weight_gradient}});
  }
  return idle;
}

void sent_late(Context& context) {
  const bool outputs = context.parameters().text("sends") == "outputs";
  Random random(context.seed());
  for (const int ranks : {1, 2, 3, 5})
    for (const int micro_batches : {1, 2, 4}) {
      const Times times{.forward = static_cast<double>(random.between(1, 5)),
                        .input_gradient = static_cast<double>(random.between(1, 5)),
                        .weight_gradient = static_cast<double>(random.between(1, 5))};
      json places = json::array();
      for (int rank = 0; rank < ranks; ++rank) places.push_back(rank);
      const json rows = outputs ? rows_of_late_outputs(ranks, micro_batches) : rows_of_late_gradients(ranks);
      const json idle =
          outputs ? idle_of_late_outputs(ranks, micro_batches, times.forward) : idle_of_late_gradients(ranks, times);
      json args = question(schedule_of(rows, places, outputs ? micro_batches : 1), times);
      args["forward_only"] = outputs;
      const std::string problem = problem_of(context.adapter(), "schedules.simulate", args, [&](const json& result) {
        return first_difference({{"idle", idle}}, result);
      });
      if (!problem.empty()) return report_words(fmt::format("{} ranks: {}: {}", ranks, rows.dump(), problem));
    }
}

void refuses_bad_times(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  json args = question(schedule_of(json{"0F0,0B0", "1F0,1B0"}, json{0, 1}, 1), {});
  if (fault == "negative") args["durations"]["F"] = -1;
  if (fault == "length") args["durations"]["F"] = {1, 2, 3};
  if (fault == "latency") args["latency"] = -1;
  if (fault == "stuck") args["ranks"] = {"0B0,0F0", "1F0,1B0"};
  report_words(problem_of_control(context.adapter(), "schedules.simulate", args));
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

// Rows with idle cells before, in between and at the end.
json with_idle_cells(Random& random, const Schedule& plan) {
  json rows = rows_of(plan);
  for (json& row : rows) {
    std::string spaced;
    for (const char letter : row.get<std::string>()) {
      spaced += letter;
      if (letter == ',' && random.between(0, 2) == 0) spaced += ',';
    }
    row = "," + spaced + (random.between(0, 1) == 0 ? "," : "");
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

// What is judged of rows: the plan without messages, its run, and what each message occupies of its link.
using JudgeRows = std::function<std::string(const json& rows, const Schedule& computations, const Run& run,
                                            double seconds_a_message, const json& result)>;

void judge_rows(Context& context, int trials, const JudgeRows& judge) {
  const std::string& kind = context.parameters().text("rows");
  Random random(context.seed());
  for (int trial = 0; trial < trials; ++trial) {
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
      return judge(args["ranks"], computations, run, times.seconds_a_message, result);
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 700) + ": " + problem);
  }
}
void rows_of_all_kinds(Context& context) {
  judge_rows(
      context, 150, [](const json& rows, const Schedule& computations, const Run& run, double, const json& result) {
        json got = result;
        got["start_times"] = computations_of(rows, result.at("start_times"));
        return first_difference(
            {{"makespan", run.makespan}, {"start_times", run.starts}, {"peak_activations", peaks_of(computations)}},
            got);
      });
}
void traffic_of_rows(Context& context) {
  judge_rows(context, 40,
             [](const json&, const Schedule& computations, const Run&, double seconds, const json& result) {
               return first_difference(traffic_of(computations, 1000 * seconds), result);
             });
}
void idle_sums_of_rows(Context& context) {
  judge_rows(context, 80, [](const json&, const Schedule&, const Run& run, double, const json& result) {
    return problem_of_idle_sums(run, result);
  });
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
  report_words(problem_of_control(context.adapter(), "schedules.simulate", args));
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
  add("times", "SCHED-046@3b00", links, times);
  add("bubbles", "SCHED-047@f5a4", links, bubbles);
  add("activations", "SCHED-048@51bb", {"links", {"none"}}, activations);
  add("parts", "SCHED-061@08f7", {"part", {"stages", "boundaries", "stragglers"}}, times);
  add("traffic", "SCHED-062@0b4e", {"links", {"none", "bandwidth"}}, traffic);
  add("jitter", "SCHED-063@7b18", {"of", {"seeds", "times", "computations"}}, jitter);
  add("idle_sums", "SCHED-064@54c1", {"part", {"none", "latency", "stages", "stragglers"}}, idle_sums);
  const suite::Axis all_rows{"rows", {"computations", "pairs", "messages", "idle_cells"}};
  add("traffic_of_rows", "SCHED-062@0b4e", all_rows, traffic_of_rows);
  add("idle_sums_of_rows", "SCHED-064@54c1", all_rows, idle_sums_of_rows);
  add("idle_places", "SCHED-120@5af3", {"rows", {"computations", "messages"}}, idle_places);
  add("idle_alone", "SCHED-065@11fb", {"cause", {"none", "transfer", "straggler", "imbalance"}}, idle_alone);
  add("sent_late", "SCHED-139@5092", {"sends", {"outputs", "gradients"}}, sent_late);
  add("refuses", "SCHED-049@6d56", {"fault", {"negative", "length", "latency", "stuck"}}, refuses_bad_times);
  add("rows_of_all_kinds", "SCHED-086@9e65", all_rows, rows_of_all_kinds);
  add("refuses_costs", "SCHED-087@ce02",
      {"fault",
       {"no_bandwidth", "negative_bandwidth", "negative_bytes", "negative_backward", "not_a_number", "endless",
        "overflow", "no_forward", "cell", "places", "huge_micro_batch"}},
      refuses_costs);
}

}  // namespace plumbline::conformance
