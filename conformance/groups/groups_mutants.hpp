// conformance/groups/groups_mutants.hpp: the mutants of component "groups", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Parallel contexts with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> context_mutants();
/// Answers of adapters.
[[nodiscard]] std::vector<Mutant> group_answer_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> groups_size_mutants();

}  // namespace plumbline::mutants
