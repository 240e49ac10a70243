// reference/slowmo/averaging.hpp: means and broadcasts of lists of tensors, a message a type.
//
// Model   Tensors of one type are laid one behind the other, and travel as one message; types in the order in which they
//         appear.
// Numbers plumbline: f32 and f64 are added, in the communicator's order, and divided once; f16 and bf16 are divided first, so
//         that their sums stay in range. fairscale: all are divided first, and added in the order of gloo's ring
//         (reference/comm/ring_sum.hpp; beyond the lengths that it is known for, in the communicator's).
#pragma once

#include <cstdint>
#include <span>

#include "reference/comm/communicator.hpp"
#include "reference/gossip/graph.hpp"

namespace plumbline::slowmo {

/// The sum over the group's ranks divided by `divisor`, on all ranks, in place.
void all_reduce_mean(comm::Communicator& group, std::span<const comm::Buffer> tensors, int divisor,
                     gossip::Convention convention);
/// The same, on `root` alone; elsewhere the tensors have any values afterwards.
void reduce_mean(comm::Communicator& group, std::span<const comm::Buffer> tensors, int divisor, int root,
                 gossip::Convention convention);
/// Root's values on all ranks. A message is full when it has `full_bytes`.
void broadcast(comm::Communicator& group, std::span<const comm::Buffer> tensors, int root,
               std::int64_t full_bytes = INT64_MAX);

}  // namespace plumbline::slowmo
