#include "conformance/schedules/plans.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "conformance/support/asking.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;

// ---- shapes ----

std::string text_of(const PlanShape& shape) {
  return fmt::format("{} of {} ranks, {} micro-batches, {} chunk{}", shape.schedule, shape.ranks, shape.micro_batches,
                     shape.chunks, shape.chunks == 1 ? "" : "s");
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{
      "gpipe", "1f1b",   "interleaved", "looped-bfs", "zb-h1",        "zb-h2", "interleaved-zero-bubble",
      "zbv",   "v-half", "v-min",       "dualpipev",  "forward-only", "auto"};
  return names;
}

bool is_allowed(const PlanShape& shape) {
  const auto& [schedule, ranks, micro_batches, chunks] = shape;
  if (schedule == "zbv" || schedule == "v-half" || schedule == "v-min") return chunks == 2;
  if (schedule == "auto") return chunks <= 2;
  if (schedule == "dualpipev") return chunks == 2 && micro_batches >= 2 * ranks;
  if (schedule == "looped-bfs" || schedule == "forward-only") return true;
  if (schedule == "interleaved" && chunks == 1) return true;
  if (schedule.starts_with("interleaved")) return micro_batches % std::max(1, micro_batches / ranks) == 0;
  return chunks == 1;
}

int micro_batches_named(const std::string& name, int ranks) {
  // For every case when the suite is made, at each start: so without a map.
  const std::pair<std::string_view, int> counts[]{{"1", 1},           {"p-1", ranks - 1}, {"p", ranks},
                                                  {"p+1", ranks + 1}, {"2p", 2 * ranks},  {"2p+1", 2 * ranks + 1},
                                                  {"5p", 5 * ranks}};
  for (const auto& [known, count] : counts)
    if (known == name) return count;
  throw NotFound("no number of micro-batches '" + name + "'");
}

suite::Axis schedules_axis() { return {"schedule", schedule_names()}; }
suite::Axis micro_batches_axis() { return {"micro_batches", {"1", "p-1", "p", "p+1", "2p", "2p+1", "5p"}}; }

int ranks_of_size(int micro_batches) {
  static const std::map<int, int> ranks{{9, 3}, {39, 13}, {148, 37}, {512, 64}};
  return ranks.at(micro_batches);
}
const std::vector<int>& sizes_of_plans() {
  static const std::vector<int> sizes{9, 39, 148, 512};
  return sizes;
}

std::vector<PlanShape> shapes_of(const suite::Parameters& parameters) {
  std::vector<PlanShape> shapes;
  const std::string& schedule = parameters.text("schedule");
  const std::string& named = parameters.text("micro_batches");
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    if (const int micro_batches = micro_batches_named(named, ranks); micro_batches > 0)
      for (const int chunks : {1, 2, 3, 4})
        shapes.push_back({.schedule = schedule, .ranks = ranks, .micro_batches = micro_batches, .chunks = chunks});
  return shapes;
}

bool some_allowed(const suite::Parameters& parameters) {
  return std::ranges::any_of(shapes_of(parameters), is_allowed);
}
bool some_refused(const suite::Parameters& parameters) {
  return !std::ranges::all_of(shapes_of(parameters), is_allowed);
}

json question_of_rows(const std::vector<std::string>& rows, const std::vector<int>& stage_to_rank, int micro_batches) {
  return {{"ranks", rows},
          {"stage_to_rank", stage_to_rank},
          {"num_stages", stage_to_rank.size()},
          {"microbatches", micro_batches}};
}

json question_of_plan(const Schedule& schedule) {
  return question_of_rows(rows_of(schedule).get<std::vector<std::string>>(), schedule.stage_to_rank,
                          schedule.micro_batches);
}

json question_of(const PlanShape& shape) {
  return {{"schedule", shape.schedule},
          {"pp", shape.ranks},
          {"microbatches", shape.micro_batches},
          {"stages_per_rank", shape.chunks}};
}

