// conformance/pass/executing.hpp: do two programs compute the same?
#pragma once

#include <functional>
#include <string>

#include "conformance/pass/oracles/interpreter.hpp"

namespace plumbline::conformance {

struct Comparison {
  int ranks = 2;
  int rank = 0;             // whose program it is, and which is compared
  bool bit_for_bit = true;  // in the types of the program; else in float64, up to the rounding of a float32 factor
};

/// "" when a run of either leaves the same gradients, as optimizers use them, and the same values in what persists:
/// parameters, velocities, moments; else the first that differs. Both run on ranks that are threads of this process.
[[nodiscard]] std::string difference_in_runs(const program::Program& before, const program::Program& after,
                                             const program::Rings& rings, const Comparison& how);

/// The same of two runs of a rank. `tolerance` is relative to the largest magnitude in a variable; 0: bit for bit.
[[nodiscard]] std::string difference_of(const program::Program& program, const program::Execution& before,
                                        const program::Execution& after, double tolerance);

}  // namespace plumbline::conformance
