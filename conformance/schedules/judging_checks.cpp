// A checker of schedules says of any plan, right or wrong, what a walk over its ranks says, and where each fault
// stands.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/property.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Context;
using suite::Door;

namespace {

constexpr int kNowhere = -1;   // the position of what is not there
constexpr int kAnywhere = -2;  // the rank of what several are part of

std::string name_of_action(const Action& action) {
  return to_string(
      Action{.kind = action.kind, .joined = false, .stage = action.stage, .micro_batch = action.micro_batch});
}

// ---- where a fault stands ----

struct Fault {
  const char* name;
  std::vector<std::string> rows;
  int micro_batches;
  std::vector<int> stage_to_rank;
  const char* kind;
  int rank;
  int position;
  const char* action;
};

const std::vector<Fault>& faults() {
  static const std::vector<int> two{0, 1}, one{0}, both{0, 0};
  static const std::string first = "0F0,0SEND_F0,0RECV_B0,0B0", last = "1RECV_F0,1F0,1B0,1SEND_B0";
  static const std::vector<Fault> list{
      {"doubled_forward", {"0F0,0F0,0B0", "1F0,1B0"}, 1, two, "doubled", 0, 1, "0F0"},
      {"doubled_backward", {"0F0,0B0", "1F0,1B0,1B0"}, 1, two, "doubled", 1, 2, "1B0"},
      {"doubled_behind_a_pair", {"0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B1,0B2"}, 3, one, "doubled", 0, 5, "0B1"},
      {"doubled_send", {"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0", last}, 1, two, "doubled", 0, 2, "0SEND_F0"},
      {"doubled_receive", {first, "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F0"}, 1, two, "doubled", 1, 4, "1RECV_F0"},
      {"doubled_reduction", {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD"}, 1, one, "doubled", 0, 3, "0REDUCE_GRAD"},
      {"no_forward", {"0F0,0B0", "1B0"}, 1, two, "missing", 1, kNowhere, "1F0"},
      {"no_backward", {"0F0,0B0", "1F0"}, 1, two, "missing", 1, kNowhere, "1B0"},
      {"no_input_gradient", {"0F0,0W0", "1F0,1B0"}, 1, two, "missing", 0, kNowhere, "0I0"},
      {"no_weight_gradient", {"0F0,0I0", "1F0,1B0"}, 1, two, "missing", 0, kNowhere, "0W0"},
      {"no_reduction", {"0F0,0B0,0REDUCE_GRAD", "1F0,1B0"}, 1, two, "missing", 1, kNowhere, "1REDUCE_GRAD"},
      {"on_another_rank", {"0F0,0B0,1B0", "1F0"}, 1, two, "wrong_rank", 0, 2, "1B0"},
      {"sent_by_another_rank", {"0F0,0RECV_B0,0B0", last + ",0SEND_F0"}, 1, two, "wrong_rank", 1, 4, "0SEND_F0"},
      {"no_such_stage", {"0F0,2F0,0B0", "1F0,1B0"}, 1, two, "range", 0, 1, "2F0"},
      {"no_such_micro_batch", {"0F0,0B0", "1F0,1B0,1F1"}, 1, two, "range", 1, 2, "1F1"},
      {"backward_first", {"0F0,0B0", "1B0,1F0"}, 1, two, "dependency", 1, 0, "1B0"},
      {"weight_gradient_first", {"0F0,0W0,0I0", "1F0,1B0"}, 1, two, "dependency", 0, 1, "0W0"},
      {"backward_beside_its_forward", {"(0F0;0B0)OVERLAP_F_B"}, 1, one, "dependency", 0, 1, "0B0"},
      {"later_stage_first", {"1F0,0F0,1B0,0B0"}, 1, both, "dependency", 0, 0, "1F0"},
      {"earlier_stage_back_first", {"0F0,1F0,0B0,1B0"}, 1, both, "dependency", 0, 2, "0B0"},
      {"sent_before_it_is_made", {"0SEND_F0,0F0,0RECV_B0,0B0", last}, 1, two, "dependency", 0, 0, "0SEND_F0"},
      {"used_before_it_has_come", {first, "1F0,1RECV_F0,1B0,1SEND_B0"}, 1, two, "dependency", 1, 0, "1F0"},
      {"gradient_sent_first", {first, "1RECV_F0,1F0,1SEND_B0,1B0"}, 1, two, "dependency", 1, 2, "1SEND_B0"},
      {"gradient_used_first", {"0F0,0SEND_F0,0B0,0RECV_B0", last}, 1, two, "dependency", 0, 2, "0B0"},
      {"after_its_reduction", {"0F0,0I0,0REDUCE_GRAD,0W0"}, 1, one, "after_reduction", 0, 3, "0W0"},
      {"given_up", {"0UNSHARD,0F0,0RESHARD,0B0"}, 1, one, "resharded", 0, 3, "0B0"},
      {"not_gathered_yet", {"0F0,0UNSHARD,0B0"}, 1, one, "resharded", 0, 0, "0F0"},
      {"no_send", {"0F0,0RECV_B0,0B0", last}, 1, two, "missing_send", 0, kNowhere, "0SEND_F0"},
      {"no_gradient_sent", {first, "1RECV_F0,1F0,1B0"}, 1, two, "missing_send", 1, kNowhere, "1SEND_B0"},
      {"no_receive", {first, "1F0,1B0,1SEND_B0"}, 1, two, "missing_receive", 1, kNowhere, "1RECV_F0"},
      {"no_gradient_received", {"0F0,0SEND_F0,0B0", last}, 1, two, "missing_receive", 0, kNowhere, "0RECV_B0"},
      {"no_shape_sent", {first, "1RECV_META0," + last}, 1, two, "missing_send", 0, kNowhere, "0SEND_META0"},
      {"gradient_below_the_first", {first + ",0SEND_B0", last}, 1, two, "no_neighbour", 0, 4, "0SEND_B0"},
      {"input_of_the_first", {"0RECV_F0," + first, last}, 1, two, "no_neighbour", 0, 0, "0RECV_F0"},
      {"output_of_the_last", {first, last + ",1SEND_F0"}, 1, two, "no_neighbour", 1, 4, "1SEND_F0"},
      {"no_shape_received",
       {"0F0,0SEND_META0,0SEND_F0,0RECV_B0,0B0", last},
       1,
       two,
       "missing_receive",
       1,
       kNowhere,
       "1RECV_META0"},
      {"shape_sent_first", {"0SEND_META0," + first, "1RECV_META0," + last}, 1, two, "dependency", 0, 0, "0SEND_META0"},
      {"shape_sent_late",
       {"0F0,0SEND_F0,0SEND_META0,0RECV_B0,0B0", "1RECV_META0," + last},
       1,
       two,
       "dependency",
       0,
       1,
       "0SEND_F0"},
      {"shape_received_late",
       {"0F0,0SEND_META0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1RECV_META0,1F0,1B0,1SEND_B0"},
       1,
       two,
       "dependency",
       1,
       0,
       "1RECV_F0"},
      {"input_gradient_given_up", {"0UNSHARD,0F0,0RESHARD,0I0,0UNSHARD,0W0"}, 1, one, "resharded", 0, 3, "0I0"},
      {"weight_gradient_given_up", {"0UNSHARD,0F0,0I0,0RESHARD,0W0"}, 1, one, "resharded", 0, 4, "0W0"},
      {"backward_after_reduction", {"0F0,0REDUCE_GRAD,0B0"}, 1, one, "after_reduction", 0, 2, "0B0"},
      {"halves_after_reduction", {"0F0,0REDUCE_GRAD,0I0,0W0"}, 1, one, "after_reduction", 0, 2, "0I0"},
      {"forward_after_reduction", {"0F0,0B0,0REDUCE_GRAD,0F1,0B1"}, 2, one, "after_reduction", 0, 3, "0F1"},
      {"no_such_backward", {"0F0,0B0", "1F0,1B0,1B7"}, 1, two, "range", 1, 2, "1B7"},
      {"no_such_weight_gradient", {"0F0,0B0", "1F0,1B0,1W7"}, 1, two, "range", 1, 2, "1W7"},
      {"no_such_message", {first + ",0SEND_F7", last}, 1, two, "range", 0, 4, "0SEND_F7"},
      {"circle", {"0F0,0B0,0F1,0B1", "1F0,1F1,1B1,1B0"}, 2, two, "cycle", kAnywhere, 1, ""},
      {"gradient_above_the_last", {first, "1RECV_B0," + last}, 1, two, "no_neighbour", 1, 0, "1RECV_B0"},
  };
  return list;
}

std::string text_of_problem(const json& problem) {
  return fmt::format("{} {} on rank {}, position {}, {}", problem.at("severity").get<std::string>(),
                     problem.at("kind").get<std::string>(), problem.at("rank").dump(), problem.at("position").dump(),
                     problem.at("action").get<std::string>());
}
bool is_at(const json& problem, int rank, int position, const std::string& action) {
  if (rank == kAnywhere) return problem.at("position").is_number();
  return problem.at("rank") == rank && problem.at("action") == action &&
         (position == kNowhere ? problem.at("position").is_null() : problem.at("position") == position);
}
bool is_error(const json& problem) { return problem.at("severity") == "error"; }

// Each problem in words, and where it says that an action stands, that action stands; one that stands nowhere is of a
// stage that there is, on the stage's rank.
std::string problem_of_named_places(const json& problems, const std::vector<std::vector<Action>>& rows,
                                    const std::vector<int>& places) {
  for (const json& problem : problems) {
    if (problem.at("message").get<std::string>().empty()) return text_of_problem(problem) + ": without a word";
    const auto rank = problem.at("rank").get<std::size_t>();
    if (rank >= rows.size()) return text_of_problem(problem) + ": there is no such rank";
    if (problem.at("position").is_null()) {
      const Action missing = schedules::parse_row(problem.at("action").get<std::string>()).at(0);
      const bool is_stage = missing.stage >= 0 && missing.stage < static_cast<int>(places.size());
      if (!is_stage || places[static_cast<std::size_t>(missing.stage)] != static_cast<int>(rank))
        return text_of_problem(problem) + ": it is not of this rank";
      continue;
    }
    const std::string there = name_of_action(rows[rank].at(problem.at("position").get<std::size_t>()));
    if (problem.at("action") != there) return fmt::format("{}: there is {}", text_of_problem(problem), there);
  }
  return {};
}

std::string all_of(const json& problems) {
  std::string text;
  for (const json& problem : problems) text += (text.empty() ? "" : "; ") + text_of_problem(problem);
  return text.empty() ? "nothing" : text;
}

// An error of one of the kinds at that place.
std::string problem_of_naming(const json& result, const std::set<std::string>& kinds, int rank, int position,
                              const std::string& action) {
  if (result.at("valid").get<bool>()) return action + " is not seen: the plan is valid";
  for (const json& problem : result.at("problems"))
    if (kinds.contains(problem.at("kind").get<std::string>()) && is_error(problem) &&
        is_at(problem, rank, position, action))
      return {};
  return fmt::format("no {} of {} on rank {}, position {}: {}", *kinds.begin(), action, rank, position,
                     all_of(result.at("problems")));
}

void says_where(Context& context) {
  const auto fault = std::ranges::find(faults(), context.parameters().text("fault"), &Fault::name);
  std::vector<std::vector<Action>> rows;
  for (const std::string& row : fault->rows) rows.push_back(schedules::parse_row(row));
  const auto judge = [&](const json& result) -> std::string {
    const auto problem = problem_of_naming(result, {fault->kind}, fault->rank, fault->position, fault->action);
    if (!problem.empty()) return problem;
    // Who is in a cycle never comes to the end.
    if (fault->rank == kAnywhere && result.at("deadlock_free") != json{{"buffered", false}, {"rendezvous", false}})
      return "free of deadlock: " + result.at("deadlock_free").dump();
    return problem_of_named_places(result.at("problems"), rows, fault->stage_to_rank);
  };
  report_words(problem_of(context.adapter(), "schedules.check",
                          question_of_rows(fault->rows, fault->stage_to_rank, fault->micro_batches), judge));
}

// ---- a walk ----

// A whole backward ends with the input's gradient, too.
using Key = std::tuple<ActionKind, int, int>;
Key key_of(const Action& action) {
  const bool whole = action.kind == ActionKind::backward;
  return {whole ? ActionKind::input_gradient : action.kind, action.stage, action.micro_batch};
}

Action waited_for(Action wait) {
  wait.kind = wait.kind == ActionKind::wait_send_forward ? ActionKind::send_forward : ActionKind::send_backward;
  return wait;
}

// What has to be in the action's own row before it.
std::vector<Key> needs_in_row(const Schedule& schedule, const Action& action, bool messages) {
  const auto& [kind, joined, stage, micro_batch] = action;
  const auto rank_of = [&](int one) { return schedule.stage_to_rank.at(static_cast<std::size_t>(one)); };
  std::vector<Key> needs;
  // The neighbour's result: made on this rank, or received.
  const auto of_neighbour = [&](int other, ActionKind made, ActionKind received) {
    if (other < 0 || other >= schedule.stages) return;
    if (rank_of(other) == rank_of(stage))
      needs.emplace_back(made, other, micro_batch);
    else if (messages)
      needs.emplace_back(received, stage, micro_batch);
  };
  if (kind == ActionKind::forward) of_neighbour(stage - 1, ActionKind::forward, ActionKind::recv_forward);
  if (kind == ActionKind::backward || kind == ActionKind::input_gradient) {
    needs.emplace_back(ActionKind::forward, stage, micro_batch);
    of_neighbour(stage + 1, ActionKind::input_gradient, ActionKind::recv_backward);
  }
  if (kind == ActionKind::weight_gradient || kind == ActionKind::send_backward)
    needs.emplace_back(ActionKind::input_gradient, stage, micro_batch);
  if (kind == ActionKind::send_forward) needs.emplace_back(ActionKind::forward, stage, micro_batch);
  if (is_send_wait(kind)) needs.push_back(key_of(waited_for(action)));
  return needs;
}

bool is_in_order(const Schedule& schedule, bool messages = true) {
  for (const auto& actions : schedule.ranks) {
    std::set<Key> before, together;
    for (const Action& action : actions) {
      for (const Key& need : needs_in_row(schedule, action, messages))
        if (!before.contains(need)) return false;
      together.insert(key_of(action));
      if (!action.joined) before.merge(together);
    }
  }
  return true;
}

// Whether some rank receives another rank's messages in another order than they are sent in.
bool crosses(const Schedule& schedule) {
  std::map<std::pair<int, int>, std::array<std::vector<std::string>, 2>> links;
  for (const auto& actions : schedule.ranks)
    for (const Action& action : actions) {
      if (!is_message(action.kind)) continue;
      const bool forward = action.kind == ActionKind::send_forward || action.kind == ActionKind::recv_forward;
      const int from = is_send(action.kind) ? action.stage : action.stage - (forward ? 1 : -1);
      const int to = from + (forward ? 1 : -1);
      const auto rank_of = [&](int stage) { return schedule.stage_to_rank.at(static_cast<std::size_t>(stage)); };
      links[{rank_of(from), rank_of(to)}][is_send(action.kind) ? 0 : 1].push_back(
          fmt::format("{}>{} of {}", from, to, action.micro_batch));
    }
  return std::ranges::any_of(links, [](const auto& link) { return link.second[0] != link.second[1]; });
}

// A plan with messages whose neighbours changed places, so that some ranks may wait for ever; some are posted together,
// and of some the ranks wait for their sends later.
Schedule disturbed_plan(Random& random, bool waits) {
  Schedule plan = random_plan(random, true);
  if (waits) plan = schedules::add_send_waits(plan, random.between(1, 3));
  for (int left = random.between(0, 8); left > 0; --left) {
    auto& actions = plan.ranks[static_cast<std::size_t>(random.between(0, static_cast<int>(plan.ranks.size()) - 1))];
    if (actions.size() < 2) continue;
    const auto at = static_cast<std::size_t>(random.between(0, static_cast<int>(actions.size()) - 2));
    std::swap(actions[at], actions[at + 1]);
    // Most stay in order: of the others there is one thing to say.
    if (!is_in_order(plan) && random.between(0, 9) > 0) std::swap(actions[at], actions[at + 1]);
  }
  for (auto& actions : plan.ranks)
    for (std::size_t i = 0; i + 1 < actions.size(); ++i)
      actions[i].joined = is_message(actions[i].kind) && is_message(actions[i + 1].kind) && random.between(0, 2) == 0;
  return plan;
}

std::string problem_of_judgement(const Schedule& plan, bool fifo, const json& result) {
  const json& problems = result.at("problems");
  if (std::string problem = problem_of_named_places(problems, plan.ranks, plan.stage_to_rank); !problem.empty())
    return problem;
  if (result.at("valid") == std::ranges::any_of(problems, is_error))
    return fmt::format("valid is {} with {}", result.at("valid").dump(), all_of(problems));
  const auto has = [&](const char* kind, const char* severity) {
    return std::ranges::any_of(problems, [&](const json& problem) {
      return problem.at("kind") == kind && problem.at("severity") == severity;
    });
  };
  if (!is_in_order(plan)) return has("dependency", "error") ? "" : "no dependency among " + all_of(problems);
  const bool rendezvous = problem_of_waiting(plan, false).empty(), crossing = crosses(plan);
  const json expected{
      {"valid", rendezvous && !(fifo && crossing)},
      {"deadlock_free", {{"buffered", problem_of_waiting(plan, true).empty()}, {"rendezvous", rendezvous}}},
      {"peak_activations", peaks_of(plan)}};
  if (std::string difference = first_difference(expected, result); !difference.empty()) return difference;
  if (has("deadlock", "error") == rendezvous) return "of ranks that wait for each other: " + all_of(problems);
  if (has("fifo_order", fifo ? "error" : "warning") != crossing)
    return fmt::format("the orders {}: {}", crossing ? "cross" : "are the same", all_of(problems));
  return {};
}

// The same of computations alone.
Schedule disturbed_computations(Random& random) {
  Schedule plan = random_plan(random, false);
  for (int left = random.between(0, 8); left > 0; --left) {
    auto& actions = plan.ranks[static_cast<std::size_t>(random.between(0, static_cast<int>(plan.ranks.size()) - 1))];
    if (actions.size() < 2) continue;
    const auto at = static_cast<std::size_t>(random.between(0, static_cast<int>(actions.size()) - 2));
    std::swap(actions[at], actions[at + 1]);
    if (!is_in_order(plan, false) && random.between(0, 9) > 0) std::swap(actions[at], actions[at + 1]);
  }
  return plan;
}
std::string problem_of_computations(const Schedule& plan, const json& result) {
  const json& problems = result.at("problems");
  if (std::string problem = problem_of_named_places(problems, plan.ranks, plan.stage_to_rank); !problem.empty())
    return problem;
  const auto has = [&](const char* kind) {
    return std::ranges::any_of(problems,
                               [&](const json& problem) { return problem.at("kind") == kind && is_error(problem); });
  };
  const bool ends = run_of(plan).stuck.empty();
  if (!is_in_order(plan, false)) return has("dependency") ? "" : "no dependency among " + all_of(problems);
  const json expected{{"valid", ends},
                      {"deadlock_free", {{"buffered", ends}, {"rendezvous", ends}}},
                      {"peak_activations", peaks_of(plan)}};
  if (std::string difference = first_difference(expected, result); !difference.empty()) return difference;
  return has("cycle") == ends ? "of ranks that wait for each other: " + all_of(problems) : "";
}

// Of a right plan, one message is not sent, not received, or neither.
Schedule without_a_message(Random& random) {
  Schedule plan = random_plan(random, true);
  std::vector<Action> sends;
  for (const auto& actions : plan.ranks)
    std::ranges::copy_if(actions, std::back_inserter(sends), schedules::is_send, &Action::kind);
  if (sends.size() < 2) return {};
  const Action send = random.one_of(sends), receive = schedules::partner_of(send);
  const int left_out = random.between(0, 2);
  for (auto& actions : plan.ranks)
    std::erase_if(actions, [&](const Action& one) {
      return (left_out != 0 && key_of(one) == key_of(send)) || (left_out != 1 && key_of(one) == key_of(receive));
    });
  return plan;
}
std::string problem_of_lost_message(const Schedule& plan, const json& result) {
  const json expected{{"valid", false},
                      {"deadlock_free",
                       {{"buffered", problem_of_waiting(plan, true).empty()},
                        {"rendezvous", problem_of_waiting(plan, false).empty()}}}};
  return first_difference(expected, result);
}

void agrees_with_a_walk(Context& context) {
  const std::string& matching = context.parameters().text("matching");
  Random random(context.seed());
  // Asks about a plan, and says whether the answer has no problem.
  const auto is_right = [&](const Schedule& plan, const auto& judge) {
    json args = question_of_plan(plan);
    args["matching"] = matching;
    const std::string problem =
        problem_of(context.adapter(), "schedules.check", args, [&](const json& result) { return judge(plan, result); });
    if (!problem.empty()) report_words(args.dump().substr(0, 600) + ": " + problem);
    return problem.empty();
  };
  for (int trial = 0; trial < 200; ++trial)
    if (const Schedule plan = without_a_message(random);
        !plan.ranks.empty() && !is_right(plan, problem_of_lost_message))
      return;
  for (int trial = 0; trial < 450; ++trial)
    if (!is_right(disturbed_computations(random), problem_of_computations)) return;
  const auto judged = [&](const Schedule& plan, const json& result) {
    return problem_of_judgement(plan, matching == "fifo", result);
  };
  for (int trial = 0; trial < 450; ++trial)
    if (!is_right(disturbed_plan(random, trial % 3 == 2), judged)) return;
}

// ---- one fault anywhere ----

struct Spoilt {
  Schedule plan;
  std::set<std::string> kinds;
  int rank = 0, position = kNowhere;
  std::string action;
};

using Place = std::pair<std::size_t, std::size_t>;  // rank and position
std::optional<Place> any_place(Random& random, const Schedule& plan) {
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
    for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) places.emplace_back(rank, i);
  return places.empty() ? std::nullopt : std::optional(random.one_of(places));
}

std::ptrdiff_t count_of_waits(const Schedule& plan) {
  std::ptrdiff_t count = 0;
  for (const auto& actions : plan.ranks)
    count += std::ranges::count_if(actions, schedules::is_send_wait, &Action::kind);
  return count;
}

// Nothing where the fault does not suit the action.
std::optional<Spoilt> spoilt(Random& random, const std::string& fault, const std::string& rows) {
  const bool messages = rows != "computations";
  Spoilt one{.plan = random_plan(random, messages), .kinds = {}, .rank = 0, .position = kNowhere, .action = {}};
  if (rows == "waits") one.plan = schedules::add_send_waits(one.plan, random.between(1, 3));
  const auto place = any_place(random, one.plan);
  if (!place) return {};
  const auto [rank, at] = *place;
  auto& actions = one.plan.ranks[rank];
  const Action action = actions[at];
  one.rank = static_cast<int>(rank);
  one.action = name_of_action(action);
  const auto position_of = [](std::size_t i) { return static_cast<std::ptrdiff_t>(i); };
  if (fault == "left_out" && is_send_wait(action.kind)) {
    // What is named is the send for which nobody waits. Without any wait, the ranks wait at the sends.
    actions.erase(actions.begin() + position_of(at));
    if (count_of_waits(one.plan) == 0) return {};
    const Action send = waited_for(action);
    one.kinds = {"missing_wait"};
    one.action = name_of_action(send);
    one.position = static_cast<int>(std::ranges::find(actions, key_of(send), key_of) - actions.begin());
  } else if (fault == "left_out") {
    one.kinds = {!is_message(action.kind) ? "missing" : is_send(action.kind) ? "missing_send" : "missing_receive"};
    actions.erase(actions.begin() + position_of(at));
  } else if (fault == "doubled") {
    one.kinds = {"doubled"};
    one.position = random.between(static_cast<int>(at) + 1, static_cast<int>(actions.size()));
    actions.insert(actions.begin() + one.position, action);
  } else if (fault == "on_another_rank") {
    if (one.plan.ranks.size() < 2) return {};
    one.kinds = {"wrong_rank"};
    one.rank = static_cast<int>((rank + 1) % one.plan.ranks.size());
    auto& others = one.plan.ranks[static_cast<std::size_t>(one.rank)];
    one.position = random.between(0, static_cast<int>(others.size()));
    actions.erase(actions.begin() + position_of(at));
    others.insert(others.begin() + one.position, action);
  } else {
    const auto needs = needs_in_row(one.plan, action, messages);
    if (needs.empty()) return {};
    const auto needed = std::ranges::find(actions, random.one_of(needs), key_of);
    one.kinds = {"dependency"};
    one.position = static_cast<int>(needed - actions.begin());
    std::rotate(needed, actions.begin() + position_of(at), actions.begin() + position_of(at) + 1);
  }
  return one;
}

void finds_any_fault(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  const std::string& rows = context.parameters().text("rows");
  Random random(context.seed());
  int tried = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const auto one = spoilt(random, fault, rows);
    if (!one) continue;
    ++tried;
    const json args = question_of_plan(one->plan);
    const std::string problem = problem_of(context.adapter(), "schedules.check", args, [&](const json& result) {
      return problem_of_naming(result, one->kinds, one->rank, one->position, one->action);
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 600) + ": " + problem);
  }
  if (tried < 100) report_words(fmt::format("only {} plans were spoilt", tried));
}

// ---- whole plans ----

// The same pairs, the other computation first.
Schedule turned(Schedule plan) {
  for (auto& actions : plan.ranks)
    for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
      if (!actions[i].joined) continue;
      const bool more = actions[i + 1].joined;  // with what follows the pair
      std::swap(actions[i], actions[i + 1]);
      actions[i].joined = true;
      actions[++i].joined = more;
    }
  return plan;
}

