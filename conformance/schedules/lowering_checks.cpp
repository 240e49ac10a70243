// Messages in a schedule of computations: each once, between the right ranks, where it is due, and nobody waits for
// ever.
#include <algorithm>
#include <set>
#include <stdexcept>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Context;
using suite::Door;

namespace {

using Actions = std::vector<Action>;
using JudgeLowered =
    std::function<std::string(const PlanShape& shape, const Schedule& computations, const Schedule& lowered)>;

std::string problem_of_lowering(suite::Adapter& adapter, const PlanShape& shape, const json& options,
                                const JudgeLowered& judge) {
  return problem_of_plan(adapter, shape, [&](const PlanShape&, const Schedule& computations) {
    json args{{"compute_only", rows_of(computations)},
              {"stage_to_rank", computations.stage_to_rank},
              {"num_stages", computations.stages}};
    args.update(options);
    return problem_of(adapter, "schedules.lower", args, [&](const json& result) -> std::string {
      try {
        const Schedule lowered =
            schedule_of(result.at("send_recv"), json(computations.stage_to_rank), shape.micro_batches);
        if (lowered.ranks.size() != computations.ranks.size()) return fmt::format("{} rows", lowered.ranks.size());
        return judge(shape, computations, lowered);
      } catch (const InvalidArgument& error) {
        return error.what();
      }
    });
  });
}

void judge_lowered(Context& context, const JudgeLowered& judge, const json& options = json::object()) {
  for (const PlanShape& shape : shapes_of(context.parameters())) {
    if (!is_allowed(shape)) continue;
    const std::string problem = problem_of_lowering(context.adapter(), shape, options, judge);
    if (!problem.empty()) return report_words(problem);
  }
}

int rank_of(const Schedule& schedule, int stage) { return schedule.stage_to_rank.at(static_cast<std::size_t>(stage)); }

std::string text_of_action(ActionKind kind, int stage, int micro_batch) {
  return to_string(Action{.kind = kind, .joined = false, .stage = stage, .micro_batch = micro_batch});
}

// ---- which messages ----

// What the stages' neighbours make it necessary to send: "2SEND_F3" and where it belongs.
std::map<std::string, int> messages_due(const Schedule& schedule, bool backwards) {
  std::map<std::string, int> due;
  for (int stage = 0; stage + 1 < schedule.stages; ++stage) {
    const int lower = rank_of(schedule, stage), upper = rank_of(schedule, stage + 1);
    if (lower == upper) continue;
    for (int micro_batch = 0; micro_batch < schedule.micro_batches; ++micro_batch) {
      due[text_of_action(ActionKind::send_forward, stage, micro_batch)] = lower;
      due[text_of_action(ActionKind::recv_forward, stage + 1, micro_batch)] = upper;
      if (!backwards) continue;
      due[text_of_action(ActionKind::send_backward, stage + 1, micro_batch)] = upper;
      due[text_of_action(ActionKind::recv_backward, stage, micro_batch)] = lower;
    }
  }
  return due;
}

std::string each_message_once(const PlanShape& shape, const Schedule&, const Schedule& lowered) {
  std::map<std::string, int> due = messages_due(lowered, shape.schedule != "forward-only");
  for (int rank = 0; rank < shape.ranks; ++rank)
    for (const Action& action : lowered.ranks[static_cast<std::size_t>(rank)]) {
      if (!is_message(action.kind)) continue;
      const std::string name = text_of_action(action.kind, action.stage, action.micro_batch);
      const auto found = due.find(name);
      if (found == due.end()) return fmt::format("rank {}: {} is not due, or not again", rank, name);
      if (found->second != rank) return fmt::format("{} on rank {} instead of {}", name, rank, found->second);
      due.erase(found);
    }
  return due.empty() ? "" : "nobody has " + due.begin()->first;
}
void messages_once(Context& context) { judge_lowered(context, each_message_once); }

// ---- where they are ----

// What has to be in a row before the action.
std::optional<std::string> needed_before(const Action& action, const Schedule& schedule) {
  const auto& [kind, joined, stage, micro_batch] = action;
  const bool is_backward = kind == ActionKind::backward || kind == ActionKind::input_gradient;
  if (kind == ActionKind::forward && stage > 0 && rank_of(schedule, stage - 1) != rank_of(schedule, stage))
    return text_of_action(ActionKind::recv_forward, stage, micro_batch);
  if (is_backward && stage + 1 < schedule.stages && rank_of(schedule, stage + 1) != rank_of(schedule, stage))
    return text_of_action(ActionKind::recv_backward, stage, micro_batch);
  if (kind == ActionKind::send_forward) return text_of_action(ActionKind::forward, stage, micro_batch);
  if (kind == ActionKind::send_backward) return text_of_action(ActionKind::input_gradient, stage, micro_batch);
  return {};
}

std::string in_due_places(const PlanShape&, const Schedule& computations, const Schedule& lowered) {
  for (std::size_t rank = 0; rank < lowered.ranks.size(); ++rank) {
    std::set<std::string> before;
    Actions left;
    for (const Action& action : lowered.ranks[rank]) {
      if (const auto needed = needed_before(action, lowered); needed && !before.contains(*needed))
        return fmt::format("rank {} has {} before {}", rank,
                           text_of_action(action.kind, action.stage, action.micro_batch), *needed);
      // A whole backward ends with the input's gradient, too.
      const bool is_whole = action.kind == ActionKind::backward;
      before.insert(
          text_of_action(is_whole ? ActionKind::input_gradient : action.kind, action.stage, action.micro_batch));
      if (is_compute(action.kind)) left.push_back(action);
    }
    if (left != computations.ranks[rank])
      return fmt::format("rank {} computes {} instead of {}", rank, schedules::to_csv(left),
                         schedules::to_csv(computations.ranks[rank]));
  }
  return {};
}
void where_due(Context& context) { judge_lowered(context, in_due_places); }

// ---- who waits ----

void nobody_waits_for_ever(Context& context) {
  judge_lowered(context, [](const PlanShape&, const Schedule&, const Schedule& lowered) {
    return problem_of_waiting(lowered, false);
  });
}

// A rank goes on when what it has posted has come: a receive that is posted before its turn holds up what stands
// after it. Where the orders of two ranks cross (ZB-H2, the schedules that turn round) some have to be. Whole numbers,
// so that times are exact.
std::string no_longer_than_alone(const PlanShape&, const Schedule& computations, const Schedule& lowered) {
  for (const Times& times : {Times{}, Times{.forward = 2, .input_gradient = 3, .weight_gradient = 1}}) {
    const double alone = run_of(computations, times).makespan, in_line = makespan_in_line(lowered, times);
    if (in_line < 0) return "ranks wait for each other";
    if (in_line > alone) return fmt::format("the last rank ends at {} instead of {}", in_line, alone);
  }
  return {};
}
void holds_nobody_up(Context& context) { judge_lowered(context, no_longer_than_alone); }
void shapes_hold_nobody_up(Context& context) {
  judge_lowered(context, no_longer_than_alone, {{"metadata", context.parameters().text("metadata")}});
}

// Each rank pair's messages of a direction, as the sides have them.
std::string order_of_messages(const Schedule& lowered) {
  std::map<std::tuple<int, int, bool>, std::vector<std::string>> sent, received;
  for (const Actions& actions : lowered.ranks)
    for (const Action& action : actions) {
      if (!is_message(action.kind)) continue;
      const bool forward = action.kind == ActionKind::send_forward || action.kind == ActionKind::recv_forward;
      const int from = is_send(action.kind) ? action.stage : action.stage + (forward ? -1 : 1);
      const int to = from + (forward ? 1 : -1);
      (is_send(action.kind) ? sent : received)[{rank_of(lowered, from), rank_of(lowered, to), forward}].push_back(
          fmt::format("{}>{} of micro-batch {}", from, to, action.micro_batch));
    }
  for (const auto& [link, order] : sent)
    if (received[link] != order)
      return fmt::format("ranks {} and {}: {}", std::get<0>(link), std::get<1>(link),
                         first_difference(json(order), json(received[link]), "messages"));
  return {};
}
void in_one_order(Context& context) {
  judge_lowered(context,
                [](const PlanShape&, const Schedule&, const Schedule& lowered) { return order_of_messages(lowered); });
}

// ---- shapes of messages ----

std::string told_ahead(const Schedule& lowered, bool each) {
  for (int stage = 0; stage + 1 < lowered.stages; ++stage)
    for (const bool sends : {true, false}) {
      const int mine = sends ? stage : stage + 1;
      if (rank_of(lowered, stage) == rank_of(lowered, stage + 1)) continue;
      int told = 0, moved = 0;
      for (const Action& action : lowered.ranks.at(static_cast<std::size_t>(rank_of(lowered, mine)))) {
        if (action.stage != mine) continue;
        if (action.kind == (sends ? ActionKind::send_metadata : ActionKind::recv_metadata)) ++told;
        if (action.kind == (sends ? ActionKind::send_forward : ActionKind::recv_forward)) ++moved;
        if (moved > (each ? told : told * lowered.micro_batches))
          return fmt::format("stage {}: {} activations, {} shapes", mine, moved, told);
      }
      if (told != (each ? lowered.micro_batches : 1)) return fmt::format("stage {} has {} shapes", mine, told);
    }
  return {};
}

void judge_metadata(Context& context, const std::function<std::string(const Schedule& lowered, bool each)>& judge) {
  const std::string& metadata = context.parameters().text("metadata");
  for (const int ranks : {2, 3, 4})
    for (const char* name : {"1f1b", "interleaved", "zbv", "forward-only"})
      for (const int micro_batches : {1, 2 * ranks}) {
        const int chunks = std::string(name) == "1f1b" ? 1 : 2;
        const PlanShape shape{.schedule = name, .ranks = ranks, .micro_batches = micro_batches, .chunks = chunks};
        const std::string problem =
            problem_of_lowering(context.adapter(), shape, {{"metadata", metadata}},
                                [&](const PlanShape&, const Schedule&, const Schedule& lowered) {
                                  return judge(lowered, metadata == "each");
                                });
        if (!problem.empty()) return report_words(problem);
      }
}
void shapes_ahead(Context& context) { judge_metadata(context, told_ahead); }
void shapes_without_deadlock(Context& context) {
  judge_metadata(context, [](const Schedule& lowered, bool) { return problem_of_waiting(lowered, false); });
}

// ---- waits ----

// Of a row: each send once waited for, after it, and never more than `most` under way but those that are posted
// together.
std::string problem_of_waits(const Actions& actions, int most) {
  std::set<std::string> under_way;
  int together = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::send_forward || action.kind == ActionKind::send_backward) {
      under_way.insert(text_of_action(action.kind, action.stage, action.micro_batch));
      if (static_cast<int>(under_way.size()) > std::max(most, ++together))
        return fmt::format("{} sends are under way", under_way.size());
    }
    if (!action.joined) together = 0;
    if (!is_send_wait(action.kind)) continue;
    const bool forward = action.kind == ActionKind::wait_send_forward;
    const ActionKind send = forward ? ActionKind::send_forward : ActionKind::send_backward;
    if (under_way.erase(text_of_action(send, action.stage, action.micro_batch)) == 0)
      return to_string(action) + " waits for nothing";
  }
  return under_way.empty() ? "" : "nobody waits for " + *under_way.begin();
}

