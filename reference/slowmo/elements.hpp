// reference/slowmo/elements.hpp: arithmetic on buffers of any floating type, an element at a time.
//
// Numbers f32 and f64 compute in their own type, f16 and bf16 in f32, then round once. A scalar is rounded to the type
//         of the computation first.
// Memory  Of single buffers the host's. Of lists that of a place: on a device all of a list in one launch, in the order
//         of the place's stream, with the bits of the host, but for which NaN a NaN is.
// Errors  Unsupported for types that are not floating, InvalidArgument for other numbers of elements; the runtime's.
#pragma once

#include <cstdint>
#include <span>

#include "reference/comm/call.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::slowmo {

/// values /= divisor, a real division.
void divide(comm::Buffer values, double divisor);
/// values *= factor.
void multiply(comm::Buffer values, double factor);
/// to = from, rounded where the type of `to` is narrower.
void copy(comm::ConstBuffer from, comm::Buffer to);
/// to += from, to -= from, in the type of `to`.
void add(comm::ConstBuffer from, comm::Buffer to);
void subtract(comm::ConstBuffer from, comm::Buffer to);
/// Throws Unsupported, beginning with `what`, unless the type is floating.
void require_floating(const char* what, comm::ConstBuffer values);

// The same for lists.
using device::MemorySpace;
using gossip::TensorPair;
void divide(const MemorySpace& place, std::span<const comm::Buffer> values, double divisor);
void multiply(const MemorySpace& place, std::span<const comm::Buffer> values, double factor);
void copy(const MemorySpace& place, std::span<const TensorPair> pairs);
void add(const MemorySpace& place, std::span<const TensorPair> pairs);
void subtract(const MemorySpace& place, std::span<const TensorPair> pairs);

using gossip::narrowed;
using gossip::Wide;
using gossip::widened;
using gossip::with_type;

}  // namespace plumbline::slowmo
