// conformance/training/training_checks.hpp: the checks of component "training".
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Adds all of them. They need module "training"; their requirements are in requirements.toml.
void add_training_checks(suite::Suite& suite);
/// Those of the job door alone, among them.
void add_job_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
