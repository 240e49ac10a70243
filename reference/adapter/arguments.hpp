// reference/adapter/arguments.hpp: reads an operation's arguments, with errors that name the field.
//
// Use     int world = arguments.get<int>("world_size");
//         auto weights = arguments.get<std::vector<double>>("weights");
//         auto group = arguments.find<std::vector<int>>("group");        // nothing when absent or null
//         bool lazy = arguments.get<bool>("lazy", false);                // false when absent or null
//         for (const Value& op : arguments.get<std::vector<Value>>("ops"))  // lists of mixed things
//           if (op.at(0).as<std::string>() == "step") step(op.at(1).as<int>());
//         auto init = arguments.get<Arguments>("init");                  // an object, read field by field
// Types   bool, integers, double, std::string, nlohmann::json (anything), std::vector<T>,
//         std::map<std::string, T>, std::optional<T> (null is nothing), Value, Arguments. A double is a
//         number or "inf", "-inf", "nan"; an integer is written without fraction and exponent.
// Errors  InvalidArgument: a field is missing or of another type ("comm.ring_sum: inputs[0][2] must be a
//         number, got 'x'"); OutOfRange: an integer that the type cannot hold.
//         Unknown fields are found by what was read: the service calls expect_no_others() when an
//         operation returns; one that works long calls it itself before the work.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "reference/comm/call.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::adapter {

class Value;
class Arguments;

/// Where a value stands inside an operation's arguments, as a chain that is put into words only for an error.
struct Place {
  const Place* outer = nullptr;
  std::string_view name;      // of a field, or the words of a whole path
  std::ptrdiff_t index = -1;  // of an item of a list
  /// "inputs[0][2]", "init.scale".
  [[nodiscard]] std::string text() const;
};

/// What one request's reading has in common: the operation's name, and which fields were read.
class Reading {
 public:
  explicit Reading(std::string operation) : operation_(std::move(operation)) {}

  // Each returns the value, or throws with the place and what it must be.
  [[nodiscard]] bool boolean(const nlohmann::json& value, const Place& place) const;
  [[nodiscard]] std::int64_t integer(const nlohmann::json& value, const Place& place, std::int64_t low,
                                     std::int64_t high) const;
  [[nodiscard]] std::uint64_t whole_number(const nlohmann::json& value, const Place& place) const;
  [[nodiscard]] double number(const nlohmann::json& value, const Place& place) const;
  [[nodiscard]] const std::string& text(const nlohmann::json& value, const Place& place) const;
  void expect_list(const nlohmann::json& value, const Place& place) const;
  void expect_object(const nlohmann::json& value, const Place& place) const;
  /// Throws InvalidArgument: "operation: words".
  [[noreturn]] void refuse(std::string_view words) const;
  [[nodiscard]] const std::string& operation() const { return operation_; }

  struct Fields {
    std::string path;  // of the object, empty for the arguments themselves
    std::set<std::string, std::less<>> asked;
  };
  /// The record of an object, made when it is first read.
  Fields& fields_of(const nlohmann::json& object, std::string path);
  void expect_no_others() const;
  [[nodiscard]] std::set<std::string> paths_asked() const;

 private:
  [[noreturn]] void refuse_type(const nlohmann::json& value, const Place& place, std::string_view expected) const;

  std::string operation_;
  std::map<const nlohmann::json*, Fields> objects_;
};

/// One value of any type, and its place. Valid as long as the request.
class Value {
 public:
  Value(const nlohmann::json& value, std::string path, std::shared_ptr<Reading> reading)
      : value_(&value), path_(std::move(path)), reading_(std::move(reading)) {}

  template <class T>
  [[nodiscard]] T as() const;
  /// The item of a list. Throws InvalidArgument when it is no list or shorter.
  [[nodiscard]] Value at(std::size_t index) const;
  /// The number of items. Throws InvalidArgument when it is no list.
  [[nodiscard]] std::size_t size() const;
  /// Throws InvalidArgument: "operation: path words".
  [[noreturn]] void refuse(std::string_view words) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
  std::shared_ptr<Reading> reading_;
};

