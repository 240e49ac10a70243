// reference/comm/kernels.hpp: the inner loops of the local backend.
//
// Model   reduce folds element i of all inputs in rank order, in the accumulator of the dtype (f32 for the formats
//         of 16 and 8 bits, the dtype itself otherwise), rounds once, and writes the result to every output. Each
//         element depends on its own inputs only, so any split of the range over threads gives the same bits.
//         avg divides the sum by the number of inputs. min and max are IEEE 754-2019 minimum and maximum: NaN goes
//         through, -0 < +0. Integer sums and products wrap. Complex numbers are added and divided by parts, and
//         multiplied as (ac - bd) + (ad + bc)i, each step rounded; they have no min and max.
// Cost    Every input byte is read once and every output byte written once. The loops exist once per instruction set
//         (AVX-512, AVX2, baseline), from one source; the machine's best is chosen at run time, all give the same bits.
#pragma once

#include <cstddef>
#include <span>

#include "reference/comm/dtype.hpp"

namespace plumbline::comm::local {

struct ReduceRange {
  std::span<const std::byte* const> inputs;  // in rank order
  std::span<std::byte* const> outputs;       // each may be one of the inputs
  std::size_t begin = 0;                     // in elements
  std::size_t count = 0;
  bool streaming = false;  // write around the cache; pays for large outputs that are no inputs
};
using ReduceKernel = void (*)(const ReduceRange& range);

/// Copies `bytes`, around the cache where `streaming`.
using CopyKernel = void (*)(std::byte* to, const std::byte* from, std::size_t bytes, bool streaming);

/// to[i] = from[i] / divisor, in f64 where `from` is that and else in f32, rounded to the type of `to`. In place, where
/// both are of one type.
using ConvertKernel = void (*)(std::byte* to, const std::byte* from, std::size_t count, double divisor);

struct Kernels {
  const char* instruction_set;
  ReduceKernel reduce[kDTypeCount][kAllReduceOps.size()];  // null where the reduction is not defined
  CopyKernel copy;
  ConvertKernel convert[kDTypeCount][kDTypeCount];  // [from][to]; null unless both are is_floating()
  [[nodiscard]] ConvertKernel conversion(DType from, DType to) const {
    return convert[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  [[nodiscard]] ReduceKernel reduction(DType dtype, ReduceOp op) const {
    return reduce[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  }
};

/// The best for this machine.
[[nodiscard]] const Kernels& kernels();
/// All that this machine can run, the baseline last: for tests.
[[nodiscard]] std::span<const Kernels* const> all_kernels();

/// to_b = from_a and to_a = from_b over `bytes`, where each `to` may be the other side's `from` (an exchange in place).
void exchange(std::byte* to_a, const std::byte* from_b, std::byte* to_b, const std::byte* from_a, std::size_t bytes);

}  // namespace plumbline::comm::local
