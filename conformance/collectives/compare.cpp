#include "conformance/collectives/compare.hpp"

#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "conformance/support/element.hpp"

namespace plumbline::conformance {

using comm::DType;
using nlohmann::json;

namespace {

template <class IsWrong, class Describe>
std::string first_wrong(std::size_t count, const IsWrong& is_wrong, const Describe& describe,
                        const char* what = "element") {
  std::size_t first = count;
  std::size_t wrong = 0;
  for (std::size_t index = 0; index < count; ++index) {
    if (!is_wrong(index)) continue;
    if (wrong++ == 0) first = index;
  }
  if (wrong == 0) return {};
  return fmt::format("{} {} of {}: {}; {} of {} {}s are wrong", what, first, count, describe(first), wrong, count,
                     what);
}

template <class AreAlike>
std::string compare(DType dtype, std::span<const std::byte> expected, std::span<const std::byte> got,
                    const AreAlike& are_alike) {
  // One comparison of bytes for the usual case.
  if (expected.empty() || std::memcmp(expected.data(), got.data(), got.size()) == 0) return {};
  const char* const what = is_complex(dtype) ? "part" : "element";
  dtype = component_of(dtype);
  const auto element = [dtype](std::span<const std::byte> from, std::size_t index) {
    return bits_at(dtype, from.data() + index * size_of(dtype));
  };
  return first_wrong(
      got.size() / size_of(dtype),
      [&](std::size_t index) { return !are_alike(element(expected, index), element(got, index)); },
      [&](std::size_t index) {
        const std::uint64_t right = element(expected, index);
        const std::uint64_t wrong = element(got, index);
        return fmt::format(
            "expected {}, got {}, {} apart", text_of(dtype, right), text_of(dtype, wrong),
            fmt::format("{}{}", steps_between(dtype, right, wrong), has_float_format(dtype) ? " ULP" : ""));
      },
      what);
}

std::string shortened(const json& value) { return value.dump().substr(0, 200); }

// As numbers, and zeros by their sign, which a comparison of numbers does not see.
bool are_alike(const json& expected, const json& got) {
  if (expected != got) return false;
  return !expected.is_number() || std::signbit(expected.get<double>()) == std::signbit(got.get<double>());
}

}  // namespace

std::string first_difference(DType dtype, std::span<const std::byte> expected, std::span<const std::byte> got) {
  return compare(dtype, expected, got, [](std::uint64_t a, std::uint64_t b) { return a == b; });
}

std::string first_difference_but_nan(DType dtype, std::span<const std::byte> expected, std::span<const std::byte> got) {
  return compare(dtype, expected, got, [part = component_of(dtype)](std::uint64_t a, std::uint64_t b) {
    return a == b || (std::isnan(number_of(part, a)) && std::isnan(number_of(part, b)));
  });
}

std::string first_excess(DType dtype, std::span<const long double> expected, std::span<const long double> bound,
                         std::span<const std::byte> got) {
  const auto bits = [&](std::size_t index) { return bits_at(dtype, got.data() + index * size_of(dtype)); };
  const auto error = [&](std::size_t index) { return std::fabs(number_of(dtype, bits(index)) - expected[index]); };
  return first_wrong(
      expected.size(), [&](std::size_t index) { return !(error(index) <= bound[index]); },
      [&](std::size_t index) {
        return fmt::format("expected {:.17g}, got {}, off by {:.3g} where {:.3g} is allowed, {} ULP",
                           static_cast<double>(expected[index]), text_of(dtype, bits(index)),
                           static_cast<double>(error(index)), static_cast<double>(bound[index]),
                           steps_between(dtype, nearest_bits(dtype, expected[index]), bits(index)));
      });
}

std::string first_difference(const json& expected, const json& got) {
  if (!got.is_array() || got.size() != expected.size())
    return fmt::format("expected {} elements, got {}", expected.size(), shortened(got));
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (!are_alike(expected[i], got[i]))
      return fmt::format("element {} of {}: expected {}, got {}", i, expected.size(), shortened(expected[i]),
                         shortened(got[i]));
  return {};
}

}  // namespace plumbline::conformance
