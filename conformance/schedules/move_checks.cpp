// Simulated times where messages wait for their receivers, computations overlap, and activations have sizes.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::IdleTime;
using schedules::Period;
using schedules::Schedule;
using schedules::SimulationOptions;
using schedules::Timeline;
using suite::Context;

namespace {

using Name = std::tuple<bool, int, int>;  // whether it is a gradient, receiving stage, micro-batch

// A plan whose two ends of each link have the messages in one order: those of a link move one after the other.
class Moves {
 public:
  Moves(const Schedule& plan, const SimulationOptions& options)
      : plan_(plan), options_(options), ranks_(plan.ranks.size()) {
    for (const auto& row : plan.ranks) {
      periods.emplace_back(row.size());
      for (const Action& action : row) has_messages_ = has_messages_ || is_message(action.kind);
    }
    for (bool moving = true; moving;) {
      moving = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
        while (take(rank)) moving = true;
      moving = move_what_can() || moving;
    }
    for (const Rank& rank : ranks_) makespan = std::max(makespan, rank.last_end);
  }

  struct Rank {
    std::size_t next = 0;
    double now = 0, work = 0, first_start = -1, last_end = 0, bytes = 0, peak_bytes = 0;
    int live = 0, peak = 0;
  };
  std::vector<std::vector<Period>> periods;
  double makespan = 0;
  [[nodiscard]] const Rank& rank(std::size_t at) const { return ranks_[at]; }
  [[nodiscard]] bool ended() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (ranks_[rank].next < plan_.ranks[rank].size()) return false;
    return true;
  }

 private:
  struct Message {
    std::optional<double> sent, received;
    Period* period = nullptr;  // of the send
    int boundary = 0;
    Name name;
  };
  static const double& of(const std::vector<double>& list, int at) {
    return list.size() == 1 ? list.front() : list.at(static_cast<std::size_t>(at));
  }
  [[nodiscard]] int place(int stage) const { return plan_.stage_to_rank.at(static_cast<std::size_t>(stage)); }
  [[nodiscard]] bool is_stage(int stage) const { return stage >= 0 && stage < plan_.stages; }
  [[nodiscard]] double seconds_of(const Action& action) const {
    const auto& all = options_.stages;
    const double seconds =
        (all.size() == 1 ? all.front() : all.at(static_cast<std::size_t>(action.stage))).of(action.kind);
    const auto& slow = options_.rank_slowdown;
    return slow.empty() ? seconds : seconds * slow.at(static_cast<std::size_t>(place(action.stage)));
  }
  static bool is_back(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::input_gradient; }

  // When what a computation needs of another one is there; nothing as long as it is not.
  [[nodiscard]] std::optional<double> input_of(const Action& action) const {
    const bool back = is_back(action.kind);
    if (!back && action.kind != ActionKind::forward) return 0;
    if (!is_stage(action.stage + (back ? 1 : -1)) && !back) return 0;
    const auto found = arrived_.find({back, action.stage, action.micro_batch});
    return found == arrived_.end() ? std::nullopt : std::optional(found->second);
  }

