// Adapters that answer most plans right: what is wrong shows in other shapes, rows, places and costs than the usual
// ones.
#include <algorithm>

#include "conformance/schedules/mutated_operations.hpp"
#include "conformance/schedules/schedules_mutants.hpp"
#include "harness/mutants/rewriting.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::mutants {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;

namespace {

using Actions = std::vector<Action>;

void change_each_row(json& rows, const std::function<void(int rank, Actions& actions)>& change) {
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    Actions actions = schedules::parse_row(rows[rank].get<std::string>());
    change(static_cast<int>(rank), actions);
    rows[rank] = schedules::to_csv(actions);
  }
}

void remove_at(Actions& actions, std::size_t position) {
  if (!actions[position].joined && position > 0) actions[position - 1].joined = false;
  actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(position));
}

// ---- plans and their messages ----

// The first forward after the first backward joins those before it, with fewer micro-batches than fill the pipeline.
void runs_ahead_while_filling(const json& args, json& result) {
  if (args.at("schedule") != "zb-h1" || args.at("microbatches") >= args.at("pp")) return;
  change_each_row(result["compute_only"], [](int, Actions& actions) {
    const auto backward = std::ranges::find(actions, ActionKind::input_gradient, &Action::kind);
    const auto forward =
        std::find_if(backward, actions.end(), [](const Action& action) { return action.kind == ActionKind::forward; });
    if (forward != actions.end()) std::rotate(backward, forward, forward + 1);
  });
}

// Messages between ranks that are not neighbours are forgotten.
void neighbours_alone(const json& args, json& result) {
  const auto rank_of = args.at("stage_to_rank").get<std::vector<int>>();
  change_each_row(result["send_recv"], [&](int rank, Actions& actions) {
    for (std::size_t i = actions.size(); i-- > 0;) {
      if (!is_message(actions[i].kind)) continue;
      const bool up = actions[i].kind == ActionKind::send_forward || actions[i].kind == ActionKind::recv_backward;
      const int other = rank_of.at(static_cast<std::size_t>(actions[i].stage + (up ? 1 : -1)));
      if (std::abs(other - rank) > 1) remove_at(actions, i);
    }
  });
}

// A stage is reduced as soon as its first weight gradient is there.
void reduces_early(const json&, json& result) {
  change_each_row(result["with_comms"], [](int, Actions& actions) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].kind != ActionKind::reduce_gradients) continue;
      const auto first = std::ranges::find_if(actions, [&](const Action& action) {
        return action.stage == actions[i].stage &&
               (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient);
      });
      const auto at = actions.begin() + static_cast<std::ptrdiff_t>(i);
      if (first < at) std::rotate(first + 1, at, at + 1);
    }
  });
}

std::vector<Mutant> planning() {
  const auto at = [](const char* check, const char* schedule, const char* micro_batches) {
    return std::string("schedules.") + check + "[schedule=" + schedule + ",micro_batches=" + micro_batches + "]";
  };
  const json twice{"0F0,0F0,0B0", "1F0,1B0"};
  return {
      {"sch.runs_ahead_while_filling", "SCHED-085", "of few micro-batches, one more is before the first backward",
       "a bound on the warm-up that holds for full pipelines alone", at("plans.runs_ahead", "zb-h1", "p-1"),
       at("plans.runs_ahead", "zb-h1", "p"), "there are as many as ranks",
       results_of(kGenerate, "plumbline", runs_ahead_while_filling)},
      {"sch.neighbours_alone", "SCHED-088", "stages on ranks that are not neighbours exchange nothing",
       "a message is taken to go to the next rank or the one before", "schedules.lowering.any_plan[metadata=none]", "",
       "every case has plans with stages on ranks far apart", results_of(kLower, "plumbline", neighbours_alone)},
      {"sch.reduces_early", "SCHED-089", "a stage is reduced after its first weight gradient", "PIPE-16",
       at("lowering.sharding", "zb-h1", "p"), at("lowering.sharding", "zb-h1", "1"), "it is the last as well",
       results_of(kLower, "plumbline", reduces_early)},
      {"sch.lowers_twice", "SCHED-090", "what is computed twice is sent twice", "PyTorch does so",
       "schedules.lowering.refuses_no_plan[fault=twice]", "schedules.lowering.refuses_no_plan[fault=cell]",
       "nothing is computed twice",
       takes(kLower, [twice](const json& args) { return args.at("compute_only") == twice; }, {{"send_recv", twice}})},
  };
}

