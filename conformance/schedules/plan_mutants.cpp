// Adapters whose answers about pipeline schedules are wrong, each by a rule of its own.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "conformance/schedules/mutated_operations.hpp"
#include "conformance/schedules/schedules_mutants.hpp"
#include "harness/mutants/rewriting.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/schedule.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::mutants {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;

namespace {

using Actions = std::vector<Action>;

/// Refuses what is answered, where `concerns` says so.
RewriteAnswer refuses(const char* asked, std::function<bool(const json& args)> concerns) {
  return [asked = std::string(asked), concerns = std::move(concerns)](const std::string& op, const json& args,
                                                                      json reply) {
    return op == asked && reply.contains("result") && concerns(args)
               ? json{{"error", {{"kind", "invalid_argument"}, {"message", "the micro-batches do not suit the ranks"}}}}
               : reply;
  };
}

// ---- rows ----

/// Changes each row of an answer.
using ChangeRow = std::function<void(const json& args, int rank, Actions& actions)>;
void change_rows(const json& args, json& rows, const ChangeRow& change) {
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    Actions actions = schedules::parse_row(rows[rank].get<std::string>());
    change(args, static_cast<int>(rank), actions);
    rows[rank] = schedules::to_csv(actions);
  }
}
RewriteAnswer plans(ChangeRow change) {
  return results_of(kGenerate, "plumbline", [change = std::move(change)](const json& args, json& result) {
    change_rows(args, result["compute_only"], change);
  });
}
/// Those of one schedule.
RewriteAnswer plans_of(const char* schedule, ChangeRow change) {
  return plans(
      [schedule = std::string(schedule), change = std::move(change)](const json& args, int rank, Actions& actions) {
        if (args.at("schedule") == schedule) change(args, rank, actions);
      });
}
RewriteAnswer lowerings(ChangeRow change) {
  return results_of(kLower, "plumbline", [change = std::move(change)](const json& args, json& result) {
    change_rows(args, result["send_recv"], change);
  });
}

int micro_batches_of(const json& args) { return args.at("microbatches"); }
int ranks_of(const json& args) { return args.at("pp"); }
bool is_backward(const Action& action) {
  return action.kind == ActionKind::backward || action.kind == ActionKind::input_gradient;
}
auto of_kind(ActionKind kind) {
  return [kind](const Action& action) { return action.kind == kind; };
}

/// Erases one action; what is left of its group stays a group.
void erase_at(Actions& actions, std::size_t position) {
  if (!actions[position].joined && position > 0) actions[position - 1].joined = false;
  actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(position));
}

// ---- plans ----

void drop_last(const json& args, int, Actions& actions) {
  const int last = micro_batches_of(args) - 1;
  if (last > 0) std::erase_if(actions, [&](const Action& action) { return action.micro_batch == last; });
}

void backward_of_wrong_micro_batch(const json&, int, Actions& actions) {
  const auto first = std::ranges::find_if(actions, is_backward);
  if (first == actions.end()) return;
  const auto second = std::find_if(first + 1, actions.end(), [&](const Action& action) {
    return is_backward(action) && action.stage == first->stage;
  });
  if (second != actions.end()) second->micro_batch = first->micro_batch;
}

void drop_a_weight_gradient(const json&, int, Actions& actions) {
  for (std::size_t i = actions.size(); i-- > 0;)
    if (actions[i].kind == ActionKind::weight_gradient) return erase_at(actions, i);
}

// One stage a rank; backwards in halves have no turn of their own here.
Actions turns(int rank, int micro_batches, int ahead) {
  Actions actions;
  const auto add = [&](ActionKind kind, int micro_batch) {
    actions.push_back({.kind = kind, .joined = false, .stage = rank, .micro_batch = micro_batch});
  };
  int forward = 0;
  while (forward < ahead) add(ActionKind::forward, forward++);
  for (int backward = 0; backward < micro_batches; ++backward) {
    if (forward < micro_batches) add(ActionKind::forward, forward++);
    add(ActionKind::backward, backward);
  }
  return actions;
}
/// 1F1B whose ranks run ahead by another number of forwards; not more than there are, unless it is to be so.
RewriteAnswer running_ahead(const char* schedule, std::function<int(int hops_left)> ahead, bool clamped = true) {
  return plans_of(schedule, [=, ahead = std::move(ahead)](const json& args, int rank, Actions& actions) {
    if (args.value("stages_per_rank", 1) != 1) return;
    const int most = micro_batches_of(args), wanted = ahead(ranks_of(args) - 1 - rank);
    actions = turns(rank, most, clamped ? std::min(wanted, most) : wanted);
  });
}

void chunk_order(const json& args, int, Actions& actions) {
  const int ranks = ranks_of(args), chunks = args.value("stages_per_rank", 1);
  for (Action& action : actions)
    if (action.kind == ActionKind::forward) {
      const int chunk = action.stage / ranks;
      action.stage += (chunks - 1 - 2 * chunk) * ranks;
    }
}

void weight_gradient_first(const json&, int, Actions& actions) {
  for (std::size_t i = 0; i + 1 < actions.size(); ++i)
    if (actions[i].kind == ActionKind::input_gradient && actions[i + 1].kind == ActionKind::weight_gradient &&
        actions[i].micro_batch == actions[i + 1].micro_batch)
      return std::swap(actions[i], actions[i + 1]);
}

void neighbours_on_one_rank(const json& args, json& result) {
  const int ranks = ranks_of(args), chunks = args.value("stages_per_rank", 1);
  for (std::size_t stage = 0; stage < result["stage_to_rank"].size(); ++stage)
    result["stage_to_rank"][stage] = static_cast<int>(stage) / chunks;
  change_rows(args, result["compute_only"], [&](const json&, int rank, Actions& actions) {
    for (Action& action : actions)
      if (action.kind != ActionKind::idle) action.stage = rank * chunks + action.stage / ranks;
  });
}

// ZB-H1 in which whatever may be done is done: input gradients first, then forwards, weight gradients last.
class Greedy {
 public:
  Greedy(int ranks, int micro_batches) : ranks_(ranks), micro_batches_(micro_batches), counts_(as_size(ranks)) {}
  std::vector<Actions> rows() {
    std::vector<Actions> rows(as_size(ranks_));
    for (bool working = true; working;) {
      working = false;
      const std::vector<Counts> before = counts_;
      for (int rank = 0; rank < ranks_; ++rank)
        if (const auto kind = next_of(rank, before)) {
          int& count = counts_[as_size(rank)][*kind];
          rows[as_size(rank)].push_back({.kind = kKinds[*kind], .joined = false, .stage = rank, .micro_batch = count});
          ++count;
          working = true;
        }
    }
    return rows;
  }

