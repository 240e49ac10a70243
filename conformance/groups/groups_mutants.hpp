// conformance/groups/groups_mutants.hpp: the mutants of component "groups", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> groups_size_mutants();

}  // namespace plumbline::mutants
