#include "harness/suite/requirement.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

#include "harness/suite/toml_row.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::suite {
namespace {

constexpr std::array<std::string_view, 3> kLevels{"must", "should", "may"};

std::vector<std::string> list_if_any(const TomlRow& row, std::string_view field) {
  return row.has(field) ? row.list(field) : std::vector<std::string>();
}

// A text of several lines, of which those stay lines that begin an item of a list, or what comes after the list: a line
// of an item that is not its first is indented.
std::string in_items(std::string_view text) {
  std::string out;
  bool in_list = false;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t indent = std::min(line.find_first_not_of(" \t\r"), line.size());
    line.remove_prefix(indent);
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    const bool is_item = line.starts_with("- ");
    if (!out.empty()) out += is_item || (in_list && indent == 0) ? '\n' : ' ';
    out += line;
    in_list = is_item || (in_list && indent > 0);
  }
  return out;
}

bool is_id(std::string_view id) {
  const auto dash = id.rfind('-');
  if (dash == std::string_view::npos || dash == 0 || id.size() - dash != 4) return false;
  for (std::size_t i = 0; i < id.size(); ++i) {
    const auto c = static_cast<unsigned char>(id[i]);
    if (i != dash && (i < dash ? !std::isupper(c) : !std::isdigit(c))) return false;
  }
  return true;
}

Level level_of(const TomlRow& row) {
  const std::string name = row.text("level");
  for (std::size_t level = 0; level < kLevels.size(); ++level)
    if (kLevels[level] == name) return static_cast<Level>(level);
  row.refuse("level", fmt::format("level '{}'; it is must, should or may", name));
}

Requirement requirement_of(const TomlRow& row, const TomlRow& file) {
  Requirement requirement{.id = row.text("id"),
                          .component = file.text("component"),
                          .level = level_of(row),
                          .since = row.has("since") ? row.text("since") : file.text("since"),
                          .text = in_items(row.text("text")),
                          .rationale = row.has("rationale") ? row.text("rationale") : "",
                          .sources = list_if_any(row, "source"),
                          .checks = list_if_any(row, "checks"),
                          .mutants = list_if_any(row, "mutants"),
                          .needs = list_if_any(row, "needs"),
                          .tags = list_if_any(row, "tags")};
  if (!is_id(requirement.id))
    row.refuse("id", fmt::format("id '{}'; an id is capitals, a dash and three digits: COLL-014", requirement.id));
  return requirement;
}

// By forms, what the words of a file mean.
std::map<std::string, std::string> terms_in_file(const toml::table& file, const TomlRow& all, std::string_view origin) {
  std::map<std::string, std::string> terms;
  if (!all.has("terms")) return terms;
  const auto* const table = file.get_as<toml::table>("terms");
  if (table == nullptr) all.refuse("terms", "'terms' must be a table: [terms]");
  for (const auto& [forms, meaning] : *table) {
    const auto sentence = meaning.value_exact<std::string>();
    if (!sentence) refuse_at(origin, meaning.source(), fmt::format("the meaning of '{}' must be a text", forms.str()));
    terms.emplace(forms.str(), *sentence);
  }
  return terms;
}

bool is_in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// As a word of its own, also in the plural; a sentence may begin with it.
bool has_word(std::string_view text, std::string_view word) {
  const auto is_same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (auto from = text.begin();; ++from) {
    from = std::search(from, text.end(), word.begin(), word.end(), is_same);
    if (from == text.end()) return false;
    std::string_view rest(from + static_cast<std::ptrdiff_t>(word.size()), text.end());
    for (const std::string_view plural : {"es", "s", ""})
      if (rest.starts_with(plural) && (rest.size() == plural.size() || !is_in_word(rest[plural.size()])) &&
          (from == text.begin() || !is_in_word(from[-1])))
        return true;
  }
}

