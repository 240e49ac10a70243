// reference/support/toml_fields.hpp: reads the fields of a TOML table into values. Internal to this folder.
//
// Errors  InvalidArgument: file:line:column, the field with its path, its value, and what it must be.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"
#include "reference/support/reading_json.hpp"

namespace plumbline::job {

[[noreturn]] inline void refuse(const std::string& origin, const toml::source_region& where, const std::string& why) {
  throw InvalidArgument(fmt::format("{}:{}:{}: {}", origin, where.begin.line, where.begin.column, why));
}

inline std::string shown(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& value) { text << value; });
  std::string whole = text.str();
  std::ranges::replace(whole, '\n', ' ');
  if (whole.size() > 60) whole.replace(57, std::string::npos, "...");
  return whole;
}

/// One table of the file: hands out its fields, and in the end rejects those that were not read.
class Fields {
 public:
  Fields(const toml::table& table, std::string path, const std::string& origin)
      : table_(table), path_(std::move(path)), origin_(origin) {}

  [[nodiscard]] bool has(std::string_view name) const { return table_.contains(name); }
  [[nodiscard]] bool is_text(std::string_view name) const { return has(name) && table_.get(name)->is_string(); }

  [[noreturn]] void wrong(std::string_view name, std::string_view right) const {
    const toml::node& node = *table_.get(name);
    refuse(origin_, node.source(), fmt::format("{} = {}; it must be {}", path_of(name), shown(node), right));
  }

  template <class Integer>
  void integer(std::string_view name, Integer& value) {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    const auto given = node->value_exact<std::int64_t>();
    if (!given || !std::in_range<Integer>(*given))
      wrong(name, fmt::format("a whole number, {} to {}", std::numeric_limits<Integer>::min(),
                              std::numeric_limits<Integer>::max()));
    value = static_cast<Integer>(*given);
  }
  void number(std::string_view name, double& value) {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    if (!node->is_number()) wrong(name, "a number");
    value = *node->value<double>();
  }
  void truth(std::string_view name, bool& value) {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    if (!node->is_boolean()) wrong(name, "true or false");
    value = *node->value_exact<bool>();
  }
  void text(std::string_view name, std::string& value) {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    if (!node->is_string()) wrong(name, "a text");
    value = *node->value_exact<std::string>();
  }
  // The position of a word among `words`.
  std::size_t word(std::string_view name, const std::vector<std::string>& words, std::size_t otherwise = 0) {
    if (!has(name)) return otherwise;
    std::string value;
    text(name, value);
    const auto found = std::ranges::find(words, value);
    if (found == words.end())
      wrong(name, fmt::format("one of {}{}", fmt::join(words, ", "), did_you_mean(value, words)));
    return static_cast<std::size_t>(found - words.begin());
  }
  template <class T>
  void list(std::string_view name, std::vector<T>& values, std::string_view right) {
    const toml::node* node = find(name);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr) wrong(name, right);
    values.clear();
    for (const toml::node& item : *array) {
      const auto value = item.value<T>();
      if (!value) wrong(name, right);
      values.push_back(*value);
    }
  }
  // The table of that name; nothing if the file has none.
  [[nodiscard]] std::optional<Fields> table(std::string_view name) {
    const toml::node* node = find(name);
    if (node == nullptr) return std::nullopt;
    if (!node->is_table()) wrong(name, fmt::format("a table, [{}]", path_of(name)));
    return Fields(*node->as_table(), path_of(name), origin_);
  }
  [[nodiscard]] std::vector<Fields> tables(std::string_view name) {
    std::vector<Fields> list;
    const toml::node* node = find(name);
    if (node == nullptr) return list;
    const toml::array* array = node->as_array();
    const auto form = fmt::format("tables, each begun with [[{}]]", path_of(name));
    if (array == nullptr) wrong(name, form);
    for (const toml::node& item : *array) {
      if (!item.is_table()) wrong(name, form);
      list.emplace_back(*item.as_table(), fmt::format("{}[{}]", path_of(name), list.size()), origin_);
    }
    return list;
  }
  void need(std::string_view name) const {
    if (has(name)) return;
    std::vector<std::string> others;
    for (const auto& [key, node] : table_)
      if (!asked_.contains(key.str())) others.emplace_back(key.str());
    refuse(origin_, table_.source(), reading::missing_field(path_of(name), name, others));
  }
  // After the last field was read.
  void done() const {
    for (const auto& [key, node] : table_)
      if (!asked_.contains(key.str()))
        refuse(origin_, key.source(),
               fmt::format("unknown field {}; known are {}{}", path_of(key.str()), fmt::join(asked_, ", "),
                           did_you_mean(key.str(), {asked_.begin(), asked_.end()})));
  }

 private:
  const toml::node* find(std::string_view name) {
    asked_.emplace(name);
    return table_.get(name);
  }
  [[nodiscard]] std::string path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }

  const toml::table& table_;
  std::string path_;
  const std::string& origin_;
  std::set<std::string, std::less<>> asked_;
};

}  // namespace plumbline::job
