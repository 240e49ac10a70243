#include "reference/adapter/operation_row.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

// Adds the texts that stand at a path, through lists, and the names of an object's fields; nothing for other values.
void add_texts_at(const json& value, std::string_view path, std::set<std::string>& texts) {
  if (value.is_array()) {
    for (const json& item : value) add_texts_at(item, path, texts);
  } else if (path.empty()) {
    if (value.is_string()) texts.insert(value.get<std::string>());
    if (value.is_object())
      for (const auto& [name, field] : value.items()) texts.insert(name);
  } else if (value.is_object()) {
    const std::size_t dot = path.find('.');
    const auto field = value.find(std::string(path.substr(0, dot)));
    if (field != value.end())
      add_texts_at(*field, dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1), texts);
  }
}

bool has(const json& args, const std::string& name) {
  const auto field = args.find(name);
  return field != args.end() && !field->is_null();
}

// Whether anything but null stands at a path, through lists.
bool is_given_at(const json& value, std::string_view path) {
  if (path.empty()) return !value.is_null();
  if (value.is_array()) return std::ranges::any_of(value, [&](const json& item) { return is_given_at(item, path); });
  const std::size_t dot = path.find('.');
  const auto field = value.find(path.substr(0, dot));
  return field != value.end() &&
         is_given_at(*field, dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1));
}

bool is_integer(const json& value, bool is_long) {
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    return number == std::floor(number) && std::abs(number) < (is_long ? 0x1p53 : 0x1p31);
  }
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()})
    return false;
  return is_long || std::in_range<std::int32_t>(value.get<std::int64_t>());
}

// The first number in a value that is no such integer.
const json* number_besides(const json& value, bool is_long) {
  if (value.is_number()) return is_integer(value, is_long) ? nullptr : &value;
  if (!value.is_structured()) return nullptr;
  for (const json& item : value)
    if (const json* found = number_besides(item, is_long)) return found;
  return nullptr;
}

