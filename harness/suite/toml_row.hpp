// harness/suite/toml_row.hpp: one table of a TOML file, read strictly: what is wrong is said with file, line and
// column.
#pragma once

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

namespace plumbline::suite {

/// Throws InvalidArgument: "FILE:LINE:COLUMN: why".
[[noreturn]] void refuse_at(std::string_view origin, const toml::source_region& where, const std::string& why);

/// Throws InvalidArgument for text that is no TOML.
[[nodiscard]] toml::table parse_toml(std::string_view text, std::string_view origin);

/// The [[name]] tables of a file; none where there are none. Throws InvalidArgument where `name` is something else.
[[nodiscard]] std::vector<const toml::table*> tables_of(const toml::table& file, std::string_view name,
                                                        std::string_view origin);

/// A whole day: "2027-03-31". Nothing for other text, and for days that there are not.
[[nodiscard]] std::optional<std::chrono::sys_days> parse_day(std::string_view text);
[[nodiscard]] std::string text_of(std::chrono::sys_days day);

class TomlRow {
 public:
  /// `what` is the table's name in messages: "an expectation". Throws InvalidArgument for a field that is none of
  /// `known`.
  TomlRow(const toml::table& table, std::string_view origin, std::string_view what,
          std::initializer_list<std::string_view> known);

  [[noreturn]] void refuse(const std::string& why) const { refuse_at(origin_, table_.source(), why); }
  /// At the field's value.
  [[noreturn]] void refuse(std::string_view field, const std::string& why) const;

  [[nodiscard]] bool has(std::string_view field) const { return table_.contains(field); }
  /// All throw InvalidArgument for a value of another kind; the first, list and day also where there is none.
  [[nodiscard]] std::string text(std::string_view field) const;
  [[nodiscard]] std::string text_or(std::string_view field, const std::string& otherwise) const;
  [[nodiscard]] std::vector<std::string> list(std::string_view field) const;
  /// Of a text ("2027-03-31") or a date of TOML (2027-03-31).
  [[nodiscard]] std::chrono::sys_days day(std::string_view field) const;
  [[nodiscard]] std::optional<std::chrono::sys_days> day_if_any(std::string_view field) const;

  /// "FILE:LINE" of the table.
  [[nodiscard]] std::string place() const;
  [[nodiscard]] int line() const { return static_cast<int>(table_.source().begin.line); }
  /// Where the field's value stands. Throws InvalidArgument where there is none.
  [[nodiscard]] const toml::source_region& source(std::string_view field) const { return node(field).source(); }

 private:
  [[nodiscard]] const toml::node& node(std::string_view field) const;

  const toml::table& table_;
  std::string origin_;
  std::string what_;
};

}  // namespace plumbline::suite
