// conformance/training/averaging/averaging_checks.hpp: the checks of training whose ranks average parameters.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

void add_averaging_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
