#include "conformance/profiles/profiles.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "reference/comm/errors.hpp"

namespace plumbline::conformance {
namespace {

constexpr std::array<std::string_view, 5> kFields{"name", "version", "title", "prefixes", "mandatory"};

// One row of the file, and where it stands.
class Row {
 public:
  Row(const toml::table& table, std::string_view origin) : table_(table), origin_(origin) {
    for (const auto& [key, node] : table)
      if (std::ranges::find(kFields, key.str()) == kFields.end())
        refuse(key.source(), fmt::format("unknown field '{}'; a profile has {}", key.str(), fmt::join(kFields, ", ")));
  }

  [[noreturn]] void refuse(const toml::source_region& where, const std::string& why) const {
    throw InvalidArgument(fmt::format("{}:{}:{}: {}", origin_, where.begin.line, where.begin.column, why));
  }
  [[noreturn]] void refuse(std::string_view field, const std::string& why) const { refuse(node(field).source(), why); }

  [[nodiscard]] std::string text(std::string_view field) const {
    const auto value = node(field).value_exact<std::string>();
    if (!value || value->empty()) refuse(field, fmt::format("'{}' must be a text", field));
    return *value;
  }

  [[nodiscard]] std::vector<std::string> list(std::string_view field) const {
    std::vector<std::string> values;
    const toml::array* array = node(field).as_array();
    if (array == nullptr) refuse(field, fmt::format("'{}' must be a list of texts", field));
    for (const toml::node& item : *array) {
      const auto value = item.value_exact<std::string>();
      if (!value) refuse(item.source(), fmt::format("'{}' must be a list of texts", field));
      values.push_back(*value);
    }
    return values;
  }

 private:
  [[nodiscard]] const toml::node& node(std::string_view field) const {
    const toml::node* found = table_.get(field);
    if (found == nullptr) refuse(table_.source(), fmt::format("a profile has no '{}'", field));
    return *found;
  }

  const toml::table& table_;
  std::string_view origin_;
};

suite::Profile profile_of(const Row& row) {
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

toml::table parse(std::string_view text, std::string_view origin) {
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    const auto& at = error.source().begin;
    throw InvalidArgument(fmt::format("{}:{}:{}: {}", origin, at.line, at.column, error.description()));
  }
}

}  // namespace

void add_profiles(suite::Suite& suite, std::string_view text, std::string_view origin) {
  const toml::table file = parse(text, origin);
  for (const auto& [key, node] : file)
    if (key.str() != "profile")
      throw InvalidArgument(fmt::format("{}:{}: unknown field '{}'", origin, key.source().begin.line, key.str()));
  const toml::array* rows = file["profile"].as_array();
  if (rows == nullptr) throw InvalidArgument(fmt::format("{}: no [[profile]] in it", origin));
  for (const toml::node& node : *rows) {
    if (!node.is_table())
      throw InvalidArgument(fmt::format("{}:{}: a profile must be a table", origin, node.source().begin.line));
    const Row row(*node.as_table(), origin);
    suite::Profile profile = profile_of(row);
    if (std::ranges::any_of(suite.profiles(), [&](const suite::Profile& other) { return other.name == profile.name; }))
      row.refuse("name", fmt::format("profile '{}' stands twice", profile.name));
    suite.add(std::move(profile));
  }
}

}  // namespace plumbline::conformance
