// conformance/training/mixture_checks.hpp: the checks of mixtures of experts.
#pragma once

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Of the reference over a backend, or of a job. They need module "training"; their requirements are in
/// requirements.toml.
void add_mixture_checks(suite::Suite& suite, suite::Door door);

}  // namespace plumbline::conformance