Schedule schedule_of(const json& rows, const json& stage_to_rank, int micro_batches) {
  Schedule schedule{.stages = static_cast<int>(stage_to_rank.size()),
                    .micro_batches = micro_batches,
                    .stage_to_rank = stage_to_rank.get<std::vector<int>>(),
                    .ranks = {}};
  for (const auto& row : rows.get<std::vector<std::string>>()) {
    auto actions = schedules::parse_row(row, static_cast<int>(schedule.ranks.size()) + 1);
    std::erase_if(actions, [](const Action& action) { return action.kind == ActionKind::idle; });
    schedule.ranks.push_back(std::move(actions));
  }
  return schedule;
}

json rows_of(const Schedule& schedule) {
  json rows = json::array();
  for (const auto& actions : schedule.ranks) rows.push_back(schedules::to_csv(actions));
  return rows;
}

std::string problem_of_answer(const json& result, const PlanShape& shape, const JudgePlan& judge) {
  try {
    const Schedule schedule = schedule_of(result.at("compute_only"), result.at("stage_to_rank"), shape.micro_batches);
    if (static_cast<int>(schedule.ranks.size()) != shape.ranks) return fmt::format("{} rows", schedule.ranks.size());
    if (schedule.stages != shape.ranks * shape.chunks) return fmt::format("{} stages", schedule.stages);
    return judge(shape, schedule);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

namespace {

struct Done {
  int forwards = 0, backwards = 0, input_gradients = 0, weight_gradients = 0;
};

}  // namespace

std::string problem_of_work(const PlanShape& shape, const Schedule& schedule) {
  std::map<std::pair<int, int>, Done> done;
  for (int rank = 0; rank < shape.ranks; ++rank)
    for (const Action& action : schedule.ranks[static_cast<std::size_t>(rank)]) {
      const std::string words = to_string(action);
      if (!is_compute(action.kind)) return words + " is no computation";
      if (action.stage >= schedule.stages || action.micro_batch >= shape.micro_batches)
        return words + ": there is no such stage or micro-batch";
      if (schedule.stage_to_rank[static_cast<std::size_t>(action.stage)] != rank)
        return fmt::format("{} on rank {}, its stage is on another", words, rank);
      Done& one = done[{action.stage, action.micro_batch}];
      (action.kind == ActionKind::forward          ? one.forwards
       : action.kind == ActionKind::backward       ? one.backwards
       : action.kind == ActionKind::input_gradient ? one.input_gradients
                                                   : one.weight_gradients) += 1;
    }
  const int backwards = shape.schedule == "forward-only" ? 0 : 1;
  for (int stage = 0; stage < schedule.stages; ++stage)
    for (int micro_batch = 0; micro_batch < shape.micro_batches; ++micro_batch) {
      const auto& [forward, whole, input, weight] = done[{stage, micro_batch}];
      if (forward != 1 || whole + input != backwards || input != weight)
        return fmt::format("stage {}, micro-batch {}: {} F, {} B, {} I, {} W", stage, micro_batch, forward, whole,
                           input, weight);
    }
  return {};
}

std::string problem_of_plan(suite::Adapter& adapter, const PlanShape& shape, const JudgePlan& judge) {
  // Of a plan that lacks its work, nothing else can be said.
  const JudgePlan whole = [&](const PlanShape& asked, const Schedule& schedule) {
    std::string words = problem_of_work(asked, schedule);
    return words.empty() ? judge(asked, schedule) : words;
  };
  const std::string problem = problem_of(adapter, "schedules.generate", question_of(shape),
                                         [&](const json& result) { return problem_of_answer(result, shape, whole); });
  return problem.empty() ? "" : text_of(shape) + ": " + problem;
}

void judge_plans(suite::Context& context, const JudgePlan& judge) {
  for (const PlanShape& shape : shapes_of(context.parameters())) {
    if (!is_allowed(shape)) continue;
    if (std::string problem = problem_of_plan(context.adapter(), shape, judge); !problem.empty())
      return report_words(problem);
  }
}

// ---- runs of computations ----

namespace {

using Key = std::tuple<ActionKind, int, int>;  // F; I for B and I, since both end with the input's gradient; W

Key key_of(const Action& action) {
  return {action.kind == ActionKind::backward ? ActionKind::input_gradient : action.kind, action.stage,
          action.micro_batch};
}

std::vector<Key> needs_of(const Action& action, int stages) {
  const auto& [kind, joined, stage, micro_batch] = action;
  std::vector<Key> needs;
  if (kind == ActionKind::forward && stage > 0) needs.emplace_back(ActionKind::forward, stage - 1, micro_batch);
  if (kind == ActionKind::weight_gradient) needs.emplace_back(ActionKind::input_gradient, stage, micro_batch);
  if (kind == ActionKind::backward || kind == ActionKind::input_gradient) {
    needs.emplace_back(ActionKind::forward, stage, micro_batch);
    if (stage + 1 < stages) needs.emplace_back(ActionKind::input_gradient, stage + 1, micro_batch);
  }
  return needs;
}

double nominal(const Times& times, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return times.forward;
    case ActionKind::input_gradient:
      return times.input_gradient;
    case ActionKind::weight_gradient:
      return times.weight_gradient;
    default:
      return kind == ActionKind::backward ? times.input_gradient + times.weight_gradient : 0;
  }
}
double factor(const std::vector<double>& factors, int index) {
  return factors.empty() ? 1 : factors.at(static_cast<std::size_t>(index));
}

class Walk {
 public:
  Walk(const Schedule& schedule, const Times& times) : schedule_(schedule), times_(times) {
    const std::size_t ranks = schedule.ranks.size();
    run_.work.resize(ranks);
    run_.first_start.resize(ranks);
    run_.last_end.resize(ranks);
    for (const auto& actions : schedule.ranks) run_.starts.emplace_back(actions.size());
    next_.resize(ranks);
  }

  Run to_the_end() {
    // The earliest computation that may begin is taken first, so that a link has its messages in the order of time.
    while (const auto earliest = earliest_rank()) take(earliest->second, earliest->first);
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (next_[rank] < schedule_.ranks[rank].size())
        run_.stuck += fmt::format("{}rank {} waits at {}", run_.stuck.empty() ? "" : ", ", rank,
                                  to_string(schedule_.ranks[rank][next_[rank]]));
    return run_;
  }

 private:
  // The actions that begin with the rank's next one.
  [[nodiscard]] std::span<const Action> group_of(std::size_t rank) const {
    const auto& actions = schedule_.ranks[rank];
    std::size_t end = next_[rank];
    while (end < actions.size() && actions[end].joined) ++end;
    return std::span(actions).subspan(next_[rank], std::min(end + 1, actions.size()) - next_[rank]);
  }
  [[nodiscard]] int rank_of(int stage) const { return schedule_.stage_to_rank.at(static_cast<std::size_t>(stage)); }

  // When its next computations may begin; nothing as long as something is missing.
  [[nodiscard]] std::optional<double> start_of(std::size_t rank) const {
    if (next_[rank] == schedule_.ranks[rank].size()) return {};
    double start = run_.last_end[rank];
    for (const Action& action : group_of(rank))
      for (const Key& need : needs_of(action, schedule_.stages)) {
        const auto arrived = arrivals_.find({need, action.stage});
        if (arrived == arrivals_.end()) return {};
        start = std::max(start, arrived->second);
      }
    return start;
  }
  [[nodiscard]] std::optional<std::pair<double, std::size_t>> earliest_rank() const {
    std::optional<std::pair<double, std::size_t>> earliest;
    for (std::size_t rank = 0; rank < next_.size(); ++rank)
      if (const auto start = start_of(rank); start && (!earliest || end_of(rank, *start) < earliest_end(*earliest)))
        earliest = {*start, rank};
    return earliest;
  }
  [[nodiscard]] double earliest_end(const std::pair<double, std::size_t>& one) const {
    return end_of(one.second, one.first);
  }
  [[nodiscard]] double end_of(std::size_t rank, double start) const {
    for (const Action& action : group_of(rank)) start += duration_of(action);
    return start;
  }
  [[nodiscard]] double duration_of(const Action& action) const {
    if (times_.of_action) return times_.of_action(action);
    return nominal(times_, action.kind) * factor(times_.of_stage, action.stage) *
           factor(times_.of_rank, rank_of(action.stage));
  }

  void take(std::size_t rank, double start) {
    if (next_[rank] == 0) run_.first_start[rank] = start;
    const double end = end_of(rank, start);
    for (const Action& action : group_of(rank)) {
      const Key key = key_of(action);
      if (!is_compute(action.kind)) continue;
      arrivals_[{key, action.stage}] = end;
      if (action.kind == ActionKind::forward && action.stage + 1 < schedule_.stages)
        send(key, rank, action.stage + 1, end);
      if (std::get<0>(key) == ActionKind::input_gradient && action.stage > 0) send(key, rank, action.stage - 1, end);
    }
    for (std::size_t left = group_of(rank).size(); left > 0; --left) run_.starts[rank][next_[rank]++] = start;
    run_.work[rank] += end - start;
    run_.last_end[rank] = end;
    run_.makespan = std::max(run_.makespan, end);
  }
  void send(const Key& key, std::size_t rank, int to_stage, double now) {
    const int to = rank_of(to_stage);
    if (to == static_cast<int>(rank)) {
      arrivals_[{key, to_stage}] = now;
      return;
    }
    double& free = links_[{static_cast<int>(rank), to}];
    const int boundary = std::min(std::get<1>(key), to_stage);
    free = std::max(free, now) + times_.seconds_a_message * factor(times_.of_boundary, boundary);
    arrivals_[{key, to_stage}] = free + times_.latency;
  }

  const Schedule& schedule_;
  const Times& times_;
  Run run_;
  std::vector<std::size_t> next_;
  std::map<std::pair<Key, int>, double> arrivals_;  // of a result, at a stage
  std::map<std::pair<int, int>, double> links_;     // when they are free
};

}  // namespace

Run run_of(const Schedule& schedule, const Times& times) { return Walk(schedule, times).to_the_end(); }

// ---- runs of messages ----

namespace {

// The same message, seen from the other side.
Action other_side(const Action& action) {
  Action other{.kind = action.kind, .joined = false, .stage = action.stage, .micro_batch = action.micro_batch};
  switch (action.kind) {
    case ActionKind::send_forward:
      other.kind = ActionKind::recv_forward;
      ++other.stage;
      break;
    case ActionKind::recv_forward:
      other.kind = ActionKind::send_forward;
      --other.stage;
      break;
    case ActionKind::send_backward:
      other.kind = ActionKind::recv_backward;
      --other.stage;
      break;
    case ActionKind::recv_backward:
      other.kind = ActionKind::send_backward;
      ++other.stage;
      break;
    case ActionKind::send_metadata:
      other.kind = ActionKind::recv_metadata;
      ++other.stage;
      break;
    case ActionKind::recv_metadata:
      other.kind = ActionKind::send_metadata;
      --other.stage;
      break;
    default:
      break;
  }
  return other;
}

// What a wait is for.
Action send_of(const Action& wait) {
  Action send = wait;
  send.kind = wait.kind == ActionKind::wait_send_forward ? ActionKind::send_forward : ActionKind::send_backward;
  return send;
}

std::string name_of_message(const Action& action) {
  return schedules::to_string(
      {.kind = action.kind, .joined = false, .stage = action.stage, .micro_batch = action.micro_batch});
}

}  // namespace

std::string problem_of_waiting(const Schedule& lowered, bool buffered) {
  std::vector<std::size_t> next(lowered.ranks.size());
  std::set<std::string> posted;
  const auto end_of_group = [&](std::size_t rank) {
    std::size_t end = next[rank];
    while (end < lowered.ranks[rank].size() && lowered.ranks[rank][end].joined) ++end;
    return std::min(end + 1, lowered.ranks[rank].size());
  };
  const bool has_waits = std::ranges::any_of(lowered.ranks, [](const auto& actions) {
    return std::ranges::any_of(actions, schedules::is_send_wait, &Action::kind);
  });
  const auto is_over = [&](const Action& action) {
    if (is_send_wait(action.kind)) return buffered || posted.contains(name_of_message(other_side(send_of(action))));
    const bool is_waited_for = action.kind == ActionKind::send_forward || action.kind == ActionKind::send_backward;
    return !is_message(action.kind) || (has_waits && is_waited_for) || (buffered && is_send(action.kind)) ||
           posted.contains(name_of_message(other_side(action)));
  };
  for (bool moving = true; moving;) {
    moving = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const auto& actions = lowered.ranks[rank];
      while (next[rank] < actions.size()) {
        const auto group = std::span(actions).subspan(next[rank], end_of_group(rank) - next[rank]);
        for (const Action& action : group)
          if (posted.insert(name_of_message(action)).second) moving = true;
        if (!std::ranges::all_of(group, is_over)) break;
        next[rank] += group.size();
        moving = true;
      }
    }
  }
  std::string stuck;
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < lowered.ranks[rank].size())
      stuck += fmt::format("{}rank {} waits at {}", stuck.empty() ? "" : ", ", rank,
                           name_of_message(lowered.ranks[rank][next[rank]]));
  return stuck;
}

