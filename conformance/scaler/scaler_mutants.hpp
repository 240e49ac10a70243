// conformance/scaler/scaler_mutants.hpp: the mutants of component "scaler", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Answers of adapters about loss scales, who skips, and norms.
[[nodiscard]] std::vector<Mutant> scaler_mutants();
/// Optimizers with 16-bit parameters with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> scaler_step_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> scaler_size_mutants();

}  // namespace plumbline::mutants