void each_send_waited_for(Context& context) {
  const int most = static_cast<int>(context.parameters().number("most"));
  for (const int ranks : {2, 3, 4})
    for (const char* name : {"1f1b", "interleaved", "zb-h2", "zbv", "v-half"}) {
      const int chunks = std::string(name) == "1f1b" || std::string(name) == "zb-h2" ? 1 : 2;
      const PlanShape shape{.schedule = name, .ranks = ranks, .micro_batches = 2 * ranks, .chunks = chunks};
      const std::string problem =
          problem_of_lowering(context.adapter(), shape, {{"max_outstanding_sends", most}},
                              [&](const PlanShape&, const Schedule&, const Schedule& lowered) {
                                for (const Actions& actions : lowered.ranks)
                                  if (std::string found = problem_of_waits(actions, most); !found.empty()) return found;
                                return problem_of_waiting(lowered, false);
                              });
      if (!problem.empty()) return report_words(problem);
    }
}

// ---- refusals ----

struct BadOrder {
  const char* name;
  std::vector<std::string> rows;
  std::vector<int> stage_to_rank;
};
const std::vector<BadOrder>& bad_orders() {
  static const std::vector<BadOrder> list{{"circle", {"0F0,0B0,0F1,0B1", "1F0,1F1,1B1,1B0"}, {0, 1}},
                                          {"message", {"0F0,0SEND_F0,0B0", "1F0,1B0"}, {0, 1}},
                                          {"stage", {"0F0,0B0", "1F0,1B0,5F0"}, {0, 1}},
                                          {"rank", {"0F0,0B0,1F0,1B0", ""}, {0, 1}}};
  return list;
}
// A right plan of which one computation is on another rank, wherever it stands there.
void refuses_other_ranks(Context& context) {
  report_words(problem_of_control(context.adapter(), "schedules.lower", {}));
  Random random(context.seed());
  for (int trial = 0; trial < 100; ++trial) {
    Schedule plan = random_plan(random, false);
    const auto ranks = static_cast<int>(plan.ranks.size());
    const int from = random.between(0, ranks - 1);
    auto& row = plan.ranks[static_cast<std::size_t>(from)];
    if (ranks == 1 || row.empty()) continue;
    const auto moved = row.begin() + random.between(0, static_cast<int>(row.size()) - 1);
    auto& other = plan.ranks[static_cast<std::size_t>((from + random.between(1, ranks - 1)) % ranks)];
    other.insert(other.begin() + random.between(0, static_cast<int>(other.size())), *moved);
    row.erase(moved);
    for (Actions& actions : plan.ranks)
      if (random.between(0, 1) == 0) actions.insert(actions.begin(), Action{});
    const json args{
        {"compute_only", rows_of(plan)}, {"stage_to_rank", plan.stage_to_rank}, {"num_stages", plan.stages}};
    const Answer answer = answer_to(context.adapter(), "schedules.lower", args);
    if (answer.kind != "invalid_argument") return report_words(args.dump() + " is not refused: " + answer.kind);
  }
}

