// harness/cli/json_text.hpp: JSON that a user wrote.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace plumbline::cli {

/// The JSON of a text. Throws InvalidArgument with name, line and column for text that is not JSON, and for a field
/// that an object has twice.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, const std::string& name);

}  // namespace plumbline::cli