Schedule put_in(const std::string& what, const Schedule& computations) {
  if (what == "turned_pairs") return turned(computations);
  if (what == "messages") return schedules::lower(computations);
  if (what == "shapes") return schedules::lower(computations, schedules::Metadata::each);
  if (what == "sharding")
    return schedules::lower(schedules::add_reduce_gradients(schedules::add_unshard_reshard(computations)));
  return computations;
}

void accepts_whole_plan(Context& context, const PlanShape& shape, const std::string& what) {
  const Schedule computations = schedules::generate(
      schedules::schedule_kind_of(shape.schedule),
      {.ranks = shape.ranks, .micro_batches = shape.micro_batches, .stages_per_rank = shape.chunks});
  json args = question_of_plan(put_in(what, computations)),
       expected{
           {"valid", true}, {"problems", json::array()}, {"deadlock_free", {{"buffered", true}, {"rendezvous", true}}}};
  if (shape.schedule == "forward-only")
    args["forward_only"] = true;
  else
    expected["peak_activations"] = peaks_of(schedules::without_idle(computations));
  const std::string problem = problem_of(context.adapter(), "schedules.check", args,
                                         [&](const json& result) { return first_difference(expected, result); });
  if (!problem.empty()) report_words(text_of(shape) + ": " + problem);
}

