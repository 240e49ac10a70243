#include "reference/adapter/describe.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/adapter/protocol.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

const OperationRow& row_of(const AdapterService& service, const std::string& name) {
  const auto found = service.operations().find(name);
  if (found != service.operations().end()) return found->second.row;
  std::vector<std::string> names;
  for (const auto& [known, entry] : service.operations()) names.push_back(known);
  throw NotFound(fmt::format("there is no operation {}; plumbline adapter --describe lists all{}", excerpt(name),
                             did_you_mean(name, names)));
}

bool is_field(const std::string& name) { return name.find('.') != std::string::npos; }
bool is_required(const ArgumentRow& row) { return row.otherwise == kRequired; }

// Without a rule of our own, whose rule is asked for has to be said.
ArgumentRow row_of_convention(const OperationRow& row) {
  const bool has_ours = std::ranges::count(row.conventions, "plumbline") > 0;
  return {.name = "convention",
          .type = "text",
          .what = "whose rule is asked for",
          .otherwise = has_ours ? R"("plumbline")" : kRequired,
          .options = row.conventions};
}

// "required", "optional", "default 0.5".
std::string need_of(const ArgumentRow& row) {
  if (is_required(row)) return "required";
  return row.otherwise == kOptional ? "optional" : "default " + row.otherwise;
}

// The meaning, and what limits it: "the rule (convention torch); one of a, b".
std::string words_of(const ArgumentRow& row) {
  std::string words = row.what;
  if (!row.conventions.empty()) words += fmt::format(" (convention {})", fmt::join(row.conventions, ", "));
  if (!row.options.empty()) words += fmt::format("; one of {}", fmt::join(row.options, ", "));
  if (row.where_named) words += "; asked where the option fields names it";
  return words;
}

std::vector<ArgumentRow> arguments_of(const OperationRow& row) {
  std::vector<ArgumentRow> all{row_of_convention(row)};
  all.insert(all.end(), row.arguments.begin(), row.arguments.end());
  return all;
}

std::vector<RefusalRow> refusals_of(const OperationRow& row) {
  std::vector<RefusalRow> all = common_refusals();
  all.insert(all.end(), row.refusals.begin(), row.refusals.end());
  return all;
}

// ---- as JSON ----

json json_of(const ArgumentRow& row) {
  return {{"name", row.name},
          {"type", row.type},
          {"what", row.what},
          {"required", is_required(row)},
          {"default", is_required(row) ? json() : json::parse(row.otherwise)},
          {"options", row.options},
          {"conventions", row.conventions}};
}

json json_of(const OperationRow& row) {
  json arguments = json::array(), results = json::array(), errors = json::array();
  for (const ArgumentRow& one : arguments_of(row)) arguments.push_back(json_of(one));
  for (const ResultRow& one : row.results)
    results.push_back({{"name", one.name}, {"type", one.type}, {"what", one.what}});
  for (const RefusalRow& one : refusals_of(row)) errors.push_back({{"kind", one.kind}, {"when", one.when}});
  return {{"name", row.name},       {"what", row.what},  {"conventions", row.conventions},
          {"arguments", arguments}, {"result", results}, {"errors", errors}};
}

// ---- as tables ----

using Cells = std::vector<std::string>;

std::string in_code(const std::string& text) { return "`" + text + "`"; }

// Of a table in Markdown: no line ends, no bars.
std::string cell_of(const std::string& text) {
  std::string cell;
  for (const char c : text) cell.append(c == '|' ? "\\|" : std::string(1, c));
  return cell;
}

std::string markdown(const Cells& head, const std::vector<Cells>& rows) {
  std::string text;
  const auto add = [&](const Cells& cells) {
    for (const std::string& cell : cells) text += "| " + cell_of(cell) + " ";
    text += "|\n";
  };
  add(head);
  add(Cells(head.size(), "---"));
  for (const Cells& row : rows) add(row);
  return text;
}

