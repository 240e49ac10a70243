// reference/support/reading_json.hpp: values of JSON, with errors that name the place. Included by sources alone.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::reading {

/// Containers by their size alone: they may be nested deeper than a recursion goes. Of texts the beginning.
inline std::string excerpt(const nlohmann::json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  constexpr std::size_t kEnough = 40;
  const auto dump = [](const nlohmann::json& part) {
    return part.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  if (!value.is_string()) return dump(value);
  const auto& text = value.get_ref<const std::string&>();
  return text.size() <= kEnough ? dump(value) : dump(text.substr(0, kEnough)) + "…";
}

/// Of text from strangers: what is nested deeper than a recursion goes would end the process. Throws what
/// nlohmann::json::parse throws, and InvalidArgument for more than 100 levels.
inline nlohmann::json parse_flat(const std::string& text) {
  const int kMostLevels = 100;
  return nlohmann::json::parse(text, [kMostLevels](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    if (depth > kMostLevels) throw InvalidArgument(fmt::format("it is nested deeper than {} levels", kMostLevels));
    return true;
  });
}

/// "layer.in is missing"; where the object has a field that may be a misspelling of it, "layer.in is missing; is inn a
/// misspelling of it?". `others` are the object's fields that were not read so far.
[[nodiscard]] inline std::string missing_field(std::string_view path, std::string_view name,
                                               std::vector<std::string> others) {
  std::erase_if(others, [](const std::string& other) {
    return std::ranges::any_of(other, [](unsigned char letter) { return std::iscntrl(letter) != 0; });
  });
  const auto near = meant_name(name, others);
  return fmt::format("{} is missing{}", path, near ? fmt::format("; is {} a misspelling of it?", *near) : "");
}

[[noreturn]] inline void refuse(const std::string& where, std::string_view expected, const nlohmann::json& got) {
  throw InvalidArgument(fmt::format("{} must be {}, got {}", where, expected, excerpt(got)));
}

/// Throws InvalidArgument, which names the nearest of `known`, where the object has another field.
inline void refuse_other_fields(const nlohmann::json& object, std::string_view where,
                                const std::vector<std::string>& known) {
  for (const auto& field : object.items())
    if (std::ranges::find(known, field.key()) == known.end())
      throw InvalidArgument(fmt::format("{} has no field '{}'; {}", where, field.key(), there_are(field.key(), known)));
}

inline const nlohmann::json& list(const nlohmann::json& value, const std::string& where) {
  if (!value.is_array()) refuse(where, "a list", value);
  return value;
}

inline std::string text(const nlohmann::json& value, const std::string& where) {
  if (!value.is_string()) refuse(where, "a text", value);
  return value.get<std::string>();
}

inline bool boolean(const nlohmann::json& value, const std::string& where) {
  if (!value.is_boolean()) refuse(where, "true or false", value);
  return value.get<bool>();
}

inline std::int64_t integer(const nlohmann::json& value, const std::string& where) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer()) refuse(where, "an integer", value);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > most)
    throw OutOfRange(fmt::format("{} is {}, more than 64 bits hold", where, value.get<std::uint64_t>()));
  return value.get<std::int64_t>();
}

inline int small(const nlohmann::json& value, const std::string& where) {
  const std::int64_t number = integer(value, where);
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max())
    throw OutOfRange(fmt::format("{} is {}, more than 32 bits hold", where, number));
  return static_cast<int>(number);
}

}  // namespace plumbline::reading
