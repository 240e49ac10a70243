// reference/schedules/detail/building_block.hpp: orders of V-shaped schedules that repeat one micro-batch's block. Not
// for others.
//
// Model   Two stages on each rank, there and back, whose F, I and W all last one step; one micro-batch keeps a rank
//         busy for six. A block says at which steps the four F and I of micro-batch 0 are on each rank; micro-batch k
//         has them 6k steps later. How many steps a pass takes from one rank to the next decides how long an activation
//         lives, and so how many a rank keeps. Where two computations of a rank would fall on one step, the block is
//         pushed apart at its turns: at the last rank, at rank 0, and at the last rank again.
// Cost    O(actions).
// Source  Qi et al., arXiv:2405.15362.
#pragma once

#include <optional>
#include <vector>

#include "reference/schedules/generate.hpp"

namespace plumbline::schedules::detail {

/// Steps from one rank to the next: of the forward to the last rank and back, of the input gradient to the last rank
/// and back. Each is 1 or more; there and back are as long together for both passes, so that each sixth rank keeps as
/// much as the first.
struct Hops {
  int forward_there = 1, forward_back = 1;
  int backward_there = 1, backward_back = 1;
};

struct BlockOrder {
  int activations = 0;                     // that the busiest rank keeps at once
  std::vector<std::vector<Action>> order;  // F and I of each rank
};
/// Among the blocks that are pushed apart by less than six steps at each turn, the one with the fewest activations,
/// then the shortest. Nothing where computations fall on one step in each of them; not so for (1,1,1,1) and (2,1,2,1).
[[nodiscard]] std::optional<BlockOrder> building_block_order(const Shape& shape, const Hops& hops);

}  // namespace plumbline::schedules::detail
