// conformance/gossip/gossip_mutants.hpp: the mutants of component "gossip" that are no edits of the source.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Push-sum over devices whose kernels are wrong.
[[nodiscard]] std::vector<Mutant> gossip_mutants();

}  // namespace plumbline::mutants
