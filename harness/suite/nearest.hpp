// harness/suite/nearest.hpp: what somebody may have meant who misspelt a name.
#pragma once

#include <string>
#include <vector>

namespace plumbline::suite {

/// At most `most` of the names, those of the fewest changed characters first.
[[nodiscard]] std::vector<std::string> nearest_names(const std::string& name, std::vector<std::string> names,
                                                     std::size_t most);
/// The fewest characters inserted, removed or changed between two names (Levenshtein).
[[nodiscard]] std::size_t changed_characters(const std::string& a, const std::string& b);

}  // namespace plumbline::suite
