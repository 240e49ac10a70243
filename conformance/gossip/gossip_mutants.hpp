// conformance/gossip/gossip_mutants.hpp: the mutants of component "gossip", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Answers of adapters, and push-sum over devices whose kernels are wrong.
[[nodiscard]] std::vector<Mutant> gossip_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> gossip_size_mutants();

}  // namespace plumbline::mutants
