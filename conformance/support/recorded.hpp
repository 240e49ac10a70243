// conformance/support/recorded.hpp: answers that real programs gave, as files beside the suite.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace plumbline::conformance {

/// The file vectors/<name>.json of a component: {"schema", "source", "cases"}. Throws RuntimeFailure when it is not
/// there.
[[nodiscard]] nlohmann::json recorded(const std::string& component, const std::string& name);

}  // namespace plumbline::conformance
