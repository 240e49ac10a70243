#include "harness/suite/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace plumbline::suite {

std::size_t changed_characters(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({changed, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

std::vector<std::string> nearest_names(const std::string& name, std::vector<std::string> names, std::size_t most) {
  std::ranges::stable_sort(names, {}, [&](const std::string& other) { return changed_characters(name, other); });
  names.resize(std::min(names.size(), most));
  return names;
}

}  // namespace plumbline::suite
