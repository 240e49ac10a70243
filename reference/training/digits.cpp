#include <charconv>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/digits_run.hpp"

// data/digits.csv, compiled in.
extern const std::string_view plumbline_digits_csv;

namespace plumbline::training {
namespace {

constexpr std::size_t kHeldOutEvery = 5;
constexpr int kBrightest = 16;
constexpr int kLargestLabel = 9;

// One line; throws InvalidArgument with what is wrong in it.
Digit digit_of(std::string_view line) {
  Digit digit;
  const char* at = line.data();
  const char* const end = line.data() + line.size();
  for (std::size_t column = 0; column <= digit.pixels.size(); ++column) {
    const bool is_label = column == digit.pixels.size();
    int value = -1;
    const auto [after, error] = std::from_chars(at, end, value);
    const int largest = is_label ? kLargestLabel : kBrightest;
    if (error != std::errc{} || value < 0 || value > largest)
      throw InvalidArgument(fmt::format("column {} must be a whole number, 0 to {}", column + 1, largest));
    (is_label ? digit.label : digit.pixels[column]) = static_cast<std::uint8_t>(value);
    const bool separated = is_label ? after == end : after != end && *after == ',';
    if (!separated)
      throw InvalidArgument(fmt::format("a line has 65 columns with commas between; see column {}", column + 1));
    at = after + 1;
  }
  return digit;
}

}  // namespace

Digits parse_digits(std::string_view text, std::string_view origin) {
  Digits digits;
  std::size_t number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    try {
      (number % kHeldOutEvery == 0 ? digits.held_out : digits.training).push_back(digit_of(line));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("{}:{}: {}", origin, number + 1, error.what()));
    }
    ++number;
  }
  if (digits.training.empty())
    throw InvalidArgument(fmt::format("{}: {} lines; at least two are needed", origin, number));
  return digits;
}

Digits digits() { return parse_digits(plumbline_digits_csv, "digits.csv"); }

}  // namespace plumbline::training
