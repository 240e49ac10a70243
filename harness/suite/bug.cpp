#include "harness/suite/bug.hpp"

#include <regex>

#include <fmt/format.h>

#include "harness/suite/toml_row.hpp"

namespace plumbline::suite {

std::map<std::string, Bug> bugs_of_toml(std::string_view text, std::string_view origin) {
  const toml::table file = parse_toml(text, origin);
  (void)TomlRow(file, origin, "the file", {"bug"});
  std::map<std::string, Bug> bugs;
  for (const toml::table* table : tables_of(file, "bug", origin)) {
    const TomlRow row(*table, origin, "a bug", {"id", "reports", "what"});
    Bug bug{.id = row.text("id"), .reports = row.list("reports"), .what = row.text("what")};
    if (bug_in(bug.id) != bug.id)
      row.refuse("id",
                 fmt::format("id '{}'; it is three or four capitals or digits, a dash and two digits: COL-04, PIPE-04",
                             bug.id));
    const std::string id = bug.id;
    if (!bugs.emplace(id, std::move(bug)).second) row.refuse("id", fmt::format("id '{}' is used twice", id));
  }
  return bugs;
}

std::optional<std::string> bug_in(std::string_view source) {
  static const std::regex pattern("\\b([A-Z][A-Z0-9]{2,3}-[0-9]{2})\\b");
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_search(source.begin(), source.end(), match, pattern)) return std::nullopt;
  return match[1].str();
}

std::string address_of(std::string_view report) {
  const std::size_t sign = report.find_first_of("#@");
  const std::string_view project = report.substr(0, sign);
  if (sign == std::string_view::npos) return fmt::format("https://github.com/{}", project);
  return fmt::format("https://github.com/{}/{}/{}", project, report[sign] == '#' ? "issues" : "commit",
                     report.substr(sign + 1));
}

}  // namespace plumbline::suite
