// benchmarks/collectives.hpp: how fast does a backend move and add bytes, call by call?
#pragma once

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

/// all_reduce (in and out of place), reduce_scatter, all_gather, broadcast, all_to_all, barrier, send_recv, and what
/// they are measured against: all ranks copying memory at once.
void add_collectives(Registry& registry);

}  // namespace plumbline::bench
