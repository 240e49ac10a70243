#include "reference/support/nearest_name.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline {
namespace {

// Nobody misspells a longer name: comparing two of 100 kB would take minutes.
constexpr std::size_t kLongestName = 200;

std::size_t letters_between(std::string_view a, std::string_view b) {
  const auto lower = [](unsigned char letter) { return std::tolower(letter); };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({changed, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> meant_name(std::string_view name, const std::vector<std::string>& names) {
  if (name.size() > kLongestName) return std::nullopt;
  const auto nearest = std::ranges::min_element(names, {}, [&](const std::string& other) {
    return other.size() > kLongestName ? other.size() : letters_between(name, other);
  });
  if (nearest == names.end()) return std::nullopt;
  const std::string& other = *nearest;
  const std::size_t least = std::min(name.size(), other.size());
  const bool is_part = least > 2 && (other.find(name) != other.npos ||
                                     (name.find(other) != name.npos && 2 * other.size() >= name.size()));
  const std::size_t letters = letters_between(name, other);
  const bool is_near = letters <= std::max<std::size_t>(1, least / 3) && letters < least;
  return is_part || is_near ? std::optional(other) : std::nullopt;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& names) {
  const auto meant = meant_name(name, names);
  return meant ? fmt::format("; did you mean {}?", *meant) : "";
}

std::string there_are(std::string_view name, const std::vector<std::string>& names) {
  return fmt::format("there are {}{}", fmt::join(names, ", "), did_you_mean(name, names));
}

}  // namespace plumbline
