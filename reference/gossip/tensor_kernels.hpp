// reference/gossip/tensor_kernels.hpp: what push-sum does to tensors, element by element.
//
// Model   Each operation is rounded to the tensor's type; halves are widened to float, computed, and rounded once an operation.
//         Buffers of one call have the same type and count, and are the same or do not overlap.
#pragma once

#include "reference/comm/call.hpp"

namespace plumbline::gossip {

/// x *= factor, the factor rounded to the type first (to float for halves).
void scale(comm::Buffer x, double factor);
/// out = x * factor.
void scaled_copy(comm::ConstBuffer x, comm::Buffer out, double factor);
/// x += other.
void add(comm::Buffer x, comm::ConstBuffer other);
/// x = (x + other) * factor, rounded twice.
void add_and_scale(comm::Buffer x, comm::ConstBuffer other, double factor);
/// x /= divisor.
void divide(comm::Buffer x, double divisor);

}  // namespace plumbline::gossip
