// reference/bucketing/reading_json.hpp: fields of JSON, with errors that name the place. Included by sources alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/bucketing/gradients.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing::reading {

/// Containers by their size alone: they may be nested deeper than a recursion goes.
inline std::string excerpt(const nlohmann::json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  const std::string words = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return words.size() <= 40 ? words : words.substr(0, 40) + "...";
}

[[noreturn]] inline void refuse(const std::string& where, const std::string& expected, const nlohmann::json& got) {
  throw InvalidArgument(fmt::format("{} must be {}, got {}", where, expected, excerpt(got)));
}

inline const nlohmann::json& list(const nlohmann::json& value, const std::string& where) {
  if (!value.is_array()) refuse(where, "a list", value);
  return value;
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

class Object {
 public:
  Object(const nlohmann::json& value, std::string where) : value_(value), where_(std::move(where)) {
    if (!value.is_object()) refuse(where_, "an object", value);
  }
  [[nodiscard]] bool has(const char* name) const { return value_.contains(name) && !value_.at(name).is_null(); }
  [[nodiscard]] const nlohmann::json& at(const char* name) const {
    if (!has(name)) throw InvalidArgument(path(name) + " is missing");
    return value_.at(name);
  }
  [[nodiscard]] std::string path(const char* name) const { return where_ + "." + name; }
  [[nodiscard]] std::int64_t integer(const char* name) const { return reading::integer(at(name), path(name)); }
  [[nodiscard]] std::int64_t integer(const char* name, std::int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
  }
  [[nodiscard]] int small(const char* name, int otherwise) const {
    return has(name) ? reading::small(at(name), path(name)) : otherwise;
  }
  [[nodiscard]] bool boolean(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!at(name).is_boolean()) refuse(path(name), "true or false", at(name));
    return at(name).get<bool>();
  }
  [[nodiscard]] std::string text(const char* name) const {
    if (!at(name).is_string()) refuse(path(name), "a text", at(name));
    return at(name).get<std::string>();
  }
  [[nodiscard]] std::string text(const char* name, const std::string& otherwise) const {
    return has(name) ? text(name) : otherwise;
  }
  [[nodiscard]] ElementType type(const char* name) const {
    const std::optional<ElementType> type = parse_element_type(text(name));
    if (!type) refuse(path(name), "f16, bf16, f32, f64, i32, i64, u8, c32, c64 or c128", at(name));
    return *type;
  }
  [[nodiscard]] comm::Device device(const char* name) const {
    const std::optional<comm::Device> device = parse_device(text(name, "cpu"));
    if (!device) refuse(path(name), "cpu, cuda or cuda:N", at(name));
    return *device;
  }
  void expect_only(std::initializer_list<const char*> names) const {
    for (const auto& field : value_.items())
      if (std::ranges::find(names, field.key()) == names.end())
        throw InvalidArgument(fmt::format("{} has no field '{}'", where_, field.key()));
  }

 private:
  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace plumbline::bucketing::reading