std::vector<std::string_view> forms_of(std::string_view term) {
  std::vector<std::string_view> forms;
  for (std::size_t comma = 0; (comma = term.find(", ")) != std::string_view::npos; term.remove_prefix(comma + 2))
    forms.push_back(term.substr(0, comma));
  forms.push_back(term);
  return forms;
}

using Rows = std::map<std::string, Requirement>;
using Terms = std::map<std::string, std::map<std::string, std::string>, std::less<>>;

void add_rows(std::string_view text, std::string_view origin, Rows& rows, Terms& terms) {
  const toml::table file = parse_toml(text, origin);
  const TomlRow all(file, origin, "a file of requirements", {"component", "since", "terms", "requirement"});
  for (const auto& [forms, meaning] : terms_in_file(file, all, origin))
    if (!terms[all.text("component")].emplace(forms, meaning).second)
      all.refuse("terms", fmt::format("the term '{}' is defined twice", forms));
  const auto tables = tables_of(file, "requirement", origin);
  if (tables.empty()) refuse_at(origin, file.source(), "no [[requirement]] in it");
  for (const toml::table* table : tables) {
    const TomlRow row(*table, origin, "a requirement",
                      {"id", "level", "since", "text", "rationale", "source", "checks", "mutants", "needs", "tags"});
    Requirement requirement = requirement_of(row, all);
    const std::string id = requirement.id;
    if (!rows.emplace(id, std::move(requirement)).second) row.refuse(fmt::format("id '{}' is used twice", id));
  }
}

}  // namespace

std::string_view name_of(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

std::string Requirement::citation() const { return id + "@" + sentence_hash(text); }

std::string sentence_hash(std::string_view text) {
  comm::Fnv1a mixed;
  bool blank = false;
  bool begun = false;
  const auto mix = [&mixed](char c) { mixed.add_word(static_cast<unsigned char>(c)); };
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) {
      blank = begun;
      continue;
    }
    if (blank) mix(' ');
    mix(c);
    blank = false;
    begun = true;
  }
  const std::uint64_t hash = mixed.value(), folded = hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48;
  return fmt::format("{:04x}", folded & 0xffffu);
}

std::string with_items_after(std::string_view separator, std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += separator;
    else
      out += c;
  }
  return out;
}

std::string_view id_of_citation(std::string_view citation) { return citation.substr(0, citation.find('@')); }

void RequirementTable::add_toml_later(std::string_view text, std::string_view origin) {
  read_->later.emplace_back(text, origin);
}

const RequirementTable::Read& RequirementTable::read() const {
  const std::lock_guard lock(read_->reading);
  while (!read_->later.empty()) {  // one that is malformed stays, so that no later reader takes a part for the whole
    const auto [text, origin] = read_->later.front();
    add_rows(text, origin, read_->rows, read_->terms);
    read_->later.erase(read_->later.begin());
  }
  return *read_;
}

const std::map<std::string, Requirement>& RequirementTable::rows() const { return read().rows; }

void RequirementTable::add_toml(std::string_view text, std::string_view origin) {
  add_rows(text, origin, read_->rows, read_->terms);
}

const Requirement* RequirementTable::find(std::string_view id) const {
  const auto& all = rows();
  const auto found = all.find(std::string(id));
  return found == all.end() ? nullptr : &found->second;
}

std::vector<Term> RequirementTable::terms_of(std::string_view component) const {
  std::vector<Term> terms;
  const auto& all = read().terms;
  if (const auto found = all.find(component); found != all.end())
    for (const auto& [forms, meaning] : found->second) terms.push_back({forms, meaning});
  return terms;
}

std::vector<Term> RequirementTable::terms_in(const Requirement& requirement) const {
  std::vector<Term> terms = terms_of(requirement.component);
  std::erase_if(terms, [&](const Term& term) {
    return std::ranges::none_of(forms_of(term.forms),
                                [&](std::string_view form) { return has_word(requirement.text, form); });
  });
  return terms;
}

}  // namespace plumbline::suite
