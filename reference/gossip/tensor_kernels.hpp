// reference/gossip/tensor_kernels.hpp: what push-sum does to tensors, element by element.
//
// Model   Each operation is rounded to the tensor's type; halves are widened to float, computed, and rounded once an operation.
//         Buffers of one call have the same type and count, and are the same or do not overlap.
// Cost    The loops exist once per instruction set (AVX-512, AVX2, baseline), from one source; the machine's best is chosen at
//         run time, all give the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "reference/comm/call.hpp"
#include "reference/comm/pair_exchange.hpp"

namespace plumbline::gossip {

/// x *= factor, the factor rounded to the type first (to float for halves).
void scale(comm::Buffer x, double factor);
/// out = x * factor.
void scaled_copy(comm::ConstBuffer x, comm::Buffer out, double factor);
/// x += other.
void add(comm::Buffer x, comm::ConstBuffer other);
/// x = (x + other) * factor, rounded twice.
void add_and_scale(comm::Buffer x, comm::ConstBuffer other, double factor);
/// Two nodes' values at once, with factors {kept, sent, by} of each: x *= kept, and then x = (x + other's x * its sent) * by.
/// The bits are those of scale(), scaled_copy() and add_and_scale(). A comm::PairUpdate.
void meet(comm::DType dtype, void* a, const comm::PairFactors& of_a, void* b, const comm::PairFactors& of_b,
          std::int64_t count);
/// x /= divisor.
void divide(comm::Buffer x, double divisor);

/// The loops of one type.
struct TensorLoops {
  void (*scaled_copy)(void* out, const void* x, std::int64_t count, double factor);
  void (*add)(void* x, const void* other, std::int64_t count);
  void (*add_and_scale)(void* x, const void* other, std::int64_t count, double factor);
  void (*divide)(void* x, std::int64_t count, double divisor);
  void (*meet)(void* a, const comm::PairFactors& of_a, void* b, const comm::PairFactors& of_b, std::int64_t count);
};
/// Those of one instruction set, of f16, bf16, f32 and f64.
struct TensorKernels {
  const char* instruction_set;
  std::array<TensorLoops, 4> of_type;
  /// Throws Unsupported for other types.
  [[nodiscard]] const TensorLoops& of(comm::DType dtype) const;
};
/// All that this machine can run, the best first and the baseline last.
[[nodiscard]] std::span<const TensorKernels* const> all_tensor_kernels();

}  // namespace plumbline::gossip
