// reference/slowmo/elements.hpp: arithmetic on buffers of any floating type, an element at a time.
//
// Numbers f32 and f64 compute in their own type, f16 and bf16 in f32, then round once. A scalar is rounded to the type of the
//         computation first.
// Memory  Host memory. Throws Unsupported for types that are not floating, InvalidArgument for other numbers of elements.
#pragma once

#include <cstdint>

#include "reference/comm/call.hpp"
#include "reference/gossip/element_types.hpp"

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
/// The elements [begin, begin + count).
[[nodiscard]] comm::Buffer part_of(comm::Buffer whole, std::int64_t begin, std::int64_t count);
/// Throws Unsupported, beginning with `what`, unless the type is floating and the memory the host's.
void require_floating(const char* what, comm::ConstBuffer values);

using gossip::narrowed;
using gossip::Wide;
using gossip::widened;
using gossip::with_type;

}  // namespace plumbline::slowmo
