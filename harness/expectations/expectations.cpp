#include "harness/expectations/expectations.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/suite/plan.hpp"
#include "harness/suite/toml_row.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::expectations {

namespace fs = std::filesystem;
using record::Verdict;

namespace {

std::string text_of_file(const fs::path& file, const std::string& asked_by) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  if (!stream || fs::is_directory(file) || !(text << stream.rdbuf()))
    throw NotFound(fmt::format("{}cannot read '{}': {}", asked_by, file.string(),
                               fs::is_directory(file) ? "it is a folder"
                               : fs::exists(file)     ? "it is empty or not ours to read"
                                                      : "there is no such file"));
  return text.str();
}

std::string verdict_words(const record::Expectation& expectation) {
  const std::string verdict(name_of(*expectation.verdict));
  return expectation.run ? verdict : fmt::format("skip-run ({})", verdict);
}

auto specificity(const Entry& entry) {
  const auto wild = std::ranges::count_if(entry.id, [](char c) { return c == '*' || c == '?'; });
  return std::tuple(entry.id.size() - static_cast<std::size_t>(wild), entry.when.has_value());
}

// The one that counts. Order means nothing, so which of equal ones it is does not either.
const Entry* most_specific(const std::vector<const Entry*>& candidates, const std::string& case_id) {
  const Entry* best = nullptr;
  for (const Entry* entry : candidates) {
    if (best != nullptr && specificity(*entry) == specificity(*best)) {
      const auto words = [](const Entry& one) { return verdict_words(one.expectation); };
      if (words(*entry) != words(*best))
        throw InvalidArgument(fmt::format(
            "{}: '{}' expects {} of {}, but {}: '{}' expects {}, and neither is more specific: make one id longer",
            best->expectation.origin, best->id, words(*best), case_id, entry->expectation.origin, entry->id,
            words(*entry)));
    } else if (best == nullptr || specificity(*entry) > specificity(*best)) {
      best = entry;
    }
  }
  return best;
}

}  // namespace

bool Entry::names(const record::Result& one, const std::vector<std::string>& requirements) const {
  return suite::names_case(id, one.check, one.case_id, requirements);
}

bool Entry::applies(const record::Result& one, const Facts& facts) const {
  return names(one) && (!when || when->holds(facts));
}

// ---- reading ----

class Reader {
 public:
  Reader(const suite::Suite& suite, std::chrono::sys_days today) : names_(names_of(suite)) {
    book_.today_ = today;
    for (const suite::Case& one : suite.cases()) cases_.push_back(blank_result(suite, one));
  }

  Expectations whole(const fs::path& file, const std::string& text) {
    read(file, text);
    for (const record::Result& one : cases_) refuse_contradictions(one);
    return std::move(book_);
  }

 private:
  static fs::path key_of(const fs::path& file) { return fs::weakly_canonical(file); }

  void read(const fs::path& file, const std::string& text) {
    const std::string origin = file.string();
    open_.push_back(key_of(file));
    book_.files_.push_back(origin);
    const toml::table table = suite::parse_toml(text, origin);
    const suite::TomlRow row(table, origin, "a file of expectations", {"schema", "subject", "include", "expect"});
    if (!row.has("schema")) throw InvalidArgument(fmt::format("{}:1:1: no 'schema'; write schema = 1", origin));
    if (table["schema"].value_exact<std::int64_t>() != 1)
      row.refuse("schema", "this version reads schema = 1, and no other");
    if (row.has("subject")) add_subject(row, origin);
    const bool included = open_.size() > 1;
    for (const auto& [key, value] : table)
      if (!included && key.str() != "expect")
        book_.last_line_of_head_ = std::max(book_.last_line_of_head_, static_cast<int>(value.source().end.line));
    for (const toml::table* entry : suite::tables_of(table, "expect", origin))
      book_.entries_.push_back(entry_of(*entry, file, included));
    if (row.has("include"))
      for (const std::string& name : row.list("include")) include(row, file, name);
    open_.pop_back();
  }

  void include(const suite::TomlRow& row, const fs::path& from, const std::string& name) {
    const fs::path file = (from.parent_path() / name).lexically_normal();
    const fs::path key = key_of(file);
    if (std::ranges::find(open_, key) != open_.end())
      row.refuse("include", fmt::format("'{}' includes itself, through '{}'", file.string(), from.string()));
    if (std::ranges::any_of(book_.files_, [&](const std::string& read) { return key_of(read) == key; })) return;
    const auto& at = row.source("include").begin;
    read(file, text_of_file(file, fmt::format("{}:{}:{}: ", from.string(), at.line, at.column)));
  }

  void add_subject(const suite::TomlRow& row, const std::string& origin) {
    try {
      book_.subjects_.push_back(
          {suite::SubjectRange(row.text("subject")), fmt::format("{}:{}", origin, row.source("subject").begin.line)});
    } catch (const InvalidArgument& error) {
      row.refuse("subject", error.what());
    }
  }