 private:
  static constexpr std::array kKinds{ActionKind::forward, ActionKind::input_gradient, ActionKind::weight_gradient};
  using Counts = std::array<int, 3>;
  static std::size_t as_size(int number) { return static_cast<std::size_t>(number); }
  std::optional<std::size_t> next_of(int rank, const std::vector<Counts>& before) const {
    const Counts& own = before[as_size(rank)];
    const int gradients = rank + 1 == ranks_ ? own[0] : before[as_size(rank + 1)][1];
    if (own[1] < std::min(own[0], gradients)) return 1;
    const int inputs = rank == 0 ? micro_batches_ : before[as_size(rank - 1)][0];
    if (own[0] < inputs && own[0] - own[2] < ranks_) return 0;
    if (own[2] < own[1]) return 2;
    return {};
  }
  int ranks_, micro_batches_;
  std::vector<Counts> counts_;
};

void greedy_zero_bubble(const json& args, json& result) {
  if (args.at("schedule") != "zb-h1") return;
  result["compute_only"] = json::array();
  for (const Actions& row : Greedy(ranks_of(args), micro_batches_of(args)).rows())
    result["compute_only"].push_back(schedules::to_csv(row));
}

// Weight gradients as late as those of ZB-H1, after as many warm-up forwards.
void lag_of_h1(const json& args, int rank, Actions& actions) {
  Actions later;
  Actions halves = turns(rank, micro_batches_of(args), std::min(ranks_of(args) - 1 - rank, micro_batches_of(args)));
  int backwards = 0, weights = 0;
  for (Action& action : halves) {
    if (action.kind == ActionKind::backward) action.kind = ActionKind::input_gradient;
    later.push_back(action);
    if (action.kind == ActionKind::input_gradient && ++backwards > rank)
      later.push_back({.kind = ActionKind::weight_gradient, .joined = false, .stage = rank, .micro_batch = weights++});
  }
  while (weights < micro_batches_of(args))
    later.push_back({.kind = ActionKind::weight_gradient, .joined = false, .stage = rank, .micro_batch = weights++});
  actions = later;
}

void lag_of_h1_when_many(const json& args, int rank, Actions& actions) {
  if (micro_batches_of(args) > 2 * ranks_of(args) + 1) lag_of_h1(args, rank, actions);
}

bool is_named(const json& args, const char* schedule) { return args.value("schedule", "") == schedule; }

// ---- memory ----

schedules::Shape shape_of(const json& args) {
  return {.ranks = ranks_of(args),
          .micro_batches = micro_batches_of(args),
          .stages_per_rank = args.value("stages_per_rank", 1)};
}

/// The rows of another schedule, or of the same for other arguments.
void plan_as(json& result, const schedules::Schedule& other) {
  result["compute_only"] = json::array();
  for (const Actions& row : other.ranks) result["compute_only"].push_back(schedules::to_csv(row));
}

void lifespans_of_v_min(const json& args, json& result) {
  if (is_named(args, "v-half")) plan_as(result, schedules::generate(schedules::ScheduleKind::v_min, shape_of(args)));
}

// Where a rank is at its peak and gives an activation up for the next forward, the forward comes first.
void forward_before_room(const json&, int, Actions& actions) {
  int live = 0, peak = 0;
  const auto count = [&](const Action& action) {
    if (action.kind == ActionKind::forward) peak = std::max(peak, ++live);
    if (action.kind == ActionKind::weight_gradient) --live;
  };
  std::ranges::for_each(actions, count);
  const int most = peak;
  for (std::size_t i = 0; i + 1 < actions.size(); ++i) {
    if (live == most && actions[i].kind == ActionKind::weight_gradient && actions[i + 1].kind == ActionKind::forward)
      return std::swap(actions[i], actions[i + 1]);
    count(actions[i]);
  }
}

void ignore_memory_limit(const json& args, json& result) {
  if (is_named(args, "auto") && args.contains("memory_limit"))
    plan_as(result, schedules::generate(schedules::ScheduleKind::automatic, shape_of(args)));
}

// What was there before, where it keeps to the limit.
void automatic_is_1f1b(const json& args, json& result) {
  const schedules::Shape shape = shape_of(args);
  if (!is_named(args, "auto") || shape.stages_per_rank != 1) return;
  if (args.value("memory_limit", shape.ranks) >= shape.ranks)
    plan_as(result, schedules::generate(schedules::ScheduleKind::one_f_one_b, shape));
}

// ---- conventions ----

void backward_in_order(const json& args, json& result) {
  if (!is_named(args, "ScheduleLoopedBFS")) return;
  change_rows(args, result["compute_only"], [](const json& asked, int, Actions& actions) {
    for (Action& action : actions)
      if (is_backward(action)) action.micro_batch = micro_batches_of(asked) - 1 - action.micro_batch;
  });
}

void forget_weight_gradients(const json& args, json& result) {
  change_rows(args, result["with_comms"], [](const json&, int, Actions& actions) {
    for (std::size_t i = 1; i < actions.size(); ++i)
      if (actions[i].kind == ActionKind::reduce_gradients && actions[i - 1].kind == ActionKind::weight_gradient)
        return erase_at(actions, i);
  });
}

void one_buffer(const json& args, json& result) {
  if (!is_named(args, "TrainSchedule")) return;
  for (json& stage : result["stages"])
    stage["num_pipe_buffers"] = std::min(ranks_of(args) - stage["stage"].get<int>(), micro_batches_of(args));
}

void gradients_first(const json&, json& result) {
  const auto begins = [](const json& instruction, const char* name) {
    return instruction.get<std::string>().starts_with(name);
  };
  for (json& stage : result["stages"])
    for (json& step : stage["steps"])
      for (std::size_t i = 0; i + 1 < step.size(); ++i)
        if (begins(step[i], "RecvActivation") && begins(step[i + 1], "SendGrad")) std::swap(step[i], step[i + 1]);
}

void tell_no_shapes(const json& args, json& result) {
  if (!is_named(args, "PipelineSchedule")) return;
  for (json& row : result["trace"]) {
    std::string left, cell;
    for (const char letter : row.get<std::string>() + ",") {
      if (letter != ',') {
        cell += letter;
        continue;
      }
      if (cell.find("_META") == std::string::npos) left += (left.empty() ? "" : ",") + cell;
      cell.clear();
    }
    row = left;
  }
}

// ---- forms ----

const char* const kLoad = "schedules.load_csv";

// From the second chunk on all go back.
void turns_once(const json& args, json& result) {
  const int ranks = ranks_of(args);
  for (std::size_t stage = 0; args.at("style") == "v" && stage < result["result"].size(); ++stage)
    if (const int at = static_cast<int>(stage); at >= ranks) result["result"][stage] = ranks - 1 - at % ranks;
}

void name_no_buffer(const json& args, json& result) {
  if (!is_named(args, "TrainSchedule")) return;
  for (json& stage : result["stages"])
    for (json& step : stage["steps"])
      for (json& instruction : step)
        if (instruction.get<std::string>().starts_with("RecvGrad")) instruction = "RecvGrad";
}