double makespan_in_line(const Schedule& lowered, const Times& times) {
  std::vector<std::size_t> next(lowered.ranks.size());
  std::vector<double> now(lowered.ranks.size());
  std::map<std::string, double> sent;
  for (bool moving = true; moving;) {
    moving = false;
    for (std::size_t rank = 0; rank < next.size(); ++rank) {
      const auto& actions = lowered.ranks[rank];
      while (next[rank] < actions.size()) {
        std::size_t end = next[rank];
        while (end + 1 < actions.size() && actions[end].joined) ++end;
        const auto group = std::span(actions).subspan(next[rank], end + 1 - next[rank]);
        // All of a group is posted at once, what it sends among it.
        for (const Action& action : group)
          if (is_send(action.kind)) moving |= sent.try_emplace(name_of_message(action), now[rank]).second;
        const bool all_sent = std::ranges::all_of(group, [&](const Action& action) {
          return !is_message(action.kind) || is_send(action.kind) || sent.contains(name_of_message(other_side(action)));
        });
        if (!all_sent) break;
        for (const Action& action : group) {
          if (is_message(action.kind) && !is_send(action.kind))
            now[rank] = std::max(now[rank], sent.at(name_of_message(other_side(action))));
          now[rank] += nominal(times, action.kind);
        }
        next[rank] = end + 1;
        moving = true;
      }
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < lowered.ranks[rank].size()) return -1;
  return now.empty() ? 0 : std::ranges::max(now);
}

std::vector<int> peaks_of(const Schedule& schedule) {
  std::vector<int> peaks;
  for (const auto& actions : schedule.ranks) {
    int live = 0, most = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      // Of two at once the forward comes first: its activation is there before the backward is over.
      const bool joined = actions[i].joined && i + 1 < actions.size();
      const int begun =
          static_cast<int>(std::count_if(actions.begin() + static_cast<std::ptrdiff_t>(i),
                                         actions.begin() + static_cast<std::ptrdiff_t>(i + (joined ? 2 : 1)),
                                         [](const Action& each) { return each.kind == ActionKind::forward; }));
      const int ended = static_cast<int>(
          std::count_if(actions.begin() + static_cast<std::ptrdiff_t>(i),
                        actions.begin() + static_cast<std::ptrdiff_t>(i + (joined ? 2 : 1)), [](const Action& each) {
                          return each.kind == ActionKind::backward || each.kind == ActionKind::weight_gradient;
                        }));
      live += begun;
      most = std::max(most, live);
      live -= ended;
      if (joined) ++i;
    }
    peaks.push_back(most);
  }
  return peaks;
}

}  // namespace plumbline::conformance
