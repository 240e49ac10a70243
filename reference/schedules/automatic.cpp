#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/building_block.hpp"
#include "reference/schedules/detail/generate_rows.hpp"
#include "reference/schedules/detail/list_scheduler.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

using detail::as_size;
using detail::ListPolicy;
using detail::Preference;

constexpr std::int64_t kMostSearched = std::int64_t{1} << 17;
constexpr std::array kPatience{0.0, 0.5, 1.0};

void require_limits(const Shape& shape, const std::vector<int>& limits) {
  const auto ranks = as_size(shape.ranks);
  if (limits.size() > 1 && limits.size() != ranks)
    throw InvalidArgument(
        fmt::format("auto: there is a memory limit for all ranks or one for each of {}, got {}", ranks, limits.size()));
  // Of two stages, the one nearer to the output must be able to begin while the other keeps an activation.
  const auto low = std::ranges::find_if(limits, [&](int limit) { return limit < shape.stages_per_rank; });
  if (low != limits.end())
    throw InvalidArgument(
        fmt::format("auto: a rank with {} stage{} needs a memory limit of at least {} activation{}, got {}{}",
                    shape.stages_per_rank, shape.stages_per_rank == 1 ? "" : "s", shape.stages_per_rank,
                    shape.stages_per_rank == 1 ? "" : "s", *low,
                    limits.size() > 1 ? fmt::format(" on rank {}", low - limits.begin()) : ""));
}

void require_automatic(const Shape& shape, const AutomaticOptions& options) {
  detail::require_shape(shape);
  if (shape.stages_per_rank > 2)
    throw InvalidArgument(fmt::format("auto: a rank has 1 or 2 stages, got {}", shape.stages_per_rank));
  if (std::int64_t{shape.ranks} * shape.stages_per_rank * shape.micro_batches > kMostSearched)
    throw InvalidArgument(
        fmt::format("auto: {} ranks of {} stages and {} micro-batches make more than {} computations "
                    "of a kind",
                    shape.ranks, shape.stages_per_rank, shape.micro_batches, kMostSearched));
  require_limits(shape, options.activation_limits);
}

// By rank; without a limit, as many as there can be.
std::vector<int> limits_of(const Shape& shape, const std::vector<int>& given) {
  const int all = shape.stages_per_rank * shape.micro_batches;
  std::vector<int> limits(as_size(shape.ranks), all);
  for (std::size_t rank = 0; rank < limits.size() && !given.empty(); ++rank)
    limits[rank] = std::min(all, given[given.size() == 1 ? 0 : rank]);
  return limits;
}

// The F and I of a schedule, whose whole backwards count as I.
std::vector<std::vector<Action>> order_in(const Schedule& schedule) {
  std::vector<std::vector<Action>> order(schedule.ranks.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank)
    for (Action action : schedule.ranks[rank]) {
      if (action.kind == ActionKind::backward) action.kind = ActionKind::input_gradient;
      if (action.kind == ActionKind::forward || action.kind == ActionKind::input_gradient)
        order[rank].push_back(action);
    }
  return order;
}

class Search {
 public:
  Search(const Shape& shape, const AutomaticOptions& options)
      : shape_(shape),
        options_(options),
        placement_(shape.stages_per_rank == 1 ? Placement::loop : Placement::v),
        limits_(limits_of(shape, options.activation_limits)),
        places_(stage_to_rank(shape.ranks, shape.ranks * shape.stages_per_rank, placement_)) {}

  AutomaticSchedule run() {
    // Also what refuses costs that are none.
    best_.lower_bound = makespan_lower_bound(places_, shape_.micro_batches, options_.costs, limits_);
    try_schedule_kinds();
    if (placement_ == Placement::v) try_blocks();
    try_running();
    return std::move(best_);
  }

 private:
  void try_schedule_kinds() {
    for (const ScheduleKind schedule_kind : schedule_kinds()) {
      if (name_in_specifications(schedule_kind).empty()) continue;  // it trains nothing, or is this one
      Schedule schedule;
      try {
        schedule = without_idle(generate(schedule_kind, shape_));
      } catch (const InvalidArgument&) {
        continue;  // the family does not have this shape
      }
      if (schedule.stage_to_rank != places_) continue;
      const std::string name(name_of(schedule_kind));
      try_order(order_in(schedule), name + " with other weight gradients");
      consider(std::move(schedule), name);
    }
  }

