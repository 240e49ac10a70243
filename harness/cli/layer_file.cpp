#include "harness/cli/layer_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {
namespace {

constexpr std::array<std::string_view, 6> kNeeded{"name",    "type",     "parameters",
                                                  "forward", "backward", "activation_bytes"};
constexpr std::array<std::string_view, 3> kOptional{"weight_gradient", "parameter_bytes", "output_bytes"};
constexpr double kMostBytes = 9007199254740992;  // 2^53: beyond it a double skips numbers

struct Field {
  std::string_view text;
  std::size_t line = 1, column = 1;
};

class Reader {
 public:
  Reader(const std::string& file, std::string_view text) : file_(file) {
    for (std::size_t line = 1; !text.empty(); ++line) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      add_line(text.substr(0, end), line);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  // Those that are not empty.
  [[nodiscard]] const std::vector<std::vector<Field>>& lines() const { return lines_; }

  [[noreturn]] void refuse(const Field& at, const std::string& words) const {
    throw InvalidArgument(fmt::format("--layers: {}:{}:{}: {}", file_, at.line, at.column, words));
  }

  [[nodiscard]] double seconds(std::string_view name, const Field& field) const {
    const std::optional<double> value = number(field);
    if (!value || !(*value >= 0))
      refuse(field, fmt::format("{} '{}'; it must be a number of seconds, 0 or more", name, field.text));
    return *value;
  }

  [[nodiscard]] std::int64_t count(std::string_view name, const Field& field) const {
    const std::optional<double> value = number(field);
    if (!value || !(*value >= 0) || *value > kMostBytes || *value != std::floor(*value))
      refuse(field, fmt::format("{} '{}'; it must be a whole number from 0 to 2^53", name, field.text));
    return static_cast<std::int64_t>(*value);
  }

 private:
  void add_line(std::string_view text, std::size_t line) {
    if (text.ends_with('\r')) text.remove_suffix(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto character = static_cast<unsigned char>(text[i]);
      if ((character < ' ' && character != '\t') || character == 0x7f || character == '"')
        refuse({.text = {}, .line = line, .column = i + 1},
               character == '"' ? std::string("a quote; fields are written without, and have no comma")
                                : fmt::format("the byte {:#04x} is not printable", character));
    }
    if (text.find_first_not_of(" \t") == text.npos) return;
    std::vector<Field>& fields = lines_.emplace_back();
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      std::string_view field = text.substr(begin, end - begin);
      const std::size_t first = std::min(field.find_first_not_of(" \t"), field.size());
      field.remove_prefix(first);
      field = field.substr(0, field.find_last_not_of(" \t") + 1);
      fields.push_back({.text = field, .line = line, .column = begin + first + 1});
      begin = end + 1;
    }
  }

  static std::optional<double> number(const Field& field) {
    double value = 0;
    const char* const last = field.text.data() + field.text.size();
    const auto [end, error] = std::from_chars(field.text.data(), last, value);
    return error == std::errc{} && end == last && std::isfinite(value) ? std::optional(value) : std::nullopt;
  }

  const std::string& file_;
  std::vector<std::vector<Field>> lines_;
};

// Where each column stands in a line.
class Columns {
 public:
  Columns(const Reader& reader, const std::vector<Field>& header) : reader_(reader), header_(header) {
    for (std::size_t i = 0; i < header.size(); ++i) {
      const std::string_view name = header[i].text;
      if (std::ranges::count(kNeeded, name) + std::ranges::count(kOptional, name) == 0)
        reader.refuse(header[i], fmt::format("there is no column '{}'; the first line names {}, and perhaps {}", name,
                                             fmt::join(kNeeded, ","), fmt::join(kOptional, ",")));
      if (*find(name) != i) reader.refuse(header[i], fmt::format("column '{}' appears twice", name));
    }
    for (const std::string_view name : kNeeded)
      if (!find(name))
        reader.refuse(header.front(),
                      fmt::format("there is no column '{}'; the first line names {}", name, fmt::join(kNeeded, ",")));
  }

  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const {
    const auto at = std::ranges::find(header_, name, &Field::text);
    return at == header_.end() ? std::nullopt : std::optional(static_cast<std::size_t>(at - header_.begin()));
  }

  [[nodiscard]] const Field& of(const std::vector<Field>& line, std::string_view name) const {
    return line[*find(name)];
  }
  [[nodiscard]] const Field* optional_of(const std::vector<Field>& line, std::string_view name) const {
    const std::optional<std::size_t> at = find(name);
    return at ? &line[*at] : nullptr;
  }

  void require_all(const std::vector<Field>& line) const {
    if (line.size() != header_.size())
      reader_.refuse(line.front(), fmt::format("{} fields for {} columns", line.size(), header_.size()));
  }

 private:
  const Reader& reader_;
  const std::vector<Field>& header_;
};

schedules::LayerCost cost_of(const Reader& reader, const Columns& columns, const std::vector<Field>& line,
                             double bytes_per_parameter) {
  const auto seconds = [&](const char* name) { return reader.seconds(name, columns.of(line, name)); };
  const auto count = [&](const char* name) { return reader.count(name, columns.of(line, name)); };
  schedules::LayerCost cost{.forward = seconds("forward"),
                            .backward = seconds("backward"),
                            .parameters = count("parameters"),
                            .activation_bytes = count("activation_bytes")};
  cost.weight_gradient = cost.backward / 2;
  if (const Field* field = columns.optional_of(line, "weight_gradient")) {
    cost.weight_gradient = reader.seconds("weight_gradient", *field);
    if (cost.weight_gradient > cost.backward)
      reader.refuse(*field, fmt::format("weight_gradient '{}' is a part of the backward, which is {}", field->text,
                                        cost.backward));
  }
  const Field* const bytes = columns.optional_of(line, "parameter_bytes");
  const double kept = static_cast<double>(cost.parameters) * bytes_per_parameter;
  if (bytes == nullptr && kept > kMostBytes)
    reader.refuse(columns.of(line, "parameters"), fmt::format("{} parameters of {} bytes are more than 2^53 bytes",
                                                              cost.parameters, bytes_per_parameter));
  cost.parameter_bytes = bytes == nullptr ? static_cast<std::int64_t>(kept) : reader.count("parameter_bytes", *bytes);
  if (const Field* field = columns.optional_of(line, "output_bytes"))
    cost.output_bytes = reader.count("output_bytes", *field);
  return cost;
}

}  // namespace

LayerFile parse_layers(const std::string& file, std::string_view text, double bytes_per_parameter) {
  const Reader reader(file, text);
  if (reader.lines().empty())
    reader.refuse({}, fmt::format("there is no line in it; the first names {}", fmt::join(kNeeded, ",")));
  const Columns columns(reader, reader.lines().front());
  LayerFile layers{.file = file, .has_output_bytes = columns.find("output_bytes").has_value()};
  for (std::size_t i = 1; i < reader.lines().size(); ++i) {
    const std::vector<Field>& line = reader.lines()[i];
    columns.require_all(line);
    const Field &name = columns.of(line, "name"), &type = columns.of(line, "type");
    if (name.text.empty()) reader.refuse(name, "the layer has no name");
    layers.names.emplace_back(name.text);
    layers.costs.push_back(cost_of(reader, columns, line, bytes_per_parameter));
    layers.descriptions.push_back({.type = type.text.empty() ? std::nullopt : std::optional(std::string(type.text)),
                                   .parameters = layers.costs.back().parameters});
  }
  if (layers.names.empty()) reader.refuse(reader.lines().front().front(), "there is no layer below the first line");
  return layers;
}

}  // namespace plumbline::cli