// Micro-batches take turns in one buffer less.
void one_buffer_too_few(const json& args, json& result) {
  if (!is_named(args, "TrainSchedule")) return;
  for (json& stage : result["stages"]) {
    const int buffers = stage["num_pipe_buffers"].get<int>() - 1;
    if (buffers < 2) continue;
    stage["num_pipe_buffers"] = buffers;
    std::map<std::string, int> times;  // that an instruction came, which is the micro-batch
    for (json& step : stage["steps"])
      for (json& instruction : step) {
        const auto text = instruction.get<std::string>();
        const std::string name = text.substr(0, text.find('('));
        if (text.find("buffer_id") != std::string::npos)
          instruction = name + "(buffer_id=" + std::to_string(times[name]++ % buffers) + ")";
      }
  }
}

// What is sent is over before anything is awaited.
void trace_sends_alone(const json&, json& result) {
  for (json& row : result["trace"]) {
    auto text = row.get<std::string>();
    for (std::size_t at = text.find(";RECV"); at != std::string::npos; at = text.find(";RECV", at))
      text.replace(at, 1, "),P2P(");
    row = text;
  }
}

// The last forward of stage 0 comes to rank 1 once that has received something.
void computes_on_another_rank(const json& args, json& result) {
  json& rows = result["trace"];
  if (args.at("schedule") != "1F1B" || rows.size() < 2) return;
  const std::string cell = "0F" + std::to_string(micro_batches_of(args) - 1);
  auto from = rows[0].get<std::string>(), to = rows[1].get<std::string>();
  const std::size_t at = from.find("," + cell), first_end = to.find("),");
  if (at == std::string::npos || first_end == std::string::npos) return;
  rows[0] = from.erase(at, cell.size() + 1);
  rows[1] = to.insert(first_end + 1, "," + cell);
}

void loads_in_turn(const json& args, json& result) {
  json& places = result["result"]["stage_to_rank"];
  for (std::size_t stage = 0; stage < places.size(); ++stage) places[stage] = static_cast<int>(stage) % ranks_of(args);
}

// ---- messages ----

void missing_send(const json&, int, Actions& actions) {
  for (std::size_t i = actions.size(); i-- > 0;)
    if (actions[i].kind == ActionKind::send_backward) return erase_at(actions, i);
}

void first_stage_receives(const json& args, int rank, Actions& actions) {
  const bool several = args.at("num_stages").get<std::size_t>() > args.at("compute_only").size();
  if (rank == 0 && several)
    actions.insert(actions.begin(), {.kind = ActionKind::recv_forward, .joined = false, .stage = 0, .micro_batch = 0});
}

void receive_after_use(const json&, int, Actions& actions) {
  const auto found = std::ranges::find_if(actions, of_kind(ActionKind::recv_backward));
  if (found == actions.end()) return;
  Action late = *found;
  late.joined = false;
  erase_at(actions, static_cast<std::size_t>(found - actions.begin()));
  const auto used = std::ranges::find_if(actions, [&](const Action& action) {
    return is_backward(action) && action.stage == late.stage && action.micro_batch == late.micro_batch;
  });
  actions.insert(used + 1, late);
}

void forget_the_last_wait(const json& args, int, Actions& actions) {
  if (args.value("max_outstanding_sends", 1) > 1 && !actions.empty() && schedules::is_send_wait(actions.back().kind))
    actions.pop_back();
}

void tear_pairs_apart(const json&, int, Actions& actions) {
  for (Action& action : actions)
    if (is_compute(action.kind)) action.joined = false;
}

// Each group one by one, its sends before its receives.
void sends_first(Actions& actions) {
  for (auto begin = actions.begin(); begin != actions.end();) {
    auto end = std::find_if(begin, actions.end(), [](const Action& action) { return !action.joined; });
    if (end != actions.end()) ++end;
    if (is_message(begin->kind)) {
      std::stable_partition(begin, end, [](const Action& action) { return is_send(action.kind); });
      std::for_each(begin, end, [](Action& action) { action.joined = false; });
    }
    begin = end;
  }
}
void send_first_both(const json&, int, Actions& actions) { sends_first(actions); }

void deadlock_m_eq_p(const json& args, int, Actions& actions) {
  int last = 0;
  for (const Action& action : actions) last = std::max(last, action.micro_batch);
  if (last + 1 == static_cast<int>(args.at("compute_only").size())) sends_first(actions);
}

void ungrouped_exchange(const json&, int, Actions& actions) {
  for (Action& action : actions)
    if (is_message(action.kind)) action.joined = false;
}

void swapped_messages(const json&, int, Actions& actions) {
  const auto first = std::ranges::find_if(actions, of_kind(ActionKind::send_forward));
  if (first == actions.end()) return;
  const auto second = std::find_if(first + 1, actions.end(), [&](const Action& action) {
    return action.kind == ActionKind::send_forward && action.stage == first->stage;
  });
  if (second != actions.end()) std::swap(first->micro_batch, second->micro_batch);
}

bool tells_shape(const Action& action) {
  return action.kind == ActionKind::send_metadata || action.kind == ActionKind::recv_metadata;
}

void cache_shape_forever(const json&, int, Actions& actions) {
  for (std::size_t i = actions.size(); i-- > 0;)
    if (tells_shape(actions[i]) && actions[i].micro_batch > 0) erase_at(actions, i);
}

void all_send_shapes(const json& args, int, Actions& actions) {
  if (args.value("metadata", "") != "each") return;
  Actions first;
  for (std::size_t i = actions.size(); i-- > 0;)
    if (actions[i].kind == ActionKind::send_metadata) {
      first.insert(first.begin(), actions[i]);
      first.front().joined = false;
      erase_at(actions, i);
    }
  actions.insert(actions.begin(), first.begin(), first.end());
}

// ---- the checker and the simulator ----

/// A checker that does not see some problems.
RewriteAnswer blind_to(std::function<bool(const json& problem)> unseen) {
  return results_of(kCheck, "plumbline", [unseen = std::move(unseen)](const json&, json& result) {
    json& problems = result["problems"];
    problems.erase(std::remove_if(problems.begin(), problems.end(), unseen), problems.end());
    result["valid"] = std::ranges::none_of(problems, [](const json& one) { return one.at("severity") == "error"; });
  });
}
bool is_problem(const json& problem, const char* kind, ActionKind of) {
  return problem.at("kind") == kind && schedules::parse_row(problem.at("action").get<std::string>()).at(0).kind == of;
}

// One problem of each kind, however many there are.
void tell_one_of_a_kind(const json&, json& result) {
  json first = json::array();
  for (const json& problem : result.at("problems"))
    if (std::ranges::none_of(first, [&](const json& one) { return one.at("kind") == problem.at("kind"); }))
      first.push_back(problem);
  result["problems"] = first;
}

void blame_rank_0_for_cycles(const json&, json& result) {
  for (json& problem : result["problems"])
    if (problem.at("kind") == "cycle") problem["rank"] = 0;
}

void buffer_every_send(const json&, json& result) {
  result["deadlock_free"]["rendezvous"] = result["deadlock_free"]["buffered"];
  result["valid"] = result["deadlock_free"]["buffered"];
}