  Entry entry_of(const toml::table& table, const fs::path& file, bool included) const {
    const suite::TomlRow row(table, file.string(), "an expectation",
                             {"id", "verdict", "was", "when", "reason", "link", "until"});
    Entry entry{.id = row.text("id"), .file = file, .included = included, .line = row.line()};
    entry.expectation = {.reason = row.text("reason"), .link = row.text_or("link", ""), .origin = row.place()};
    set_verdict(row, entry.expectation);
    set_condition(row, entry);
    entry.until = row.day_if_any("until");
    const auto& verdict = row.source("verdict").begin;
    entry.verdict_line = static_cast<int>(verdict.line);
    entry.verdict_column = static_cast<int>(verdict.column);
    for (const auto& [key, value] : table)
      entry.last_line = std::max(entry.last_line, static_cast<int>(value.source().end.line));
    if (std::ranges::none_of(cases_, [&](const record::Result& one) { return entry.names(one); }))
      row.refuse("id",
                 fmt::format("id '{}' names no case of the suite; it is a requirement, check or case id with * and "
                             "?, and brackets stand for themselves (\"*[dtype=bf16*\"); plumbline check --list "
                             "shows the cases",
                             entry.id));
    return entry;
  }

  static void set_verdict(const suite::TomlRow& row, record::Expectation& expectation) {
    const std::string word = row.text("verdict");
    if (word == "skip-run") {
      const std::string was = row.has("was") ? row.text("was") : "";
      if (was != "hang" && was != "crash")
        row.refuse(
            row.has("was") ? "was" : "verdict",
            fmt::format("skip-run is for cases that hang or crash, and was = '{}'; write was = \"hang\" or \"crash\"",
                        was));
      expectation.verdict = record::parse_verdict(was);
      expectation.run = false;
      return;
    }
    if (row.has("was")) row.refuse("was", fmt::format("'was' belongs to skip-run, and the verdict is {}", word));
    const auto verdict = record::parse_verdict(word);
    if (!verdict || !(record::is_failure(*verdict) || verdict == Verdict::warn || verdict == Verdict::flake))
      row.refuse("verdict",
                 fmt::format("verdict '{}'; it is fail, refuse, hang, crash, warn, flake or skip-run", word));
    expectation.verdict = verdict;
  }

  void set_condition(const suite::TomlRow& row, Entry& entry) const {
    if (!row.has("when")) return;
    entry.when_text = row.text("when");
    try {
      entry.when.emplace(entry.when_text, names_);
    } catch (const ConditionError& error) {
      row.refuse("when", fmt::format("when '{}', column {}: {}", entry.when_text, error.at() + 1, error.what()));
    }
  }

  // Those with a condition contradict each other only in a run where both hold: Expectations::find().
  void refuse_contradictions(const record::Result& one) const {
    std::vector<const Entry*> candidates;
    for (const Entry& entry : book_.entries_)
      if (!entry.when && !entry.expired(book_.today_) && entry.names(one)) candidates.push_back(&entry);
    (void)most_specific(candidates, one.case_id);
  }

  const std::set<std::string> names_;
  std::vector<record::Result> cases_;
  std::vector<fs::path> open_;  // being read, the outermost first
  Expectations book_;
};

Expectations Expectations::of_text(const std::string& text, const fs::path& file, const suite::Suite& suite,
                                   std::chrono::sys_days today) {
  return Reader(suite, today).whole(file, text);
}

Expectations Expectations::read(const fs::path& file, const suite::Suite& suite, std::chrono::sys_days today) {
  return of_text(text_of_file(file, ""), file, suite, today);
}

// ---- use ----

void Expectations::require_subject(const suite::Identity& subject) const {
  for (const Subject& one : subjects_)
    if (!one.range.matches(subject))
      throw InvalidArgument(fmt::format("{}: the expectations are of subject '{}', and this one is '{}'{}", one.place,
                                        one.range.text(), subject.describe(),
                                        subject.version.empty() ? ", which does not report its version" : ""));
}

std::vector<const Entry*> Expectations::find_each(const record::Result& one, const Facts& run) const {
  const Facts facts = facts_of(run, one);
  std::vector<const Entry*> applying;
  for (const Entry& entry : entries_)
    if (!entry.expired(today_) && entry.applies(one, facts)) applying.push_back(&entry);
  if (one.violated.empty()) return {most_specific(applying, one.case_id)};
  std::vector<const Entry*> found;
  for (const std::string& requirement : one.violated) {
    std::vector<const Entry*> covering;
    std::ranges::copy_if(applying, std::back_inserter(covering),
                         [&](const Entry* entry) { return entry->names(one, {requirement}); });
    found.push_back(most_specific(covering, one.case_id));
  }
  return found;
}

const Entry* Expectations::find(const record::Result& one, const Facts& run) const {
  const std::vector<const Entry*> each = find_each(one, run);
  if (std::ranges::count(each, nullptr) > 0) return nullptr;
  const auto other =
      std::ranges::find_if(each, [&](const Entry* entry) { return entry->expectation.verdict != one.verdict; });
  return other == each.end() ? each.front() : *other;
}

std::vector<std::string> Expectations::expired() const {
  std::vector<std::string> lines;
  for (const Entry& entry : entries_)
    if (entry.expired(today_))
      lines.push_back(fmt::format("{}: '{}' counts no more: it was until {}", entry.expectation.origin, entry.id,
                                  suite::text_of(*entry.until)));
  return lines;
}

std::vector<std::string> Expectations::soon_expired() const {
  std::vector<std::string> lines;
  for (const Entry& entry : entries_)
    if (entry.until && !entry.expired(today_) && *entry.until - today_ <= kWarnBefore)
      lines.push_back(fmt::format("{}: '{}' counts until {}, {} days from now", entry.expectation.origin, entry.id,
                                  suite::text_of(*entry.until), (*entry.until - today_).count()));
  return lines;
}

std::chrono::sys_days today() { return std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()); }

}  // namespace plumbline::expectations
