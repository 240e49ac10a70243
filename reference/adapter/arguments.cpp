#include "reference/adapter/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/adapter/protocol.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::adapter {
using nlohmann::json;

std::string Place::text() const {
  std::string words = outer == nullptr ? "" : outer->text();
  if (index >= 0) return words + fmt::format("[{}]", index);
  if (!words.empty() && !name.empty()) words += '.';
  return words.append(name);
}

void Reading::refuse(std::string_view words) const { throw InvalidArgument(fmt::format("{}: {}", operation_, words)); }

void Reading::refuse_type(const json& value, const Place& place, std::string_view expected) const {
  refuse(fmt::format("{} must be {}, got {}", place.text(), expected, describe(value)));
}

bool Reading::boolean(const json& value, const Place& place) const {
  if (!value.is_boolean()) refuse_type(value, place, "true or false");
  return value.get<bool>();
}

std::int64_t Reading::integer(const json& value, const Place& place, std::int64_t low, std::int64_t high) const {
  if (!value.is_number_integer()) refuse_type(value, place, "an integer");
  const bool too_large = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (too_large || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    throw OutOfRange(
        fmt::format("{}: {} must be from {} to {}, got {}", operation_, place.text(), low, high, describe(value)));
  return value.get<std::int64_t>();
}

std::uint64_t Reading::whole_number(const json& value, const Place& place) const {
  if (!value.is_number_unsigned()) refuse_type(value, place, "an integer of 0 or more");
  return value.get<std::uint64_t>();
}

double Reading::number(const json& value, const Place& place) const {
  if (value.is_number()) return value.get<double>();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  refuse_type(value, place, R"(a number or "inf", "-inf", "nan")");
}

const std::string& Reading::text(const json& value, const Place& place) const {
  if (!value.is_string()) refuse_type(value, place, "a text");
  return value.get_ref<const std::string&>();
}

void Reading::expect_list(const json& value, const Place& place) const {
  if (!value.is_array()) refuse_type(value, place, "a list");
}

void Reading::expect_object(const json& value, const Place& place) const {
  if (!value.is_object()) refuse_type(value, place, "an object");
}

Reading::Fields& Reading::fields_of(const json& object, std::string path) {
  const auto [entry, is_new] = objects_.try_emplace(&object);
  if (is_new) entry->second.path = std::move(path);
  return entry->second;
}

void Reading::expect_no_others() const {
  for (const auto& [object, fields] : objects_)
    for (const auto& [name, value] : object->items())
      if (!fields.asked.contains(name)) {
        const Place inside{.name = fields.path};
        refuse(fmt::format("unknown field {}; {}", excerpt(Place{.outer = &inside, .name = name}.text()),
                           there_are(name, {fields.asked.begin(), fields.asked.end()})));
      }
}

std::set<std::string> Reading::paths_asked() const {
  std::set<std::string> paths;
  for (const auto& [object, fields] : objects_) {
    std::string outer;
    bool is_index = false;
    for (const char c : fields.path) {
      if (c == '[') is_index = true;
      if (!is_index) outer += c;
      if (c == ']') is_index = false;
    }
    for (const std::string& name : fields.asked) paths.insert(outer.empty() ? name : outer + "." + name);
  }
  return paths;
}

Value Value::at(std::size_t index) const {
  if (index >= size()) refuse(fmt::format("must have at least {} items, got {}", index + 1, size()));
  return {(*value_)[index], fmt::format("{}[{}]", path_, index), reading_};
}

std::size_t Value::size() const {
  reading_->expect_list(*value_, {.name = path_});
  return value_->size();
}

void Value::refuse(std::string_view words) const { reading_->refuse(fmt::format("{} {}", path_, words)); }

Arguments::Arguments(std::string operation, const json& object) : object_(&object) {
  reading_ = std::make_shared<Reading>(std::move(operation));
  reading_->expect_object(object, {.name = "args"});
  fields_ = &reading_->fields_of(object, "");
}

Arguments::Arguments(const json& object, std::string path, std::shared_ptr<Reading> reading)
    : object_(&object), reading_(std::move(reading)) {
  reading_->expect_object(object, {.name = path});
  fields_ = &reading_->fields_of(object, std::move(path));
}

const json* Arguments::field(std::string_view name) const {
  fields_->asked.emplace(name);
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

std::string Arguments::path_to(std::string_view name) const {
  const Place object{.name = fields_->path};
  return Place{.outer = &object, .name = name}.text();
}

std::int64_t Arguments::integer_in(std::string_view name, std::int64_t low, std::int64_t high) const {
  const auto value = get<std::int64_t>(name);
  if (value < low || value > high)
    refuse(fmt::format("{} must be from {} to {}, got {}", path_to(name), low, high, value));
  return value;
}

void Arguments::refuse_choice(std::string_view name, const std::string& word, const std::string& known) const {
  refuse(fmt::format("{} must be one of {}, got {}", path_to(name), known, excerpt(word)));
}

Convention Arguments::convention() const {
  static constexpr std::pair<std::string_view, Convention> kConventions[]{{"plumbline", Convention::plumbline},
                                                                          {"bluefog", Convention::bluefog},
                                                                          {"colossalai", Convention::colossalai},
                                                                          {"deepspeed", Convention::deepspeed},
                                                                          {"deepspeed-0.6", Convention::deepspeed_0_6},
                                                                          {"fairscale", Convention::fairscale},
                                                                          {"gloo", Convention::gloo},
                                                                          {"megatron", Convention::megatron},
                                                                          {"paddle", Convention::paddle},
                                                                          {"torch", Convention::torch}};
  const auto word = get<std::string>("convention", "plumbline");
  for (const auto& [name, convention] : kConventions)
    if (name == word) return convention;
  throw Unsupported(fmt::format("{}: convention {} is not known", reading_->operation(), excerpt(word)));
}

}  // namespace plumbline::adapter