void order_is_an_error(const json&, json& result) {
  for (json& problem : result["problems"])
    if (problem.at("kind") == "fifo_order") {
      problem["severity"] = "error";
      result["valid"] = false;
    }
}

// Only the orders that generators make: a stage's forwards by micro-batch.
void refuse_other_orders(const json& args, json& result) {
  for (const json& row : args.at("ranks")) {
    std::map<int, int> last;
    for (const Action& action : schedules::parse_row(row.get<std::string>())) {
      if (action.kind != ActionKind::forward) continue;
      if (last.contains(action.stage) && last[action.stage] > action.micro_batch) result["valid"] = false;
      last[action.stage] = action.micro_batch;
    }
  }
}

// ---- another simulation ----

using schedules::SimulationOptions;

// A number for all, or one each.
std::vector<double> numbers_of(const json& value) {
  return value.is_array() ? value.get<std::vector<double>>() : std::vector<double>{value.get<double>()};
}

schedules::Schedule schedule_in(const json& args) {
  schedules::Schedule schedule{
      .stages = args.at("num_stages"), .micro_batches = 1, .stage_to_rank = args.at("stage_to_rank"), .ranks = {}};
  for (const json& row : args.at("ranks")) {
    schedule.ranks.push_back(schedules::parse_row(row.get<std::string>()));
    for (const Action& action : schedule.ranks.back())
      schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
  }
  return schedule;
}

SimulationOptions options_in(const json& args) {
  const json& durations = args.at("durations");
  const auto of = [&](const char* kind, std::size_t stage) {
    const std::vector<double> numbers = numbers_of(durations.at(kind));
    return numbers.size() == 1 ? numbers.front() : numbers[stage];
  };
  SimulationOptions options;
  options.stages.clear();
  for (std::size_t stage = 0; stage < args.at("stage_to_rank").size(); ++stage)
    options.stages.push_back({of("F", stage), of("I", stage), of("W", stage), {}});
  options.links.latency = args.value("latency", 0.0);
  options.links.bandwidth = args.value("bandwidth", options.links.bandwidth);
  if (args.contains("message_bytes")) options.message_bytes = numbers_of(args.at("message_bytes"));
  options.rank_slowdown = args.value("straggling", std::vector<double>());
  options.jitter = args.value("jitter", 0.0);
  options.seed = args.value("seed", std::uint64_t{0});
  return options;
}

/// Answers the makespan of other options than those that were asked for.
RewriteAnswer simulates(std::function<void(SimulationOptions& options)> change) {
  return results_of(kSimulate, "plumbline", [change = std::move(change)](const json& args, json& result) {
    SimulationOptions options = options_in(args);
    change(options);
    const schedules::Timeline timeline = schedules::simulate(schedule_in(args), options);
    result["makespan"] = timeline.makespan;
    for (std::size_t rank = 0; rank < result["start_times"].size(); ++rank)
      for (std::size_t i = 0; i < result["start_times"][rank].size(); ++i)
        result["start_times"][rank][i] = timeline.of_rank(static_cast<int>(rank))[i].start;
  });
}

// The plan of one rank, whose computations follow each other: what came before a computation moves it.
void jitter_forwards_alone(const json& args, json& result) {
  if (args.value("jitter", 0.0) == 0 || args.at("ranks").size() != 1) return;
  const Actions actions = schedules::parse_row(args.at("ranks").at(0).get<std::string>());
  json plain = args;
  plain.erase("jitter");
  const schedules::Timeline given = schedules::simulate(schedule_in(plain), options_in(plain));
  double end = 0, before = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const bool is_last = i + 1 == actions.size();
    const json start = result["start_times"][0][i];
    const double next = is_last ? result.at("makespan").get<double>() : result["start_times"][0][i + 1].get<double>();
    const double taken = next - (i == 0 ? start.get<double>() : before);
    before = next;
    result["start_times"][0][i] = end;
    const auto& periods = given.of_rank(0);
    end += actions[i].kind == ActionKind::forward ? taken : periods[i].end - periods[i].start;
  }
  result["makespan"] = end;
}

void bytes_of_outputs_alone(const json& args, json& result) {
  const std::vector<int> place = args.at("stage_to_rank");
  const double bytes = args.contains("message_bytes") ? args.at("message_bytes").get<double>() : 0;
  const int micro_batches = schedule_in(args).micro_batches;
  for (json& link : result["links"]) {
    int boundaries = 0;
    for (std::size_t stage = 0; stage + 1 < place.size(); ++stage)
      boundaries += link.at("from") == place[stage] && link.at("to") == place[stage + 1] ? 1 : 0;
    link["bytes"] = boundaries * micro_batches * bytes;
  }
}

void transfers_have_no_cause(const json&, json& result) {
  for (json& rank : result["idle"]) rank["transfer"] = 0.0;
}

void straggler_is_imbalance(const json&, json& result) {
  for (json& rank : result["idle"]) {
    rank["imbalance"] = rank.at("imbalance").get<double>() + rank.at("straggler").get<double>();
    rank["straggler"] = 0.0;
  }
}

// Receives of outputs are posted in front of the computation before the one that needs them, unless that sends
// something for it.
void front_loaded_receives(const json&, int, Actions& actions) {
  for (std::size_t i = 1; i < actions.size(); ++i) {
    if (actions[i].kind != ActionKind::recv_forward) continue;
    std::size_t to = i;
    while (to > 0 && !is_compute(actions[to - 1].kind)) --to;
    if (to == 0 || !is_backward(actions[to - 1])) continue;
    Action early = actions[i];
    early.joined = false;
    erase_at(actions, i);
    actions.insert(actions.begin() + static_cast<std::ptrdiff_t>(to - 1), early);
  }
}

void span_for_barrier(const json&, json& result) {
  result["barrier_bubble"] = *std::ranges::max_element(result["span_bubble"]);
}

// What a forward adds is counted when the next action is over.
void count_activations_late(const json& args, json& result) {
  for (std::size_t rank = 0; rank < args.at("ranks").size(); ++rank) {
    int live = 0, most = 0, added = 0;
    for (const Action& action : schedules::parse_row(args["ranks"][rank].get<std::string>())) {
      if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient) --live;
      most = std::max(most, live += added);
      added = action.kind == ActionKind::forward ? 1 : 0;
    }
    result["peak_activations"][rank] = most;
  }
}

// ---- rows of all ----

