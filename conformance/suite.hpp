// conformance/suite.hpp: all that the checks of this version are.
#pragma once

#include <memory>

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Requirements, profiles and checks of every component. Throws InvalidArgument where a profiles.toml that was compiled
/// in is malformed.
[[nodiscard]] std::unique_ptr<suite::Suite> make_suite();

}  // namespace plumbline::conformance
