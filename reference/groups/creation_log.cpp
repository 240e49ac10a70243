// The linter's file format: JSON Lines to a CreationLog and back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "reference/groups/lint.hpp"
#include "reference/support/reading_json.hpp"

namespace plumbline::groups {
namespace {

using nlohmann::json;
using reading::excerpt;

[[noreturn]] void refuse(std::size_t line, const std::string& words) {
  throw InvalidArgument(fmt::format("creation log, line {}: {}", line, words));
}

std::int64_t integer(const json& value, const std::string& field, std::int64_t low, std::int64_t high,
                     std::size_t line) {
  const bool large = value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
  if (!value.is_number_integer() || large || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    refuse(line, fmt::format("{} must be an integer from {} to {}, got {}", field, low, high, excerpt(value)));
  return value.get<std::int64_t>();
}

const json& field_of(const json& object, const char* name, std::size_t line) {
  const auto field = object.find(name);
  if (field == object.end()) {
    std::vector<std::string> others;
    for (const auto& [other, value] : object.items()) others.push_back(other);
    refuse(line, reading::missing_field(name, name, std::move(others)));
  }
  return *field;
}

std::vector<int> ranks_of(const json& list, std::size_t line) {
  if (!list.is_array()) refuse(line, fmt::format("ranks must be a list, got {}", excerpt(list)));
  std::vector<int> ranks;
  for (const json& rank : list)
    ranks.push_back(static_cast<int>(
        integer(rank, fmt::format("ranks[{}]", ranks.size()), std::numeric_limits<int>::min(), kLargestRank, line)));
  return ranks;
}

// Throws for a line that is no JSON object, or that has a key twice: which of the two counts, readers do not agree.
json parse_line(std::string_view text, std::size_t number) {
  std::set<std::string> keys;
  std::string twice;
  const auto note_key = [&](int depth, json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 && !keys.insert(parsed.get<std::string>()).second)
      twice = excerpt(parsed);
    return true;
  };
  json object = json::parse(text, note_key, false);
  if (!object.is_object())
    refuse(number, object.is_discarded() ? "is no JSON" : fmt::format("must be an object, got {}", excerpt(object)));
  if (!twice.empty()) refuse(number, fmt::format("has the key {} twice", twice));
  return object;
}

// Others may be somebody else's; a misspelt `sequence` would leave the lines in a wrong order without a word.
void refuse_misspelt(const json& object, std::size_t line) {
  static const std::vector<std::string> known{"rank", "sequence", "ranks", "mode"};
  for (const auto& [name, value] : object.items())
    if (std::ranges::find(known, name) == known.end() && meant_name(name, known))
      refuse(line, fmt::format("unknown field {}{}", excerpt(json(name)), did_you_mean(name, known)));
}

LoggedCreation read_line(std::string_view text, std::size_t number, int largest_rank) {
  const json object = parse_line(text, number);
  refuse_misspelt(object, number);
  LoggedCreation line{.line = number, .rank = 0, .sequence = {}, .creation = {}};
  line.rank = static_cast<int>(integer(field_of(object, "rank", number), "rank", 0, largest_rank, number));
  line.creation.ranks = ranks_of(field_of(object, "ranks", number), number);
  if (const auto sequence = object.find("sequence"); sequence != object.end() && !sequence->is_null())
    line.sequence = integer(*sequence, "sequence", 0, std::numeric_limits<std::int64_t>::max(), number);
  if (const auto mode = object.find("mode"); mode != object.end() && !mode->is_null()) {
    if (!mode->is_string()) refuse(number, fmt::format("mode must be a text, got {}", excerpt(*mode)));
    line.creation.mode = mode->get<std::string>();
  }
  return line;
}

// A rank's lines by their sequence numbers, where they have any.
void sort_by_sequence(std::span<LoggedCreation> lines) {
  for (const LoggedCreation& line : lines)
    if (line.sequence.has_value() != lines.front().sequence.has_value())
      refuse(line.line, fmt::format("rank {} has lines with a sequence number and lines without", line.rank));
  if (!lines.front().sequence) return;
  std::ranges::stable_sort(lines, {}, &LoggedCreation::sequence);
  const auto twice = std::ranges::adjacent_find(lines, {}, &LoggedCreation::sequence);
  if (twice != lines.end())
    refuse((twice + 1)->line, fmt::format("rank {} has sequence number {} in line {} already", twice->rank,
                                          *twice->sequence, twice->line));
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r") == std::string_view::npos; }

}  // namespace

CreationLog in_order(std::vector<LoggedCreation> lines, int world_size) {
  CreationLog log;
  std::ranges::stable_sort(lines, {}, &LoggedCreation::rank);
  if (!lines.empty()) world_size = std::max(world_size, lines.back().rank + 1);
  log.creations.resize(static_cast<std::size_t>(world_size));
  for (auto rest = std::span(lines); !rest.empty();) {
    const int rank = rest.front().rank;
    const auto end = std::ranges::find_if(rest, [rank](const LoggedCreation& line) { return line.rank != rank; });
    const auto own = rest.first(static_cast<std::size_t>(end - rest.begin()));
    sort_by_sequence(own);
    for (LoggedCreation& line : own) log.creations[static_cast<std::size_t>(rank)].push_back(std::move(line.creation));
    rest = rest.subspan(own.size());
  }
  return log;
}

CreationLog parse_creation_log(std::string_view text, std::optional<int> world_size) {
  const int largest_rank = world_size ? *world_size - 1 : kLargestRank;
  std::vector<LoggedCreation> lines;
  int world = world_size.value_or(0);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (is_blank(line)) continue;
    lines.push_back(read_line(line, number, largest_rank));
    if (!world_size)
      for (const int rank : lines.back().creation.ranks) world = std::max(world, rank + 1);
  }
  return in_order(std::move(lines), world);
}

std::string creation_line(int rank, int sequence, const Creation& creation) {
  const std::string mode = json(creation.mode).dump(-1, ' ', false, json::error_handler_t::replace);
  return fmt::format(R"({{"rank":{},"sequence":{},"mode":{},"ranks":[{}]}})", rank, sequence, mode,
                     fmt::join(creation.ranks, ","));
}

}  // namespace plumbline::groups