  bool take(std::size_t at) {
    Rank& rank = ranks_[at];
    const auto& row = plan_.ranks[at];
    if (rank.next == row.size()) return false;
    std::size_t end = rank.next;
    while (end + 1 < row.size() && row[end].joined) ++end;
    double start = rank.now, seconds = 0;
    const bool computes = is_compute(row[rank.next].kind);
    for (std::size_t i = rank.next; computes && i <= end; ++i) {
      const auto input = input_of(row[i]);
      if (!input) return false;
      start = std::max(start, *input);
      seconds += seconds_of(row[i]);
    }
    if (end > rank.next) seconds *= options_.overlap;
    for (std::size_t i = rank.next; i <= end; ++i)
      computes ? compute(at, row[i], periods[at][i] = {start, start + seconds}) : post(at, row[i], periods[at][i]);
    if (computes) end_of_group(rank, row, end, start, start + seconds);
    rank.next = end + 1;
    return true;
  }
  void compute(std::size_t at, const Action& action, const Period& period) {
    if (action.kind == ActionKind::forward) {
      Rank& rank = ranks_[at];
      rank.peak = std::max(rank.peak, ++rank.live);
      rank.peak_bytes = std::max(rank.peak_bytes, rank.bytes += of(options_.activation_bytes, action.stage));
    }
    const bool back = is_back(action.kind);
    if (!back && action.kind != ActionKind::forward) return;
    // The gradient of the last stage's output follows from the output.
    if (!back && action.stage + 1 == plan_.stages) arrived_[{true, action.stage, action.micro_batch}] = period.end;
    const int to = action.stage + (back ? -1 : 1);
    if (!is_stage(to)) return;
    const Name name{back, to, action.micro_batch};
    if (place(to) == static_cast<int>(at)) {
      arrived_[name] = period.end;
    } else if (!has_messages_) {
      const int boundary = std::min(int{action.stage}, to);
      double& free = link_free_[{static_cast<int>(at), place(to)}];
      free = std::max(free, period.end) + of(options_.message_bytes, boundary) / options_.links.bandwidth;
      arrived_[name] = free + options_.links.latency;
    }
  }
  void end_of_group(Rank& rank, const std::vector<Action>& row, std::size_t last, double start, double end) {
    if (rank.first_start < 0) rank.first_start = start;
    rank.work += end - start;
    rank.now = rank.last_end = end;
    for (std::size_t i = rank.next; i <= last; ++i) {
      const bool ends = options_.forward_only
                            ? row[i].kind == ActionKind::forward
                            : row[i].kind == ActionKind::backward || row[i].kind == ActionKind::weight_gradient;
      if (!ends) continue;
      --rank.live;
      rank.bytes -= of(options_.activation_bytes, row[i].stage);
    }
  }
  void post(std::size_t at, const Action& action, Period& period) {
    const double now = ranks_[at].now;
    period = {now, now};
    if (action.kind < ActionKind::send_forward || action.kind > ActionKind::recv_backward) return;
    const int peer = schedules::peer_stage(action);
    const int receiver = is_send(action.kind) ? peer : action.stage;
    const bool gradient = action.kind == ActionKind::send_backward || action.kind == ActionKind::recv_backward;
    const std::pair link = is_send(action.kind) ? std::pair(static_cast<int>(at), place(peer))
                                                : std::pair(place(peer), static_cast<int>(at));
    const Name name{gradient, receiver, action.micro_batch};
    auto& queue = links_[link];
    auto message = std::ranges::find(queue, name, &Message::name);
    if (message == queue.end())
      message = queue.insert(queue.end(), Message{.boundary = std::min(int{action.stage}, peer), .name = name});
    (is_send(action.kind) ? message->sent : message->received) = now;
    if (is_send(action.kind)) message->period = &period;
  }
  // In the order of each link.
  bool move_what_can() {
    bool moved = false;
    for (auto& [link, queue] : links_)
      for (Message& message : queue) {
        if (arrived_.contains(message.name)) continue;
        if (!message.sent || (options_.rendezvous && !message.received)) break;
        double& free = link_free_[link];
        const double begin = std::max({*message.sent, options_.rendezvous ? *message.received : 0, free});
        free = begin + of(options_.message_bytes, message.boundary) / options_.links.bandwidth;
        *message.period = {begin, free + options_.links.latency};
        arrived_[message.name] = free + options_.links.latency;
        moved = true;
      }
    return moved;
  }

  const Schedule& plan_;
  const SimulationOptions& options_;
  bool has_messages_ = false;
  std::vector<Rank> ranks_;
  std::map<Name, double> arrived_;
  std::map<std::pair<int, int>, std::vector<Message>> links_;
  std::map<std::pair<int, int>, double> link_free_;
};

// Numbers whose sums are exact in any order.
SimulationOptions drawn_options(Random& random, const Schedule& plan) {
  SimulationOptions options;
  const auto numbers = [&](std::size_t count, int most) {
    std::vector<double> list(count);
    for (double& one : list) one = random.between(0, most);
    return list;
  };
  const auto stages = static_cast<std::size_t>(plan.stages);
  options.stages.resize(random.between(0, 1) == 0 ? 1 : stages);
  for (schedules::StageTimes& one : options.stages) {
    one = {.forward = static_cast<double>(random.between(1, 5)),
           .input_gradient = static_cast<double>(random.between(1, 5)),
           .weight_gradient = static_cast<double>(random.between(1, 5))};
    if (random.between(0, 2) == 0) one.backward = random.between(1, 9);
  }
  options.overlap = random.between(1, 4) / 4.0;
  options.links = {.latency = random.between(0, 3) / 2.0, .bandwidth = 4};
  options.message_bytes = numbers(random.between(0, 1) == 0 || stages < 2 ? 1 : stages - 1, 12);
  options.activation_bytes = numbers(random.between(0, 1) == 0 ? 1 : stages, 9);
  if (random.between(0, 2) == 0)
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) options.rank_slowdown.push_back(random.between(1, 3));
  return options;
}

