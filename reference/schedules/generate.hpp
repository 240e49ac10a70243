// reference/schedules/generate.hpp: the schedules that there are, each a pure function of the pipeline's shape.
//
// Model   A schedule of computations alone. p ranks, m micro-batches, v stages on each rank. Stages lie in turn (stage
//         s on rank s mod p) but for the V shapes (zbv, v-half, v-min, dualpipev, auto of two: stage s and stage 2p-1-s on
//         rank s). Cells are equal
//         to PyTorch's compute_only rows where PyTorch has the schedule, idle cells included; they carry no meaning for
//         the order, and without_idle() drops them.
// Cost    O(actions), a few ns each.
// Sources Huang et al., arXiv:1811.06965 (GPipe); Narayanan et al., arXiv:2104.04473 (1F1B, interleaved); Lamy-Poirier,
//         arXiv:2211.05953 (breadth first); Qi et al., arXiv:2401.10241 (zero bubble), 2405.15362 (V);
//         DeepSeek-AI, arXiv:2412.19437 (DualPipe); torch.distributed.pipelining.schedules for the cells.
#pragma once

#include "reference/schedules/names.hpp"
#include "reference/schedules/schedule.hpp"

namespace plumbline::schedules {

/// Of a pipeline.
struct Shape {
  int ranks = 1;
  int micro_batches = 1;
  int stages_per_rank = 1;
};

/// Throws InvalidArgument, with the rule, for a shape that the family does not have, for numbers below 1, and for more
/// than 2^26 computations of a kind.
[[nodiscard]] Schedule generate(ScheduleKind family, const Shape& shape);
/// As PyTorch: refuses also 1F1B of fewer micro-batches than ranks, which nothing but its own order of messages
/// forbids. Throws Unsupported for what PyTorch does not have.
[[nodiscard]] Schedule generate_as_torch(ScheduleKind family, const Shape& shape);

/// Interleaved 1F1B with groups of `group` micro-batches, which go through all chunks, where the last group may be
/// smaller. Throws InvalidArgument unless p <= group <= m and the last group is full or has at least p.
/// Source: Megatron-LM's microbatch_group_size_per_vp_stage.
[[nodiscard]] Schedule interleaved_in_groups(const Shape& shape, int group);
/// Interleaved 1F1B in groups of p, but with all forwards first when m = p. Throws InvalidArgument unless p divides m.
/// Source: ColossalAI's InterleavedPipelineSchedule at #94.
[[nodiscard]] Schedule interleaved_as_colossalai(const Shape& shape);

/// The same without idle cells.
[[nodiscard]] Schedule without_idle(Schedule schedule);

}  // namespace plumbline::schedules