void refuses_bad_orders(Context& context) {
  if (context.parameters().text("fault") == "any_rank") return refuses_other_ranks(context);
  report_words(problem_of_control(context.adapter(), "schedules.lower", {}));
  const auto one = std::ranges::find(bad_orders(), context.parameters().text("fault"), &BadOrder::name);
  const Answer answer = answer_to(
      context.adapter(), "schedules.lower",
      {{"compute_only", one->rows}, {"stage_to_rank", one->stage_to_rank}, {"num_stages", one->stage_to_rank.size()}});
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 200));
  if (answer.kind != "invalid_argument") report_words("refused as '" + answer.kind + "': " + answer.message);
}

// ---- any plan ----

Schedule lowered(suite::Adapter& adapter, const Schedule& computations, const std::string& metadata,
                 std::string& problem, const char* field) {
  json args{{"compute_only", rows_of(computations)},
            {"stage_to_rank", computations.stage_to_rank},
            {"num_stages", computations.stages}};
  if (metadata != "none") args["metadata"] = metadata;
  Schedule plan;
  problem = problem_of(adapter, "schedules.lower", args, [&](const json& result) -> std::string {
    try {
      plan = schedule_of(result.at(field), json(computations.stage_to_rank), computations.micro_batches);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return plan.ranks.size() == computations.ranks.size() ? "" : fmt::format("{} rows", plan.ranks.size());
  });
  if (!problem.empty()) problem = args.dump().substr(0, 500) + ": " + problem;
  return plan;
}

Schedule without(Schedule plan, const std::function<bool(const Action& action)>& left_out) {
  for (Actions& actions : plan.ranks) std::erase_if(actions, left_out);
  return plan;
}

bool tells_shape(const Action& action) {
  return action.kind == ActionKind::send_metadata || action.kind == ActionKind::recv_metadata;
}

std::string problem_of_messages(const std::string& schedule, const Schedule& computations, const Schedule& plan,
                                const std::string& metadata) {
  const PlanShape shape{
      .schedule = schedule, .ranks = static_cast<int>(plan.ranks.size()), .micro_batches = plan.micro_batches};
  const Schedule messages = without(plan, tells_shape);
  std::string problem = each_message_once(shape, computations, messages);
  if (problem.empty()) problem = in_due_places(shape, computations, messages);
  if (problem.empty()) problem = problem_of_waiting(plan, false);
  if (problem.empty()) problem = order_of_messages(messages);
  if (problem.empty() && metadata != "none") problem = told_ahead(plan, metadata == "each");
  return problem;
}

// Neighbours in a row begin together, as far as the plan still comes to its end.
void begin_together(Random& random, Schedule& plan) {
  for (Actions& actions : plan.ranks)
    for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
      if (random.between(0, 1) == 0) continue;
      actions[i].joined = true;
      if (!run_of(plan).stuck.empty()) actions[i].joined = false;
    }
}