/// Whose rules an operation follows.
enum class Convention {
  plumbline,
  bluefog,
  colossalai,
  deepspeed,
  deepspeed_0_6,
  fairscale,
  gloo,
  megatron,
  paddle,
  torch
};

/// The words that a field may hold, and what they stand for.
template <class T>
using Choices = std::initializer_list<std::pair<std::string_view, T>>;

class Arguments {
 public:
  /// Throws InvalidArgument when `object` is no object. `object` must outlive this.
  Arguments(std::string operation, const nlohmann::json& object);
  Arguments(const nlohmann::json& object, std::string path, std::shared_ptr<Reading> reading);

  /// Whether the field exists and is not null.
  [[nodiscard]] bool has(std::string_view name) const { return field(name) != nullptr; }
  template <class T>
  [[nodiscard]] T get(std::string_view name) const;
  template <class T>
  [[nodiscard]] T get(std::string_view name, T otherwise) const;
  template <class T>
  [[nodiscard]] std::optional<T> find(std::string_view name) const;

  /// An integer in [low, high]. Throws InvalidArgument for another.
  [[nodiscard]] std::int64_t integer_in(std::string_view name, std::int64_t low, std::int64_t high) const;
  /// One of several words. Throws InvalidArgument that lists them.
  template <class T>
  [[nodiscard]] T choice(std::string_view name, Choices<T> choices) const;
  template <class T>
  [[nodiscard]] T choice(std::string_view name, Choices<T> choices, T otherwise) const;
  /// The convention that the request names, plumbline's by default: one of the operation's row, to which the service
  /// holds it.
  [[nodiscard]] Convention convention() const;

  /// The fields that were read so far.
  [[nodiscard]] const std::set<std::string, std::less<>>& asked() const { return fields_->asked; }
  /// The paths of all fields that were read in this request, of objects inside it too: "layers.forward" for
  /// "layers[3].forward".
  [[nodiscard]] std::set<std::string> paths_asked() const { return reading_->paths_asked(); }
  /// Throws InvalidArgument, naming the field, when the request has one that was not read; looks into all
  /// objects that were read as Arguments.
  void expect_no_others() const { reading_->expect_no_others(); }
  /// Throws InvalidArgument: "operation: words".
  [[noreturn]] void refuse(std::string_view words) const { reading_->refuse(words); }

 private:
  [[nodiscard]] const nlohmann::json* field(std::string_view name) const;
  [[nodiscard]] std::string path_to(std::string_view name) const;
  template <class T>
  static const T* meaning_of(const std::string& word, Choices<T> choices);
  template <class T>
  static std::string words_of(Choices<T> choices);
  [[noreturn]] void refuse_choice(std::string_view name, const std::string& word, const std::string& known) const;

  const nlohmann::json* object_;
  std::shared_ptr<Reading> reading_;
  Reading::Fields* fields_;
};

namespace detail {

template <class T>
struct ListItem : std::false_type {};
template <class T>
struct ListItem<std::vector<T>> : std::true_type {
  using Type = T;
};
template <class T>
struct MapItem : std::false_type {};
template <class T>
struct MapItem<std::map<std::string, T>> : std::true_type {
  using Type = T;
};
template <class T>
struct OptionalItem : std::false_type {};
template <class T>
struct OptionalItem<std::optional<T>> : std::true_type {
  using Type = T;
};

template <class T>
T read(const nlohmann::json& value, const Place& place, const std::shared_ptr<Reading>& reading) {
  if constexpr (std::same_as<T, bool>) {
    return reading->boolean(value, place);
  } else if constexpr (std::integral<T>) {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::same_as<T, std::uint64_t>)
      return reading->whole_number(value, place);
    else
      return static_cast<T>(reading->integer(value, place, Limits::min(), Limits::max()));
  } else if constexpr (std::same_as<T, double>) {
    return reading->number(value, place);
  } else if constexpr (std::same_as<T, std::string>) {
    return reading->text(value, place);
  } else if constexpr (std::same_as<T, nlohmann::json>) {
    return value;
  } else if constexpr (std::same_as<T, Value> || std::same_as<T, Arguments>) {
    return T(value, place.text(), reading);
  } else if constexpr (OptionalItem<T>::value) {
    if (value.is_null()) return std::nullopt;
    return read<typename OptionalItem<T>::Type>(value, place, reading);
  } else if constexpr (ListItem<T>::value) {
    reading->expect_list(value, place);
    T list;
    list.reserve(value.size());
    for (const auto& item : value)
      list.push_back(read<typename ListItem<T>::Type>(
          item, {.outer = &place, .index = static_cast<std::ptrdiff_t>(list.size())}, reading));
    return list;
  } else {
    static_assert(MapItem<T>::value, "a type that Arguments cannot read");
    reading->expect_object(value, place);
    T map;
    for (const auto& [name, item] : value.items())
      map.emplace(name, read<typename MapItem<T>::Type>(item, {.outer = &place, .name = name}, reading));
    return map;
  }
}

}  // namespace detail

