#include "reference/program/program.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::program {

namespace {

constexpr std::array<std::string_view, 12> kDataTypes{"bool",    "uint8",   "int8",      "int16",
                                                      "int32",   "int64",   "float16",   "bfloat16",
                                                      "float32", "float64", "complex64", "complex128"};

}  // namespace

std::string_view name_of(DataType type) { return kDataTypes[static_cast<std::size_t>(type)]; }

std::optional<DataType> parse_data_type(std::string_view name) {
  const auto found = std::ranges::find(kDataTypes, name);
  if (found == kDataTypes.end()) return std::nullopt;
  return static_cast<DataType>(found - kDataTypes.begin());
}

std::vector<std::string> names_in(const Slots& slots) {
  std::vector<std::string> names;
  for (const auto& [slot, list] : slots) names.insert(names.end(), list.begin(), list.end());
  return names;
}

const std::string& first_name(const Slots& slots) {
  static const std::string kNone;
  for (const auto& [slot, names] : slots)
    if (!names.empty()) return names.front();
  return kNone;
}

bool has_name(const Slots& slots, std::string_view name) {
  return std::ranges::any_of(
      slots, [&](const auto& slot) { return std::ranges::find(slot.second, name) != slot.second.end(); });
}

std::optional<double> number_of(const Op& op, std::string_view attribute) {
  const auto found = op.attributes.find(attribute);
  if (found == op.attributes.end()) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*whole);
  if (const auto* number = std::get_if<double>(&found->second)) return *number;
  return std::nullopt;
}

std::optional<std::int64_t> element_count(const std::vector<std::int64_t>& shape) {
  if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 0; })) return std::nullopt;
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::int64_t count = 1;
  for (const std::int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count))
      throw OutOfRange(
          fmt::format("a variable of shape [{}] has more elements than 64 bits count", fmt::join(shape, ",")));
  return count;
}

}  // namespace plumbline::program
