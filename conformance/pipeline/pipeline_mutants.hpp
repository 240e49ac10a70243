// conformance/pipeline/pipeline_mutants.hpp: the mutants of component "pipeline", by what is wrong.
#pragma once

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// Training records of jobs.
[[nodiscard]] std::vector<Mutant> pipeline_job_mutants();

}  // namespace plumbline::mutants
