#include "conformance/support/words.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <regex>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::conformance {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool joins(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Whether what stands at [begin, end) is a part of a longer word or number there.
bool is_part(std::string_view text, std::size_t begin, std::size_t end) {
  const bool is_number = is_digit(text[begin]) || (text[begin] == '-' && begin + 1 < end);
  const auto at = [&](std::size_t index) { return index < text.size() ? text[index] : ' '; };
  const char before = begin == 0 ? ' ' : text[begin - 1];
  if (joins(before) && joins(text[begin])) return true;
  if (joins(at(end)) && joins(text[end - 1])) return true;
  if (!is_number) return false;
  const bool ends_a_fraction = before == '.' && begin >= 2 && is_digit(text[begin - 2]);
  return before == '-' || ends_a_fraction || (at(end) == '.' && is_digit(at(end + 1)));
}

}  // namespace

bool has_word(std::string_view message, std::string_view word) {
  for (std::size_t at = message.find(word); at != message.npos; at = message.find(word, at + 1))
    if (!is_part(message, at, at + word.size())) return true;
  return false;
}

std::vector<std::int64_t> numbers_in(std::string_view message) {
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < message.size();) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(message.data() + at, message.data() + message.size(), number);
    const std::size_t size = static_cast<std::size_t>(end - message.data()) - at;
    if (error == std::errc{} && !is_part(message, at, at + size)) numbers.push_back(number);
    at += std::max<std::size_t>(size, 1);
  }
  return numbers;
}

std::string missing_numbers(std::string_view message, const std::vector<std::int64_t>& numbers) {
  auto next = numbers.begin();
  for (const std::int64_t number : numbers_in(message))
    if (next != numbers.end() && number == *next) ++next;
  return next == numbers.end() ? "" : fmt::format("{} of {} in '{}'", *next, fmt::join(numbers, ", "), message);
}

std::string missing_words(std::string_view message, const std::vector<std::string>& words) {
  std::vector<std::string> missing;
  for (const std::string& word : words)
    if (!has_word(message, word)) missing.push_back(fmt::format("'{}'", word));
  return fmt::format("{}", fmt::join(missing, " and "));
}

namespace {

// Each place of a text that names ranks, and the numbers there. In "rank 1, 8 elements" 8 is none.
std::vector<std::smatch> places_of_ranks(const std::string& text) {
  static const std::regex list(R"(\brank(?:s[\s=:#\[({]*(\d{1,9}(?:[\s,&]+(?:and\s+)?\d{1,9})*))"
                               R"(|[\s=:#\[({]*(\d{1,9}(?:[\s,&]+(?:and\s+)?\d{1,9}(?!\d|\s*[a-z]))*)))",
                               std::regex::icase);
  return {std::sregex_iterator(text.begin(), text.end(), list), std::sregex_iterator()};
}

}  // namespace

std::vector<int> ranks_named(std::string_view message) {
  static const std::regex number(R"(\d+)");
  const std::string text(message);
  std::vector<int> ranks;
  for (const std::smatch& place : places_of_ranks(text)) {
    const std::string numbers = place[1].matched ? place[1] : place[2];
    for (std::sregex_iterator one(numbers.begin(), numbers.end(), number), end; one != end; ++one)
      ranks.push_back(std::stoi(one->str()));
  }
  return ranks;
}

std::string without_ranks(std::string_view message) {
  static const std::regex root(R"(\broots?[\s=:]*$)", std::regex::icase);
  const std::string text(message);
  std::string rest;
  auto from = text.begin();
  for (const std::smatch& place : places_of_ranks(text)) {
    rest.append(from, place[0].first);
    if (std::regex_search(rest, root)) rest += place[0];
    from = place[0].second;
  }
  return rest.append(from, text.end());
}

}  // namespace plumbline::conformance
