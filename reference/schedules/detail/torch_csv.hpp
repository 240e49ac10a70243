// reference/schedules/detail/torch_csv.hpp: what PyTorch accepts as a schedule from outside.
//
// Model   PyTorch's rules, leniency included: text after a cell's action is ignored; a stage's micro-batches are
//         counted, not compared, so that one that is computed twice passes. For a check that proves something, see
//         check.hpp.
// Source  torch.distributed.pipelining.schedules: _load_csv, _validate_schedule.
#pragma once

#include <span>
#include <string>

#include "reference/schedules/generate.hpp"

namespace plumbline::schedules {

/// The schedule of these rows, one a rank. Throws InvalidArgument, with rank and cell, for a cell that is none; another
/// number of ranks than the shape's; a stage that the shape does not have, or that is on two ranks; a backward without
/// its forward in front of it, a W without its I; another number of forwards, or of backwards, than of micro-batches;
/// and, where `computations_only`, for an action that is no computation.
[[nodiscard]] Schedule load_torch_csv(std::span<const std::string> rows, const Shape& shape, bool computations_only);

}  // namespace plumbline::schedules
