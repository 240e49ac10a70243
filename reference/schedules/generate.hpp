// reference/schedules/generate.hpp: the known schedules, each a pure function of the pipeline's shape.
//
// Model   A schedule of computations alone. p ranks, m micro-batches, v stages on each rank. Stages lie in a loop
//         (stage s on rank s mod p) but for the V shapes (zbv, v-half, v-min, dualpipev, auto of two: stage s and stage
//         2p-1-s on rank s). Cells are equal
//         to PyTorch's compute_only rows where PyTorch has the schedule, idle cells included; they carry no meaning for
//         the order, and without_idle() drops them.
// Cost    O(actions), a few ns each.
// Sources Huang et al., arXiv:1811.06965 (GPipe); Narayanan et al., arXiv:2104.04473 (1F1B, interleaved); Lamy-Poirier,
//         arXiv:2211.05953 (breadth first); Qi et al., arXiv:2401.10241 (zero bubble), 2405.15362 (V);
//         DeepSeek-AI, arXiv:2412.19437 (DualPipe); torch.distributed.pipelining.schedules for the cells.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "reference/schedules/names.hpp"
#include "reference/schedules/schedule.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {

/// Of a pipeline.
struct Shape {
  int ranks = 1;
  int micro_batches = 1;
  int stages_per_rank = 1;
};

/// Throws InvalidArgument, with the rule, for a shape that the family does not have, for numbers below 1, and for more
/// than 2^26 computations of a kind.
[[nodiscard]] Schedule generate(ScheduleKind schedule_kind, const Shape& shape);
/// As PyTorch: rejects also 1F1B of fewer micro-batches than ranks, which only its own order of messages
/// forbids. Throws Unsupported for what PyTorch does not have.
[[nodiscard]] Schedule generate_as_torch(ScheduleKind schedule_kind, const Shape& shape);

/// Interleaved 1F1B with groups of `group` micro-batches, which go through all chunks, where the last group may be
/// smaller. Throws InvalidArgument unless p <= group <= m and the last group is full or has at least p.
/// Source: Megatron-LM's microbatch_group_size_per_vp_stage.
[[nodiscard]] Schedule interleaved_in_groups(const Shape& shape, int group);
/// Interleaved 1F1B in groups of p, but with all forwards first when m = p. Throws InvalidArgument unless p divides m.
/// Source: ColossalAI's InterleavedPipelineSchedule at #94.
[[nodiscard]] Schedule interleaved_as_colossalai(const Shape& shape);

/// The same without idle cells.
[[nodiscard]] Schedule without_idle(Schedule schedule);

// ---- A schedule for given times and a given memory.
//
// Model   Backwards in halves, one stage on each rank or two in a V. Tried are: the fixed families; their orders of F
//         and I, and those of blocks that repeat (building_block.hpp), with the weight gradients where these times
//         leave gaps; and orders that come about while the pipeline runs, by which of forward and backward goes first,
//         how far ranks run ahead, and whether a weight gradient may keep a message waiting. Each is simulated; of
//         those that keep to the limits, the shortest is taken, then the one with the lowest peak. Nothing is random.
// Holds   The result is valid (check()), keeps to the limits, and is not longer than any fixed family with the same
//         stages on the same ranks that keeps to them. It need not be the shortest there is: the lower bound says how
//         far it can be from that.
// Cost    About 100 times that of simulating.
// Source  Qi et al., arXiv:2401.10241 (heuristics, each simulated), 2405.15362 (blocks).

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

/// Throws InvalidArgument for other than 1 or 2 stages a rank, more than 2^17 computations of a kind, what generate()
/// and simulate() reject, and for limits of another length than the ranks' or below what any schedule needs: 1 with one
/// stage a rank, 2 with two.
[[nodiscard]] AutomaticSchedule automatic(const Shape& shape, const AutomaticOptions& options = {});

/// What no schedule that trains these stages on these ranks can undercut: the work of each rank after the first
/// forward that can reach it, with what has to follow its last input gradient; the way of one micro-batch there and
/// back; and, within a limit, the time that activations cannot but live. `limits`: of each rank, or empty.
/// Throws what simulate() throws for `costs`.
[[nodiscard]] double makespan_lower_bound(std::span<const int> stage_to_rank, int micro_batches,
                                          const SimulationOptions& costs, std::span<const int> limits);

}  // namespace plumbline::schedules
