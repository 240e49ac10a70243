#include "harness/suite/waiver.hpp"

#include <fmt/format.h>

#include "harness/suite/toml_row.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::suite {
namespace {

std::vector<std::string> checks_of(const TomlRow& row) {
  std::vector<std::string> checks = row.list("checks");
  if (checks.empty()) row.refuse("checks", "'checks' must name a check at least");
  return checks;
}

std::string link_of(const TomlRow& row) {
  const std::string link = row.text("link");
  if (!link.starts_with("https://"))
    row.refuse("link", fmt::format("link '{}'; it must be a public issue, https://…", link));
  return link;
}

SubjectRange subject_of(const TomlRow& row) {
  try {
    return SubjectRange(row.text("subject"));
  } catch (const InvalidArgument& error) {
    row.refuse("subject", error.what());
  }
}

Waiver waiver_of(const toml::table& table, std::string_view origin) {
  const TomlRow row(table, origin, "a waiver",
                    {"subject", "device", "checks", "link", "reason", "grantor", "date", "until"});
  Waiver waiver{.subject = subject_of(row),
                .device = row.text_or("device", "*"),
                .checks = checks_of(row),
                .link = link_of(row),
                .reason = row.text("reason"),
                .grantor = row.text("grantor"),
                .date = row.day("date"),
                .until = row.day("until"),
                .origin = row.place()};
  if (waiver.until < waiver.date)
    row.refuse("until",
               fmt::format("until = '{}' is before its date, {}", text_of(waiver.until), text_of(waiver.date)));
  return waiver;
}

SuiteIssue issue_of(const toml::table& table, std::string_view origin) {
  const TomlRow row(table, origin, "a suite issue", {"checks", "link", "reason", "since"});
  return {.checks = checks_of(row),
          .link = link_of(row),
          .reason = row.text("reason"),
          .since = row.text("since"),
          .origin = row.place()};
}

}  // namespace

std::vector<Waiver> waivers_of_toml(std::string_view text, std::string_view origin) {
  const toml::table file = parse_toml(text, origin);
  (void)TomlRow(file, origin, "the file", {"waive"});
  std::vector<Waiver> waivers;
  for (const toml::table* table : tables_of(file, "waive", origin)) waivers.push_back(waiver_of(*table, origin));
  return waivers;
}

std::vector<SuiteIssue> suite_issues_of_toml(std::string_view text, std::string_view origin) {
  const toml::table file = parse_toml(text, origin);
  (void)TomlRow(file, origin, "the file", {"issue"});
  std::vector<SuiteIssue> issues;
  for (const toml::table* table : tables_of(file, "issue", origin)) issues.push_back(issue_of(*table, origin));
  return issues;
}

}  // namespace plumbline::suite
