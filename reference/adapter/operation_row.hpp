// reference/adapter/operation_row.hpp: what an operation is asked and answers, as a row of one table.
//
// Model   Each operation of the reference stands beside its row. The service rejects arguments that the row does not
//         name, hello lists the options of all rows, and a check's questions are held to what it declares by them.
// Fields  An argument that is an object, or a list of objects, has rows for its fields: with_fields(). In a service
//         they follow it under their paths: "layers.forward"; "views.*.shape" of a map, whose names are the caller's.
//         So do results.
// Units   Stand in the type's brackets, as do lengths of lists: "number [s]", "list of list of number
//         [ranks][elements]".
// Types   boolean, integer (32 bits), long integer (64), number (also "inf", "-inf", "nan"), text, object, any, "list
//         of T", "map of T" (an object whose fields are Ts), and "T or T".
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json.hpp>

namespace plumbline::adapter {

using Words = std::vector<std::string>;
/// Values of options, by argument.
using Options = std::map<std::string, std::set<std::string>>;

/// Of ArgumentRow::otherwise: the argument has to be given.
inline constexpr const char* kRequired = "";
/// It may be left out, and has no default value.
inline constexpr const char* kOptional = "null";

struct ArgumentRow {
  std::string name;  // "schedule"; of a field of objects inside, by its path: "optimizer.name", "calls.operation"
  std::string type;  // "list of number"
  std::string what;  // one line
  std::string otherwise = kRequired;     // or kOptional, or the default as JSON
  Words options = {};                    // the values of an option: a subject may have some of them
  Words conventions = {};                // those that take it, where not all of the operation's do
  Words unassumed = {};                  // values of options that a subject has only where its greeting names them
  std::vector<ArgumentRow> fields = {};  // of the object; in a service they are rows of their own
  bool where_named = false;              // asked only of a subject whose option "fields" names it
};

/// One of several forms in which an operation is asked. They are the values of its option "form".
struct FormRow {
  std::string name;   // "ranks"
  std::string field;  // the argument that only this form has; empty: of all other questions
};

struct ResultRow {
  std::string name;
  std::string type;
  std::string what;
  std::vector<ResultRow> fields = {};  // as of ArgumentRow
};

/// The row with rows of its object's fields.
[[nodiscard]] ArgumentRow with_fields(ArgumentRow row, std::vector<ArgumentRow> fields);
/// Of an argument that a subject may lack: the operation got it later, so that those written before reject it as an
/// unknown one, or not every system can do it. Its path is a value of the option "fields", which a subject has only
/// where its greeting names it. A question that has it, with any value but null, needs it.
[[nodiscard]] ArgumentRow where_named(ArgumentRow row);

/// Why a question that is well formed is rejected.
struct RefusalRow {
  std::string kind;  // of Error: "not_found"
  std::string when;  // "an axis has another name"
};

struct OperationRow {
  std::string name;  // "schedules.generate"
  std::string what;
  Words conventions;
  std::vector<ArgumentRow> arguments;
  std::vector<ResultRow> results;
  std::string example = "{}";             // arguments of a question that is answered, as JSON
  std::vector<RefusalRow> refusals = {};  // besides common_refusals()
  std::vector<FormRow> forms = {};

  /// The row of an argument, or of a field by its path: find_row().
  [[nodiscard]] const ArgumentRow* find(std::string_view argument) const;
  /// Whether a question in that convention may have that argument.
  [[nodiscard]] bool takes(std::string_view argument, std::string_view convention) const;
  /// All values of all options: by argument.
  [[nodiscard]] Options options() const;
  /// What is assumed of a subject that does not name the values of an option, where that is not all of them: by
  /// argument.
  [[nodiscard]] Options assumed_options() const;
  /// The values of options that a question asks for, defaults included.
  [[nodiscard]] Options options_asked(const nlohmann::json& args) const;
};

/// Whether a path is that of a row, or of a field below it. A row with * in its name is that of any name there.
[[nodiscard]] bool is_path_of(std::string_view row, std::string_view path);
[[nodiscard]] bool is_below(std::string_view row, std::string_view path);

/// The row of a path, of its own name before one with *; null if no row has it.
template <class Row>
[[nodiscard]] const Row* find_row(const std::vector<Row>& rows, std::string_view path) {
  for (const Row& row : rows)
    if (row.name == path) return &row;
  for (const Row& row : rows)
    if (is_path_of(row.name, path)) return &row;
  return nullptr;
}
/// Whether rows name the fields of the object at a path; else it is described in words.
template <class Row>
[[nodiscard]] bool names_fields(const std::vector<Row>& rows, std::string_view path) {
  return std::ranges::any_of(rows, [&](const Row& row) { return is_below(row.name, path); });
}

/// The two above, of paths that come again for each item of a list.
template <class Row>
class RowsOfPaths {
 public:
  struct Found {
    const Row* row;     // null: none
    bool names_fields;  // of the object there
  };
  explicit RowsOfPaths(const std::vector<Row>& rows) : rows_(rows) {}
  const Found& at(const std::string& path) {
    if (const auto known = found_.find(path); known != found_.end()) return known->second;
    return found_.emplace(path, Found{find_row(rows_, path), path.empty() || names_fields(rows_, path)}).first->second;
  }

 private:
  const std::vector<Row>& rows_;
  std::unordered_map<std::string, Found> found_;
};

/// What every operation rejects.
[[nodiscard]] const std::vector<RefusalRow>& common_refusals();

/// The convention that a question asks for: plumbline unless it names one.
[[nodiscard]] std::string convention_asked(const nlohmann::json& args);
/// Whether one of the values of an option is that one, or the kind of which it is one: cuda of cuda:1.
[[nodiscard]] bool claims_value(const std::set<std::string>& values, std::string_view value);
/// What of a result is another number than the integer that its row says: "boundaries: 0.9 is no integer". A fraction
/// of zero may be written out. Nothing where all are.
[[nodiscard]] std::optional<std::string> wrong_integer(const OperationRow& row, const nlohmann::json& result);
/// Whether a value is of a type of a row, whatever its unit. Throws InvalidArgument for an unknown type.
[[nodiscard]] bool is_of_type(const nlohmann::json& value, std::string_view type);

}  // namespace plumbline::adapter
