// reference/support/lower_case.hpp: names without regard to upper and lower case.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace plumbline {

/// The text with its ASCII letters in lower case.
[[nodiscard]] inline std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return lower;
}

}  // namespace plumbline
