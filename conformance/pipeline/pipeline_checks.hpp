// conformance/pipeline/pipeline_checks.hpp: the checks of component "pipeline": training by a schedule.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Adds all of them. They need module "training"; their requirements are in requirements.toml.
void add_pipeline_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