// ---- judgements and costs ----

void counts_positions_from_one(const json&, json& result) {
  for (json& problem : result["problems"])
    if (problem.at("position").is_number()) problem["position"] = problem["position"].get<int>() + 1;
}

void overlooks_lost_gradients(const json&, json& result) {
  json& problems = result["problems"];
  problems.erase(std::remove_if(problems.begin(), problems.end(),
                                [](const json& problem) {
                                  return problem.at("kind") == "missing_receive" &&
                                         problem.at("action").get<std::string>().find("RECV_B") != std::string::npos;
                                }),
                 problems.end());
  result["valid"] = std::ranges::none_of(problems, [](const json& one) { return one.at("severity") == "error"; });
}

void refuses_pairs(const json& args, json& result) {
  for (const json& row : args.at("ranks"))
    if (row.get<std::string>().find("OVERLAP_F_B") != std::string::npos) result["valid"] = false;
}

// A row's start times without those of its idle cells.
void leaves_idle_cells_out(const json& args, json& result) {
  for (std::size_t rank = 0; rank < args.at("ranks").size(); ++rank) {
    const Actions actions = schedules::parse_row(args["ranks"][rank].get<std::string>());
    json starts = json::array();
    for (std::size_t i = 0; i < actions.size(); ++i)
      if (actions[i].kind != ActionKind::idle) starts.push_back(result["start_times"][rank][i]);
    result["start_times"][rank] = starts;
  }
}

std::vector<Mutant> judging() {
  const auto at = [](const char* check, const char* field, const char* value) {
    return std::string("schedules.") + check + "[" + field + "=" + value + "]";
  };
  const std::string any_fault = "schedules.checker.finds_any_fault[fault=left_out,rows=";
  return {
      {"sch.positions_from_one", "SCHED-080", "positions are counted from 1", "two ways to count",
       at("checker.says_where", "fault", "doubled_forward"), at("checker.says_where", "fault", "no_forward"),
       "what is not there has no position", results_of(kCheck, "plumbline", counts_positions_from_one)},
      {"sch.buffers_save_everything", "SCHED-081", "with buffered sends nobody is taken to wait for ever",
       "PIPE-05: a receive waits, too", at("checker.agrees_with_a_walk", "matching", "name"), "",
       "every case has plans of which some wait for ever in either mode",
       results_of(kCheck, "plumbline", [](const json&, json& result) { result["deadlock_free"]["buffered"] = true; })},
      {"sch.overlooks_lost_gradients", "SCHED-082", "a gradient that nobody receives is no fault",
       "outputs alone are looked at", any_fault + "messages]", any_fault + "computations]", "there are no messages",
       results_of(kCheck, "plumbline", overlooks_lost_gradients)},
      {"sch.refuses_pairs", "SCHED-083", "computations that are one step are none", "PIPE-01: a refusal of what runs",
       at("checker.accepts_whole_plans", "put_in", "nothing"), "",
       "every case has a schedule that computes two things at once", results_of(kCheck, "plumbline", refuses_pairs)},
      {"sch.checks_nothing", "SCHED-084", "no micro-batches are a valid plan", "nothing is missing of nothing",
       at("checker.refuses", "fault", "no_micro_batches"), at("checker.refuses", "fault", "cell"),
       "there is one micro-batch",
       takes(kCheck, [](const json& args) { return args.at("microbatches") == 0; }, {{"valid", true}})},
      {"sch.leaves_idle_cells_out", "SCHED-086", "idle cells have no start", "they take no time",
       at("simulator.rows_of_all_kinds", "rows", "idle_cells"),
       at("simulator.rows_of_all_kinds", "rows", "computations"), "there are none",
       results_of(kSimulate, "plumbline", leaves_idle_cells_out)},
      {"sch.takes_no_bandwidth", "SCHED-087", "a bandwidth of nothing is taken for one without end",
       "0 means that nothing was given", at("simulator.refuses_costs", "fault", "no_bandwidth"),
       at("simulator.refuses_costs", "fault", "negative_bytes"), "there is a bandwidth",
       takes(kSimulate, [](const json& args) { return args.value("bandwidth", 1.0) == 0; }, {{"makespan", 2}})},
  };
}

}  // namespace

std::vector<Mutant> judgement_mutants() {
  std::vector<Mutant> all = planning();
  std::ranges::move(judging(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
