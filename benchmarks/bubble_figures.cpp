#include "benchmarks/bubble_figures.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"

namespace plumbline::bench {

using schedules::Action;
using schedules::ActionKind;
using schedules::Period;
using schedules::Schedule;
using schedules::StageTimes;
using schedules::Timeline;

schedules::AroundComputation ComputationClock::around() {
  return [this](const Action& action, const std::function<void()>& compute) {
    const auto now = [] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
    };
    const double start = now();
    compute();
    if (schedules::is_compute(action.kind)) periods_.push_back({start, now()});
  };
}

std::size_t computations_of(const Schedule& schedule, int rank) {
  return static_cast<std::size_t>(
      std::ranges::count_if(schedule.ranks[static_cast<std::size_t>(rank)],
                            [](const Action& action) { return schedules::is_compute(action.kind); }));
}

Timeline measured_timeline(const Schedule& schedule, const Computations& computations) {
  if (computations.size() != schedule.ranks.size())
    throw InvalidArgument(
        fmt::format("measured timeline: {} ranks for a schedule of {}", computations.size(), schedule.ranks.size()));
  double begin = std::numeric_limits<double>::infinity();
  for (const auto& rank : computations)
    for (const Period& period : rank) begin = std::min(begin, period.start);
  std::vector<std::vector<Period>> periods;
  for (std::size_t rank = 0; rank < computations.size(); ++rank) {
    const std::size_t expected = computations_of(schedule, static_cast<int>(rank));
    if (computations[rank].size() != expected)
      throw InvalidArgument(fmt::format("measured timeline: rank {} has {} computations, the schedule {}", rank,
                                        computations[rank].size(), expected));
    auto& row = periods.emplace_back();
    auto next = computations[rank].begin();
    for (const Action& action : schedule.ranks[rank])
      row.push_back(schedules::is_compute(action.kind) ? Period{next->start - begin, (next++)->end - begin} : Period{});
  }
  return schedules::timeline_of(schedule, periods);
}

std::vector<StageTimes> mean_times(const Schedule& schedule, const Computations& run) {
  struct Sum {
    double seconds = 0;
    int count = 0;
    [[nodiscard]] double mean() const { return count == 0 ? 0 : seconds / count; }
  };
  std::vector<std::array<Sum, 5>> sums(static_cast<std::size_t>(schedule.stages));  // by kind
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    auto period = run[rank].begin();
    for (const Action& action : schedule.ranks[rank]) {
      if (!schedules::is_compute(action.kind)) continue;
      Sum& sum = sums[static_cast<std::size_t>(action.stage)][static_cast<std::size_t>(action.kind)];
      sum.seconds += period->end - period->start;
      ++sum.count;
      ++period;
    }
  }
  std::vector<StageTimes> times;
  for (const auto& stage : sums) {
    const auto of = [&](ActionKind kind) { return stage[static_cast<std::size_t>(kind)]; };
    times.push_back({.forward = of(ActionKind::forward).mean(),
                     .input_gradient = of(ActionKind::input_gradient).mean(),
                     .weight_gradient = of(ActionKind::weight_gradient).mean()});
    if (of(ActionKind::backward).count > 0) times.back().backward = of(ActionKind::backward).mean();
  }
  return times;
}

BubbleFigures figures_of(const Schedule& schedule, const schedules::SimulationOptions& options,
                         const Timeline& timeline) {
  return {.makespan = timeline.makespan,
          .ranks = timeline.ranks,
          .idle = schedules::attribute_measured_idle_time(schedule, options, timeline)};
}

nlohmann::json to_json_value(const BubbleFigures& figures) {
  nlohmann::json ranks = nlohmann::json::array();
  for (std::size_t rank = 0; rank < figures.ranks.size(); ++rank) {
    nlohmann::json idle = nlohmann::json::object();
    for (const schedules::IdleCause& cause : schedules::kIdleCauses)
      idle[cause.name] = figures.idle[rank].*cause.seconds;
    ranks.push_back({{"work", figures.ranks[rank].work},
                     {"barrier_bubble", figures.ranks[rank].barrier_bubble},
                     {"span_bubble", figures.ranks[rank].span_bubble},
                     {"peak_activations", figures.ranks[rank].peak_activations},
                     {"idle", std::move(idle)}});
  }
  return {{"makespan", figures.makespan}, {"ranks", std::move(ranks)}};
}

}  // namespace plumbline::bench
