// harness/bench/fusion_times.hpp: what the benchmark of fused gradients measures, and its report reads.
#pragma once

#include <cstdint>
#include <vector>

namespace plumbline::bench {

/// Gradients of one size.
struct FusionTime {
  std::int64_t bytes = 0;               // of each
  std::vector<double> separate, fused;  // seconds a gradient, of the rounds
};

/// Seconds of rounds, each of which measured all four: a backward alone, its reductions alone, and steps of both.
struct OverlapTimes {
  std::vector<double> backward, reductions;
  std::vector<double> serial;      // the reductions when the backward is over
  std::vector<double> overlapped;  // as soon as they may start
};

}  // namespace plumbline::bench
