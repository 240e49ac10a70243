// reference/support/nearest_name.hpp: the known name that a misspelt one may mean.
#pragma once

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// The text with its ASCII letters in lower case.
[[nodiscard]] inline std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return lower;
}

/// The name that `name` may be a misspelling of: that from which it differs in the fewest letters inserted, removed or
/// changed (Levenshtein, upper and lower case being the same), where those are no more than a third of the shorter
/// one, or one letter of several; or of which it is a part of three letters or more; or which is at least half of it.
/// Nothing where no name is that near.
[[nodiscard]] std::optional<std::string> meant_name(std::string_view name, const std::vector<std::string>& names);

/// "; did you mean ring?" of that name, or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view name, const std::vector<std::string>& names);

/// "there are local, mpi, nccl; did you mean local?": all names, and the one that `name` may have meant.
[[nodiscard]] std::string there_are(std::string_view name, const std::vector<std::string>& names);

}  // namespace plumbline
