// conformance/training/training_mutants.hpp: the mutants of component "training", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Devices that are wrong in one way.
[[nodiscard]] std::vector<Mutant> training_mutants();
/// Of devices, where ranks average parameters; edits of the source are in mutants.toml.
[[nodiscard]] std::vector<Mutant> averaging_mutants();
/// Training records of jobs.
[[nodiscard]] std::vector<Mutant> job_mutants();

}  // namespace plumbline::mutants