void accepts_whole_plans(Context& context) {
  const std::string& what = context.parameters().text("put_in");
  for (const std::string& name : schedule_names())
    for (const int ranks : {1, 2, 4, 8})
      for (const int chunks : {1, 2}) {
        const PlanShape shape{.schedule = name, .ranks = ranks, .micro_batches = 2 * ranks, .chunks = chunks};
        if (is_allowed(shape)) accepts_whole_plan(context, shape, what);
      }
}

// ---- what is no plan ----

void refuses_what_is_no_plan(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  json args = question_of_rows({"0F0,0B0", "1F0,1B0"}, {0, 1}, 1);
  if (fault == "no_micro_batches") args["microbatches"] = 0;
  if (fault == "places_too_few") args["stage_to_rank"] = {0};
  if (fault == "place_outside") args["stage_to_rank"] = {0, 2};
  if (fault == "cell") args["ranks"] = {"0F0,0X0", "1F0,1B0"};
  if (fault == "half_a_pair") args["ranks"] = {"0F0,(0B0)OVERLAP_F_B", "1F0,1B0"};
  if (fault == "huge_micro_batch") args["ranks"] = {"0F99999999999,0B0", "1F0,1B0"};
  report_words(problem_of_control(context.adapter(), "schedules.check", args));
  const Answer answer = answer_to(context.adapter(), "schedules.check", args);
  if (!answer.is_refused()) return report_words("answered: " + answer.result.dump().substr(0, 200));
  if (answer.kind != "invalid_argument") report_words("refused as '" + answer.kind + "': " + answer.message);
}

}  // namespace

void add_judging_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes,
                       void (*body)(Context&)) {
    suite.add({.id = std::string("schedules.checker.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {"schedules.check"},
               .body = body});
  };
  std::vector<std::string> names;
  for (const Fault& fault : faults()) names.emplace_back(fault.name);
  add("says_where", "SCHED-080@8022", {{"fault", std::move(names)}}, says_where);
  add("agrees_with_a_walk", "SCHED-081@1f0e", {{"matching", {"name", "fifo"}}}, agrees_with_a_walk);
  add("finds_any_fault", "SCHED-082@c8f5",
      {{"fault", {"left_out", "doubled", "on_another_rank", "moved"}}, {"rows", {"computations", "messages", "waits"}}},
      finds_any_fault);
  add("accepts_whole_plans", "SCHED-083@79b4",
      {{"put_in", {"nothing", "turned_pairs", "messages", "shapes", "sharding"}}}, accepts_whole_plans);
  add("refuses", "SCHED-084@f7f3",
      {{"fault", {"no_micro_batches", "places_too_few", "place_outside", "cell", "half_a_pair", "huge_micro_batch"}}},
      refuses_what_is_no_plan);
}

}  // namespace plumbline::conformance
