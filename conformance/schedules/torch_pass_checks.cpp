// PyTorch's lowering passes on drawn plans: each is written down as torch 2.13 has it, one loop after the other, with
// the hash table of CPython's sets.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/sizes.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/generate.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Context;
using suite::Door;

namespace {

using Actions = std::vector<Action>;
using Steps = std::vector<Actions>;  // of a rank; those of a step begin together

Action action(ActionKind kind, int stage, int micro_batch = schedules::kNoMicroBatch) {
  return {.kind = kind, .joined = false, .stage = stage, .micro_batch = micro_batch};
}
bool is_idle(const Actions& step) { return step.front().kind == ActionKind::idle; }
bool is_input_gradient(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::input_gradient; }

Steps steps_of(const Actions& actions) {
  Steps steps;
  bool joined = false;
  for (Action one : actions) {
    if (!joined) steps.emplace_back();
    joined = one.joined;
    one.joined = false;
    steps.back().push_back(one);
  }
  return steps;
}
Actions actions_of(const Steps& steps) {
  Actions actions;
  for (const Actions& step : steps)
    for (std::size_t i = 0; i < step.size(); ++i) {
      actions.push_back(step[i]);
      actions.back().joined = i + 1 < step.size();
    }
  return actions;
}
using Plan = std::vector<Steps>;  // by rank
json rows_of(const Plan& plan) {
  json rows = json::array();
  for (const Steps& steps : plan) rows.push_back(schedules::to_csv(actions_of(steps)));
  return rows;
}

// ---- CPython's set of small numbers ----

// Objects/setobject.c: linear probes of nine slots where they do not pass the end, then a jump; a removed entry keeps
// its slot, and the last one that an added entry passes is taken; more than three fifths of the slots in use make the
// table four times as large as its entries.
class PythonSet {
 public:
  [[nodiscard]] bool has(int number) const { return std::ranges::count(slots_, number) > 0; }
  [[nodiscard]] std::vector<int> in_order() const {
    std::vector<int> numbers;
    for (const int slot : slots_)
      if (slot >= 0) numbers.push_back(slot);
    return numbers;
  }
  void remove(int number) { *std::ranges::find(slots_, number) = kDummy; }
  void add(int number) {
    if (has(number)) return;
    if (!put(slots_, number)) return;
    const std::size_t mask = slots_.size() - 1;
    const auto filled = static_cast<std::size_t>(std::ranges::count_if(slots_, [](int slot) { return slot != kFree; }));
    if (filled * 5 < mask * 3) return;
    std::size_t size = 8;
    while (size <= 4 * in_order().size()) size *= 2;
    std::vector<int> larger(size, kFree);
    for (const int entry : in_order()) put(larger, entry);
    slots_ = std::move(larger);
  }