void lowers_any_plan(Context& context) {
  const std::string& metadata = context.parameters().text("metadata");
  Random random(context.seed());
  for (int trial = 0; trial < 300; ++trial) {
    Schedule computations = random_plan(random, false);
    if (trial % 2 == 1) begin_together(random, computations);
    std::string problem;
    const Schedule plan = lowered(context.adapter(), computations, metadata, problem, "send_recv");
    if (problem.empty()) {
      try {
        problem = problem_of_messages("any", computations, plan, metadata);
      } catch (const std::out_of_range&) {
        problem = "a stage or micro-batch that is not there";
      }
      if (!problem.empty()) problem = rows_of(computations).dump() + " is " + rows_of(plan).dump() + ": " + problem;
    }
    if (!problem.empty()) return report_words(problem);
  }
}

// Each stage is gathered whenever it is computed, and reduced once, after all of its gradients.
std::string problem_of_sharding(const Schedule& plan) {
  for (const Actions& actions : plan.ranks) {
    std::set<int> gathered, reduced, trained;
    for (const Action& action : actions) {
      const std::string words = to_string(action);
      if (action.kind == ActionKind::unshard && !gathered.insert(action.stage).second) return words + " twice";
      if (action.kind == ActionKind::reshard && gathered.erase(action.stage) == 0) return words + " of nothing";
      if (action.kind == ActionKind::reduce_gradients && !reduced.insert(action.stage).second) return words + " twice";
      if (!is_compute(action.kind)) continue;
      if (action.kind != ActionKind::forward) trained.insert(action.stage);
      if (!gathered.contains(action.stage)) return words + ": its stage is not gathered";
      if (reduced.contains(action.stage)) return words + ": its stage is reduced already";
    }
    if (reduced != trained)
      return fmt::format("{} stages have gradients, {} are reduced", trained.size(), reduced.size());
    if (!gathered.empty()) return fmt::format("stage {} is gathered at the end", *gathered.begin());
  }
  return {};
}

