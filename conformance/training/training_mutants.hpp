// conformance/training/training_mutants.hpp: the mutants of component "training", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Training with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> training_mutants();
/// The same over tensor ranks and in 16 bits.
[[nodiscard]] std::vector<Mutant> mixed_mutants();
/// Of devices, where ranks average parameters; edits of the source are in mutants.toml.
[[nodiscard]] std::vector<Mutant> averaging_mutants();
/// Training records of jobs.
[[nodiscard]] std::vector<Mutant> job_mutants();

}  // namespace plumbline::mutants
