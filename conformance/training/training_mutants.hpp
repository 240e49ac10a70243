// conformance/training/training_mutants.hpp: the mutants of component "training", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Training with another step in place of a right one.
[[nodiscard]] std::vector<Mutant> training_mutants();
/// The same over tensor ranks and in 16 bits.
[[nodiscard]] std::vector<Mutant> mixed_mutants();
/// The same where ranks average parameters.
[[nodiscard]] std::vector<Mutant> averaging_mutants();
/// Training records of jobs.
[[nodiscard]] std::vector<Mutant> job_mutants();

}  // namespace plumbline::mutants