std::vector<Mutant> generate_mutants() {
  const auto at = [](const char* check, const char* schedule, const char* micro_batches) {
    return std::string("schedules.plans.") + check + "[schedule=" + schedule + ",micro_batches=" + micro_batches + "]";
  };
  const std::string plain = "schedules.plans.one_chunk_is_plain";
  return {
      {"pipe.drop_last", "SCHED-014", "the last micro-batch is left out", "PIPE-17", at("complete", "1f1b", "2p"),
       at("complete", "1f1b", "1"), "the only one is not left out", plans(drop_last)},
      {"sch.backward_of_wrong_micro_batch", "SCHED-014", "a second backward is one of the first's micro-batch",
       "a counter that is advanced too late", at("complete", "1f1b", "2p"), at("complete", "1f1b", "1"),
       "there is one micro-batch", plans(backward_of_wrong_micro_batch)},
      {"sch.drops_a_weight_gradient", "SCHED-014", "the last weight gradient of a rank is never made",
       "PIPE-16: what is left over at the end", at("complete", "zb-h1", "p"), at("complete", "1f1b", "p"),
       "backwards are whole", plans(drop_a_weight_gradient)},
      {"pipe.warmup_unclamped", "SCHED-014", "ranks run ahead by more forwards than there are micro-batches", "PIPE-01",
       at("complete", "1f1b", "1"), at("complete", "1f1b", "p"), "there are as many as ranks",
       running_ahead(
           "1f1b", [](int hops) { return hops; }, false)},
      {"pipe.chunk_order", "SCHED-015", "a rank's chunks run forward in the opposite order", "PIPE-07",
       at("runs_to_the_end", "interleaved", "p"), at("runs_to_the_end", "1f1b", "p"), "a rank has one chunk",
       plans(chunk_order)},
      {"sch.weight_gradient_first", "SCHED-015", "a weight gradient is made before its input gradient",
       "two halves that are taken for independent", at("runs_to_the_end", "zb-h1", "p"),
       at("runs_to_the_end", "1f1b", "p"), "backwards are whole", plans(weight_gradient_first)},
      {"sch.neighbours_on_one_rank", "SCHED-016", "a rank's chunks are neighbours in the model",
       "TOP-06: chunks and stages taken for each other", at("one_first_and_one_last", "interleaved", "p"),
       at("one_first_and_one_last", "1f1b", "p"), "a rank has one chunk",
       results_of(kGenerate, "plumbline", neighbours_on_one_rank)},
      {"pipe.gpipe_m1", "SCHED-017", "GPipe does nothing with one micro-batch", "PIPE-02", at("answered", "gpipe", "1"),
       at("answered", "gpipe", "p+1"), "there are two at least",
       plans_of("gpipe",
                [](const json& args, int, Actions& actions) {
                  if (micro_batches_of(args) == 1) actions.clear();
                })},
      {"sch.refuses_few_micro_batches", "SCHED-017", "GPipe is refused for fewer micro-batches than ranks", "PIPE-01",
       at("answered", "gpipe", "p-1"), at("answered", "gpipe", "p"), "there are as many",
       refuses(kGenerate,
               [](const json& args) { return is_named(args, "gpipe") && micro_batches_of(args) < ranks_of(args); })},
      {"pipe.no_divisibility_check", "SCHED-018", "interleaved 1F1B is planned for rounds of any size", "PIPE-06",
       at("refused_by_rule", "interleaved", "2p+1"), at("refused_by_rule", "zbv", "2p+1"), "another schedule",
       takes(kGenerate, [](const json& args) { return is_named(args, "interleaved"); },
             {{"compute_only", {"0F0,0B0"}}, {"stage_to_rank", {0}}})},
      {"sch.names_the_chunks", "SCHED-018", "whatever is against the rule, the message has the number of chunks alone",
       "one message for every rule", at("refused_by_rule", "interleaved", "2p+1"),
       at("refused_by_rule", "1f1b", "2p+1"), "the chunks are against the rule",
       [](const std::string& op, const json& args, json reply) {
         if (op != kGenerate || !reply.contains("error")) return reply;
         reply["error"]["message"] = "the rule does not allow " + std::to_string(args.value("stages_per_rank", 1));
         return reply;
       }},
      {"sch.empty_plan_for_nothing", "SCHED-019", "no micro-batches are planned as rows of nothing",
       "DeepSpeed's stream of no micro-batches", "schedules.plans.nothing_is_refused[zero=microbatches]",
       "schedules.plans.nothing_is_refused[zero=pp]", "there are micro-batches",
       takes(kGenerate, [](const json& args) { return micro_batches_of(args) == 0; },
             {{"compute_only", {""}}, {"stage_to_rank", {0}}})},
      {"top.v1_is_interleaved", "SCHED-020", "one chunk runs ahead as far as several do", "TOP-07",
       plain + "[micro_batches=2p]", plain + "[micro_batches=1]", "no rank can run past the only micro-batch",
       running_ahead("interleaved", [](int hops) { return 2 * hops; })},
      {"sch.warmup_one_less", "SCHED-021", "ranks run ahead by one forward too few", "an index that counts from 0",
       at("bubble", "1f1b", "2p"), at("bubble", "1f1b", "1"), "no rank can run past the only micro-batch",
       running_ahead("1f1b", [](int hops) { return std::max(0, hops - 1); })},
      {"sch.greedy_zero_bubble", "SCHED-021", "weight gradients wait as long as anything else may be done",
       "what fills gaps early is missing at the end", at("bubble", "zb-h1", "2p"), at("bubble", "zb-h1", "1"),
       "one micro-batch has one order", results_of(kGenerate, "plumbline", greedy_zero_bubble)},
      {"sch.lag_of_h1", "SCHED-022", "ZB-H2 is planned with the warm-up and the lag of ZB-H1",
       "two schedules that differ by a factor", "schedules.plans.no_span_bubble[schedule=zb-h2]",
       "schedules.plans.no_span_bubble[schedule=zbv]", "another schedule", plans_of("zb-h2", lag_of_h1)},
      {"sch.lag_of_h1_when_many", "SCHED-022",
       "ZB-H2 of more micro-batches than fill its pattern is planned with the lag of ZB-H1",
       "a pattern for one number of micro-batches", "schedules.plans.no_span_bubble[schedule=zb-h2]",
       "schedules.plans.no_span_bubble[schedule=zbv]", "another schedule", plans_of("zb-h2", lag_of_h1_when_many)},
      {"sch.one_activation_too_many", "SCHED-023", "ranks run ahead by one forward too many",
       "PIPE-18: memory that no output shows", at("activations", "1f1b", "2p"), at("activations", "1f1b", "1"),
       "there is one micro-batch", running_ahead("1f1b", [](int hops) { return hops + 1; })},
      {"sch.gpipe_for_1f1b", "SCHED-023", "all forwards come first", "PIPE-18", at("activations", "1f1b", "2p"),
       at("activations", "1f1b", "1"), "there is one micro-batch",
       plans_of("1f1b",
                [](const json& args, int rank, Actions& actions) {
                  actions = turns(rank, micro_batches_of(args), micro_batches_of(args));
                })},
  };
}