void shards_any_plan(Context& context) {
  const auto puts_in = [](const Action& action) {
    return action.kind == ActionKind::unshard || action.kind == ActionKind::reshard ||
           action.kind == ActionKind::reduce_gradients;
  };
  for (const PlanShape& shape : shapes_of(context.parameters())) {
    if (!is_allowed(shape)) continue;
    const std::string problem =
        problem_of_plan(context.adapter(), shape, [&](const PlanShape&, const Schedule& computations) {
          std::string words;
          const Schedule plan = lowered(context.adapter(), computations, "none", words, "with_comms");
          if (!words.empty()) return words;
          words = problem_of_sharding(plan);
          return words.empty() ? problem_of_messages(shape.schedule, computations, without(plan, puts_in), "none")
                               : words;
        });
    if (!problem.empty()) return report_words(problem);
  }
}

std::string problem_of_active_stages(const Schedule& plan, std::size_t most) {
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    std::set<int> active;
    for (const Action& action : plan.ranks[rank]) {
      if (action.kind == ActionKind::unshard) active.insert(action.stage);
      if (action.kind == ActionKind::reshard) active.erase(action.stage);
      if (active.size() > most)
        return fmt::format("rank {} has {} stages unsharded at {}", rank, active.size(), to_string(action));
      if (is_compute(action.kind) && !active.contains(action.stage))
        return fmt::format("rank {}: {} of a stage that is not unsharded", rank, to_string(action));
    }
  }
  return {};
}

