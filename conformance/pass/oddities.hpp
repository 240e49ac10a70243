// conformance/pass/oddities.hpp: what may be odd about a training step: each of these breaks a pass that looks at
// positions or at the first of several things.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace plumbline::conformance {

/// "none", "average", "cast", …
[[nodiscard]] const std::vector<std::string>& oddities();

/// Changes the program of a drawn step so that it is odd in that way; `where` chooses the gradient. Throws NotFound for
/// an oddity that there is not.
void make_odd(nlohmann::json& args, const std::string& oddity, int where);

}  // namespace plumbline::conformance
