// harness/subject/adapter/operation_row.hpp: what an operation is asked and answers, as a row of one table.
//
// Model   Each operation of the reference stands beside its row. The service refuses arguments that the row does not name, hello
//         lists the options of all rows, and a check's questions are held to what it declares by them.
// Types   boolean, integer, number (also "inf", "-inf", "nan"), text, object, any, "list of T", "map of T" (an object whose
//         fields are Ts), and "T or T".
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/suite/check.hpp"

namespace plumbline::subject {

using Words = std::vector<std::string>;

/// Of ArgumentRow::otherwise: the argument has to be given.
inline constexpr const char* kRequired = "";
/// It may be left out, and has no default value.
inline constexpr const char* kOptional = "null";

struct ArgumentRow {
  std::string name;  // "schedule"; of a field of objects inside, by its path: "optimizer.name", "calls.operation"
  std::string type;  // "list of number"
  std::string what;  // one line
  std::string otherwise = kRequired;  // or kOptional, or the default as JSON
  Words options = {};                 // the values of an option: a subject may have some of them
  Words conventions = {};             // those that take it, where not all of the operation's do
  Words unassumed = {};               // values of options that a subject has only where its greeting names them
};

/// One of several forms in which an operation is asked. They are the values of its option "form".
struct FormRow {
  std::string name;  // "ranks"
  std::string field;  // the argument that only this form has; empty: of all other questions
};

struct ResultRow {
  std::string name;
  std::string type;
  std::string what;
};

struct OperationRow {
  std::string name;  // "schedules.generate"
  std::string what;
  Words conventions;
  std::vector<ArgumentRow> arguments;
  std::vector<ResultRow> results;
  std::vector<FormRow> forms = {};

  [[nodiscard]] const ArgumentRow* find(std::string_view argument) const;
  /// Whether a question in that convention may have that argument.
  [[nodiscard]] bool takes(std::string_view argument, std::string_view convention) const;
  /// All values of all options: by argument.
  [[nodiscard]] suite::OptionValues::mapped_type options() const;
  /// What is assumed of a subject that does not name the values of an option, where that is not all of them: by argument.
  [[nodiscard]] suite::OptionValues::mapped_type assumed_options() const;
  /// The values of options that a question asks for, defaults included.
  [[nodiscard]] suite::OptionValues::mapped_type options_asked(const nlohmann::json& args) const;
};

/// The convention that a question asks for: plumbline unless it names one.
[[nodiscard]] std::string convention_asked(const nlohmann::json& args);
/// Whether a value is of a type of a row. Throws InvalidArgument for a type that is none.
[[nodiscard]] bool is_of_type(const nlohmann::json& value, std::string_view type);

}  // namespace plumbline::subject
