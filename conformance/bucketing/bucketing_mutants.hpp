// conformance/bucketing/bucketing_mutants.hpp: the mutants of component "bucketing", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Answers of adapters.
[[nodiscard]] std::vector<Mutant> bucket_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> bucketing_size_mutants();

}  // namespace plumbline::mutants