void keeps_few_active(Context& context) {
  const auto most = context.parameters().number("max_active_stages");
  Random random(context.seed());
  for (int trial = 0; trial < 100; ++trial) {
    const Schedule plan = random_plan(random, false);
    const json args{{"compute_only", rows_of(plan)},
                    {"stage_to_rank", plan.stage_to_rank},
                    {"num_stages", plan.stages},
                    {"max_active_stages", most}};
    const std::string problem =
        problem_of(context.adapter(), "schedules.lower", args, [&](const json& result) -> std::string {
          const Schedule lowered = schedule_of(result.at("with_comms"), json(plan.stage_to_rank), plan.micro_batches);
          if (lowered.ranks.size() != plan.ranks.size()) return fmt::format("{} rows", lowered.ranks.size());
          return problem_of_active_stages(lowered, static_cast<std::size_t>(most));
        });
    if (!problem.empty()) return report_words(args.dump().substr(0, 500) + ": " + problem);
  }
}

void refuses_no_active_stage(Context& context) {
  report_words(problem_of_refusal(context.adapter(), "schedules.lower",
                                  {{"compute_only", {"0F0,0B0", "1F0,1B0"}},
                                   {"stage_to_rank", {0, 1}},
                                   {"num_stages", 2},
                                   {"max_active_stages", context.parameters().number("max_active_stages")}}));
}

// What is computed twice would be sent twice.
void refuses_no_plan(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  json args{{"compute_only", {"0F0,0B0", "1F0,1B0"}}, {"stage_to_rank", {0, 1}}, {"num_stages", 2}};
  if (fault == "twice") args["compute_only"] = {"0F0,0F0,0B0", "1F0,1B0"};
  if (fault == "twice_back") args["compute_only"] = {"0F0,0B0", "1F0,1B0,1B0"};
  if (fault == "twice_on_a_rank") args.update({{"compute_only", {"0F0,0F0,1F0,1B0,0B0"}}, {"stage_to_rank", {0, 0}}});
  if (fault == "twice_with_shapes") args.update({{"compute_only", {"0F0,0F0,0B0", "1F0,1B0"}}, {"metadata", "each"}});
  if (fault == "twice_out_of_order")
    args.update({{"compute_only", {"0F0,0F1,0F1,0B1,0B0", "1F1,1B1,1F0,1B0"}}, {"metadata", "once"}});
  if (fault == "places_too_few") args["stage_to_rank"] = {0};
  if (fault == "place_outside") args["stage_to_rank"] = {0, 2};
  if (fault == "cell") args["compute_only"] = {"0F0,0X0", "1F0,1B0"};
  report_words(problem_of_control(context.adapter(), "schedules.lower", args));
  const Answer answer = answer_to(context.adapter(), "schedules.lower", args);
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 200));
  if (answer.kind != "invalid_argument") report_words("refused as '" + answer.kind + "': " + answer.message);
}

}  // namespace

