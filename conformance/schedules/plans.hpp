// conformance/schedules/plans.hpp: what the checks of plans have in common: shapes to ask for, rows to read, runs to
// count.
//
// Model   A shape names a schedule and the pipeline that it is for. The checks know which shapes a schedule has, and
//         what a right plan does, from definitions alone: they count what is in the rows, and let the ranks take their
//         actions one after the other until nobody can go on.
// Cost    A run goes over the ranks until nothing moves: fine for the small shapes of checks.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/suite/check.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::conformance {

struct PlanShape {
  std::string schedule;
  int ranks = 1;
  int micro_batches = 1;
  int chunks = 1;  // stages of a rank
};
/// "1f1b of 4 ranks, 8 micro-batches, 1 chunk".
[[nodiscard]] std::string text_of(const PlanShape& shape);
/// All that there are, by our own names.
[[nodiscard]] const std::vector<std::string>& schedule_names();
/// Whether the schedule's rule allows it.
[[nodiscard]] bool is_allowed(const PlanShape& shape);
/// "1", "p-1", "p", "p+1", "2p", "2p+1", "5p" for p ranks.
[[nodiscard]] int micro_batches_named(const std::string& name, int ranks);
[[nodiscard]] suite::Axis schedules_axis();
[[nodiscard]] suite::Axis micro_batches_axis();
/// Of p in {1, 2, 3, 4, 5, 8} and v in {1, 2, 3, 4}, those that `schedule` and `micro_batches` of the case name.
[[nodiscard]] std::vector<PlanShape> shapes_of(const suite::Parameters& parameters);
/// Micro-batches of plans from small ones to those of real use, and the ranks of each, which divide them.
[[nodiscard]] const std::vector<int>& sizes_of_plans();
[[nodiscard]] int ranks_of_size(int micro_batches);
/// Whether a case has shapes that its schedule allows, or that it does not: one without asks nothing.
[[nodiscard]] bool some_allowed(const suite::Parameters& parameters);
[[nodiscard]] bool some_refused(const suite::Parameters& parameters);
/// The arguments of schedules.generate.
[[nodiscard]] nlohmann::json question_of(const PlanShape& shape);
/// The arguments of schedules.check.
[[nodiscard]] nlohmann::json question_of_rows(const std::vector<std::string>& rows,
                                              const std::vector<int>& stage_to_rank, int micro_batches);
[[nodiscard]] nlohmann::json question_of_plan(const schedules::Schedule& schedule);

/// The schedule of an answer. Throws InvalidArgument for rows that are none.
[[nodiscard]] schedules::Schedule schedule_of(const nlohmann::json& rows, const nlohmann::json& stage_to_rank,
                                              int micro_batches);
[[nodiscard]] nlohmann::json rows_of(const schedules::Schedule& schedule);
/// What is wrong with a generated answer: rows that are none or too few, stages that are not the shape's, else what the
/// judge says.
using JudgePlan = std::function<std::string(const PlanShape& shape, const schedules::Schedule& schedule)>;
[[nodiscard]] std::string problem_of_answer(const nlohmann::json& result, const PlanShape& shape,
                                            const JudgePlan& judge);
/// Whether each stage runs each micro-batch forward once, and back once, whole or in halves, in this order.
[[nodiscard]] std::string problem_of_work(const PlanShape& shape, const schedules::Schedule& schedule);

/// Judges the generated schedule of each allowed shape of the case, without idle cells, and reports the first problem.
void judge_plans(suite::Context& context, const JudgePlan& judge);
/// As judge_plans(), for one shape; "" when there is no problem.
[[nodiscard]] std::string problem_of_plan(suite::Adapter& adapter, const PlanShape& shape, const JudgePlan& judge);

// ---- runs ----

struct Times {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  double latency = 0, seconds_a_message = 0;  // of a link: each message occupies it so long
  // What those of a stage, of a rank, and of what crosses a boundary are multiplied by; empty: 1.
  std::vector<double> of_stage = {}, of_rank = {}, of_boundary = {};
  std::function<double(const schedules::Action&)> of_action = {};  // in place of all these, where they differ by action
};
struct Run {
  std::string stuck;  // "" when all ranks came to their end
  double makespan = 0;
  std::vector<double> work, first_start, last_end;  // by rank
  std::vector<std::vector<double>> starts;          // of each action
};
/// A schedule of computations, each as soon as its rank is free and what it needs has come. A result is sent at once; a
/// link between two ranks takes one message after the other.
[[nodiscard]] Run run_of(const schedules::Schedule& schedule, const Times& times = {});
/// Whether ranks that wait for each message, or group of joined ones, come to their end: with sends that wait for their
/// receive, or that are over at once. "" or who waits where.
[[nodiscard]] std::string problem_of_waiting(const schedules::Schedule& lowered, bool buffered);
/// When the last rank of a lowered schedule ends whose ranks wait for each receive, or group of joined ones, before
/// they go on. Sends return at once and take no time. Below 0 where the ranks do not come to their end.
[[nodiscard]] double makespan_in_line(const schedules::Schedule& lowered, const Times& times = {});
/// The most activations at once, by rank: from F to the end of B or W.
[[nodiscard]] std::vector<int> peaks_of(const schedules::Schedule& schedule);

}  // namespace plumbline::conformance
