// conformance/training/decay_group_checks.hpp: the checks of runs whose weight decay leaves out some parameters.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Of the reference over a backend, or of a job. They need module "training"; their requirements are in
/// requirements.toml.
void add_decay_group_checks(suite::Suite& suite, suite::Door door);

}  // namespace plumbline::conformance
