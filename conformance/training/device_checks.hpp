// conformance/training/device_checks.hpp: the checks of training whose ranks exchange what lies in a device's memory.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// They need module "training" and a device; their requirements are in requirements.toml.
void add_training_device_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
