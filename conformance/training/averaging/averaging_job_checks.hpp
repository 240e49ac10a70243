// conformance/training/averaging/averaging_job_checks.hpp: checks of training programs whose ranks average parameters.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

void add_averaging_job_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
