#include "conformance/support/words.hpp"

#include <algorithm>
#include <cctype>
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

std::string missing_words(std::string_view message, const std::vector<std::string>& words) {
  std::vector<std::string> missing;
  for (const std::string& word : words)
    if (!has_word(message, word)) missing.push_back(fmt::format("'{}'", word));
  return fmt::format("{}", fmt::join(missing, " and "));
}

std::vector<int> ranks_named(std::string_view message) {
  static const std::regex list(R"(\branks?[\s=:#\[({]*(\d{1,9}(?:[\s,&]+(?:and\s+)?\d{1,9})*))", std::regex::icase),
      number(R"(\d+)");
  const std::string text(message);
  std::vector<int> ranks;
  for (std::sregex_iterator found(text.begin(), text.end(), list), end; found != end; ++found) {
    const std::string numbers = (*found)[1];
    for (std::sregex_iterator one(numbers.begin(), numbers.end(), number); one != end; ++one)
      ranks.push_back(std::stoi(one->str()));
  }
  return ranks;
}

}  // namespace plumbline::conformance