std::vector<Mutant> memory_mutants() {
  const std::string check = "schedules.memory.";
  return {
      {"sch.lifespans_of_v_min", "SCHED-067", "V-Half is planned with the lifespans of V-Min",
       "two schedules that differ by the steps from rank to rank", check + "less_memory[schedule=v-half]",
       check + "less_memory[schedule=v-min]", "another schedule",
       results_of(kGenerate, "plumbline", lifespans_of_v_min)},
      {"sch.v_min_keeps_one_more", "SCHED-067", "a forward comes before the weight gradient that makes room for it",
       "PIPE-18: memory that no output shows", check + "less_memory[schedule=v-min]",
       check + "less_memory[schedule=v-half]", "another schedule", plans_of("v-min", forward_before_room)},
      {"sch.ignores_memory_limit", "SCHED-068", "the memory limit is read and not kept to", "PIPE-18",
       check + "within_the_limit[chunks=1,limit=least]", check + "within_the_limit[chunks=1,limit=all]",
       "no schedule keeps more than all", results_of(kGenerate, "plumbline", ignore_memory_limit)},
      {"sch.automatic_is_1f1b", "SCHED-069", "1F1B is taken wherever its activations have room",
       "a search that ends with the first that fits", check + "no_longer_than_others[chunks=1]",
       check + "no_longer_than_others[chunks=2]", "1F1B has one chunk",
       results_of(kGenerate, "plumbline", automatic_is_1f1b)},
      {"sch.takes_any_memory_limit", "SCHED-070", "no memory at all is taken for no limit", "0 as a default",
       check + "says_the_least_limit[chunks=1]", check + "says_the_least_limit[chunks=2]", "a rank has two chunks",
       takes(kGenerate,
             [](const json& args) {
               return is_named(args, "auto") && args.value("memory_limit", json(1)) == 0 &&
                      args.value("stages_per_rank", 1) == 1;
             },
             {{"compute_only", {"0F0,0I0,0W0"}}, {"stage_to_rank", {0}}})},
  };
}

std::vector<Mutant> form_mutants() {
  const std::string check = "schedules.forms.";
  return {
      {"sch.turns_once", "SCHED-113", "stages go there, and then back for ever", "tried with two chunks",
       check + "places[style=v]", check + "places[style=loop]", "they do not turn",
       results_of("schedules.stage_to_rank", "plumbline", turns_once)},
      {"sch.one_buffer_too_few", "SCHED-114", "a stage has a buffer less than micro-batches under way", "PIPE-18",
       check + "streams[schedule=TrainSchedule]", check + "streams[schedule=InferenceSchedule]", "another schedule",
       results_of("schedules.instruction_stream", "plumbline", one_buffer_too_few)},
      {"sch.names_no_buffer", "SCHED-114", "a receive does not say into which buffer", "an adapter that left it out",
       check + "streams[schedule=TrainSchedule]", check + "streams[schedule=InferenceSchedule]", "another schedule",
       results_of("schedules.instruction_stream", "plumbline", name_no_buffer)},
      {"sch.trace_sends_alone", "SCHED-115", "an exchange is a send and then a receive", "PIPE-05",
       check + "traces[schedule=1F1B,direction=both]", check + "traces[schedule=1F1B,direction=forward]",
       "messages go one way", results_of("schedules.trace", "plumbline", trace_sends_alone)},
      {"sch.trace_computes_elsewhere", "SCHED-115", "the last forward of stage 0 is computed on rank 1",
       "whoever is free computes", check + "traces[schedule=1F1B,direction=forward]",
       check + "traces[schedule=interleaved,direction=forward]", "another schedule",
       results_of("schedules.trace", "plumbline", computes_on_another_rank)},
      {"sch.loads_in_turn", "SCHED-116", "loaded stages lie in turn, whatever the rows say", "one placement for all",
       check + "loads[schedule=zbv,micro_batches=p]", check + "loads[schedule=gpipe,micro_batches=p]", "they do",
       results_of(kLoad, "plumbline", loads_in_turn)},
      {"sch.loads_circles", "SCHED-116", "rows are counted, and not followed", "PyTorch 2.15's validator",
       check + "does_not_load[fault=circle]", check + "does_not_load[fault=no_action]", "a cell is none",
       takes(kLoad, [](const json& args) { return args.at("csv").at(0) == "0F0,0B0,0F1,0B1"; }, {{"accepted", true}})},
  };
}

std::vector<Mutant> plan_convention_mutants() {
  const auto at = [](const char* check, const char* field, const char* value) {
    return std::string("schedules.recorded.") + check + "[" + field + "=" + value + "]";
  };
  return {
      {"sch.torch_backward_in_order", "SCHED-024", "the looped schedule's backwards begin with the first micro-batch",
       "GPipe's order taken for everybody's", at("torch_order", "schedule", "ScheduleLoopedBFS"),
       at("torch_order", "schedule", "ScheduleGPipe"), "another schedule",
       results_of(kGenerate, "torch", backward_in_order)},
      {"sch.torch_forgets_weight_gradients", "SCHED-025", "a stage that ends with a weight gradient is not reduced",
       "PIPE-16", at("torch_lowering", "schedule", "ScheduleInterleavedZeroBubble"),
       at("torch_lowering", "schedule", "ScheduleInterleaved1F1B"), "backwards are whole",
       results_of(kLower, "torch", forget_weight_gradients)},
      {"sch.torch_defers_nothing", "SCHED-117", "receives stay where they are", "a flag that is not passed on",
       at("torch_passes", "pass", "defer_receives"), at("torch_passes", "pass", "merge_backward"), "another pass",
       results_of(kLower, "torch",
                  [](const json&, json& result) { result["with_comms_defer_recv"] = result["with_comms"]; })},
      {"sch.torch_merges_nothing", "SCHED-117", "halves of a backward stay apart", "a pass that looks at whole ones",
       at("torch_passes", "pass", "merge_backward"), at("torch_passes", "pass", "defer_receives"), "another pass",
       results_of(kLower, "torch",
                  [](const json& args, json& result) { result["merge_bw"] = args.at("compute_only"); })},
      {"sch.torch_multiple_of_ranks", "SCHED-026", "micro-batches are to be a multiple of the ranks",
       "PIPE-06: the rule of other programs", at("torch_construction", "schedule", "ScheduleInterleaved1F1B"),
       at("torch_construction", "schedule", "ScheduleGPipe"), "another schedule",
       refuses(kGenerate,
               [](const json& args) {
                 return is_named(args, "ScheduleInterleaved1F1B") && args.value("convention", "") == "torch" &&
                        micro_batches_of(args) % ranks_of(args) != 0;
               })},
      {"sch.torch_accepts_any_rows", "SCHED-027", "rows from outside are taken as they are", "nobody looks at them",
       at("torch_csv", "answer", "refused"), at("torch_csv", "answer", "accepted"), "they are right",
       takes("schedules.load_csv", [](const json&) { return true; }, {{"accepted", true}})},
      {"sch.torch_loads_computations_alone", "SCHED-066", "rows with messages are refused",
       "most rows from outside have none", at("torch_loading", "format", "compute_comms"),
       at("torch_loading", "format", "compute_only"), "they have none",
       refuses("schedules.load_csv", [](const json& args) { return args.value("format", "") == "compute_comms"; })},
      {"sch.never_turns_round", "SCHED-028", "stages that go there and back lie in turn", "one placement for all",
       at("torch_placement", "style", "v"), at("torch_placement", "style", "loop"), "they do",
       results_of("schedules.stage_to_rank", "torch",
                  [](const json& args, json& result) {
                    for (std::size_t stage = 0; stage < result["result"].size(); ++stage)
                      result["result"][stage] = static_cast<int>(stage) % ranks_of(args);
                  })},
      {"sch.deepspeed_one_buffer", "SCHED-029", "the last stages have one buffer", "2 is the least",
       at("deepspeed", "schedule", "TrainSchedule"), at("deepspeed", "schedule", "InferenceSchedule"),
       "another schedule", results_of("schedules.instruction_stream", "deepspeed", one_buffer)},
      {"sch.deepspeed_06_sends_gradients_first", "SCHED-030", "the order of an exchange is today's",
       "DeepSpeed 0.19's order taken for that of 0.6", at("deepspeed_06", "schedule", "TrainSchedule"),
       at("deepspeed_06", "schedule", "InferenceSchedule"), "there are no gradients",
       results_of("schedules.instruction_stream", "deepspeed-0.6", gradients_first)},
      {"sch.colossalai_tells_no_shapes", "SCHED-031", "shapes are never told", "most programs know them",
       at("colossalai", "schedule", "PipelineSchedule"), at("colossalai", "schedule", "InterleavedPipelineSchedule"),
       "another schedule", results_of("schedules.trace", "colossalai", tell_no_shapes)},
      {"sch.megatron_any_group", "SCHED-032", "groups of any size are traced", "PIPE-06",
       at("megatron", "schedule", "interleaved"), at("megatron", "schedule", "1F1B"), "there are no groups",
       takes("schedules.trace", [](const json& args) { return args.value("convention", "") == "megatron"; },
             {{"trace", {""}}})},
  };
}

