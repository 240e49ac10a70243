// conformance/training/sharded_checks.hpp: the checks of runs whose data ranks hold shards of the parameters.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Of the reference over a backend, or of a job. They need module "training"; their requirements are in
/// requirements.toml.
void add_sharded_checks(suite::Suite& suite, suite::Door door);

}  // namespace plumbline::conformance