void join_some(Random& random, Schedule& plan) {
  for (auto& row : plan.ranks)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      if (random.between(0, 1) == 0) continue;
      if (is_message(row[i].kind) != is_message(row[i + 1].kind)) continue;
      row[i].joined = true;
      if (!Moves(plan, {}).ended()) row[i].joined = false;
    }
}

Schedule drawn_plan(Random& random, const std::string& kind) {
  Schedule plan = random_plan(random, kind == "messages" || kind == "rendezvous");
  if (kind == "forwards")
    for (auto& row : plan.ranks) std::erase_if(row, [](const Action& one) { return one.kind != ActionKind::forward; });
  join_some(random, plan);
  return plan;
}

// The first number that is another than it should be.
class Differences {
 public:
  template <class... Values>
  void expect(double found, double right, fmt::format_string<Values...> words, Values&&... values) {
    if (found == right || !problem.empty()) return;
    problem = fmt::format(words, std::forward<Values>(values)...) + fmt::format(": {} instead of {}", found, right);
  }
  std::string problem;
};

void expect_idle(Differences& found_other, const std::vector<IdleTime>& idle, const Moves& moves) {
  for (std::size_t rank = 0; rank < idle.size(); ++rank) {
    const IdleTime& one = idle[rank];
    const double sum = std::round(one.sum() * 1e6) / 1e6;
    found_other.expect(sum, moves.makespan - moves.rank(rank).work, "SCHED-064: idle time of rank {} that has a cause",
                       rank);
    for (const double part : {one.transfer, one.straggler, one.imbalance, one.fill, one.drain, one.dependency})
      found_other.expect(std::min(part, 0.0), 0, "SCHED-064: a part of rank {}'s idle time", rank);
    found_other.expect(one.overhead, 0, "SCHED-064: rank {}'s overhead in a simulation", rank);
  }
}

void expect_times(Differences& found_other, const Schedule& plan, const Timeline& found, const Moves& right) {
  found_other.expect(found.makespan, right.makespan, "SCHED-132: makespan");
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto periods = found.of_rank(static_cast<int>(rank));
    for (std::size_t i = 0; i < plan.ranks[rank].size(); ++i) {
      const std::string name = to_string(plan.ranks[rank][i]);
      found_other.expect(periods[i].start, right.periods[rank][i].start, "SCHED-132: start of {}", name);
      found_other.expect(periods[i].end, right.periods[rank][i].end, "SCHED-132: end of {}", name);
    }
    const Moves::Rank& own = right.rank(rank);
    const schedules::RankTimes& got = found.ranks.at(rank);
    found_other.expect(got.work, own.work, "SCHED-132: work of rank {}", rank);
    found_other.expect(got.first_start, std::max(own.first_start, 0.0), "SCHED-132: first start of rank {}", rank);
    found_other.expect(got.last_end, own.last_end, "SCHED-132: last end of rank {}", rank);
    found_other.expect(got.barrier_bubble, right.makespan - own.work, "SCHED-047: barrier bubble of rank {}", rank);
    found_other.expect(got.peak_activations, own.peak, "SCHED-048: activations of rank {}", rank);
    found_other.expect(got.peak_activation_bytes, own.peak_bytes, "SCHED-132: bytes of rank {}", rank);
  }
}

