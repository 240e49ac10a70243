#include "harness/cli/help.hpp"

#include <regex>
#include <sstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::cli {
namespace {

constexpr std::size_t kColumns = 100, kFirstColumn = 30;

// What stands for the value, and which values are allowed.
struct ValueWords {
  std::string name, allowed;
};

// CLI11 joins the type of a value with the words of its validators: "INT:1..64".
ValueWords value_words(const std::string& type) {
  static const std::regex joined(R"((.*?)(?::(SECONDS|NUMBER|cpu\|.*|\{.*\}|[0-9]+\.\..*|.* in \[.*\]))?)");
  static const std::regex range(R"(([0-9]+)\.\.(.+))"), closed(R"(.* in \[(\S+) - (\S+)\])");
  std::smatch parts, found;
  if (!std::regex_match(type, parts, joined)) return {.name = type, .allowed = ""};
  const std::string base = parts[1], limits = parts[2];
  ValueWords words{.name = base, .allowed = ""};
  if (base == "TEXT") words.name = "NAME";
  if (base == "INT" || base == "UINT") words.name = "N";
  if (base == "FLOAT") words.name = limits == "SECONDS" ? limits : "X";
  if (limits.starts_with('{'))
    words.name = std::regex_replace(limits.substr(1, limits.size() - 2), std::regex(","), "|");
  if (std::regex_match(limits, found, range))
    words.allowed = found[2] == "1000000000" ? fmt::format("{} or more", found[1].str())
                                             : fmt::format("{} to {}", found[1].str(), found[2].str());
  else if (std::regex_match(limits, found, closed))
    words.allowed = fmt::format("{} to {}", found[1].str(), found[2].str());
  return words;
}

std::string default_words(const CLI::Option& option) {
  std::string words = option.get_default_str();
  if (words.starts_with('[') && words.ends_with(']')) words = words.substr(1, words.size() - 2);
  const bool is_said = option.get_description().find("(default ") != std::string::npos;
  return words.empty() || is_said ? "" : "default " + words;
}

std::string description_words(const CLI::Option& option) {
  std::vector<std::string> notes;
  const auto note = [&](std::string words) {
    if (!words.empty()) notes.push_back(std::move(words));
  };
  if (option.get_required()) note("required");
  if (option.get_items_expected_max() > 0) {
    note(value_words(option.get_type_name()).allowed);
    note(default_words(option));
  }
  for (const CLI::Option* needed : option.get_needs()) note("requires " + needed->get_name());
  std::string words = option.get_description();
  if (notes.empty()) return words;
  const bool is_open = words.ends_with(')') && words.find("(default ") != std::string::npos;
  if (is_open) words.pop_back();
  return fmt::format("{}{}{})", words, is_open ? "; " : " (", fmt::join(notes, "; "));
}

std::string name_words(const CLI::Option& option, bool is_positional) {
  std::string words = is_positional ? "" : option.get_name(false, true);
  if (words == "-h,--help") words = "-h, --help";
  words = words.substr(0, words.find('{'));  // CLI11 has the value of a flag that is off: "--hold-at-minimum{false}"
  if (option.get_items_expected_max() == 0) return words;
  const std::string value = value_words(option.get_type_name()).name;
  const bool is_repeated = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  return fmt::format("{}{}{}{}", words, words.empty() ? "" : " ", value,
                     !is_repeated                     ? ""
                     : option.get_delimiter() == '\0' ? " ..."
                                                      : ",...");
}

// Two columns; the second begins a line of its own where the first is too wide.
std::string in_columns(const std::string& first, const std::string& second) {
  std::string text = "  " + first;
  std::size_t column = text.size();
  std::istringstream words(second);
  bool is_first = true;
  for (std::string word; words >> word; is_first = false) {
    if (is_first ? column + 2 > kFirstColumn : column + 1 + word.size() > kColumns) {
      text += '\n';
      column = 0;
    }
    const std::size_t gap = column < kFirstColumn ? kFirstColumn - column : 1;
    text += std::string(gap, ' ') + word;
    column += gap + word.size();
  }
  return text + '\n';
}

}  // namespace

// CLI11 has a blank line before each part and another one after each group.
std::string HelpFormatter::make_usage(const CLI::App* command, std::string name) const {
  return CLI::Formatter::make_usage(command, std::move(name)) + '\n';
}

std::string HelpFormatter::make_positionals(const CLI::App* command) const {
  const std::string text = CLI::Formatter::make_positionals(command);
  return text.empty() ? text : text + '\n';
}

std::string HelpFormatter::make_group(std::string heading, bool is_positional,
                                      std::vector<const CLI::Option*> options) const {
  std::string text = heading + ":\n";
  for (const CLI::Option* option : options) text += make_option(option, is_positional);
  return text;
}

std::string HelpFormatter::make_option(const CLI::Option* option, bool is_positional) const {
  return in_columns(name_words(*option, is_positional), description_words(*option));
}

std::string HelpFormatter::make_option_usage(const CLI::Option* option) const {
  const bool is_repeated = option->get_expected_max() == CLI::detail::expected_max_vector_size;
  const std::string words = value_words(option->get_type_name()).name + (is_repeated ? "..." : "");
  return option->get_required() ? words : "[" + words + "]";
}

std::string HelpFormatter::make_subcommand(const CLI::App* command) const {
  return in_columns(command->get_display_name(true), command->get_description());
}

std::string value_name(const CLI::Option& option) { return value_words(option.get_type_name()).name; }

void group_options(CLI::App& command, const std::string& heading, std::initializer_list<const char*> names) {
  for (const char* name : names) command.get_option(name)->group(heading);
}

}  // namespace plumbline::cli
