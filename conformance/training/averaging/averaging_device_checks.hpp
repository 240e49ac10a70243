// conformance/training/averaging/averaging_device_checks.hpp: the checks of training whose ranks average what lies in a
// device's memory.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// They need module "training" and a device.
void add_averaging_device_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
