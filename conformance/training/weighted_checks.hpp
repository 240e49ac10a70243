// conformance/training/weighted_checks.hpp: the checks of runs whose rows have weights.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Of the reference over a backend, or of a job. They need module "training"; their requirements are in
/// requirements.toml.
void add_weighted_checks(suite::Suite& suite, suite::Door door);

}  // namespace plumbline::conformance
