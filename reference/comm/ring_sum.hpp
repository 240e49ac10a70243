// reference/comm/ring_sum.hpp: the order in which ranks' values are added, as pure functions.
//
// Model   N ranks give n elements each; position k in `inputs` is rank k of the group. Floating-point sums
//         depend on the order of the additions, so a result can be reproduced bit for bit only by a reader that
//         knows that order:
//           ring_sum        gloo's ring. Chunk c = 0, 1, … is 2 * ceil(n / 2N) elements long; its sum starts
//                           with rank c-1 (mod N) and adds ranks c-2, c-3, … in falling order, with wrap-around.
//                           All-reduce and reduce give the same, whatever the root. f16 and bf16 are rounded
//                           after every addition.
//           rank_order_sum  ranks 0, 1, 2, …; f16 and bf16 are summed in f32 and rounded once. The local
//                           backend's rule.
//         An addition of two f16 or bf16 is one in f32, then one rounding to nearest, ties to even.
// Shapes  inputs[N][n], all of one length; the result has n elements. n may be 0.
// Types   T is Float16, BFloat16, float or double.
// Source  gloo as torch 2.13 ships it, found by replaying its sums. It cuts messages of more than 2N MiB
//         otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/comm/dtype.hpp"

namespace plumbline::comm {

/// The ranks' elements: one view per rank.
template <class T>
using RankInputs = std::span<const std::span<const T>>;

/// The length of a chunk of `elements` that `ranks` ranks add: 2 * ceil(elements / 2 ranks).
[[nodiscard]] constexpr std::int64_t ring_chunk(std::int64_t elements, std::int64_t ranks) {
  return 2 * ((elements + 2 * ranks - 1) / (2 * ranks));
}

/// The sum in gloo's ring order. Throws InvalidArgument when there is no rank or the lengths differ, and
/// Unsupported for a message (n elements) of more than 2N MiB.
template <class T>
[[nodiscard]] std::vector<T> ring_sum(RankInputs<T> inputs);

/// The sum in rank order. Throws InvalidArgument when there is no rank or the lengths differ.
template <class T>
[[nodiscard]] std::vector<T> rank_order_sum(RankInputs<T> inputs);

}  // namespace plumbline::comm
