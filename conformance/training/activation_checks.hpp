// conformance/training/activation_checks.hpp: the outputs of layers that jobs record, and their gradients.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

void add_activation_checks(suite::Suite& suite);

}  // namespace plumbline::conformance