 private:
  static constexpr int kFree = -1, kDummy = -2;
  // Whether it took a slot that was free.
  static bool put(std::vector<int>& slots, int number) {
    int* removed = nullptr;
    const std::size_t mask = slots.size() - 1;
    auto perturb = static_cast<std::size_t>(number);
    for (std::size_t at = perturb & mask;; at = (at * 5 + 1 + (perturb >>= 5)) & mask)
      for (std::size_t i = at; i <= (at + 9 <= mask ? at + 9 : at); ++i) {
        if (slots[i] == kDummy) removed = &slots[i];
        if (slots[i] != kFree) continue;
        *(removed != nullptr ? removed : &slots[i]) = number;
        return removed == nullptr;
      }
  }
  std::vector<int> slots_ = std::vector<int>(8, kFree);
};

// ---- the passes ----

// _add_unshard_reshard, of at most `count` stages.
constexpr int kActiveStages = 3;  // unless the question says otherwise
std::vector<int> next_stages(const Steps& steps, std::size_t from, std::size_t count) {
  std::vector<int> stages;
  for (std::size_t i = from; i < steps.size() && stages.size() < count; ++i) {
    if (is_idle(steps[i])) continue;
    for (const Action& one : steps[i])
      if (std::ranges::count(stages, one.stage) == 0) stages.push_back(one.stage);
  }
  return stages;
}
Steps with_unshard(const Steps& steps, int most) {
  PythonSet active;
  Steps result;
  const auto reshard = [&](int stage) {
    active.remove(stage);
    result.push_back({action(ActionKind::reshard, stage)});
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (is_idle(steps[i])) continue;
    const std::vector<int> next = next_stages(steps, i, static_cast<std::size_t>(most));
    for (const int stage : active.in_order())
      if (std::ranges::count(next, stage) == 0) reshard(stage);
    for (const int stage : next) {
      if (active.has(stage)) continue;
      active.add(stage);
      result.push_back({action(ActionKind::unshard, stage)});
    }
    result.push_back(steps[i]);
  }
  for (const int stage : active.in_order()) reshard(stage);
  return result;
}

// A reduction after the stage's last weight gradient.
Steps with_reductions(const Steps& steps, int micro_batches) {
  Steps result;
  std::map<int, int> done;
  for (const Actions& step : steps) {
    result.push_back(step);
    for (const Action& one : step)
      if ((one.kind == ActionKind::backward || one.kind == ActionKind::weight_gradient) &&
          ++done[one.stage] == micro_batches)
        result.push_back({action(ActionKind::reduce_gradients, one.stage)});
  }
  return result;
}

// _add_send_recv: rank after rank takes its next step, if what that needs is in its row; a sender writes both sides.
class SendRecv {
 public:
  SendRecv(const Plan& plan, const std::vector<int>& places)
      : places_(places), result_(plan.size()), written_(plan.size()) {
    std::vector<std::deque<Actions>> left;
    for (const Steps& steps : plan) left.emplace_back(steps.begin(), steps.end());
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < left.size(); ++rank) {
        if (left[rank].empty() || !is_ready(rank, left[rank].front())) continue;
        take(rank, left[rank].front());
        left[rank].pop_front();
        progress = true;
      }
    }
  }
  [[nodiscard]] const Plan& result() const { return result_; }

 private:
  [[nodiscard]] bool is_stage(int stage) const { return stage >= 0 && stage < static_cast<int>(places_.size()); }
  [[nodiscard]] std::size_t rank_of(int stage) const {
    return static_cast<std::size_t>(places_[static_cast<std::size_t>(stage)]);
  }
  [[nodiscard]] bool has(std::size_t rank, ActionKind kind, int stage, int micro_batch) const {
    return written_[rank].contains({kind, stage, micro_batch});
  }
  [[nodiscard]] bool is_ready(std::size_t rank, const Actions& step) const {
    return std::ranges::all_of(step, [&](const Action& one) {
      const int stage = one.stage, micro_batch = one.micro_batch;
      if (one.kind == ActionKind::forward && stage > 0)
        return has(rank, ActionKind::recv_forward, stage, micro_batch) ||
               has(rank, ActionKind::forward, stage - 1, micro_batch);
      if (is_input_gradient(one.kind) && is_stage(stage + 1))
        return has(rank, ActionKind::recv_backward, stage, micro_batch) ||
               has(rank, ActionKind::backward, stage + 1, micro_batch) ||
               has(rank, ActionKind::input_gradient, stage + 1, micro_batch);
      return true;
    });
  }
  void take(std::size_t rank, const Actions& step) {
    if (is_idle(step)) return;
    write(rank, step);
    for (const Action& one : step) {
      const bool back = is_input_gradient(one.kind);
      const int to = one.stage + (back ? -1 : 1);
      if ((!back && one.kind != ActionKind::forward) || !is_stage(to) || rank_of(to) == rank) continue;
      write(rank, {action(back ? ActionKind::send_backward : ActionKind::send_forward, one.stage, one.micro_batch)});
      write(rank_of(to), {action(back ? ActionKind::recv_backward : ActionKind::recv_forward, to, one.micro_batch)});
    }
  }
  void write(std::size_t rank, const Actions& step) {
    result_[rank].push_back(step);
    for (const Action& one : step) written_[rank].insert({one.kind, one.stage, one.micro_batch});
  }

  const std::vector<int>& places_;
  Plan result_;
  std::vector<std::set<std::tuple<ActionKind, int, int>>> written_;  // by rank
};

