// reference/program/race_json.hpp: races as JSON.
#pragma once

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "reference/program/race_check.hpp"

namespace plumbline::program {

/// {"variable": "g", "first": 2, "second": 3, "why": "op 2 …"}.
[[nodiscard]] nlohmann::json json_of(const Race& race);
/// A list of these, in their order.
[[nodiscard]] nlohmann::json json_of(const std::vector<Race>& races);

}  // namespace plumbline::program
