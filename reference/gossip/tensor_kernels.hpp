// reference/gossip/tensor_kernels.hpp: what push-sum does to tensors, element by element.
//
// Model   Each operation is rounded to the tensor's type; halves are widened to float, computed, and rounded once an
//         operation.
//         Buffers of one call have the same type and count, and are the same or do not overlap.
// Cost    The loops exist once per instruction set (AVX-512, AVX2, baseline), from one source; the machine's best is
//         chosen at run time, all give the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "reference/comm/call.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"
#include "reference/device/memory_space.hpp"
#include "reference/device/scaled_copies.hpp"
#include "reference/gossip/mixing_kernel.hpp"

namespace plumbline::gossip {

/// x *= factor, the factor rounded to the type first (to float for halves).
void scale(comm::Buffer x, double factor);
/// out = x * factor.
void scaled_copy(comm::ConstBuffer x, comm::Buffer out, double factor);
/// x += other.
void add(comm::Buffer x, comm::ConstBuffer other);
/// x = (x + other) * factor, rounded twice.
void add_and_scale(comm::Buffer x, comm::ConstBuffer other, double factor);
/// Two nodes' values at once, with factors {kept, sent, by} of each: x *= kept, and then x = (x + other's x * its sent)
/// * by.
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

// ---- What the elements of floating tensors are computed in.
//
// Numbers f32 and f64 compute in their own type, f16 and bf16 in f32, rounded once an operation.

/// What T computes in.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
Wide<T> widened(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return value;
  else
    return comm::to_float(value);
}

template <class T, class From>
T narrowed(From value) {
  if constexpr (std::is_same_v<T, comm::Float16>)
    return comm::to_float16(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, comm::BFloat16>)
    return comm::to_bfloat16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

/// Calls take(T{}) with the type of a floating dtype. Throws Unsupported for others.
template <class Take>
void with_type(comm::DType dtype, const Take& take) {
  switch (dtype) {
    case comm::DType::f16:
      return take(comm::Float16{});
    case comm::DType::bf16:
      return take(comm::BFloat16{});
    case comm::DType::f32:
      return take(float{});
    case comm::DType::f64:
      return take(double{});
    default:
      throw Unsupported("elements of " + std::string(comm::name_of(dtype)) + "; there are f16, bf16, f32 and f64");
  }
}

// ---- What push-sum does to lists of tensors, wherever they are.
//
// Model   On the host tensor by tensor, by the host kernels of this file, and done at the return; on a device all of a
//         list in one launch, in the order of the place's stream. The bits are the same, but for which NaN a NaN is.
//         All of a list lie at the place; the two of a pair have one type and length, and are the same or do not
//         overlap.
// Errors  On a device InvalidArgument for what does not go together, and the runtime's.

using device::MemorySpace;
/// {from, to}.
using TensorPair = device::ScaledCopy;

/// x *= factor.
void scale(const MemorySpace& place, std::span<const comm::Buffer> x, double factor);
/// x /= divisor.
void divide(const MemorySpace& place, std::span<const comm::Buffer> x, double divisor);
/// to = from * factor.
void scaled_copy(const MemorySpace& place, std::span<const TensorPair> pairs, double factor);
/// to += from.
void add(const MemorySpace& place, std::span<const TensorPair> pairs);
/// x += the sum of what came for it, if anything did, and what is kept of that; on the host of one message at most.
void mix(const MemorySpace& place, std::span<const Arrivals> tensors, Kept kept);

}  // namespace plumbline::gossip
