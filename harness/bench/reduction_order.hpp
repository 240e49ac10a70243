// harness/bench/reduction_order.hpp: in which order a backend adds the ranks' elements, told from sums that cancel.
//
// Model   Ranks i and j give M and -M, every other rank gives 1, and M is so large that M + 1 = M. What was added to M
//         or -M before the two met is lost, so the sum says how many ranks' elements were not below the addition at
//         which they met: with n ranks, n - sum is the size of the smallest subtree that has both. The sizes for all
//         pairs determine the tree of additions.
// Source  The probes: Xie, Gao, Wang, Xue, Fu, FPRev: Revealing Floating-Point Accumulation Orders, arXiv:2411.00442.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace plumbline::bench {

/// M; in f32 up to 2^36 additions of 1 are lost in it.
inline constexpr float kAbsorbing = 0x1p60F;

/// By ranks i < j: the size of the smallest subtree that has both.
using SubtreeSizes = std::map<std::pair<int, int>, int>;

/// "((0+1)+2)+3": the tree of additions over n ranks, the larger side first, and of equal sides the one with the lower
/// rank. "all at once" where no order shows: every sum is exact, or of a type in which 1 is not lost. Empty: no tree
/// has these sizes.
[[nodiscard]] std::string order_of_additions(int ranks, const SubtreeSizes& sizes);

/// What the order of every part of a vector is called: "sequential" (rank 0 first, then one rank after another), "ring"
/// (one after another, begun elsewhere or in each part at another rank), "pairwise" (halves that are halves of halves),
/// "tree" (any other), "all at once", "mixed", "none". `orders` are distinct, of order_of_additions().
[[nodiscard]] std::string name_of_order(int ranks, std::span<const std::string> orders);

}  // namespace plumbline::bench
