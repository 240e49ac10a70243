#include "harness/suite/mutant.hpp"

#include <fmt/format.h>

#include "harness/suite/toml_row.hpp"

namespace plumbline::suite {
namespace {

Sanitized sanitized_of(const TomlRow& row) {
  const std::string name = row.text_or("sanitized", "shows");
  if (name == "shows") return Sanitized::shows;
  if (name == "race") return Sanitized::race;
  if (name == "measured") return Sanitized::measured;
  row.refuse(fmt::format("sanitized is '{}'; it is shows, race or measured", name));
}

SourceEdit edit_of(const TomlRow& row) {
  const std::string at = row.text("at");
  const std::size_t colon = at.find(": ");
  return {.file = at.substr(0, colon),
          .function = colon == std::string::npos ? "" : at.substr(colon + 2),
          .find = row.text("find"),
          .replace = row.text_or("replace", "")};
}

// One edit is fields of the mutant, several are tables.
Edits edits_of(const toml::table& mutant, const TomlRow& row, std::string_view origin) {
  const auto tables = tables_of(mutant, "edit", origin);
  if (tables.empty()) return {.list = {edit_of(row)}};
  for (const char* field : {"at", "find", "replace"})
    if (row.has(field)) row.refuse(field, fmt::format("'{}' beside [[mutant.edit]]; put it into an edit", field));
  Edits edits;
  for (const toml::table* table : tables)
    edits.list.push_back(edit_of(TomlRow(*table, origin, "an edit", {"at", "find", "replace"})));
  return edits;
}

}  // namespace

Door door_of(const Mutant& mutant) {
  if (const auto* edits = std::get_if<Edits>(&mutant.change)) return edits->door;
  if (std::holds_alternative<RewriteAnswer>(mutant.change) || std::holds_alternative<MakeRewrite>(mutant.change))
    return Door::adapter;
  return std::holds_alternative<ChangeRecord>(mutant.change) ? Door::job : Door::backend;
}

std::vector<Mutant> mutants_of_toml(std::string_view text, std::string_view origin) {
  const toml::table file = parse_toml(text, origin);
  (void)TomlRow(file, origin, "the file", {"mutant"});
  std::vector<Mutant> mutants;
  for (const toml::table* table : tables_of(file, "mutant", origin)) {
    const TomlRow row(*table, origin, "a mutant",
                      {"id", "violates", "what", "source", "shows", "shows_arm", "hides", "hides_arm", "because",
                       "sanitized", "at", "find", "replace", "edit"});
    mutants.push_back({.name = row.text("id"),
                       .violates = row.text("violates"),
                       .what = row.text("what"),
                       .source = row.text("source"),
                       .shows = row.text("shows"),
                       .hides = row.text_or("hides", ""),
                       .why_hides = row.text("because"),
                       .change = edits_of(*table, row, origin),
                       .shows_arm = row.text_or("shows_arm", "plain"),
                       .hides_arm = row.text_or("hides_arm", "plain"),
                       .sanitized = sanitized_of(row)});
  }
  return mutants;
}

}  // namespace plumbline::suite
