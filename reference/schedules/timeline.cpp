#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/simulation_options.hpp"
#include "reference/schedules/detail/timeline_parts.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace detail {

std::vector<std::size_t> offsets_of(const Schedule& schedule) {
  std::vector<std::size_t> offsets{0};
  offsets.reserve(schedule.ranks.size() + 1);
  for (const auto& actions : schedule.ranks) offsets.push_back(offsets.back() + actions.size());
  return offsets;
}

bool has_messages(const Schedule& schedule) {
  return std::ranges::any_of(
      schedule.ranks, [](const auto& actions) { return std::ranges::any_of(actions, is_message, &Action::kind); });
}

void measure_bubbles(Timeline& timeline) {
  for (const RankTimes& times : timeline.ranks) timeline.makespan = std::max(timeline.makespan, times.last_end);
  for (RankTimes& times : timeline.ranks) {
    times.barrier_bubble = timeline.makespan - times.work;
    times.span_bubble = times.last_end - times.first_start - times.work;
  }
}

}  // namespace detail

namespace {

RankTimes tally_of(std::span<const Action> actions, std::span<const Period> periods, const SimulationOptions& options) {
  detail::Tally tally;
  for (std::size_t i = 0; i < actions.size(); ++i)
    if (is_compute(actions[i].kind))
      tally.add(actions[i], periods[i], detail::of_each(options.activation_bytes, actions[i].stage),
                options.forward_only);
  return tally.times();
}

// Joined computations begin together and end together, however a rank took them.
std::vector<Period> joined_together(std::span<const Action> actions, std::span<const Period> periods) {
  std::vector<Period> together(periods.begin(), periods.end());
  for (std::size_t first = 0, next = 0; first < actions.size(); first = next) {
    for (next = first + 1; next < actions.size() && actions[next - 1].joined; ++next) {
    }
    if (is_compute(actions[first].kind))
      std::fill(together.begin() + static_cast<std::ptrdiff_t>(first),
                together.begin() + static_cast<std::ptrdiff_t>(next),
                Period{periods[first].start, periods[next - 1].end});
  }
  return together;
}

void refuse_unless_periods(std::span<const Period> periods, std::size_t rank) {
  for (std::size_t i = 0; i < periods.size(); ++i)
    if (const auto& [start, end] = periods[i]; !(start >= 0) || !(end >= start) || !std::isfinite(end))
      throw InvalidArgument(
          fmt::format("timeline_of: period {} of rank {} is from {} to {}; a period starts at 0 or "
                      "later, and ends when it starts or later",
                      i, rank, start, end));
}

void refuse_unless_places(const Schedule& schedule) {
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
    for (const Action& action : schedule.ranks[rank])
      if (action.stage < 0 || action.stage >= schedule.stages || action.micro_batch >= schedule.micro_batches)
        throw InvalidArgument(fmt::format("timeline_of: {} on rank {} is of none of the {} stages and {} micro-batches",
                                          to_string(action), rank, schedule.stages, schedule.micro_batches));
}

}  // namespace

std::span<const Period> Timeline::of_rank(int rank) const {
  const auto at = static_cast<std::size_t>(rank);
  return std::span(periods).subspan(offsets[at], offsets[at + 1] - offsets[at]);
}

double Timeline::barrier_bubble() const {
  const auto busiest = std::ranges::max_element(ranks, {}, &RankTimes::work);
  return busiest == ranks.end() ? 0 : busiest->barrier_bubble;
}

double Timeline::ratio_of_total(int rank) const {
  return makespan == 0 ? 0 : ranks[static_cast<std::size_t>(rank)].barrier_bubble / makespan;
}

double Timeline::ratio_of_work(int rank) const {
  const RankTimes& times = ranks[static_cast<std::size_t>(rank)];
  return times.work == 0 ? 0 : times.barrier_bubble / times.work;
}

Timeline timeline_of(const Schedule& schedule, const std::vector<std::vector<Period>>& periods,
                     const SimulationOptions& options) {
  detail::refuse_unless_schedule(schedule);
  detail::refuse_unless_options(schedule, options);
  refuse_unless_places(schedule);
  Timeline timeline;
  timeline.offsets = detail::offsets_of(schedule);
  if (periods.size() != schedule.ranks.size())
    throw InvalidArgument(
        fmt::format("timeline_of: periods of {} ranks for {}", periods.size(), schedule.ranks.size()));
  for (std::size_t rank = 0; rank < periods.size(); ++rank) {
    if (periods[rank].size() != schedule.ranks[rank].size())
      throw InvalidArgument(fmt::format("timeline_of: rank {} has {} periods for {} actions", rank,
                                        periods[rank].size(), schedule.ranks[rank].size()));
    refuse_unless_periods(periods[rank], rank);
    const std::vector<Period> together = joined_together(schedule.ranks[rank], periods[rank]);
    timeline.periods.insert(timeline.periods.end(), together.begin(), together.end());
    timeline.ranks.push_back(tally_of(schedule.ranks[rank], together, options));
  }
  detail::measure_bubbles(timeline);
  return timeline;
}

}  // namespace plumbline::schedules
