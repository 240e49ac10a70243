// In which buffer of its rank an adapter keeps each activation of a schedule that it is given.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/sizes.hpp"
#include "conformance/support/words.hpp"
#include "reference/schedules/generate.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using suite::Adapter;
using suite::Context;

namespace {

constexpr const char* kSlots = "schedules.slots";

using ActionRow = std::vector<Action>;

bool frees_activation(const Action& action, bool forward_only) {
  return action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient ||
         (forward_only && action.kind == ActionKind::forward);
}

// By the definition: of actions that start together the forwards take slots first, and none is free before all have
// one.
json slots_by_definition(const ActionRow& row, bool forward_only) {
  json slots = json::array();
  std::map<std::pair<int, int>, int> kept;
  std::set<int> taken;
  for (std::size_t first = 0, end = 0; first < row.size(); first = end) {
    for (end = first + 1; end < row.size() && row[end - 1].joined; ++end) {
    }
    const auto each = [&](const std::function<void(std::size_t i, const std::pair<int, int>& which)>& visit) {
      for (std::size_t i = first; i < end; ++i) visit(i, {row[i].stage, row[i].micro_batch});
    };
    each([&](std::size_t i, const auto& which) {
      slots.push_back(nullptr);
      if (row[i].kind != ActionKind::forward) return;
      int lowest = 0;
      while (taken.contains(lowest)) ++lowest;
      taken.insert(lowest);
      kept[which] = lowest;
    });
    each([&](std::size_t i, const auto& which) {
      if (schedules::is_compute(row[i].kind)) slots[i] = kept.at(which);
    });
    each([&](std::size_t i, const auto& which) {
      if (!frees_activation(row[i], forward_only)) return;
      taken.erase(kept.at(which));
      kept.erase(which);
    });
  }
  return slots;
}

std::string problem_of_slots(Adapter& adapter, const json& rows, const std::vector<ActionRow>& actions,
                             bool forward_only) {
  const json args{{"ranks", rows}, {"forward_only", forward_only}};
  return problem_of(adapter, kSlots, args, [&](const json& result) -> std::string {
    json slots = json::array(), counts = json::array();
    for (const ActionRow& row : actions) {
      int most = 0;
      for (const json& slot : slots.emplace_back(slots_by_definition(row, forward_only)))
        if (!slot.is_null()) most = std::max(most, slot.get<int>() + 1);
      counts.push_back(most);
    }
    return first_difference({{"slots", slots}, {"counts", counts}}, result);
  });
}

void slots_of_any_plan(Context& context) {
  const std::string& run = context.parameters().text("rows");
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    schedules::Schedule plan = random_plan(random, run == "messages");
    if (run == "forward_only")
      for (ActionRow& row : plan.ranks)
        std::erase_if(
            row, [](const Action& one) { return schedules::is_compute(one.kind) && one.kind != ActionKind::forward; });
    const std::string problem = problem_of_slots(context.adapter(), rows_of(plan), plan.ranks, run == "forward_only");
    if (!problem.empty()) return report_words(rows_of(plan).dump() + ": " + problem);
  }
}

void slots_of_joined_actions(Context& context) {
  const bool forward_only = context.parameters().text("run") == "forward_only";
  const std::vector<std::string> rows =
      forward_only ? std::vector<std::string>{"0F0,(0F1;1F0)OVERLAP_F_B,0F2", "2F0,,2F1"}
                   : std::vector<std::string>{"0F0,(0F1;0B0)OVERLAP_F_B,0F2,0B1,0B2",
                                              "1F0,1F1,(1F2;1B0)OVERLAP_F_B,,(1F3;1B1)OVERLAP_F_B,1I2,1W2,1B3"};
  std::vector<ActionRow> actions;
  for (const std::string& row : rows) actions.push_back(schedules::parse_row(row));
  report_words(problem_of_slots(context.adapter(), rows, actions, forward_only));
}

void slots_refused(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  const std::map<std::string, std::pair<std::vector<std::string>, std::string>> faults{
      {"forward_again", {{"0F0,0B0", "", "1F0,,1F1,1F0"}, "3"}},
      {"backward_without_forward", {{"0F0,0B0", "", "1B0"}, "0"}},
      {"backward_again", {{"0F0,0B0", "", "1F0,1B0,1B0"}, "2"}},
      {"weights_after_all", {{"0F0,0B0", "", "1F0,1F1,1B0,1W0"}, "3"}},
      {"other_stage", {{"0F0,0B0", "", "1F0,2B0"}, "1"}}};
  const auto& [rows, position] = faults.at(fault);
  const json args{{"ranks", rows}};
  report_words(problem_of_refusal(context.adapter(), kSlots, args));
  const Answer answer = answer_to(context.adapter(), kSlots, args);
  report_words(missing_words(answer.message, {"2", position}));
}

// Rows of 1F1B: of the p - r activations at once on rank r.
std::string slots_of_large_plan(Adapter& adapter, int micro_batches) {
  const schedules::Schedule plan = schedules::generate(
      schedules::ScheduleKind::one_f_one_b,
      {.ranks = ranks_of_size(micro_batches), .micro_batches = micro_batches, .stages_per_rank = 1});
  return problem_of_slots(adapter, rows_of(plan), plan.ranks, false);
}

}  // namespace

void add_slot_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, suite::Axis axis, void (*body)(Context&)) {
    suite.add({.id = std::string("schedules.slots.") + name,
               .verifies = {"SCHED-123@3c42"},
               .door = suite::Door::adapter,
               .axes = {std::move(axis)},
               .operations = {kSlots},
               .body = body});
  };
  add("of_any_plan", {"rows", {"computations", "messages", "forward_only"}}, slots_of_any_plan);
  add("of_joined_actions", {"run", {"trained", "forward_only"}}, slots_of_joined_actions);
  add("refused",
      {"fault", {"forward_again", "backward_without_forward", "backward_again", "weights_after_all", "other_stage"}},
      slots_refused);
  add_sized_check(suite, "schedules", {kSlots, "SCHED-123@3c42", sizes_of_plans(), slots_of_large_plan});
}

}  // namespace plumbline::conformance
