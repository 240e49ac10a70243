// conformance/training/resume_checks.hpp: the checks of runs that continue from a checkpoint in another layout.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Of the reference over a backend, or of a job. They need module "training"; their requirements are in
/// requirements.toml.
void add_resume_checks(suite::Suite& suite, suite::Door door);

}  // namespace plumbline::conformance
