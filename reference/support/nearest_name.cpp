#include "reference/support/nearest_name.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline {
namespace {

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

std::vector<std::string> nearest_names(std::string_view name, std::vector<std::string> names, std::size_t most) {
  std::ranges::stable_sort(names, {}, [&](const std::string& other) { return letters_between(name, other); });
  names.resize(std::min(names.size(), most));
  return names;
}

std::string did_you_mean(std::string_view name, std::vector<std::string> names) {
  const auto nearest = nearest_names(name, std::move(names), 1);
  if (nearest.empty()) return {};
  const std::string& other = nearest.front();
  const std::size_t least = std::min(name.size(), other.size());
  const bool is_part = least > 2 && (name.find(other) != name.npos || other.find(name) != other.npos);
  const bool is_near = letters_between(name, other) <= std::max<std::size_t>(1, least / 3);
  return is_part || is_near ? fmt::format("; did you mean {}?", other) : "";
}

std::string there_are(std::string_view name, const std::vector<std::string>& names) {
  return fmt::format("there are {}{}", fmt::join(names, ", "), did_you_mean(name, names));
}

}  // namespace plumbline
