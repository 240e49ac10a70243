// conformance/profiles/profiles.hpp: what a subject can claim, from profiles.toml.
#pragma once

#include <string_view>

#include "harness/suite/suite.hpp"

namespace plumbline::conformance {

/// Adds the profiles of a profiles.toml. `origin` is named in errors. Throws InvalidArgument with file, line, column
/// and what is wrong: syntax, a missing or unknown field, a name used twice, a prefix that no id can have, an unknown
/// capability.
void add_profiles(suite::Suite& suite, std::string_view text, std::string_view origin = "profiles.toml");

}  // namespace plumbline::conformance
