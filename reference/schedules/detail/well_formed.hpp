// reference/schedules/detail/well_formed.hpp: whether the numbers of a schedule fit each other, whatever its actions.
// Not for others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules::detail {

/// More pairs of a stage and a micro-batch than any table is made for.
inline constexpr std::int64_t kMostPairs = std::int64_t{1} << 27;

enum class Flaw {
  none,
  sizes,   // fewer than one stage or micro-batch
  stages,  // more than kMostStages
  places,  // stage_to_rank has not one entry a stage
  rank     // a stage is on a rank that there is not: misplaced_stage()
};

/// The first stage whose rank there is not; as many as there are entries, where there is none.
[[nodiscard]] inline std::size_t misplaced_stage(const Schedule& schedule) {
  const auto ranks = static_cast<int>(schedule.ranks.size());
  const auto& places = schedule.stage_to_rank;
  const auto wrong = std::ranges::find_if(places, [&](int rank) { return rank < 0 || rank >= ranks; });
  return static_cast<std::size_t>(wrong - places.begin());
}

[[nodiscard]] inline Flaw flaw_of(const Schedule& schedule) {
  if (schedule.stages < 1 || schedule.micro_batches < 1) return Flaw::sizes;
  if (schedule.stages > kMostStages) return Flaw::stages;
  if (schedule.stage_to_rank.size() != static_cast<std::size_t>(schedule.stages)) return Flaw::places;
  return misplaced_stage(schedule) < schedule.stage_to_rank.size() ? Flaw::rank : Flaw::none;
}

[[nodiscard]] inline bool has_too_many_pairs(const Schedule& schedule) {
  return std::int64_t{schedule.stages} * schedule.micro_batches > kMostPairs;
}

}  // namespace plumbline::schedules::detail
