// reference/gossip/tensor_lists.hpp: what push-sum does to lists of tensors, wherever they are.
//
// Model   On the host tensor by tensor, as tensor_kernels.hpp says, and done at the return; on a device all of a list in one launch,
//         in the order of the place's stream. The bits are the same, but for which NaN a NaN is.
//         All of a list lie at the place; the two of a pair have one type and length, and are the same or do not overlap.
// Errors  On a device InvalidArgument for what does not go together, and the runtime's.
#pragma once

#include <span>

#include "reference/device/place.hpp"
#include "reference/device/scaled_copies_table.hpp"
#include "reference/gossip/mixing_table.hpp"

namespace plumbline::gossip {

using device::Place;
/// {from, to}.
using TensorPair = device::ScaledCopy;

/// x *= factor.
void scale(const Place& place, std::span<const comm::Buffer> x, double factor);
/// x /= divisor.
void divide(const Place& place, std::span<const comm::Buffer> x, double divisor);
/// to = from * factor.
void scaled_copy(const Place& place, std::span<const TensorPair> pairs, double factor);
/// to += from.
void add(const Place& place, std::span<const TensorPair> pairs);
/// x += the sum of what came for it, if anything did, and what is kept of that; on the host of one message at most.
void mix(const Place& place, std::span<const Arrivals> tensors, Kept kept);

}  // namespace plumbline::gossip