// Receives wait until their computation, or until this rank sends to a higher rank from which they come.
Steps deferred(const Steps& steps, std::size_t rank, const std::vector<int>& places) {
  Steps result;
  Actions waiting;
  const auto peer_of = [&](const Action& message) {
    const bool up = message.kind == ActionKind::send_forward || message.kind == ActionKind::recv_backward;
    return places[static_cast<std::size_t>(message.stage + (up ? 1 : -1))];
  };
  const auto take_if = [&](const auto& is_due) {
    for (const Action& one : waiting)
      if (is_due(one)) result.push_back({one});
    std::erase_if(waiting, is_due);
  };
  for (const Actions& step : steps) {
    const Action& first = step.front();
    if (first.kind == ActionKind::recv_forward || first.kind == ActionKind::recv_backward) {
      if (std::ranges::count(waiting, first) == 0) waiting.push_back(first);
      continue;
    }
    if ((first.kind == ActionKind::send_forward || first.kind == ActionKind::send_backward) &&
        peer_of(first) > static_cast<int>(rank))
      take_if([&](const Action& one) { return peer_of(one) == peer_of(first); });
    for (const Action& one : step)
      take_if([&](const Action& receive) {
        return receive.stage == one.stage && receive.micro_batch == one.micro_batch &&
               (receive.kind == ActionKind::recv_forward ? one.kind == ActionKind::forward
                                                         : is_input_gradient(one.kind));
      });
    result.push_back(step);
  }
  return result;
}

// _merge_bw.
Steps merged(const Steps& steps) {
  Steps left = steps, result;
  std::erase_if(left, is_idle);
  for (std::size_t i = 0; i < left.size(); ++i) {
    const Action& one = left[i].front();
    const bool halves = left[i].size() == 1 && one.kind == ActionKind::input_gradient && i + 1 < left.size() &&
                        left[i + 1] == Actions{action(ActionKind::weight_gradient, one.stage, one.micro_batch)};
    result.push_back(halves ? Actions{action(ActionKind::backward, one.stage, one.micro_batch)} : left[i]);
    if (halves) ++i;
  }
  return result;
}

// ---- questions ----

json answer_to_plan(const Schedule& schedule, int active_stages = kActiveStages) {
  Plan plan, sharded;
  for (const Actions& actions : schedule.ranks) {
    plan.push_back(steps_of(actions));
    sharded.push_back(with_reductions(with_unshard(plan.back(), active_stages), schedule.micro_batches));
  }
  const Plan with_comms = SendRecv(sharded, schedule.stage_to_rank).result();
  Plan defers, merges;
  for (std::size_t rank = 0; rank < plan.size(); ++rank) {
    defers.push_back(deferred(with_comms[rank], rank, schedule.stage_to_rank));
    merges.push_back(merged(plan[rank]));
  }
  return {{"with_comms", rows_of(with_comms)},
          {"send_recv", rows_of(SendRecv(plan, schedule.stage_to_rank).result())},
          {"with_comms_defer_recv", rows_of(defers)},
          {"merge_bw", rows_of(merges)}};
}

// Some neighbours begin together, and some steps are idle.
Schedule drawn_plan(Random& random) {
  Schedule plan = random_plan(random, false);
  for (Actions& actions : plan.ranks)
    for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
      if (random.between(0, 2) > 0 || (i > 0 && actions[i - 1].joined)) continue;
      actions[i].joined = true;
      if (!run_of(plan).stuck.empty()) actions[i].joined = false;
    }
  for (Actions& actions : plan.ranks)
    for (std::size_t i = actions.size(); i-- > 0;)
      if (random.between(0, 4) == 0 && (i == 0 || !actions[i - 1].joined))
        actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(i), Action{});
  return plan;
}

// What torch's own schedules of many ranks and chunks gather: numbers that share slots of a hash table.
Schedule many_stages(Random& random) {
  Schedule plan;
  const int chunks = random.between(3, 7);
  plan.stages = chunks * random.between(1, 4);
  plan.micro_batches = random.between(1, 3);
  plan.ranks.resize(1);
  for (int stage = 0; stage < plan.stages; ++stage) {
    plan.stage_to_rank.push_back(0);
    for (int i = 0; i < plan.micro_batches; ++i) plan.ranks[0].push_back(action(ActionKind::forward, stage, i));
  }
  for (int stage = plan.stages; stage-- > 0;)
    for (int i = 0; i < plan.micro_batches; ++i) plan.ranks[0].push_back(action(ActionKind::backward, stage, i));
  return plan;
}

