// conformance/topology/topology_mutants.hpp: the mutants of component "topology", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Adapters that take worlds of more ranks than an int holds.
[[nodiscard]] std::vector<Mutant> topology_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> topology_size_mutants();

}  // namespace plumbline::mutants
