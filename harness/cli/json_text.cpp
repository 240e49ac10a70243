#include "harness/cli/json_text.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"

namespace plumbline::cli {

using nlohmann::json;

namespace {

// Where a byte of the text stands, from 1.
std::pair<std::size_t, std::size_t> line_and_column(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto line = static_cast<std::size_t>(std::ranges::count(before, '\n')) + 1;
  const std::size_t start = before.rfind('\n');
  return {line, start == std::string_view::npos ? before.size() + 1 : before.size() - start};
}

// What the library says without its name, place and guesses: "invalid literal; last read: '...'".
std::string reason(const json::exception& error) {
  std::string_view words = error.what();
  for (const std::string_view mark : {"] ", ": "})
    if (const auto at = words.find(mark); at != std::string_view::npos) words.remove_prefix(at + mark.size());
  std::string line(words.substr(0, 160));
  std::ranges::replace_if(line, [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return line;
}

// Tells fields that an object has twice, which the library would drop in silence.
class TwiceInObject {
 public:
  /// The field, the second time.
  std::optional<std::string> see(json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event != json::parse_event_t::key || open_.back().insert(value.get<std::string>()).second) return std::nullopt;
    return value.get<std::string>();
  }

 private:
  std::vector<std::set<std::string>> open_;
};

}  // namespace

json parse_json(std::string_view text, const std::string& name) {
  constexpr int kMostNested = 100;
  TwiceInObject twice;
  std::optional<std::string> doubled;
  try {
    json value = json::parse(text, [&](int depth, json::parse_event_t event, const json& parsed) {
      if (depth > kMostNested)
        throw InvalidArgument(fmt::format("{}: it nests lists and objects deeper than {}", name, kMostNested));
      if (!doubled) doubled = twice.see(event, parsed);
      return true;
    });
    if (doubled) throw InvalidArgument(fmt::format("{}: an object has the field '{}' twice", name, *doubled));
    return value;
  } catch (const json::parse_error& error) {
    const auto [line, column] = line_and_column(text, error.byte == 0 ? 0 : error.byte - 1);
    throw InvalidArgument(
        fmt::format("{}, line {}, column {}: this is not JSON: {}", name, line, column, reason(error)));
  } catch (const json::out_of_range& error) {
    throw OutOfRange(fmt::format("{}: a number is more than a double holds: {}", name, reason(error)));
  }
}

}  // namespace plumbline::cli