// Micro-batches that are far apart in a deep model, two of them at a step: sets of any numbers, whose table is larger,
// and in which stages that are given up leave slots used.
Schedule far_apart(Random& random) {
  Schedule plan{
      .stages = random.between(8, 70), .micro_batches = random.between(2, 4), .stage_to_rank = {}, .ranks = {}};
  plan.stage_to_rank.assign(static_cast<std::size_t>(plan.stages), 0);
  plan.ranks.resize(1);
  std::vector<int> steps(static_cast<std::size_t>(plan.micro_batches));  // of each micro-batch, done
  const auto is_open = [&](int i) { return steps[static_cast<std::size_t>(i)] < 2 * plan.stages; };
  const auto take = [&](int i, bool joined) {
    const int step = steps[static_cast<std::size_t>(i)]++;
    const bool back = step >= plan.stages;
    plan.ranks[0].push_back(back ? action(ActionKind::backward, 2 * plan.stages - 1 - step, i)
                                 : action(ActionKind::forward, step, i));
    plan.ranks[0].back().joined = joined;
  };
  while (true) {
    std::vector<int> open;
    for (int i = 0; i < plan.micro_batches; ++i)
      if (is_open(i)) open.push_back(i);
    if (open.empty()) return plan;
    const int one = random.one_of(open), other = random.one_of(open);
    for (int left = random.between(1, 12); left > 0 && is_open(one); --left) {
      const bool pair = one != other && is_open(other);
      take(one, pair);
      if (pair) take(other, false);
    }
  }
}

// The next stages of a rank lie apart, as those of a loop of many ranks do.
Schedule long_loop(Random& random) {
  static const std::vector<schedules::ScheduleKind> kinds{schedules::ScheduleKind::interleaved,
                                                          schedules::ScheduleKind::looped_breadth_first,
                                                          schedules::ScheduleKind::interleaved_zero_bubble};
  const int ranks = random.between(5, 17);
  return schedules::generate(random.one_of(kinds),
                             {.ranks = ranks, .micro_batches = ranks, .stages_per_rank = random.between(2, 5)});
}

json question_to_lower(const Schedule& plan) {
  return {{"convention", "torch"},
          {"compute_only", conformance::rows_of(plan)},
          {"stage_to_rank", plan.stage_to_rank},
          {"num_stages", plan.stages},
          {"idle", "steps"}};
}

bool has_an_empty_row(const Schedule& plan) {
  return std::ranges::any_of(plan.ranks, [](const Actions& actions) { return actions.empty(); });
}

void passes(Context& context) {
  const std::string& plans = context.parameters().text("plans");
  const std::array messages{"with_comms", "send_recv"}, others{"with_comms_defer_recv", "merge_bw"};
  const bool is_last = context.parameters().text("pass") == "others";
  Random random(context.seed());
  for (int trial = 0; trial < (plans == "loops" ? 12 : 150); ++trial) {
    const Schedule plan = plans == "loops"      ? long_loop(random)
                          : plans == "one_rank" ? (trial % 2 == 0 ? many_stages(random) : far_apart(random))
                                                : drawn_plan(random);
    if (has_an_empty_row(plan)) continue;
    const json args = question_to_lower(plan);
    json expected = answer_to_plan(plan);
    for (const char* const field : is_last ? messages : others) expected.erase(field);
    const std::string problem = problem_of(context.adapter(), "schedules.lower", args,
                                           [&](const json& result) { return first_difference(expected, result); });
    if (!problem.empty()) return report_words(args.dump().substr(0, 600) + ": " + problem);
  }
}

