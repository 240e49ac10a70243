// reference/device/fold.hpp: a reduction of many inputs to many outputs as a table, for a device that does it in one
// launch.
//
// Model   Element i of all inputs is folded in their order, in the accumulator of the dtype (f32 of f16 and bf16),
//         rounded once, and written to the outputs, each of which may be one of the inputs: of an all_reduce the
//         reduce-scatter and the all-gather in one pass. `scattered`: output o gets segment[o] of the inputs, each of
//         `stride` elements.
//         A table is handed to a kernel by value: nothing is copied before, nothing waits. Each chunk is the work of
//         one block.
// Results Those of reference/comm/local's kernels, bit for bit, but for which NaN.
// Cost    Each input is read once and each output written once, 16 bytes at a time where inputs and outputs agree in
//         how far they are from a boundary of 16 bytes; else element by element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/comm/dtype.hpp"

namespace plumbline::device {

/// A kernel has 32764 bytes of parameters.
constexpr std::int32_t kMostFolded = 1800;
/// Of one block.
constexpr std::int64_t kFoldChunkBytes = 16384;

struct FoldTable {
  comm::DType dtype = comm::DType::f32;
  comm::ReduceOp op = comm::ReduceOp::sum;
  bool scattered = false;
  std::int32_t inputs = 0, outputs = 0;
  std::int64_t first = 0, count = 0;  // the elements of a segment that are done: [first, first + count)
  std::int64_t stride = 0;            // elements from one segment to the next, in the inputs
  std::int32_t input_shift = 0;       // bytes past a boundary of 16, of all inputs; -1 where they differ
  std::int32_t output_shift = 0;      // of all outputs, unless scattered
  const std::byte* input[kMostFolded];
  std::byte* output[kMostFolded];
  std::int16_t segment[kMostFolded];

  [[nodiscard]] std::int64_t chunks_of_segment() const {
    const std::int64_t chunk = kFoldChunkBytes / static_cast<std::int64_t>(size_of(dtype));
    return (count + chunk - 1) / chunk;
  }
  /// Number of blocks that do it.
  [[nodiscard]] std::int64_t chunks() const {
    return outputs == 0 ? 0 : chunks_of_segment() * (scattered ? outputs : 1);
  }
};
static_assert(sizeof(FoldTable) <= 32764, "a kernel takes no more by value");

/// Says how the table's addresses lie; called once they are all there.
void note_shifts(FoldTable& table);

}  // namespace plumbline::device