template <class T>
T Value::as() const {
  return detail::read<T>(*value_, {.name = path_}, reading_);
}

template <class T>
std::optional<T> Arguments::find(std::string_view name) const {
  const nlohmann::json* value = field(name);
  if (value == nullptr) return std::nullopt;
  const Place object{.name = fields_->path};
  return detail::read<T>(*value, {.outer = &object, .name = name}, reading_);
}

template <class T>
T Arguments::get(std::string_view name) const {
  if (std::optional<T> value = find<T>(name)) return *std::move(value);
  refuse(path_to(name) + " is missing");
}

template <class T>
T Arguments::get(std::string_view name, T otherwise) const {
  return find<T>(name).value_or(std::move(otherwise));
}

template <class T>
const T* Arguments::meaning_of(const std::string& word, Choices<T> choices) {
  for (const auto& [known, meaning] : choices)
    if (word == known) return &meaning;
  return nullptr;
}

template <class T>
std::string Arguments::words_of(Choices<T> choices) {
  std::string words;
  for (const auto& [known, meaning] : choices) words.append(words.empty() ? "" : ", ").append(known);
  return words;
}

template <class T>
T Arguments::choice(std::string_view name, Choices<T> choices) const {
  const auto word = get<std::string>(name);
  if (const T* meaning = meaning_of(word, choices)) return *meaning;
  refuse_choice(name, word, words_of(choices));
}

template <class T>
T Arguments::choice(std::string_view name, Choices<T> choices, T otherwise) const {
  return has(name) ? choice(name, choices) : otherwise;
}

// ---- Lists of numbers, held in an element type as a program would.

/// Numbers in memory of a type that collectives reduce.
class TypedValues {
 public:
  TypedValues() = default;
  /// Each rounded once; of an integer type, whole numbers in its range.
  TypedValues(comm::DType dtype, const std::vector<double>& values);

  [[nodiscard]] comm::Buffer buffer();
  [[nodiscard]] std::vector<double> values() const;
  [[nodiscard]] comm::DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size() / comm::size_of(dtype_); }
  [[nodiscard]] double at(std::size_t index) const;
  void set(std::size_t index, double value);

 private:
  comm::DType dtype_ = comm::DType::f32;
  std::vector<std::byte> bytes_;
};

/// Views of all of them.
[[nodiscard]] std::vector<comm::Buffer> buffers_of(std::vector<TypedValues>& lists);
/// As JSON, a list each.
[[nodiscard]] nlohmann::json lists_of(const std::vector<TypedValues>& lists);
/// The field "dtype": float16, bfloat16, float32 or float64.
[[nodiscard]] comm::DType floating_dtype(const Arguments& arguments, comm::DType otherwise);

// ---- An error reply that says more than kind and message.

/// An operation throws it in place of an error; the reply's "error" has the fields beside kind and message.
class Refusal : public Error {
 public:
  Refusal(const Error& error, std::map<std::string, std::string> fields)
      : Error(error.what()), kind_(error.kind()), fields_(std::move(fields)) {}
  [[nodiscard]] std::string_view kind() const noexcept override { return kind_; }
  [[nodiscard]] const std::map<std::string, std::string>& fields() const noexcept { return fields_; }

 private:
  std::string kind_;
  std::map<std::string, std::string> fields_;
};

}  // namespace plumbline::adapter
