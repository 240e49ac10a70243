// conformance/pass/pass_mutants.hpp: the mutants of component "pass", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> pass_size_mutants();

}  // namespace plumbline::mutants
