// conformance/training/mixed_checks.hpp: the checks of training over tensor ranks, and in 16 bits.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// They need module "training"; their requirements are in mixed_requirements.toml, those of tensor ranks in
/// requirements.toml.
void add_mixed_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
