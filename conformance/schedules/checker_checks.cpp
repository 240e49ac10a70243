// A checker of schedules names each fault that is planted, accepts whatever is right, and counts what a schedule keeps.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Context;
using suite::Door;

namespace {

struct Planted {
  const char* name;
  std::vector<std::string> rows;
  int micro_batches = 1;
  std::vector<int> stage_to_rank = {0, 1};
  // The problems that must be among those named, on this rank: of a cycle on it or on a higher one. Each is of the
  // stage and micro-batch of one of these actions, or of any; which of a backward's halves is named is left open.
  const char* kind = "";
  int rank = 0;
  std::vector<std::string> actions = {};
};

const std::vector<Planted>& planted() {
  static const std::vector<Planted> list{
      {"doubled_forward", {"0F0,0F0,0B0", "1F0,1B0"}, 1, {0, 1}, "doubled", 0, {"0F0"}},
      {"doubled_backward", {"0F0,0B0,0B0", "1F0,1B0"}, 1, {0, 1}, "doubled", 0, {"0B0"}},
      {"doubled_both", {"0F0,0F0,0B0,0B0,0F1,0B1", "1F0,1B0,1F1,1B1"}, 2, {0, 1}, "doubled", 0, {"0F0", "0B0"}},
      {"backward_and_halves", {"0F0,0B0", "1F0,1B0,1I0,1W0"}, 1, {0, 1}, "doubled", 1, {"1B0"}},
      {"missing_forward", {"0F0,0B0,0B1", "1F0,1B0,1F1,1B1"}, 2, {0, 1}, "missing", 0, {"0F1"}},
      {"missing_backward", {"0F0,0F1,0B0,0I0,0W0", "1F0,1B0,1F1,1B1"}, 2, {0, 1}, "missing", 0, {"0B1"}},
      {"missing_weight_gradient", {"0F0,0I0", "1F0,1B0"}, 1, {0, 1}, "missing", 0, {"0W0"}},
      {"wrong_rank", {"0F0,0B0,1B0", "1F0"}, 1, {0, 1}, "wrong_rank", 0, {"1B0"}},
      {"no_such_micro_batch", {"0F0,0B0,0F1,0B1", "1F0,1B0"}, 1, {0, 1}, "range", 0, {"0F1", "0B1"}},
      {"backward_first", {"0B0,0F0", "1F0,1B0"}, 1, {0, 1}, "dependency", 0, {"0B0"}},
      {"weight_gradient_first", {"0F0,0W0,0I0", "1F0,1B0"}, 1, {0, 1}, "dependency", 0, {"0W0"}},
      {"forward_first", {"1F0,0F0,1B0,0B0"}, 1, {0, 0}, "dependency", 0, {"1F0"}},
      {"backward_of_the_earlier_stage_first", {"0F0,1F0,0B0,1B0"}, 1, {0, 0}, "dependency", 0, {"0B0"}},
      {"forward_before_its_message",
       {"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1RECV_F0,1B0,1SEND_B0"},
       1,
       {0, 1},
       "dependency",
       1,
       {"1F0"}},
      {"after_reduction",
       {"0F0,0I0,0REDUCE_GRAD,0W0", "1F0,1B0,1REDUCE_GRAD"},
       1,
       {0, 1},
       "after_reduction",
       0,
       {"0W0"}},
      {"circle", {"0F0,0B0,0F1,0B1", "1F0,1F1,1B1,1B0"}, 2, {0, 1}, "cycle", 0},
      {"circle_beside_a_rank", {"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1", "2F0,2F1,2B1,2B0"}, 2, {0, 1, 2}, "cycle", 1},
      {"missing_send", {"0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1, {0, 1}, "missing_send", 0},
      {"missing_receive", {"0F0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1, {0, 1}, "missing_receive", 0},
      {"never_waited_for",
       {"0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
        "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1"},
       2,
       {0, 1},
       "missing_wait",
       0},
      {"waited_for_twice",
       {"0F0,0SEND_F0,0WAIT_SEND_F0,0RECV_B0,0B0,0WAIT_SEND_F0", "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0"},
       1,
       {0, 1},
       "doubled",
       0},
      {"waited_for_before",
       {"0F0,0WAIT_SEND_F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0"},
       1,
       {0, 1},
       "dependency",
       0},
      {"beyond_the_end",
       {"0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0", "1RECV_F0,1F0,1B0,1SEND_B0"},
       1,
       {0, 1},
       "no_neighbour",
       0},
  };
  return list;
}

// Of a wait for a send, whatever kind of problem it is.
bool is_of_waits(const Planted& one) { return std::string_view(one.name).find("waited_for") != std::string_view::npos; }

std::vector<std::string> names_of(const std::vector<std::string>& kinds) {
  std::vector<std::string> names;
  for (const Planted& one : planted())
    if (std::ranges::count(kinds, one.kind) > 0 && !is_of_waits(one)) names.emplace_back(one.name);
  return names;
}
std::vector<std::string> names_of_waits() {
  std::vector<std::string> names;
  for (const Planted& one : planted())
    if (is_of_waits(one)) names.emplace_back(one.name);
  return names;
}

// Whether it is of the same stage and micro-batch, and of a forward as that is.
bool is_about(const json& problem, const std::string& action) {
  const Action expected = schedules::parse_row(action).at(0);
  const Action found = schedules::parse_row(problem.at("action").get<std::string>()).at(0);
  return found.stage == expected.stage && found.micro_batch == expected.micro_batch &&
         (found.kind == ActionKind::forward) == (expected.kind == ActionKind::forward);
}

// An error of the kind that was planted, and on its rank.
bool is_planted(const json& problem, const Planted& one) {
  if (problem.at("kind") != one.kind || problem.at("severity") != "error") return false;
  if (problem.at("rank") == one.rank) return true;
  return problem.at("kind") == "cycle" && problem.at("rank").get<int>() > one.rank;
}

void names_the_fault(Context& context) {
  const auto one = std::ranges::find(planted(), context.parameters().text("fault"), &Planted::name);
  const json args = question_of_rows(one->rows, one->stage_to_rank, one->micro_batches);
  report_words(problem_of(context.adapter(), "schedules.check", args, [&](const json& result) -> std::string {
    if (result.at("valid").get<bool>()) return fmt::format("{} is valid", one->name);
    const json& problems = result.at("problems");
    const auto is_named = [&](const std::string& action) {
      return std::ranges::any_of(problems, [&](const json& problem) {
        return is_planted(problem, *one) && (action.empty() || is_about(problem, action));
      });
    };
    const std::vector<std::string> actions = one->actions.empty() ? std::vector<std::string>{""} : one->actions;
    for (const std::string& action : actions)
      if (!is_named(action))
        return fmt::format("no '{}' {} on rank {} among {}", one->kind, action, one->rank,
                           problems.dump().substr(0, 300));
    return {};
  }));
}

// ---- waiting ----

void tells_modes_apart(Context& context) {
  const std::string& exchange = context.parameters().text("exchange");
  // Rank 0 sends its second output while rank 1 sends its first gradient.
  const bool joined = exchange == "joined", receive_first = exchange == "receive_first";
  const std::vector<std::string> rows{joined          ? "0F0,0SEND_F0,0F1,(0SEND_F1;0RECV_B0)P2P,0B0,0RECV_B1,0B1"
                                      : receive_first ? "0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1"
                                                      : "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                      joined ? "1RECV_F0,1F0,1B0,(1SEND_B0;1RECV_F1)P2P,1F1,1B1,1SEND_B1"
                                             : "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"};
  const Schedule schedule = schedule_of(json(rows), json{0, 1}, 2);
  const bool rendezvous = problem_of_waiting(schedule, false).empty();
  report_words(problem_of(
      context.adapter(), "schedules.check", question_of_rows(rows, {0, 1}, 2), [&](const json& result) -> std::string {
        const json expected{{"valid", rendezvous}, {"deadlock_free", {{"buffered", true}, {"rendezvous", rendezvous}}}};
        return first_difference(expected, result);
      }));
}

void warns_of_order(Context& context) {
  const std::string& matching = context.parameters().text("matching");
  const std::vector<std::string> rows{"0F0,0F1,(0SEND_F0;0SEND_F1)P2P,0RECV_B1,0B1,0RECV_B0,0B0",
                                      "(1RECV_F1;1RECV_F0)P2P,1F1,1B1,1SEND_B1,1F0,1B0,1SEND_B0"};
  json args = question_of_rows(rows, {0, 1}, 2);
  args["matching"] = matching;
  report_words(problem_of(context.adapter(), "schedules.check", args, [&](const json& result) -> std::string {
    const char* severity = matching == "fifo" ? "error" : "warning";
    if (result.at("valid") != (matching != "fifo")) return fmt::format("valid is {}", result.at("valid").dump());
    for (const json& problem : result.at("problems"))
      if (problem.at("kind") == "fifo_order" && problem.at("severity") == severity) return {};
    return fmt::format("no {} of fifo_order among {}", severity, result.at("problems").dump().substr(0, 300));
  }));
}

// ---- what is right ----

void accepts(Context& context) {
  const std::string& rows = context.parameters().text("rows");
  Random random(context.seed());
  for (int trial = 0; trial < 150; ++trial) {
    Schedule schedule = random_plan(random, rows != "computations");
    if (rows == "waits") schedule = schedules::add_send_waits(schedule, random.between(1, 4));
    const std::vector<int> peaks = peaks_of(schedule);
    json args = question_of_plan(schedule);
    const std::string problem = problem_of(context.adapter(), "schedules.check", args, [&](const json& result) {
      return first_difference({{"valid", true}, {"peak_activations", peaks}}, result);
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 400) + ": " + problem);
  }
}

}  // namespace

void add_checker_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, suite::Axis axis, void (*body)(Context&)) {
    suite.add({.id = std::string("schedules.checker.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {std::move(axis)},
               .operations = {"schedules.check"},
               .body = body});
  };
  add("names_wrong_work", "SCHED-040@3567", {"fault", names_of({"doubled", "missing", "wrong_rank", "range"})},
      names_the_fault);
  add("names_wrong_order", "SCHED-041@d2a7", {"fault", names_of({"dependency", "after_reduction", "cycle"})},
      names_the_fault);
  add("names_wrong_messages", "SCHED-042@0dca",
      {"fault", names_of({"missing_send", "missing_receive", "no_neighbour"})}, names_the_fault);
  add("names_missing_waits", "SCHED-072@eb4c", {"fault", names_of_waits()}, names_the_fault);
  add("tells_modes_apart", "SCHED-043@e59a", {"exchange", {"send_first", "receive_first", "joined"}},
      tells_modes_apart);
  add("warns_of_order", "SCHED-044@2a68", {"matching", {"name", "fifo"}}, warns_of_order);
  add("accepts_any_order", "SCHED-045@10ef", {"rows", {"computations", "messages", "waits"}}, accepts);
}

}  // namespace plumbline::conformance
