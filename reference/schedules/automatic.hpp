// reference/schedules/automatic.hpp: a schedule for given times and a given memory.
//
// Model   Backwards in halves, one stage on each rank or two in a V. Tried are: the fixed families; their orders of F
//         and I, and those of blocks that repeat (building_block.hpp), with the weight gradients where these times leave
//         gaps; and orders that come about while the pipeline runs, by which of forward and backward goes first, how far
//         ranks run ahead, and whether a weight gradient may keep a message waiting. Each is simulated; of those that
//         keep to the limits, the shortest is taken, then the one with the lowest peak. Nothing is random.
// Holds   The result is valid (check()), keeps to the limits, and is not longer than any fixed family with the same
//         stages on the same ranks that keeps to them. It need not be the shortest there is: the lower bound says how far
//         it can be from that.
// Cost    About 100 times that of simulating.
// Source  Qi et al., arXiv:2401.10241 (heuristics, each simulated), 2405.15362 (blocks).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reference/schedules/generate.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {

struct AutomaticOptions {
  SimulationOptions costs{};
  /// The most activations at once, each of one stage and micro-batch: of each rank, or one number for all; empty: any
  /// number.
  std::vector<int> activation_limits{};
};

struct AutomaticSchedule {
  Schedule schedule;
  std::string made_by;  // "zb-h1", "zb-h1 with other weight gradients", "backward first, …"
  double makespan = 0;
  double lower_bound = 0;  // of the makespan of any schedule with these stages, ranks, times and limits
};

/// Throws InvalidArgument for other than 1 or 2 stages a rank, more than 2^17 computations of a kind, what generate() and
/// simulate() refuse, and for limits of another length than the ranks' or below what any schedule needs: 1 with one
/// stage a rank, 2 with two.
[[nodiscard]] AutomaticSchedule automatic(const Shape& shape, const AutomaticOptions& options = {});

/// What no schedule that trains these stages on these ranks can undercut: the work of each rank behind the first
/// forward that can reach it, with what has to follow its last input gradient; the way of one micro-batch there and
/// back; and, within a limit, the time that activations cannot but live. `limits`: of each rank, or empty.
/// Throws what simulate() throws for `costs`.
[[nodiscard]] double makespan_lower_bound(std::span<const int> stage_to_rank, int micro_batches,
                                          const SimulationOptions& costs, std::span<const int> limits);

}  // namespace plumbline::schedules