// Columns as wide as their longest cell, but for the last.
std::string columns(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths;
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const Cells& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += i + 1 == row.size() ? "  " + row[i] : fmt::format("  {:<{}}", row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

struct Tables {
  std::vector<Cells> arguments, results, errors;
};

Tables tables_of(const OperationRow& row, std::string (*code)(const std::string&)) {
  Tables tables;
  for (const ArgumentRow& one : arguments_of(row))
    tables.arguments.push_back({code(one.name), one.type, need_of(one), words_of(one)});
  for (const ResultRow& one : row.results) tables.results.push_back({code(one.name), one.type, one.what});
  for (const RefusalRow& one : refusals_of(row)) tables.errors.push_back({code(one.kind), one.when});
  return tables;
}

// The arguments of which an adapter need not have all values.
std::string words_of_options(const OperationRow& row) {
  Cells names;
  for (const auto& [argument, values] : row.options()) names.push_back(argument);
  return names.empty()
             ? ""
             : fmt::format("\n  an adapter may have some values alone of {}: \"options\" of its greeting names them\n",
                           fmt::join(names, ", "));
}

std::string text_of(const OperationRow& row, const Example& example) {
  const Tables tables = tables_of(row, [](const std::string& name) { return name; });
  return fmt::format("{}: {}\n\narguments\n{}{}\nresult\n{}\nerrors\n{}\nexample\n  {}\n  {}\n", row.name, row.what,
                     columns(tables.arguments), words_of_options(row), columns(tables.results), columns(tables.errors),
                     example.request, example.reply);
}

std::string markdown_of(const OperationRow& row, const Example& example) {
  const Tables tables = tables_of(row, in_code);
  return fmt::format("## `{}`\n{}\n\n{}\n{}\n{}\n    {}\n    {}\n", row.name, row.what,
                     markdown({"argument", "type", "need", "meaning"}, tables.arguments),
                     markdown({"result", "type", "meaning"}, tables.results),
                     markdown({"error", "when"}, tables.errors), example.request, example.reply);
}

// An operation's line in the table of all. The fields of an object are listed by name; describing the operation
// explains them.
template <class Row>
std::string fields_below(const std::vector<Row>& rows, const std::string& name) {
  std::vector<std::string> names;
  for (const Row& row : rows)
    if (row.name.starts_with(name + ".")) {
      const std::string field = row.name.substr(name.size() + 1);
      if (!is_field(field) || field.starts_with("*.")) names.push_back(in_code(field));
    }
  return names.empty() ? "" : fmt::format(": {}", fmt::join(names, ", "));
}

Cells line_of(const OperationRow& row) {
  std::vector<std::string> arguments, results, conventions;
  for (const std::string& convention : row.conventions) conventions.push_back(in_code(convention));
  for (const ArgumentRow& one : row.arguments)
    if (!is_field(one.name))
      arguments.push_back(fmt::format("`{}` ({}, {}) {}{}", one.name, one.type, need_of(one), words_of(one),
                                      fields_below(row.arguments, one.name)));
  for (const ResultRow& one : row.results)
    if (!is_field(one.name))
      results.push_back(
          fmt::format("`{}` ({}) {}{}", one.name, one.type, one.what, fields_below(row.results, one.name)));
  return {fmt::format("`{}`: {}", row.name, row.what), fmt::format("{}", fmt::join(conventions, ", ")),
          fmt::format("{}", fmt::join(arguments, "<br>")), fmt::format("{}", fmt::join(results, "<br>"))};
}

}  // namespace

Example example_of(const AdapterService& service, const std::string& operation) {
  const OperationRow& row = row_of(service, operation);
  Example example{.request = request_line(1, row.name, json::parse(row.example)), .reply = {}};
  example.reply = service.handle(example.request);
  return example;
}

std::string describe(const AdapterService& service, const std::string& operation, Format format) {
  const OperationRow& row = row_of(service, operation);
  const Example example = example_of(service, operation);
  if (format == Format::text) return text_of(row, example);
  if (format == Format::md) return markdown_of(row, example);
  json described = json_of(row);
  described["example"] = {{"request", json::parse(example.request)}, {"reply", json::parse(example.reply)}};
  return described.dump(2) + "\n";
}

std::string describe(const AdapterService& service, Format format) {
  std::vector<Cells> lines;
  json described = json::array();
  for (const auto& [name, entry] : service.operations()) {
    const OperationRow& row = entry.row;
    if (format == Format::text)
      lines.push_back({row.name, row.what});
    else if (format == Format::md)
      lines.push_back(line_of(row));
    else
      described.push_back(json_of(row));
  }
  if (format == Format::json) return json{{"protocol", kAdapterProtocol}, {"operations", described}}.dump(2) + "\n";
  if (format == Format::md) return markdown({"operation", "conventions", "arguments", "result"}, lines);
  return columns(lines);
}

}  // namespace plumbline::adapter
