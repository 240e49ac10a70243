// benchmarks/collectives.hpp: how fast does a backend move and add bytes, call by call?
#pragma once

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

/// all_reduce (in and out of place), reduce, reduce_scatter, all_gather, broadcast, gather, scatter, all_to_all,
/// barrier, send_recv, and what they are measured against: all ranks copying memory at once.
void add_collectives(Registry& registry);
/// Messages both ways, in a ring and of many pairs; all_gather, reduce_scatter and all_to_all of unlike blocks.
void add_patterns(Registry& registry);

}  // namespace plumbline::bench
