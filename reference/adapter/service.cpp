#include "reference/adapter/service.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/protocol.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::adapter {
using nlohmann::json;

namespace {

// The id under which a request is answered; null as long as it is not known.
json id_of(const json& request) {
  if (!request.is_object())
    throw InvalidArgument(fmt::format("a request must be an object with id, op and args, got {}", describe(request)));
  const auto id = request.find("id");
  if (id == request.end()) throw InvalidArgument("the request has no id; it must be a number or a text");
  if (!id->is_number() && !id->is_string())
    throw InvalidArgument(fmt::format("id must be a number or a text, got {}", describe(*id)));
  return *id;
}

void write_all(int out, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(out, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw RuntimeFailure(fmt::format("adapter: cannot write the reply: {}", std::strerror(errno)));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void expect_of_row(const OperationRow& row, const json& args) {
  const std::string convention = convention_asked(args);
  if (std::ranges::count(row.conventions, convention) == 0)
    throw Unsupported(fmt::format("{}: convention {} is not known here; there are {}", row.name, excerpt(convention),
                                  fmt::join(row.conventions, ", ")));
  for (const auto& [name, value] : args.items())
    if (name != "convention" && !row.takes(name, convention)) {
      Words known;
      for (const ArgumentRow& argument : row.arguments)
        if (row.takes(argument.name, convention) && argument.name.find('.') == std::string::npos)
          known.push_back(argument.name);
      throw InvalidArgument(fmt::format("{}: unknown field {}; in the convention {} there are {}", row.name,
                                        excerpt(name), convention, fmt::join(known, ", ")) +
                            did_you_mean(name, known));
    }
}

// Of the objects inside the arguments: names a field that the row does not have. Asked of a request that was rejected:
// where the field is a misspelt one, the operation names the one that it misses.
void expect_fields_of_row(const OperationRow& row, const json& value, const std::string& path,
                          const std::string& place) {
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i)
      expect_fields_of_row(row, value[i], path, fmt::format("{}[{}]", place, i));
  if (!value.is_object()) return;
  const std::string before = path.empty() ? "" : path + ".";
  Words known;
  for (const ArgumentRow& argument : row.arguments)
    if (argument.name.starts_with(before) && argument.name.find('.', before.size()) == std::string::npos)
      known.push_back(argument.name.substr(before.size()));
  const bool is_map = known.empty() || std::ranges::count(known, "*") > 0;
  for (const auto& [name, field] : value.items()) {
    const std::string inside = place.empty() ? name : place + "." + name;
    if (!path.empty() && !is_map && std::ranges::count(known, name) == 0)
      throw InvalidArgument(fmt::format("{}: unknown field {}; {}", row.name, excerpt(inside), there_are(name, known)));
    if (!is_map && field.is_structured()) expect_fields_of_row(row, field, before + name, inside);
  }
}

void inherit(ArgumentRow& field, const ArgumentRow& row) {
  if (field.conventions.empty()) field.conventions = row.conventions;
}
void inherit(ResultRow&, const ResultRow&) {}

// The rows, each followed by those of its fields.
template <class Row>
std::vector<Row> with_paths(std::vector<Row> rows) {
  std::vector<Row> all;
  for (Row& row : rows) {
    std::vector<Row> fields = std::exchange(row.fields, {});
    for (Row& field : fields) {
      field.name = row.name + "." + field.name;
      inherit(field, row);
    }
    all.push_back(std::move(row));
    std::ranges::move(with_paths(std::move(fields)), std::back_inserter(all));
  }
  return all;
}

// With fields beside kind and message.
std::string error_line(const json& id, std::string_view kind, std::string_view message,
                       const std::map<std::string, std::string>& fields) {
  json error(fields);
  error.update({{"kind", kind}, {"message", message}});
  return encode({{"id", id}, {"error", std::move(error)}});
}

}  // namespace

AdapterService::AdapterService(std::string name, std::string version, std::map<std::string, std::string> conventions)
    : name_(std::move(name)), version_(std::move(version)), conventions_(std::move(conventions)) {}

void AdapterService::add(OperationRow row, Operation operation) {
  const std::string name = row.name;
  row.arguments = with_paths(std::move(row.arguments));
  row.results = with_paths(std::move(row.results));
  if (name == "hello" || !operations_.emplace(name, Entry{std::move(row), std::move(operation)}).second)
    throw InvalidArgument(fmt::format("adapter: operation '{}' exists already", name));
}

const OperationRow& AdapterService::row(const std::string& name) const {
  const auto found = operations_.find(name);
  if (found == operations_.end()) {
    std::vector<std::string> names;
    for (const auto& [known, entry] : operations_) names.push_back(known);
    throw Unsupported(fmt::format("there is no operation {}; hello lists those that exist{}", excerpt(name),
                                  did_you_mean(name, names)));
  }
  return found->second.row;
}

json AdapterService::hello(const Arguments& arguments) const {
  const auto protocol = arguments.get<std::int64_t>("protocol", kAdapterProtocol);
  if (protocol != kAdapterProtocol)
    throw Unsupported(fmt::format("hello: protocol must be {}, got {}", kAdapterProtocol, protocol));
  json ops = json::array(), options = json::object();
  for (const auto& [name, entry] : operations_) {
    ops.push_back(name);
    if (const auto values = entry.row.options(); !values.empty()) options[name] = values;
  }
  return {{"protocol", kAdapterProtocol}, {"name", name_}, {"version", version_}, {"ops", ops}, {"options", options},
          {"conventions", conventions_}};
}

json AdapterService::answer(const json& request) const {
  const Arguments fields("request", request);
  const auto op = fields.get<std::string>("op");
  const json none = json::object();
  const json& args = fields.has("args") ? request["args"] : none;
  (void)fields.has("id");  // read already
  fields.expect_no_others();
  const Arguments arguments(op, args);
  if (op == "hello") {
    json greeting = hello(arguments);
    arguments.expect_no_others();
    return greeting;
  }
  // A text, and read, whether the operation asks for it or not.
  if (args.contains("convention")) (void)arguments.get<std::string>("convention", "plumbline");
  expect_of_row(row(op), args);
  try {
    json result = operations_.at(op).operation(arguments);
    arguments.expect_no_others();
    return result;
  } catch (const InvalidArgument&) {
    expect_fields_of_row(row(op), args, "", "");
    throw;
  }
}

std::string AdapterService::handle(std::string_view line) const {
  json id;
  const auto refuse = [&](std::string_view kind, std::string_view message,
                          const std::map<std::string, std::string>& fields = {}) {
    try {
      return fields.empty() ? error_line(id, kind, message) : error_line(id, kind, message, fields);
    } catch (const std::bad_alloc&) {  // a large id, or a large message
      return error_line(id = nullptr, "failed", "out of memory");
    }
  };
  try {
    const Document request = decode(line);
    id = id_of(*request);
    const Document result(answer(*request));
    std::string reply = result_line(id, *result);
    if (reply.size() <= kLongestLine) return reply;
    return refuse("failed", fmt::format("the reply has {} bytes, a line may have {}", reply.size(), kLongestLine));
  } catch (const Refusal& refusal) {
    return refuse(refusal.kind(), refusal.what(), refusal.fields());
  } catch (const Error& error) {
    return refuse(error.kind(), error.what());
  } catch (const std::bad_alloc&) {
    return refuse("failed", "out of memory");
  } catch (const std::exception& error) {
    return refuse("failed", error.what());
  } catch (...) {
    return refuse("failed", "an exception of an unknown type");
  }
}

void AdapterService::serve(int in, int out) const {
  LineBuffer lines(kLongestLine);
  std::array<char, 1 << 16> block;
  const auto reply_to = [&](const LineBuffer::Line& line) {
    const std::string too_long = fmt::format("the line is longer than {} bytes, or than memory allows", kLongestLine);
    write_all(out, (line.dropped ? error_line(nullptr, "invalid_argument", too_long) : handle(line.text)) + "\n");
  };
  for (;;) {
    const ssize_t count = ::read(in, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw RuntimeFailure(fmt::format("adapter: cannot read a request: {}", std::strerror(errno)));
    if (count == 0) break;
    lines.append({block.data(), static_cast<std::size_t>(count)});
    while (const auto line = lines.take()) reply_to(*line);
  }
  if (const auto line = lines.take_rest()) reply_to(*line);
}

}  // namespace plumbline::adapter
