#include "harness/suite/toml_row.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::suite {

void refuse_at(std::string_view origin, const toml::source_region& where, const std::string& why) {
  throw InvalidArgument(fmt::format("{}:{}:{}: {}", origin, where.begin.line, where.begin.column, why));
}

toml::table parse_toml(std::string_view text, std::string_view origin) {
  try {
    return toml::parse(text, origin);
  } catch (const toml::parse_error& error) {
    refuse_at(origin, error.source(), std::string(error.description()));
  }
}

std::vector<const toml::table*> tables_of(const toml::table& file, std::string_view name, std::string_view origin) {
  std::vector<const toml::table*> tables;
  const toml::node* node = file.get(name);
  if (node == nullptr) return tables;
  const std::string form = fmt::format("'{}' must be tables: [[{}]]", name, name);
  if (!node->is_array()) refuse_at(origin, node->source(), form);
  for (const toml::node& item : *node->as_array()) {
    if (!item.is_table() || item.as_table()->is_inline()) refuse_at(origin, item.source(), form);
    tables.push_back(item.as_table());
  }
  return tables;
}

std::optional<std::chrono::sys_days> parse_day(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto number = [&](std::size_t begin, std::size_t count) {
    int value = -1;
    const char* end = text.data() + begin + count;
    return std::from_chars(text.data() + begin, end, value).ptr == end ? value : -1;
  };
  const int year = number(0, 4), month = number(5, 2), day = number(8, 2);
  if (year < 0 || month < 0 || day < 0) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days(date);
}

std::string text_of(std::chrono::sys_days day) {
  const std::chrono::year_month_day date(day);
  return fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                     static_cast<unsigned>(date.day()));
}

TomlRow::TomlRow(const toml::table& table, std::string_view origin, std::string_view what,
                 std::initializer_list<std::string_view> known)
    : table_(table), origin_(origin), what_(what) {
  for (const auto& [key, node] : table)
    if (std::ranges::find(known, key.str()) == known.end())
      refuse_at(origin_, key.source(),
                fmt::format("unknown field '{}'; {} has {}{}", key.str(), what_, fmt::join(known, ", "),
                            did_you_mean(key.str(), {known.begin(), known.end()})));
}

void TomlRow::refuse(std::string_view field, const std::string& why) const {
  refuse_at(origin_, node(field).source(), why);
}

const toml::node& TomlRow::node(std::string_view field) const {
  const toml::node* found = table_.get(field);
  if (found == nullptr) refuse(fmt::format("{} has no '{}'", what_, field));
  return *found;
}

std::string TomlRow::text(std::string_view field) const {
  const auto value = node(field).value_exact<std::string>();
  if (!value || value->empty()) refuse(field, fmt::format("'{}' must be a text that is not empty", field));
  return *value;
}

std::string TomlRow::text_or(std::string_view field, const std::string& otherwise) const {
  return has(field) ? text(field) : otherwise;
}

std::vector<std::string> TomlRow::list(std::string_view field) const {
  const toml::array* array = node(field).as_array();
  if (array == nullptr) refuse(field, fmt::format("'{}' must be a list of texts", field));
  std::vector<std::string> values;
  for (const toml::node& item : *array) {
    const auto value = item.value_exact<std::string>();
    if (!value) refuse_at(origin_, item.source(), fmt::format("'{}' must be a list of texts", field));
    values.push_back(*value);
  }
  return values;
}

std::chrono::sys_days TomlRow::day(std::string_view field) const {
  if (const auto date = node(field).value_exact<toml::date>())
    return std::chrono::sys_days(std::chrono::year(date->year) / date->month / date->day);
  if (node(field).is_date_time())
    refuse(field, fmt::format("'{}' must be a day without a time; write \"2027-03-31\"", field));
  const std::string written = text(field);
  const auto day = parse_day(written);
  if (!day) refuse(field, fmt::format("{} = '{}' is no day; write \"2027-03-31\"", field, written));
  return *day;
}

std::optional<std::chrono::sys_days> TomlRow::day_if_any(std::string_view field) const {
  if (!has(field)) return std::nullopt;
  return day(field);
}

std::string TomlRow::place() const { return fmt::format("{}:{}", origin_, line()); }

}  // namespace plumbline::suite