void moves(Context& context) {
  const std::string& kind = context.parameters().text("plans");
  Random random(context.seed());
  Differences found_other;
  for (int trial = 0; trial < 200 && found_other.problem.empty(); ++trial) {
    const Schedule plan = drawn_plan(random, kind);
    SimulationOptions options = drawn_options(random, plan);
    options.rendezvous = kind == "rendezvous" || kind == "computations";  // which matters to messages alone
    options.forward_only = kind == "forwards";
    const Moves right(plan, options);
    ASSERT_TRUE(right.ended()) << "the question is none";
    const Timeline found = schedules::simulate(plan, options);
    expect_times(found_other, plan, found, right);
    expect_idle(found_other, schedules::attribute_idle_time(plan, options, found), right);
    const auto slots = schedules::activation_slots(plan, options.forward_only);
    const std::vector<int> peaks = schedules::check(plan, {.forward_only = options.forward_only}).peak_activations;
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
      found_other.expect(peaks.at(rank), right.rank(rank).peak, "SCHED-045: activations of rank {}", rank);
    for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank)
      found_other.expect(slots.counts.at(rank), right.rank(rank).peak, "SCHED-123: slots of rank {}", rank);
    if (!found_other.problem.empty()) ADD_FAILURE() << schedules::to_csv(plan) << found_other.problem;
  }
}

// ---- the same, asked of an adapter ----

constexpr const char* kSimulateMoves = "schedules.simulate";

json numbers_asked(const std::vector<double>& numbers) {
  return numbers.size() == 1 ? json(numbers.front()) : json(numbers);
}
json question_of_moves(const Schedule& plan, const SimulationOptions& options) {
  json durations;
  for (const auto& [name, kind] : {std::pair("F", ActionKind::forward),
                                   {"B", ActionKind::backward},
                                   {"I", ActionKind::input_gradient},
                                   {"W", ActionKind::weight_gradient}}) {
    std::vector<double> seconds;
    for (const schedules::StageTimes& stage : options.stages) seconds.push_back(stage.of(kind));
    durations[name] = numbers_asked(seconds);
  }
  json args{{"ranks", rows_of(plan)},
            {"stage_to_rank", plan.stage_to_rank},
            {"num_stages", plan.stages},
            {"durations", std::move(durations)},
            {"latency", options.links.latency},
            {"bandwidth", options.links.bandwidth},
            {"message_bytes", numbers_asked(options.message_bytes)},
            {"activation_bytes", numbers_asked(options.activation_bytes)},
            {"overlap", options.overlap},
            {"rendezvous", options.rendezvous},
            {"forward_only", options.forward_only}};
  if (!options.rank_slowdown.empty()) args["straggling"] = options.rank_slowdown;
  return args;
}

json answer_of_moves(const Schedule& plan, const Moves& right) {
  json starts = json::array(), peaks = json::array(), bytes = json::array();
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    json& row = starts.emplace_back(json::array());
    for (const Period& period : right.periods[rank]) row.push_back(period.start);
    peaks.push_back(right.rank(rank).peak);
    bytes.push_back(right.rank(rank).peak_bytes);
  }
  return {{"makespan", right.makespan},
          {"start_times", std::move(starts)},
          {"peak_activations", std::move(peaks)},
          {"peak_activation_bytes", std::move(bytes)}};
}

void moves_asked(Context& context) {
  const std::string& kind = context.parameters().text("plans");
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    const Schedule plan = drawn_plan(random, kind);
    SimulationOptions options = drawn_options(random, plan);
    options.rendezvous = kind == "rendezvous";
    options.forward_only = kind == "forwards";
    const Moves right(plan, options);
    ASSERT_TRUE(right.ended()) << "the question is none";
    const json args = question_of_moves(plan, options);
    const std::string problem = problem_of(context.adapter(), kSimulateMoves, args, [&](const json& result) {
      return first_difference(answer_of_moves(plan, right), result);
    });
    if (!problem.empty()) return report_words(args.dump().substr(0, 500) + ": " + problem);
  }
}

}  // namespace

void add_move_checks(suite::Suite& suite) {
  suite.add({.id = "schedules.simulator.moves_asked",
             .verifies = {"SCHED-132@2c9d"},
             .door = suite::Door::adapter,
             .axes = {{"plans", {"computations", "messages", "rendezvous", "forwards"}}},
             .operations = {kSimulateMoves},
             .options = options_of({{kSimulateMoves, "fields", {"rendezvous", "overlap", "activation_bytes"}}}),
             .body = moves_asked});
  suite.add({.id = "schedules.simulator.moves",
             .verifies = {"SCHED-132@2c9d", "SCHED-047@f5a4", "SCHED-048@51bb", "SCHED-064@54c1", "SCHED-123@3c42",
                          "SCHED-045@10ef"},
             .axes = {{"plans", {"computations", "messages", "rendezvous", "forwards"}}, suite::worlds({1})},
             .body = moves});
}

}  // namespace plumbline::conformance
