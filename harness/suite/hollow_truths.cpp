#include "harness/suite/hollow_truths.hpp"

#include <fmt/format.h>

#include "harness/suite/toml_row.hpp"

namespace plumbline::suite {

void add_truths_of_toml(HollowTruths& truths, std::string_view text, std::string_view origin) {
  const toml::table file = parse_toml(text, origin);
  (void)TomlRow(file, origin, "the file", {"true_of"});
  for (const toml::table* table : tables_of(file, "true_of", origin)) {
    const TomlRow row(*table, origin, "a truth", {"subject", "requirements", "reason"});
    for (const std::string& requirement : row.list("requirements"))
      if (!truths[row.text("subject")].emplace(requirement, row.text("reason")).second)
        row.refuse("requirements", fmt::format("{} is listed twice", requirement));
  }
}

}  // namespace plumbline::suite
