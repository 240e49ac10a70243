// conformance/scaler/scaler_mutants.hpp: the mutants of component "scaler", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Answers of adapters about loss scales, who skips, and norms.
[[nodiscard]] std::vector<Mutant> scaler_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> scaler_size_mutants();

}  // namespace plumbline::mutants