std::optional<std::string> wrong_integer(RowsOfPaths<ResultRow>& rows, const json& value, const std::string& path) {
  if (value.is_array()) {
    for (const json& item : value)
      if (item.is_structured())
        if (auto found = wrong_integer(rows, item, path)) return found;
    return std::nullopt;
  }
  if (!value.is_object() || !rows.at(path).names_fields) return std::nullopt;
  for (const auto& [name, field] : value.items()) {
    std::string inside = path.empty() ? name : path + "." + name;
    std::replace(inside.end() - static_cast<std::ptrdiff_t>(name.size()), inside.end(), '.', '_');  // of a map
    const ResultRow* row = rows.at(inside).row;
    const std::string_view type = row == nullptr ? std::string_view() : std::string_view(row->type);
    if (type.find("integer") != std::string_view::npos && type.find("number") == std::string_view::npos)
      if (const json* found = number_besides(field, type.find("long integer") != std::string_view::npos))
        return fmt::format("{}: {} is no {}", inside, found->dump(), type);
    if (!field.is_structured()) continue;
    if (auto found = wrong_integer(rows, field, inside)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> wrong_integer(const OperationRow& row, const json& result) {
  RowsOfPaths<ResultRow> rows(row.results);
  return wrong_integer(rows, result, "");
}

ArgumentRow with_fields(ArgumentRow row, std::vector<ArgumentRow> fields) {
  row.fields = std::move(fields);
  return row;
}

ArgumentRow where_named(ArgumentRow row) {
  row.where_named = true;
  return row;
}

bool is_path_of(std::string_view row, std::string_view path) {
  for (;;) {
    const std::size_t row_dot = row.find('.'), path_dot = path.find('.');
    if (row.substr(0, row_dot) != "*" && row.substr(0, row_dot) != path.substr(0, path_dot)) return false;
    if (row_dot == std::string_view::npos || path_dot == std::string_view::npos) return row_dot == path_dot;
    row.remove_prefix(row_dot + 1), path.remove_prefix(path_dot + 1);
  }
}

bool is_below(std::string_view row, std::string_view path) {
  for (std::size_t dot = row.find('.'); dot != std::string_view::npos; dot = row.find('.', dot + 1))
    if (is_path_of(row.substr(0, dot), path)) return true;
  return false;
}

const std::vector<RefusalRow>& common_refusals() {
  static const std::vector<RefusalRow> rows{
      {"invalid_argument", "a required field is missing, a field is unknown, or a value has another type"},
      {"out_of_range", "an integer does not fit into its type"},
      {"unsupported", "the operation does not have the convention"}};
  return rows;
}

const ArgumentRow* OperationRow::find(std::string_view argument) const { return find_row(arguments, argument); }

bool OperationRow::takes(std::string_view argument, std::string_view convention) const {
  const ArgumentRow* row = find(argument);
  return row != nullptr && (row->conventions.empty() || std::ranges::count(row->conventions, convention) > 0);
}

Options OperationRow::options() const {
  Options all;
  for (const ArgumentRow& argument : arguments)
    if (!argument.options.empty()) all[argument.name] = {argument.options.begin(), argument.options.end()};
  for (const ArgumentRow& argument : arguments)
    if (argument.where_named) all["fields"].insert(argument.name);
  for (const FormRow& form : forms) all["form"].insert(form.name);
  return all;
}

Options OperationRow::assumed_options() const {
  Options assumed;
  for (const ArgumentRow& argument : arguments) {
    if (argument.where_named) assumed["fields"] = {};
    if (argument.unassumed.empty()) continue;
    std::set<std::string>& values = assumed[argument.name] = {argument.options.begin(), argument.options.end()};
    for (const std::string& each : argument.unassumed) values.erase(each);
  }
  return assumed;
}

Options OperationRow::options_asked(const json& args) const {
  Options asked;
  if (!args.is_object()) return asked;
  const std::string convention = convention_asked(args);
  for (const ArgumentRow& argument : arguments) {
    if (argument.where_named && is_given_at(args, argument.name)) asked["fields"].insert(argument.name);
    if (argument.options.empty() || !takes(argument.name, convention)) continue;
    std::set<std::string> texts;
    const json otherwise = argument.otherwise == kRequired ? json() : json::parse(argument.otherwise);
    add_texts_at(args, argument.name, texts);
    if (texts.empty() && !has(args, argument.name)) add_texts_at(otherwise, "", texts);
    // What is no value of the option is a bad question, which a subject with any of them refuses.
    const std::set<std::string> known(argument.options.begin(), argument.options.end());
    std::erase_if(texts, [&](const std::string& each) { return !claims_value(known, each); });
    if (!texts.empty()) asked[argument.name] = std::move(texts);
  }
  const auto form =
      std::ranges::find_if(forms, [&](const FormRow& each) { return each.field.empty() || has(args, each.field); });
  if (form != forms.end()) asked["form"] = {form->name};
  return asked;
}

std::string convention_asked(const json& args) {
  const auto field = args.find("convention");
  return field == args.end() || !field->is_string() ? "plumbline" : field->get<std::string>();
}

bool claims_value(const std::set<std::string>& values, std::string_view value) {
  if (values.contains(std::string(value))) return true;
  const std::size_t colon = value.find(':');
  return colon != std::string_view::npos && values.contains(std::string(value.substr(0, colon)));
}

bool is_of_type(const json& value, std::string_view type) {
  type = type.substr(0, type.find(" ["));
  constexpr std::string_view kOr = " or ", kList = "list of ", kMap = "map of ";
  if (const std::size_t at = type.find(kOr); at != std::string_view::npos)
    return is_of_type(value, type.substr(0, at)) || is_of_type(value, type.substr(at + kOr.size()));
  const auto all_are = [&](std::string_view inner) {
    return std::ranges::all_of(value, [&](const json& item) { return is_of_type(item, inner); });
  };
  if (type.starts_with(kList)) return value.is_array() && all_are(type.substr(kList.size()));
  if (type.starts_with(kMap)) return value.is_object() && all_are(type.substr(kMap.size()));
  if (type == "any") return true;
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer" || type == "long integer") return value.is_number_integer();
  if (type == "number") return value.is_number() || value == "inf" || value == "-inf" || value == "nan";
  if (type == "text") return value.is_string();
  if (type == "object") return value.is_object();
  throw InvalidArgument(fmt::format("'{}' is no type of an argument", type));
}

}  // namespace plumbline::adapter
