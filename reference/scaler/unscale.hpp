// reference/scaler/unscale.hpp: divides gradients by the loss scale and looks for what is not finite, in one pass.
//
// Model   An element is read, looked at, multiplied by the inverse of the scale, rounded once to the type of where it
//         goes, and written. What counts is the element as it was read: a finite one that the product makes infinite is
//         not found.
// Types   The same on both sides, or f16 and bf16 to f32. f64 is multiplied in f64, all others in f32.
// Cost    Each byte is read once and written once, whatever is found; large results elsewhere are written around the
//         cache.
// Source  torch 2.13, _amp_foreach_non_finite_check_and_unscale_.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reference/comm/call.hpp"

namespace plumbline::scaler {

/// Where a gradient is read, and where it is written: the same place, or memory that does not overlap.
struct Unscaling {
  comm::ConstBuffer from;
  comm::Buffer to;
};

/// The types that go together.
enum class UnscaleTypes : std::int32_t { f16_to_f32, bf16_to_f32, f16, bf16, f32, f64 };
/// Those of a gradient, which is the `index`-th of a list. Throws Unsupported for types that do not go together.
[[nodiscard]] UnscaleTypes types_of(const Unscaling& one, std::size_t index);

/// to = from * inverse, of all of them. Returns whether an element of any `from` is infinite or NaN. Throws
/// InvalidArgument for other counts than each other's, Unsupported for types that do not go together and for memory of
/// other devices: then nothing was written.
[[nodiscard]] bool unscale(std::span<const Unscaling> gradients, float inverse);

}  // namespace plumbline::scaler
