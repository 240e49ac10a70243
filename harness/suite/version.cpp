#include "harness/suite/version.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "harness/suite/plan.hpp"
#include "harness/suite/text.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::suite {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string without_zeros(std::string_view number) {
  while (number.size() > 1 && number.front() == '0') number.remove_prefix(1);
  return std::string(number);
}

struct Parts {
  std::vector<std::string> numbers;  // without leading zeros, so that their lengths tell
  std::string suffix;
};

Parts parts_of(std::string_view text) {
  Parts parts;
  if (text.starts_with('v')) text.remove_prefix(1);
  while (!text.empty() && is_digit(text.front())) {
    const auto end = std::ranges::find_if_not(text, is_digit);
    const std::string_view number(text.begin(), end);
    text.remove_prefix(number.size());
    parts.numbers.push_back(without_zeros(number));
    if (text.size() > 1 && text[0] == '.' && is_digit(text[1])) text.remove_prefix(1);
  }
  parts.suffix = text.substr(0, text.find('+'));
  return parts;
}

// Letters and numbers in turn; what stands between them does not count: "rc" "10" of "-rc.10".
std::vector<std::string> words_of(std::string_view suffix) {
  const auto kind = [](unsigned char c) { return std::isdigit(c) ? 1 : std::isalpha(c) ? 2 : 0; };
  std::vector<std::string> words;
  for (std::size_t i = 0; i < suffix.size(); ++i) {
    const int own = kind(static_cast<unsigned char>(suffix[i]));
    if (own == 0) continue;
    if (i == 0 || kind(static_cast<unsigned char>(suffix[i - 1])) != own) words.emplace_back();
    words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(suffix[i])));
  }
  return words;
}

// Before the bare version, it, after it.
int stage_of(const std::vector<std::string>& suffix) {
  constexpr std::array<std::string_view, 8> before{"a", "alpha", "b", "beta", "dev", "pre", "preview", "rc"};
  if (suffix.empty()) return 0;
  return std::ranges::find(before, suffix.front()) != before.end() ? -1 : 1;
}

std::strong_ordering compare_numbers(const std::string& left, const std::string& right) {
  if (left.size() != right.size()) return left.size() <=> right.size();
  return left.compare(right) <=> 0;
}

std::strong_ordering compare_suffixes(const std::vector<std::string>& left, const std::vector<std::string>& right) {
  if (const auto order = stage_of(left) <=> stage_of(right); order != 0) return order;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    const bool numbers = is_digit(left[i].front()) && is_digit(right[i].front());
    const auto order =
        numbers ? compare_numbers(without_zeros(left[i]), without_zeros(right[i])) : left[i].compare(right[i]) <=> 0;
    if (order != 0) return order;
  }
  return left.size() <=> right.size();
}

}  // namespace

bool is_version(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  if (text.empty() || !is_digit(text.front())) return false;
  return std::ranges::all_of(
      text, [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '-' || c == '+' || c == '_'; });
}

std::strong_ordering compare_versions(std::string_view left, std::string_view right) {
  const Parts a = parts_of(left), b = parts_of(right);
  for (std::size_t i = 0; i < std::max(a.numbers.size(), b.numbers.size()); ++i) {
    const auto part = [i](const Parts& parts) { return i < parts.numbers.size() ? parts.numbers[i] : "0"; };
    if (const auto order = compare_numbers(part(a), part(b)); order != 0) return order;
  }
  return compare_suffixes(words_of(a.suffix), words_of(b.suffix));
}

std::string version_in(std::string_view words) {
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find_first_of(" ,;:()", begin), words.size());
    const std::string_view word = words.substr(begin, end - begin);
    if (is_version(word)) return std::string(word.starts_with('v') ? word.substr(1) : word);
    begin = end + 1;
  }
  return "";
}

bool satisfies(std::partial_ordering order, std::string_view comparison) {
  if (comparison == "==") return order == 0;
  if (comparison == "!=") return order != 0;
  if (comparison == "<") return order < 0;
  if (comparison == "<=") return order <= 0;
  if (comparison == ">") return order > 0;
  return order >= 0;
}

namespace {

constexpr std::array<std::string_view, 6> kComparisons{"==", "!=", "<=", ">=", "<", ">"};

// Where the bounds begin: at the first comparison that stands after a space or comma, for a name may be a command with
// arguments ("python3 adapter.py --level=2 >=1.2"). In a text without spaces at the first comparison.
std::size_t begin_of_bounds(std::string_view text) {
  const bool spaced = text.find(' ') != std::string_view::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool may_begin = i == 0 || !spaced || text[i - 1] == ' ' || text[i - 1] == ',';
    if (may_begin && std::ranges::any_of(kComparisons, [&](auto one) { return text.substr(i).starts_with(one); }))
      return i;
  }
  return text.size();
}

}  // namespace

SubjectRange::SubjectRange(std::string_view text) : text_(text) {
  const std::string_view whole = trimmed(text);
  const std::size_t end = begin_of_bounds(whole);
  std::string_view name = trimmed(whole.substr(0, end));
  if (end < whole.size() && name.ends_with(',')) name = trimmed(name.substr(0, name.size() - 1));
  name_ = name;
  if (name_.empty()) throw InvalidArgument(fmt::format("subject '{}' has no name; write \"acme-ccl >=2.4,<3\"", text));
  std::string_view rest = trimmed(whole.substr(end));
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view bound = trimmed(rest.substr(0, comma));
    rest = comma == rest.size() ? std::string_view() : trimmed(rest.substr(comma + 1));
    const auto found = std::ranges::find_if(kComparisons, [&](auto one) { return bound.starts_with(one); });
    const std::string_view version = found == kComparisons.end() ? "" : trimmed(bound.substr(found->size()));
    if (!is_version(version))
      throw InvalidArgument(
          fmt::format("subject '{}': '{}' is no range of versions; write \"{} >=2.4,<3\"", text, bound, name_));
    bounds_.push_back({std::string(*found), std::string(version)});
  }
}

bool SubjectRange::matches(const Identity& subject) const {
  return suite::matches(name_, subject.name) && std::ranges::all_of(bounds_, [&](const Bound& bound) {
           return is_version(subject.version) &&
                  satisfies(compare_versions(subject.version, bound.version), bound.comparison);
         });
}

}  // namespace plumbline::suite
