#include "reference/schedules/detail/list_scheduler.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <queue>
#include <utility>

#include "reference/schedules/detail/generate_rows.hpp"
#include "reference/schedules/detail/simulation_options.hpp"

namespace plumbline::schedules::detail {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double occupied_seconds(const SimulationOptions& times, int boundary) {
  const std::vector<double>& bytes = times.message_bytes;
  return bytes[bytes.size() == 1 ? 0 : as_size(boundary)] / times.links.bandwidth;
}

// One run of the pipeline. Ranks wake when they are free and when something arrives, in the order of time.
class Run {
 public:
  Run(const Shape& shape, Placement placement, const SimulationOptions& times, const ListPolicy& policy)
      : times_(times),
        policy_(policy),
        schedule_(empty_schedule(shape, placement)),
        ranks_(as_size(shape.ranks)),
        stages_(as_size(schedule_.stages)),
        inputs_(as_size(schedule_.stages) * as_size(shape.micro_batches), kUnknown),
        gradients_(inputs_.size(), kUnknown) {
    for (int stage = 0; stage < schedule_.stages; ++stage) rank_of(stage).stages.push_back(stage);
    for (int i = 0; i < shape.micro_batches; ++i) at(inputs_, 0, i) = 0;
  }

  std::optional<Schedule> to_the_end() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) wake(0, rank);
    while (!wakes_.empty()) {
      const auto [now, rank] = wakes_.top();
      wakes_.pop();
      if (ranks_[as_size(rank)].free_at <= now) go_on(rank, now);
    }
    const std::size_t all = 3 * inputs_.size();
    if (begun_ < all) return std::nullopt;
    return std::move(schedule_);
  }

 private:
  struct Rank {
    std::vector<int> stages;
    double free_at = 0;
    double link_free_at[2] = {0, 0};  // to the rank before, and to the next one
    int live = 0;                     // activations
    std::size_t ordered = 0;          // how much of the policy's order is begun
    ActionKind last = ActionKind::input_gradient;
    std::deque<Action> waiting;  // weight gradients
  };
  struct Stage {
    int forwards = 0, backwards = 0, live = 0;
  };
  struct Next {
    Action action;
    double arrival = kUnknown;
  };

  Rank& rank_of(int stage) { return ranks_[as_size(schedule_.stage_to_rank[as_size(stage)])]; }
  double& at(std::vector<double>& arrivals, int stage, int micro_batch) {
    return arrivals[as_size(stage) * as_size(schedule_.micro_batches) + as_size(micro_batch)];
  }
  void wake(double now, int rank) { wakes_.emplace(now, rank); }

  void go_on(int rank, double now) {
    Rank& own = ranks_[as_size(rank)];
    double soonest = kUnknown;
    if (const std::optional<Action> action = choose(rank, now, soonest)) return begin(rank, now, *action);
    if (own.waiting.empty()) return;
    const Action& weight = own.waiting.front();
    const double patience = policy_.patience * seconds_of(times_, weight.kind, weight.stage, rank);
    // What comes soon enough wakes the rank; a message whose sender has not begun to make it is not waited for.
    if (soonest > now && soonest < now + patience) return;
    begin(rank, now, weight);
  }

  // The F or I to begin now; else when the soonest arrives, as far as it is known, of those that memory has room for.
  std::optional<Action> choose(int rank, double now, double& soonest) {
    std::optional<Action> chosen;
    for (const Next& next : candidates(rank)) {
      if (next.action.kind == ActionKind::forward && !has_room(rank, next.action.stage)) continue;
      soonest = std::min(soonest, next.arrival);
      if (next.arrival <= now && !chosen) chosen = next.action;
    }
    return chosen;
  }

  bool has_room(int rank, int stage) {
    const Rank& own = ranks_[as_size(rank)];
    const int limit = policy_.limits[as_size(rank)];
    if (own.live >= limit) return false;
    const bool keeps_one_free = policy_.order.empty() && own.stages.size() > 1 && stage == own.stages.front();
    return !keeps_one_free || stages_[as_size(stage)].live + 1 < limit;
  }

  // The preferred ones first.
  std::vector<Next> candidates(int rank) {
    Rank& own = ranks_[as_size(rank)];
    std::vector<Next> nexts;
    if (!policy_.order.empty()) {
      const std::vector<Action>& order = policy_.order[as_size(rank)];
      if (own.ordered < order.size()) nexts.push_back({order[own.ordered], arrival_of(order[own.ordered])});
      return nexts;
    }
    const bool forwards_first = policy_.preference == Preference::forward ||
                                (policy_.preference == Preference::in_turn && own.last == ActionKind::input_gradient);
    for (const bool forwards : {forwards_first, !forwards_first})
      for (auto stage = own.stages.rbegin(); stage != own.stages.rend(); ++stage) {
        const Stage& of = stages_[as_size(*stage)];
        if (forwards ? of.forwards == schedule_.micro_batches : of.backwards == of.forwards) continue;
        const Action action{.kind = forwards ? ActionKind::forward : ActionKind::input_gradient,
                            .stage = *stage,
                            .micro_batch = forwards ? of.forwards : of.backwards};
        nexts.push_back({action, arrival_of(action)});
      }
    return nexts;
  }

  double arrival_of(const Action& action) {
    return at(action.kind == ActionKind::forward ? inputs_ : gradients_, action.stage, action.micro_batch);
  }

  void begin(int rank, double now, Action action) {
    Rank& own = ranks_[as_size(rank)];
    Stage& stage = stages_[as_size(action.stage)];
    action.joined = false;
    schedule_.ranks[as_size(rank)].push_back(action);
    ++begun_;
    own.free_at = now + seconds_of(times_, action.kind, action.stage, rank);
    if (action.kind == ActionKind::weight_gradient) {
      own.waiting.pop_front();
      --own.live;
      --stage.live;
    } else {
      own.last = action.kind;
      ++own.ordered;
      action.kind == ActionKind::forward ? after_forward(own, stage, action) : after_backward(own, stage, action);
    }
    wake(own.free_at, rank);
  }

  void after_forward(Rank& own, Stage& stage, const Action& action) {
    ++own.live;
    ++stage.live;
    ++stage.forwards;
    if (action.stage + 1 == schedule_.stages)
      at(gradients_, action.stage, action.micro_batch) = own.free_at;
    else
      deliver(inputs_, action, action.stage + 1);
  }
  void after_backward(Rank& own, Stage& stage, const Action& action) {
    ++stage.backwards;
    own.waiting.push_back(
        {.kind = ActionKind::weight_gradient, .stage = action.stage, .micro_batch = action.micro_batch});
    if (action.stage > 0) deliver(gradients_, action, action.stage - 1);
  }

  // The result is there when it is computed, and, on another rank, its message has come.
  void deliver(std::vector<double>& arrivals, const Action& action, int to) {
    Rank& own = rank_of(action.stage);
    const int receiver = schedule_.stage_to_rank[as_size(to)];
    double arrival = own.free_at;
    if (const int sender = schedule_.stage_to_rank[as_size(action.stage)]; sender != receiver) {
      double& link = own.link_free_at[receiver > sender ? 1 : 0];
      link = std::max(link, own.free_at) + occupied_seconds(times_, std::min(action.stage, to));
      arrival = link + times_.links.latency;
    }
    at(arrivals, to, action.micro_batch) = arrival;
    wake(arrival, receiver);
  }

  const SimulationOptions& times_;
  const ListPolicy& policy_;
  Schedule schedule_;
  std::vector<Rank> ranks_;
  std::vector<Stage> stages_;
  std::vector<double> inputs_, gradients_;  // when they arrive, by stage and micro-batch
  std::size_t begun_ = 0;
  using Wake = std::pair<double, int>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wakes_;
};

}  // namespace

double hop_seconds(const SimulationOptions& times, int boundary) {
  return occupied_seconds(times, boundary) + times.links.latency;
}

double seconds_of(const SimulationOptions& times, ActionKind kind, int stage, int rank) {
  const double seconds = of_each(times.stages, stage).of(kind);
  return times.rank_slowdown.empty() ? seconds : seconds * times.rank_slowdown[as_size(rank)];
}

std::optional<Schedule> list_schedule(const Shape& shape, Placement placement, const SimulationOptions& times,
                                      const ListPolicy& policy) {
  return Run(shape, placement, times, policy).to_the_end();
}

}  // namespace plumbline::schedules::detail
