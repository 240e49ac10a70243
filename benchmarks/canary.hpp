// benchmarks/canary.hpp: does another version of a library compute the same as this one, and in the same order?
#pragma once

#include "harness/bench/benchmark.hpp"

namespace plumbline::bench {

/// canary.values: {"operation","dtype","elements","seed","folder"}: makes one call on inputs of canary_probe.hpp; each
/// rank writes its answer to FOLDER/RANK, and rank 0 returns {}.
/// canary.order: {"elements","repetitions"}: the orders in which all_reduce adds f32, of reduction_order.hpp; rank 0
/// returns {"parts":[{"first","count","order"}…],"changes":b}, in the parts of its vector, and whether a repetition
/// showed another order.
void add_canary(Registry& registry);

}  // namespace plumbline::bench
