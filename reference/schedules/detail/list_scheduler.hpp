// reference/schedules/detail/list_scheduler.hpp: writes a split schedule down while it lets the pipeline run. Not for
// others.
//
// Model   Forwards and input gradients are begun by a policy, as soon as they can be; a weight gradient fills a time at
//         which its rank has nothing else to do, or makes room where the activations are at their limit. The weight
//         gradients of a rank are taken in the order of their input gradients. Messages cost what simulate() says.
//         A rank with two stages keeps one activation free for the stage nearer to the output, so that a policy
//         without an order cannot lock itself out.
// Cost    O(actions x log ranks).
// Source  Qi et al., arXiv:2401.10241 (the heuristic: forwards ahead, weight gradients into gaps).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "reference/schedules/generate.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules::detail {

[[nodiscard]] inline std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// What is begun where both can be.
enum class Preference { backward, forward, in_turn };

struct ListPolicy {
  Preference preference = Preference::backward;
  /// A rank does not begin a weight gradient while a message is under way that comes within this part of its time.
  double patience = 0;
  /// The most activations at once, by rank.
  std::vector<int> limits;
  /// Each rank's F and I in this order; empty: in any, a stage's by micro-batch.
  std::vector<std::vector<Action>> order;
};

/// Nothing where the order needs more activations than the limits. `times` has what simulate() takes, in the right
/// lengths; its overlap, jitter and sizes of activations are not looked at.
[[nodiscard]] std::optional<Schedule> list_schedule(const Shape& shape, Placement placement,
                                                    const SimulationOptions& times, const ListPolicy& policy);

/// Seconds from the end of a stage's computation until its result is at the neighbour after `boundary`, on another
/// rank, through a link that is free.
[[nodiscard]] double hop_seconds(const SimulationOptions& times, int boundary);
/// Seconds of a computation of a stage on a rank.
[[nodiscard]] double seconds_of(const SimulationOptions& times, ActionKind kind, int stage, int rank);

}  // namespace plumbline::schedules::detail
