// reference/bucketing/scaled_copy.hpp: gradients into and out of buckets, in one pass over memory.
//
// Model   An element is read, divided, rounded to the type of where it goes, and written. Division by 1 between buffers of
//         one type is a copy of bytes. What is neither f32 nor f64 is divided as f32.
// Cost    Each byte is read once and written once: what memcpy costs.
#pragma once

#include "reference/comm/call.hpp"

namespace plumbline::bucketing {

/// to[i] = from[i] / divisor. In place where both start at one address. Throws InvalidArgument for other counts than each
/// other's, Unsupported for integers that would be divided or change their type.
void copy_divided(comm::ConstBuffer from, comm::Buffer to, double divisor);
/// Every element zero.
void fill_zeros(comm::Buffer buffer);

}  // namespace plumbline::bucketing