void add_lowering_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       bool (*applies)(const suite::Parameters&) = nullptr, std::vector<std::string> schedules = {}) {
    std::vector<std::string> operations{"schedules.lower"};
    std::vector<AskedOption> generated;
    if (applies != nullptr) generated = {{"schedules.generate", "schedule", {}, "schedule"}};
    if (!schedules.empty()) generated = {{"schedules.generate", "schedule", std::move(schedules)}};
    if (!generated.empty()) operations.emplace_back("schedules.generate");
    suite.add({.id = std::string("schedules.lowering.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .applies = applies,
               .operations = std::move(operations),
               .options = options_of(std::move(generated)),
               .body = body});
  };
  const std::vector<suite::Axis> shapes{schedules_axis(), micro_batches_axis()};
  const std::vector<std::string> described{"1f1b", "forward-only", "interleaved", "zbv"};
  const suite::Axis metadata{"metadata", {"once", "each"}};
  add("each_message_once", "SCHED-033@f660", shapes, messages_once, some_allowed);
  add("where_due", "SCHED-034@9082", shapes, where_due, some_allowed);
  add("nobody_waits_for_ever", "SCHED-035@c079", shapes, nobody_waits_for_ever, some_allowed);
  add("holds_nobody_up", "SCHED-060@0576",
      {{"schedule", {"gpipe", "1f1b", "interleaved", "zb-h1", "forward-only"}}, micro_batches_axis()}, holds_nobody_up,
      some_allowed);
  add("shapes_hold_nobody_up", "SCHED-137@7731", {{"schedule", {"gpipe", "1f1b"}}, micro_batches_axis(), metadata},
      shapes_hold_nobody_up, some_allowed);
  add("in_one_order", "SCHED-036@39f2", shapes, in_one_order, some_allowed);
  add("shapes_ahead", "SCHED-037@72a7", {metadata}, shapes_ahead, nullptr, described);
  add("shapes_without_deadlock", "SCHED-038@a389", {metadata}, shapes_without_deadlock, nullptr, described);
  const suite::Axis any_metadata{"metadata", {"none", "once", "each"}};
  add("any_plan", "SCHED-088@276c", {any_metadata}, lowers_any_plan);
  add("sharding", "SCHED-089@c446", shapes, shards_any_plan, some_allowed);
  add("active_stages", "SCHED-140@665a", {{"max_active_stages", {"1", "2", "3", "5"}}}, keeps_few_active);
  add("no_active_stage", "SCHED-140@665a", {{"max_active_stages", {"0", "-1"}}}, refuses_no_active_stage);
  add("refuses_no_plan", "SCHED-090@03dc",
      {{"fault",
        {"twice", "twice_back", "twice_on_a_rank", "twice_with_shapes", "twice_out_of_order", "places_too_few",
         "place_outside", "cell"}}},
      refuses_no_plan);
  add("each_send_waited_for", "SCHED-071@cda7", {{"most", {"1", "2", "4"}}}, each_send_waited_for, nullptr,
      {"1f1b", "interleaved", "v-half", "zb-h2", "zbv"});
  add("refuses", "SCHED-039@74a0", {{"fault", {"circle", "message", "stage", "rank", "any_rank"}}}, refuses_bad_orders);
}

}  // namespace plumbline::conformance
