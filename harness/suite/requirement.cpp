#include "harness/suite/requirement.hpp"

#include <array>
#include <cctype>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/fnv1a.hpp"

namespace plumbline::suite {
namespace {

constexpr std::array<std::string_view, 3> kLevels{"must", "should", "may"};

[[noreturn]] void refuse(std::string_view origin, const toml::source_region& where, const std::string& why) {
  throw InvalidArgument(fmt::format("{}:{}:{}: {}", origin, where.begin.line, where.begin.column, why));
}

std::string text_field(const toml::table& row, std::string_view name, std::string_view origin, bool required) {
  const toml::node* node = row.get(name);
  if (node == nullptr) {
    if (required) refuse(origin, row.source(), fmt::format("a requirement has no '{}'", name));
    return {};
  }
  const auto value = node->value_exact<std::string>();
  if (!value) refuse(origin, node->source(), fmt::format("'{}' must be a text", name));
  return *value;
}

std::vector<std::string> list_field(const toml::table& row, std::string_view name, std::string_view origin) {
  std::vector<std::string> list;
  const toml::node* node = row.get(name);
  if (node == nullptr) return list;
  const toml::array* array = node->as_array();
  if (array == nullptr) refuse(origin, node->source(), fmt::format("'{}' must be a list of texts", name));
  for (const toml::node& item : *array) {
    const auto value = item.value_exact<std::string>();
    if (!value) refuse(origin, item.source(), fmt::format("'{}' must be a list of texts", name));
    list.push_back(*value);
  }
  return list;
}

bool is_id(std::string_view id) {
  const auto dash = id.rfind('-');
  if (dash == std::string_view::npos || dash == 0 || id.size() - dash != 4) return false;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const auto c = static_cast<unsigned char>(id[i]);
    if (i != dash && (i < dash ? !std::isupper(c) : !std::isdigit(c))) return false;
  }
  return true;
}

Level level_of(const toml::table& row, std::string_view origin) {
  const std::string name = text_field(row, "level", origin, true);
  for (std::size_t level = 0; level < kLevels.size(); ++level)
    if (kLevels[level] == name) return static_cast<Level>(level);
  refuse(origin, row.get("level")->source(), fmt::format("level '{}'; it is must, should or may", name));
}

Requirement requirement_of(const toml::table& row, const std::string& component, std::string_view origin) {
  static const std::set<std::string_view> known{"id",     "level",   "since", "text", "source",
                                                "checks", "mutants", "needs", "tags"};
  for (const auto& [key, node] : row)
    if (!known.contains(key.str())) refuse(origin, key.source(), fmt::format("unknown field '{}'", key.str()));
  Requirement requirement{.id = text_field(row, "id", origin, true),
                          .component = component,
                          .level = level_of(row, origin),
                          .since = text_field(row, "since", origin, true),
                          .text = text_field(row, "text", origin, true),
                          .sources = list_field(row, "source", origin),
                          .checks = list_field(row, "checks", origin),
                          .mutants = list_field(row, "mutants", origin),
                          .needs = list_field(row, "needs", origin),
                          .tags = list_field(row, "tags", origin)};
  if (!is_id(requirement.id))
    refuse(origin, row.get("id")->source(),
           fmt::format("id '{}'; an id is capitals, a dash and three digits: COLL-014", requirement.id));
  return requirement;
}

}  // namespace

std::string_view name_of(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

std::string Requirement::citation() const { return id + "@" + sentence_hash(text); }

std::string sentence_hash(std::string_view text) {
  comm::Fnv1a mixed;
  bool blank = false;
  bool begun = false;
  const auto mix = [&mixed](char c) { mixed.add_word(static_cast<unsigned char>(c)); };
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) {
      blank = begun;
      continue;
    }
    if (blank) mix(' ');
    mix(c);
    blank = false;
    begun = true;
  }
  const std::uint64_t hash = mixed.value(), folded = hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48;
  return fmt::format("{:04x}", folded & 0xffffu);
}

std::string_view id_of_citation(std::string_view citation) { return citation.substr(0, citation.find('@')); }

void RequirementTable::add_toml(std::string_view text, std::string_view origin) {
  toml::table file;
  try {
    file = toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    refuse(origin, error.source(), std::string(error.description()));
  }
  const std::string component = text_field(file, "component", origin, true);
  const toml::array* rows = file["requirement"].as_array();
  if (rows == nullptr) refuse(origin, file.source(), "no [[requirement]] in it");
  for (const auto& [key, node] : file)
    if (key.str() != "component" && key.str() != "requirement")
      refuse(origin, key.source(), fmt::format("unknown field '{}'", key.str()));
  for (const toml::node& node : *rows) {
    const toml::table* row = node.as_table();
    if (row == nullptr) refuse(origin, node.source(), "a requirement must be a table");
    Requirement requirement = requirement_of(*row, component, origin);
    const std::string id = requirement.id;
    if (!rows_.emplace(id, std::move(requirement)).second)
      refuse(origin, row->source(), fmt::format("id '{}' is used twice", id));
  }
}

const Requirement* RequirementTable::find(std::string_view id) const {
  const auto found = rows_.find(std::string(id));
  return found == rows_.end() ? nullptr : &found->second;
}

}  // namespace plumbline::suite
