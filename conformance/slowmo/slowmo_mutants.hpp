// conformance/slowmo/slowmo_mutants.hpp: the mutants of component "slowmo", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Of devices; edits of the source are in mutants.toml.
[[nodiscard]] std::vector<Mutant> slowmo_mutants();
/// Answers of adapters that are right of small questions alone.
[[nodiscard]] std::vector<Mutant> slowmo_size_mutants();

}  // namespace plumbline::mutants