void active_stages(Context& context) {
  const auto most = static_cast<int>(context.parameters().number("max_active_stages"));
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    const Schedule plan = trial % 4 == 0   ? long_loop(random)
                          : trial % 4 == 1 ? many_stages(random)
                          : trial % 4 == 2 ? far_apart(random)
                                           : drawn_plan(random);
    if (has_an_empty_row(plan)) continue;
    json args = question_to_lower(plan);
    args["max_active_stages"] = most;
    args.erase("idle");  // of send_recv alone
    const json expected{{"with_comms", answer_to_plan(plan, most).at("with_comms")}};
    const std::string problem = problem_of(context.adapter(), "schedules.lower", args,
                                           [&](const json& result) { return first_difference(expected, result); });
    if (!problem.empty()) return report_words(args.dump().substr(0, 600) + ": " + problem);
  }
}

// Messages written down by whoever planned them, not by torch's own pass: a row may have them in any right order.
void deferring_given_messages(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 100; ++trial) {
    Schedule plan = random_plan(random, true);
    if (context.parameters().text("messages") == "of_pass") {
      const Schedule computations = drawn_plan(random);
      if (has_an_empty_row(computations)) continue;
      plan = computations;
      Plan steps;
      for (const Actions& actions : computations.ranks) steps.push_back(steps_of(actions));
      const Plan lowered = SendRecv(steps, plan.stage_to_rank).result();
      std::ranges::transform(lowered, plan.ranks.begin(), actions_of);
    }
    Plan expected;
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
      expected.push_back(deferred(steps_of(plan.ranks[rank]), rank, plan.stage_to_rank));
    const json args{{"convention", "torch"},
                    {"ranks", conformance::rows_of(plan)},
                    {"stage_to_rank", plan.stage_to_rank},
                    {"num_stages", plan.stages}};
    const std::string problem =
        problem_of(context.adapter(), "schedules.defer_receives", args,
                   [&](const json& result) { return first_difference({{"ranks", rows_of(expected)}}, result); });
    if (!problem.empty()) return report_words(args.dump().substr(0, 600) + ": " + problem);
  }
}

JudgeSize deferred_large_plans() {
  return [](suite::Adapter& adapter, int micro_batches) {
    Schedule plan = schedules::generate(
        schedules::ScheduleKind::one_f_one_b,
        {.ranks = ranks_of_size(micro_batches), .micro_batches = micro_batches, .stages_per_rank = 1});
    Plan steps, expected;
    for (const Actions& actions : plan.ranks) steps.push_back(steps_of(actions));
    const Plan lowered = SendRecv(steps, plan.stage_to_rank).result();
    for (std::size_t rank = 0; rank < lowered.size(); ++rank)
      expected.push_back(deferred(lowered[rank], rank, plan.stage_to_rank));
    const json args{{"convention", "torch"},
                    {"ranks", rows_of(lowered)},
                    {"stage_to_rank", plan.stage_to_rank},
                    {"num_stages", plan.stages}};
    return problem_of(adapter, "schedules.defer_receives", args,
                      [&](const json& result) { return first_difference({{"ranks", rows_of(expected)}}, result); });
  };
}

}  // namespace

void add_torch_pass_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, const char* pass) {
    suite.add({.id = std::string("schedules.lowering.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {{"plans", {"any", "one_rank", "loops"}}, {"pass", {pass}}},
               .operations = {"schedules.lower"},
               .convention = "torch",
               .body = passes});
  };
  add("torch_rule", "SCHED-025@87a7", "messages");
  add("torch_other_passes", "SCHED-117@a52d", "others");
  suite.add({.id = "schedules.lowering.torch_given_messages",
             .verifies = {"SCHED-117@a52d"},
             .door = Door::adapter,
             .axes = {{"messages", {"any", "of_pass"}}},
             .operations = {"schedules.defer_receives"},
             .convention = "torch",
             .body = deferring_given_messages});
  add_sized_check(suite, "schedules",
                  {"schedules.defer_receives", "SCHED-117@a52d", sizes_of_plans(), deferred_large_plans(), "torch"});
  suite.add({.id = "schedules.lowering.torch_active_stages",
             .verifies = {"SCHED-141@5261"},
             .door = Door::adapter,
             .axes = {{"max_active_stages", {"1", "2", "3", "7"}}},
             .operations = {"schedules.lower"},
             .convention = "torch",
             .body = active_stages});
}

}  // namespace plumbline::conformance
