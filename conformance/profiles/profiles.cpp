#include "conformance/profiles/profiles.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "harness/suite/toml_row.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

suite::Profile profile_of(const suite::TomlRow& row) {
  suite::Profile profile{.name = row.text("name"),
                         .version = row.text("version"),
                         .title = row.text("title"),
                         .prefixes = row.list("prefixes"),
                         .mandatory = row.list("mandatory")};
  if (profile.prefixes.empty()) row.refuse("prefixes", "a profile needs a prefix of requirement ids: [\"COLL\"]");
  for (const std::string& prefix : profile.prefixes)
    if (prefix.empty() || !std::ranges::all_of(prefix, [](unsigned char c) { return std::isupper(c); }))
      row.refuse("prefixes", fmt::format("prefix '{}'; a prefix is capitals: \"COLL\"", prefix));
  for (const std::string& capability : profile.mandatory)
    if (!comm::parse_capability(capability)) row.refuse("mandatory", fmt::format("'{}' is no capability", capability));
  return profile;
}

}  // namespace

void add_profiles(suite::Suite& suite, std::string_view text, std::string_view origin) {
  const toml::table file = suite::parse_toml(text, origin);
  for (const auto& [key, node] : file)
    if (key.str() != "profile") suite::refuse_at(origin, key.source(), fmt::format("unknown field '{}'", key.str()));
  const auto tables = suite::tables_of(file, "profile", origin);
  if (tables.empty()) throw InvalidArgument(fmt::format("{}: no [[profile]] in it", origin));
  for (const toml::table* table : tables) {
    const suite::TomlRow row(*table, origin, "a profile", {"name", "version", "title", "prefixes", "mandatory"});
    suite::Profile profile = profile_of(row);
    if (std::ranges::any_of(suite.profiles(), [&](const suite::Profile& other) { return other.name == profile.name; }))
      row.refuse("name", fmt::format("profile '{}' stands twice", profile.name));
    suite.add(std::move(profile));
  }
}

}  // namespace plumbline::conformance