  // Hops of up to four steps: from the fewest activations to those of a zero bubble.
  void try_blocks() {
    for (int there = 1; there <= 4; ++there)
      for (int back = 1; back <= 4; ++back)
        if (auto block = detail::building_block_order(
                shape_, {.forward_there = there, .forward_back = back, .backward_there = there, .backward_back = back}))
          try_order(std::move(block->order), fmt::format("a block of {} and {} steps a rank", there, back));
  }

  void try_order(std::vector<std::vector<Action>> order, const std::string& name) {
    ListPolicy policy{.limits = limits_, .order = std::move(order)};
    for (const double patience : kPatience) {
      policy.patience = patience;
      try_policy(policy, name);
    }
  }

  // How far ranks run ahead: as far as memory lets them, or by so many micro-batches for each rank that follows.
  void try_running() {
    constexpr std::array kNames{"backward first", "forward first", "forward and backward in turn"};
    for (const Preference preference : {Preference::backward, Preference::forward, Preference::in_turn})
      for (const double ahead : {0.0, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0})
        for (const double patience : kPatience) {
          const std::string far = ahead == 0 ? "as far ahead as memory lets" : fmt::format("{} a rank ahead", ahead);
          try_policy({.preference = preference, .patience = patience, .limits = limits_ahead(ahead)},
                     fmt::format("{}, {}", kNames[static_cast<std::size_t>(preference)], far));
        }
  }

  [[nodiscard]] std::vector<int> limits_ahead(double ahead) const {
    std::vector<int> limits = limits_;
    for (int rank = 0; rank < shape_.ranks && ahead > 0; ++rank) {
      // In a V a rank keeps as much whichever it is; in a row, one more for each rank that follows.
      const int following = placement_ == Placement::v ? shape_.ranks : shape_.ranks - rank;
      const int wanted =
          std::max(shape_.stages_per_rank, static_cast<int>(std::ceil(ahead * following * shape_.stages_per_rank)));
      limits[as_size(rank)] = std::min(limits[as_size(rank)], wanted);
    }
    return limits;
  }

  void try_policy(const ListPolicy& policy, const std::string& name) {
    std::optional<Schedule> schedule = detail::list_schedule(shape_, placement_, options_.costs, policy);
    if (!schedule) return;
    // Where a whole backward is faster than its halves, halves next to each other are one.
    const bool whole_is_faster = std::ranges::any_of(options_.costs.stages, [](const StageTimes& times) {
      return times.of(ActionKind::backward) < times.input_gradient + times.weight_gradient;
    });
    if (whole_is_faster) consider(merge_backward_halves(*schedule), name);
    consider(std::move(*schedule), name);
  }

  void consider(Schedule schedule, const std::string& name) {
    const Timeline timeline = simulate(schedule, options_.costs);
    int peak = 0;
    for (std::size_t rank = 0; rank < limits_.size(); ++rank) {
      const int own = timeline.ranks[rank].peak_activations;
      if (own > limits_[rank]) return;
      peak = std::max(peak, own);
    }
    if (std::pair{timeline.makespan, peak} >= least_) return;
    least_ = {timeline.makespan, peak};
    best_.schedule = std::move(schedule);
    best_.made_by = name;
    best_.makespan = timeline.makespan;
  }

  const Shape& shape_;
  const AutomaticOptions& options_;
  Placement placement_;
  std::vector<int> limits_;
  std::vector<int> places_;  // of stages
  AutomaticSchedule best_;
  std::pair<double, int> least_{std::numeric_limits<double>::infinity(), 0};  // makespan and peak
};

// The shortest that a stage's computations take, with whatever else they run at once.
struct Shortest {
  double forward = 0, gradient = 0, backward = 0;  // gradient: until the input's is there; backward: both halves
};