std::vector<Mutant> planned_message_mutants() {
  const auto at = [](const char* check, const char* schedule, const char* micro_batches) {
    return std::string("schedules.lowering.") + check + "[schedule=" + schedule + ",micro_batches=" + micro_batches +
           "]";
  };
  const std::string check = "schedules.lowering.";
  return {
      {"sch.missing_send", "SCHED-033", "a rank's last gradient is not sent", "a loop that ends one too early",
       at("each_message_once", "1f1b", "p"), at("each_message_once", "forward-only", "p"), "there are no gradients",
       lowerings(missing_send)},
      {"pipe.first_stage_recv", "SCHED-033", "with several chunks the first stage waits for an input", "PIPE-20",
       at("each_message_once", "interleaved", "p"), at("each_message_once", "1f1b", "p"), "there is one chunk",
       lowerings(first_stage_receives)},
      {"sch.receive_after_use", "SCHED-034", "a gradient is received when it has been used", "a wait that is missing",
       at("where_due", "1f1b", "p"), at("where_due", "forward-only", "p"), "there are no gradients",
       lowerings(receive_after_use)},
      {"sch.tears_pairs_apart", "SCHED-034", "computations that are one step become two",
       "a lowering that knows no pairs", at("where_due", "dualpipev", "2p"), at("where_due", "1f1b", "2p"),
       "there are no pairs", lowerings(tear_pairs_apart)},
      {"pipe.send_first_both", "SCHED-035", "both sides of an exchange send, then receive", "PIPE-05",
       at("nobody_waits_for_ever", "1f1b", "2p"), at("nobody_waits_for_ever", "1f1b", "1"), "nothing is exchanged",
       lowerings(send_first_both)},
      {"pipe.deadlock_m_eq_p", "SCHED-035", "as many micro-batches as ranks: both sides send first", "PIPE-03",
       at("nobody_waits_for_ever", "1f1b", "p"), at("nobody_waits_for_ever", "1f1b", "2p"), "there are more",
       lowerings(deadlock_m_eq_p)},
      {"p2p.ungrouped_exchange", "SCHED-035", "an exchange is made of single calls", "P2P-04",
       at("nobody_waits_for_ever", "1f1b", "2p"), at("nobody_waits_for_ever", "1f1b", "1"), "nothing is exchanged",
       lowerings(ungrouped_exchange)},
      {"pipe.front_loaded_recv", "SCHED-060", "the next output's receive is posted before a backward", "PIPE-22",
       at("holds_nobody_up", "1f1b", "2p"), at("holds_nobody_up", "1f1b", "1"), "there is no next one",
       lowerings(front_loaded_receives)},
      {"sch.swapped_messages", "SCHED-036", "the first two outputs are sent in the other order",
       "PIPE-04: messages that only their order tells apart", at("in_one_order", "gpipe", "2p"),
       at("in_one_order", "gpipe", "1"), "there is one", lowerings(swapped_messages)},
      {"p2p.cache_shape_forever", "SCHED-037", "the first shape is told, and no other", "P2P-06",
       check + "shapes_ahead[metadata=each]", check + "shapes_ahead[metadata=once]", "no other was asked for",
       lowerings(cache_shape_forever)},
      {"p2p.meta_all_send", "SCHED-038", "changing shapes are all sent at the start, and nobody receives", "P2P-03",
       check + "shapes_without_deadlock[metadata=each]", check + "shapes_without_deadlock[metadata=once]",
       "they do not change", lowerings(all_send_shapes)},
      {"sch.forgets_the_last_wait", "SCHED-071", "what is under way at the end is left to itself but for one send less",
       "a loop that ends one too early", check + "each_send_waited_for[most=4]", check + "each_send_waited_for[most=1]",
       "a limit of one is another branch", lowerings(forget_the_last_wait)},
      {"sch.lowers_circles", "SCHED-039", "what waits for each other is lowered up to there",
       "an order that ends when nobody can go on", check + "refuses[fault=circle]", check + "refuses[fault=stage]",
       "no rank waits",
       takes(kLower,
             [](const json& args) { return args.at("compute_only") == json{"0F0,0B0,0F1,0B1", "1F0,1F1,1B1,1B0"}; },
             {{"send_recv", {"0F0,0SEND_F0", "1RECV_F0,1F0"}}})},
  };
}

