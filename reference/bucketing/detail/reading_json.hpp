// reference/bucketing/detail/reading_json.hpp: objects of JSON, with errors that name the place. Included by sources
// alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "reference/bucketing/plan_json.hpp"
#include "reference/support/nearest_name.hpp"
#include "reference/support/reading_json.hpp"

namespace plumbline::bucketing::reading {

using namespace plumbline::reading;

class Object {
 public:
  Object(const nlohmann::json& value, std::string where) : value_(value), where_(std::move(where)) {
    if (!value.is_object()) refuse(where_, "an object", value);
  }
  [[nodiscard]] bool has(const char* name) const { return value_.contains(name) && !value_.at(name).is_null(); }
  [[nodiscard]] const nlohmann::json& at(const char* name) const {
    if (has(name)) return value_.at(name);
    std::vector<std::string> others;
    for (const auto& field : value_.items())
      if (field.key() != name) others.push_back(field.key());
    throw InvalidArgument(missing_field(path(name), name, std::move(others)));
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
    return has(name) ? reading::boolean(at(name), path(name)) : otherwise;
  }
  [[nodiscard]] std::string text(const char* name) const { return reading::text(at(name), path(name)); }
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
    plumbline::reading::refuse_other_fields(value_, where_, {names.begin(), names.end()});
  }

 private:
  const nlohmann::json& value_;
  std::string where_;
};

}  // namespace plumbline::bucketing::reading