class Bound {
 public:
  Bound(std::span<const int> places, int micro_batches, const SimulationOptions& costs)
      : places_(places), micro_batches_(micro_batches), costs_(costs) {
    for (int stage = 0; stage < static_cast<int>(places.size()); ++stage) stages_.push_back(shortest(stage));
    // When micro-batch 0 can be at each stage, and how long it takes from there to the output and back.
    reached_.assign(stages_.size(), 0);
    round_.assign(stages_.size(), 0);
    home_.assign(stages_.size(), 0);
    for (std::size_t stage = 1; stage < stages_.size(); ++stage) {
      reached_[stage] = reached_[stage - 1] + stages_[stage - 1].forward + hop(stage);
      home_[stage] = home_[stage - 1] + hop(stage) + stages_[stage - 1].gradient;
    }
    for (std::size_t stage = stages_.size() - 1; stage > 0; --stage)
      round_[stage - 1] = round_[stage] + stages_[stage].forward + stages_[stage].gradient + 2 * hop(stage);
    rest_ = stages_.front().backward - stages_.front().gradient;
  }

  // The limit is infinite where there is none.
  [[nodiscard]] double of_rank(int rank, double limit) const {
    double reached = std::numeric_limits<double>::infinity(), home = reached;
    double work = 0, gradients = 0, lives = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (places_[stage] != rank) continue;
      const Shortest& own = stages_[stage];
      reached = std::min(reached, reached_[stage]);
      home = std::min(home, home_[stage]);
      work += own.forward + own.backward;
      gradients += own.forward + own.gradient;
      lives += own.forward + round_[stage] + own.backward;
    }
    if (work == 0) return 0;
    const double m = micro_batches_;
    return reached + std::max({m * work, m * gradients + home + rest_, m * lives / limit});
  }
  [[nodiscard]] double of_a_micro_batch() const {
    return stages_.front().forward + round_.front() + stages_.front().backward;
  }

 private:
  [[nodiscard]] Shortest shortest(int stage) const {
    const double overlap = std::min(1.0, costs_.overlap);
    const auto seconds = [&](ActionKind kind) {
      return overlap * detail::seconds_of(costs_, kind, stage, places_[as_size(stage)]);
    };
    const double input = seconds(ActionKind::input_gradient), whole = seconds(ActionKind::backward);
    return {.forward = seconds(ActionKind::forward),
            .gradient = std::min(input, whole),
            .backward = std::min(input + seconds(ActionKind::weight_gradient), whole)};
  }
  // From the stage before, or to it.
  [[nodiscard]] double hop(std::size_t stage) const {
    return places_[stage] == places_[stage - 1] ? 0 : detail::hop_seconds(costs_, static_cast<int>(stage) - 1);
  }

  std::span<const int> places_;
  int micro_batches_;
  const SimulationOptions& costs_;
  std::vector<Shortest> stages_;
  std::vector<double> reached_;  // the earliest start of a stage
  std::vector<double> round_;    // from the end of its forward to its gradient
  std::vector<double> home_;     // from the end of its input gradient to that of stage 0
  double rest_ = 0;              // what stage 0 has left to do then
};

}  // namespace

AutomaticSchedule automatic(const Shape& shape, const AutomaticOptions& options) {
  require_automatic(shape, options);
  return Search(shape, options).run();
}

double makespan_lower_bound(std::span<const int> stage_to_rank, int micro_batches, const SimulationOptions& costs,
                            std::span<const int> limits) {
  const int ranks = stage_to_rank.empty() ? 0 : std::ranges::max(stage_to_rank) + 1;
  // A schedule that does nothing: for what simulate() says of the costs.
  (void)simulate({.stages = static_cast<int>(stage_to_rank.size()),
                  .micro_batches = micro_batches,
                  .stage_to_rank = {stage_to_rank.begin(), stage_to_rank.end()},
                  .ranks = std::vector<std::vector<Action>>(as_size(std::max(ranks, static_cast<int>(limits.size()))))},
                 costs);
  const Bound bound(stage_to_rank, micro_batches, costs);
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  double longest = bound.of_a_micro_batch();
  for (int rank = 0; rank < ranks; ++rank)
    longest = std::max(longest, bound.of_rank(rank, limits.empty() ? kNoLimit : limits[as_size(rank)]));
  return longest;
}

}  // namespace plumbline::schedules