std::vector<Mutant> judging_mutants() {
  const auto at = [](const char* check, const char* field, const char* value) {
    return std::string("schedules.") + check + "[" + field + "=" + value + "]";
  };
  return {
      {"sch.accepts_doubled_backward", "SCHED-040", "backwards are counted, and one too many is none missing",
       "PyTorch's validator compares counts", at("checker.names_wrong_work", "fault", "doubled_backward"),
       at("checker.names_wrong_work", "fault", "doubled_forward"), "no backward is doubled",
       blind_to([](const json& problem) { return is_problem(problem, "doubled", ActionKind::backward); })},
      {"sch.tells_one_of_a_kind", "SCHED-040", "one computation of each kind of problem is reported",
       "a table with a row for each kind", at("checker.names_wrong_work", "fault", "doubled_both"),
       at("checker.names_wrong_work", "fault", "doubled_forward"), "there is one",
       results_of(kCheck, "plumbline", tell_one_of_a_kind)},
      {"sch.blames_rank_0", "SCHED-041", "a cycle is reported of rank 0, which need not be in it",
       "a field that is not filled", at("checker.names_wrong_order", "fault", "circle_beside_a_rank"),
       at("checker.names_wrong_order", "fault", "circle"), "rank 0 is in it",
       results_of(kCheck, "plumbline", blame_rank_0_for_cycles)},
      {"sch.trusts_the_own_rank", "SCHED-041", "forwards are taken to have what their own rank computes",
       "messages are in mind", at("checker.names_wrong_order", "fault", "forward_first"),
       at("checker.names_wrong_order", "fault", "backward_first"), "it is a backward",
       blind_to([](const json& problem) { return is_problem(problem, "dependency", ActionKind::forward); })},
      {"sch.accepts_weight_gradient_first", "SCHED-041", "a weight gradient is taken to need its forward alone",
       "two halves that are taken for independent", at("checker.names_wrong_order", "fault", "weight_gradient_first"),
       at("checker.names_wrong_order", "fault", "backward_first"), "the backward is whole",
       blind_to([](const json& problem) { return is_problem(problem, "dependency", ActionKind::weight_gradient); })},
      {"sch.accepts_unreceived_messages", "SCHED-042", "messages are looked for from the receiver's side alone",
       "what nobody waits for harms nobody at once", at("checker.names_wrong_messages", "fault", "missing_receive"),
       at("checker.names_wrong_messages", "fault", "missing_send"), "the message is received",
       blind_to([](const json& problem) { return problem.at("kind") == "missing_receive"; })},
      {"sch.accepts_sends_without_wait", "SCHED-072", "waits are looked at, and not the sends without one",
       "what nobody waits for harms nobody at once", at("checker.names_missing_waits", "fault", "never_waited_for"), "",
       "there is one such fault", blind_to([](const json& problem) { return problem.at("kind") == "missing_wait"; })},
      {"sch.buffers_every_send", "SCHED-043", "a send is taken to be over at once", "PIPE-05",
       at("checker.tells_modes_apart", "exchange", "send_first"), at("checker.tells_modes_apart", "exchange", "joined"),
       "both are posted together", results_of(kCheck, "plumbline", buffer_every_send)},
      {"sch.order_is_an_error", "SCHED-044", "messages must be in order for every matching",
       "PIPE-04: a refusal of what runs", at("checker.warns_of_order", "matching", "name"),
       at("checker.warns_of_order", "matching", "fifo"), "there they must be",
       results_of(kCheck, "plumbline", order_is_an_error)},
      {"sch.refuses_other_orders", "SCHED-045", "the orders of generators alone are valid",
       "PIPE-01: a refusal of what runs", at("checker.accepts_any_order", "rows", "computations"), "",
       "both cases draw any order", results_of(kCheck, "plumbline", refuse_other_orders)},
      {"sch.forgets_latency", "SCHED-046", "the step ends as if messages came at once", "PIPE-22",
       at("simulator.times", "links", "latency"), at("simulator.times", "links", "none"), "they do",
       simulates([](SimulationOptions& options) { options.links.latency = 0; })},
      {"sch.times_of_the_first_stage", "SCHED-061", "all stages take the times of the first", "one number for all",
       at("simulator.parts", "part", "stages"), at("simulator.parts", "part", "stragglers"), "they do",
       simulates([](SimulationOptions& options) { options.stages.resize(1); })},
      {"sch.bytes_of_the_first_boundary", "SCHED-061", "all boundaries have the bytes of the first",
       "one number for all", at("simulator.parts", "part", "boundaries"), at("simulator.parts", "part", "stages"),
       "nothing is sent", simulates([](SimulationOptions& options) {
         if (options.message_bytes.size() > 1) options.message_bytes.resize(1);
       })},
      {"sch.nobody_is_slow", "SCHED-061", "a rank's factor is not looked at", "equal ranks are in mind",
       at("simulator.parts", "part", "stragglers"), at("simulator.parts", "part", "stages"), "no rank has one",
       simulates([](SimulationOptions& options) { options.rank_slowdown.clear(); })},
      {"sch.bytes_of_outputs_alone", "SCHED-062", "gradients are not counted among the bytes of a link",
       "what goes forward is in mind", at("simulator.traffic", "links", "bandwidth"),
       at("simulator.traffic", "links", "none"), "messages have no bytes",
       results_of(kSimulate, "plumbline", bytes_of_outputs_alone)},
      {"sch.one_seed_for_all", "SCHED-063", "the seed is not looked at", "a generator that is made anew",
       at("simulator.jitter", "of", "seeds"), at("simulator.jitter", "of", "times"),
       "the times are within their limits", simulates([](SimulationOptions& options) { options.seed = 0; })},
      {"sch.jitter_of_forwards_alone", "SCHED-063", "backwards take the times that were given, whatever the jitter",
       "one kind is in mind", at("simulator.jitter", "of", "computations"), at("simulator.jitter", "of", "seeds"),
       "the seeds differ in forwards", results_of(kSimulate, "plumbline", jitter_forwards_alone)},
      {"sch.jitter_without_limit", "SCHED-063", "computations take up to three times as much longer",
       "a distribution without an end", at("simulator.jitter", "of", "times"), at("simulator.jitter", "of", "seeds"),
       "they repeat themselves", simulates([](SimulationOptions& options) { options.jitter *= 3; })},
      {"sch.transfers_have_no_cause", "SCHED-064", "what a message takes is attributed to nothing",
       "computations are in mind", at("simulator.idle_sums", "part", "latency"),
       at("simulator.idle_sums", "part", "none"), "messages take no time",
       results_of(kSimulate, "plumbline", transfers_have_no_cause)},
      {"sch.straggler_is_imbalance", "SCHED-065", "a slow rank is taken for a heavy stage", "both take longer",
       at("simulator.idle_alone", "cause", "straggler"), at("simulator.idle_alone", "cause", "imbalance"),
       "the stage is heavy", results_of(kSimulate, "plumbline", straggler_is_imbalance)},
      {"sch.span_for_barrier", "SCHED-047", "the bubble of a step is that between first start and last end",
       "two definitions by one name", at("simulator.bubbles", "links", "none"), "",
       "on all links ranks start late or end early", results_of(kSimulate, "plumbline", span_for_barrier)},
      {"sch.counts_activations_late", "SCHED-048", "an activation is counted when the next action is over", "PIPE-18",
       at("simulator.activations", "links", "none"), "", "links do not matter to it, so that there is one case",
       results_of(kSimulate, "plumbline", count_activations_late)},
      {"sch.takes_negative_times", "SCHED-049", "times are not looked at", "a sum goes on with any number",
       at("simulator.refuses", "fault", "negative"), at("simulator.refuses", "fault", "stuck"), "the times are right",
       takes(kSimulate, [](const json& args) { return args.at("durations").at("F") == -1; }, {{"makespan", 0}})},
  };
}

}  // namespace

std::vector<Mutant> plan_mutants() {
  std::vector<Mutant> all;
  for (const auto kind : {generate_mutants, memory_mutants, form_mutants, plan_convention_mutants,
                          planned_message_mutants, judging_mutants})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants
