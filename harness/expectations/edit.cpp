#include "harness/expectations/edit.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/suite/plan.hpp"
#include "harness/suite/text.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::expectations {
namespace {

namespace fs = std::filesystem;
using record::Result;
using record::Verdict;

// ---- text ----

// What stands before the "\n" of the first line: "\r" or nothing.
std::string ending_of(const std::string& text) {
  const std::size_t end = text.find('\n');
  return end != std::string::npos && end > 0 && text[end - 1] == '\r' ? "\r" : "";
}

// The last one is given the ending that it may lack.
std::vector<std::string> whole_lines_of(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  if (!text.empty() && text.back() != '\n') lines.back() += ending_of(text);
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }
bool is_comment(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first != std::string::npos && line[first] == '#';
}

// The byte at which the character of that column (from 1) begins.
std::size_t byte_of(const std::string& line, int column) {
  std::size_t at = 0;
  for (int seen = 1; at < line.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(line[at]) & 0xc0) != 0x80;
    if (begins && seen++ == column) break;
  }
  return at;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else
      out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  }
  return out + "\"";
}

// The first line of a failure's words that says something: not "rank 0: report.cpp:13: Failed", nor the place alone.
std::string telling_line(const std::string& reason) {
  const std::vector<std::string> lines = whole_lines_of(reason);
  for (const std::string& line : lines)
    if (!is_blank(line) && !line.ends_with("Failed") && !line.ends_with(':')) return line;
  return lines.empty() ? "" : lines.front();
}

// Cut at a character's begin.
std::string short_reason(const Result& result) {
  constexpr std::size_t most = 120;
  std::string line = telling_line(result.reason);
  // Words of a subject may be any bytes; a TOML file is UTF-8.
  line = nlohmann::json::parse(nlohmann::json(line).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (line.size() > most) {
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
    line = line.substr(0, end) + "…";
  }
  return line.empty() ? "no reason in the record" : line;
}

// False where it stands on several lines, and nothing is done. A verdict is a word, so no quote stands in it.
bool set_verdict(std::vector<std::string>& lines, const Entry& entry, Verdict verdict) {
  std::string& line = lines.at(static_cast<std::size_t>(entry.verdict_line) - 1);
  const std::size_t begin = byte_of(line, entry.verdict_column);
  std::string quotes(3, line.at(begin));
  if (line.compare(begin, quotes.size(), quotes) != 0) quotes.resize(1);
  const std::size_t end = line.find(quotes, begin + quotes.size());
  if (end == std::string::npos) return false;
  line.replace(begin, end + quotes.size() - begin, quoted(std::string(name_of(verdict))));
  return true;
}

// Lines that a value of the file reaches, the entry's own aside, are no comments, whatever they look like.
int last_line_before(const Expectations& book, const Entry& entry) {
  int last = book.last_line_of_head();
  for (const Entry& other : book.entries())
    if (!other.included && other.line < entry.line) last = std::max(last, other.last_line);
  return last;
}

// With the comment directly over it, which is of it, and not with what stands under it.
void take_out(std::vector<std::string>& lines, const Entry& entry, const Expectations& book) {
  const auto floor = static_cast<std::size_t>(last_line_before(book, entry));
  std::size_t begin = static_cast<std::size_t>(entry.line) - 1;
  while (begin > floor && is_comment(lines[begin - 1])) --begin;
  std::size_t end = static_cast<std::size_t>(entry.last_line);
  while (end < lines.size() && is_blank(lines[end])) ++end;
  if (end == lines.size())
    while (begin > floor && is_blank(lines[begin - 1])) --begin;
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.begin() + static_cast<std::ptrdiff_t>(end));
}

// ---- what the record says ----

// Whether the subject was asked and answered, well or badly.
bool tells(Verdict verdict) {
  return verdict == Verdict::pass || verdict == Verdict::warn || verdict == Verdict::flake ||
         record::is_failure(verdict);
}
bool fails(Verdict verdict) { return verdict == Verdict::flake || record::is_failure(verdict); }

suite::Door door_of(const record::Run& run) {
  if (run.header.facts.contains("job")) return suite::Door::job;
  return run.header.facts.contains("adapter") ? suite::Door::adapter : suite::Door::backend;
}

// A record held against a file: which entry counts for which result.
struct Comparison {
  Comparison(const Expectations& book, const record::Run& run, const suite::Suite& suite) : facts(facts_of(run)) {
    book.require_subject(identity_of(run.subject, facts));
    for (const Result& result : run.results) {
      if (result.expectation && result.expectation->kind != record::Expectation::Kind::expectation) continue;
      const std::vector<const Entry*> each = book.find_each(result, facts);
      for (const Entry* entry : std::set(each.begin(), each.end()))
        if (entry != nullptr)
          by_entry[entry].push_back(&result);
        else
          without.push_back(&result);
      by_case[result.case_id].push_back(&result);
    }
    for (const suite::Case& one : suite.cases())
      if (one.check->door == door_of(run)) cases.push_back(blank_result(suite, one));
    for (const Result& one : cases) {
      const Entry* entry = expected[one.case_id] = book.find(one, facts);
      if (entry != nullptr && !shows(one.case_id)) ++lacking[entry];
    }
  }

  // Whether the record says how the case ends: what the subject does not claim is skipped, and that is an answer.
  [[nodiscard]] bool shows(const std::string& case_id) const {
    const auto found = by_case.find(case_id);
    return found != by_case.end() && std::ranges::any_of(found->second, [](const Result* result) {
             return tells(result->verdict) || result->verdict == Verdict::skip;
           });
  }

  // The case of that id, blank, or nullptr.
  [[nodiscard]] const Result* blank(const std::string& case_id) const {
    const auto found = std::ranges::find(cases, case_id, &Result::case_id);
    return found == cases.end() ? nullptr : &*found;
  }

  Facts facts;
  std::map<const Entry*, std::vector<const Result*>> by_entry;
  std::vector<const Result*> without;
  std::map<std::string, std::vector<const Result*>> by_case;
  std::vector<Result> cases;                     // all of the suite at this door, blank
  std::map<std::string, const Entry*> expected;  // of each of those
  std::map<const Entry*, int> lacking;           // so many of them does the record not show
};

std::set<Verdict> verdicts_of(const std::vector<const Result*>& results) {
  std::set<Verdict> verdicts;
  for (const Result* result : results)
    if (tells(result->verdict)) verdicts.insert(result->verdict);
  return verdicts;
}

std::string list_of(const std::set<Verdict>& verdicts) {
  std::vector<std::string_view> names;
  for (const Verdict verdict : verdicts) names.push_back(name_of(verdict));
  return fmt::format("{}", fmt::join(names, ", "));
}

// ---- update ----

class Updater {
 public:
  Updater(const std::string& text, const fs::path& file, const record::Run& run, const suite::Suite& suite,
          std::chrono::sys_days today)
      : book_(Expectations::of_text(text, file, suite, today)),
        comparison_(book_, run, suite),
        lines_(whole_lines_of(text)),
        ending_(ending_of(text)),
        started_(run.header.started) {}

  Edit edit() {
    for (const Entry& entry : book_.entries()) change(entry);
    for (const Result* result : comparison_.without)
      if (fails(result->verdict) && !waits_for_a_person(*result)) add_case(*result);
    while (!failing_.empty()) add_largest();
    edit_.text = joined(lines_);
    return std::move(edit_);
  }

 private:
  void leave(const std::string& line) {
    if (std::ranges::find(edit_.left, line) == edit_.left.end()) edit_.left.push_back(line);
  }

  void change(const Entry& entry) {
    const auto found = comparison_.by_entry.find(&entry);
    if (found == comparison_.by_entry.end() || !entry.expectation.run) return;
    const Verdict expected = *entry.expectation.verdict;
    const std::set<Verdict> verdicts = verdicts_of(found->second);
    const std::string place = fmt::format("{}: '{}'", entry.expectation.origin, entry.id);
    std::set<Verdict> others = verdicts;
    others.erase(expected);
    if (expected == Verdict::flake) others.erase(Verdict::pass), others.erase(Verdict::warn);
    if (others.empty()) return;
    if (entry.included)
      return leave(fmt::format("{} expects {} and got {}; it is in a file that is included", place, name_of(expected),
                               list_of(verdicts)));
    if (verdicts == std::set{Verdict::pass})
      return leave(fmt::format("{} expects {}, and all pass: plumbline expectations prune takes it out", place,
                               name_of(expected)));
    if (const auto lacking = comparison_.lacking.find(&entry);
        verdicts.size() == 1 && lacking != comparison_.lacking.end())
      return leave(fmt::format("{} expects {} and got {}, but {} of its cases are not in the record", place,
                               name_of(expected), list_of(verdicts), lacking->second));
    if (verdicts.size() == 1) {
      if (!set_verdict(lines_, entry, *verdicts.begin()))
        return leave(fmt::format("{} expects {} and got {}: its verdict stands on several lines: use one", place,
                                 name_of(expected), list_of(verdicts)));
      return edit_.changes.push_back(
          fmt::format("{}: {} became {}", place, name_of(expected), name_of(*verdicts.begin())));
    }
    if (others.contains(Verdict::pass) || others.contains(Verdict::warn) || expected == Verdict::flake)
      return leave(fmt::format("{} expects {} and got {}: narrow it with a longer id, or with 'when'", place,
                               name_of(expected), list_of(verdicts)));
    for (const Result* result : found->second)  // some fail in another way: those get entries of their own
      if (fails(result->verdict) && result->verdict != expected) add_case(*result);
  }

  bool waits_for_a_person(const Result& result) {
    for (const Entry& entry : book_.entries())
      if (entry.expired(book_.today()) && entry.applies(result, facts_of(comparison_.facts, result))) {
        leave(fmt::format("{}: '{}' is expired, and its cases still fail: renew 'until', or mend the subject",
                          entry.expectation.origin, entry.id));
        return true;
      }
    return false;
  }

  void add_case(const Result& result) {
    if (comparison_.blank(result.case_id) == nullptr)
      return leave(fmt::format("{} {}, and is no case of this suite: the record is of another version", result.case_id,
                               name_of(result.verdict)));
    const std::set<Verdict> verdicts = verdicts_of(comparison_.by_case.at(result.case_id));
    if (verdicts.size() == 1)
      fails_at(result);
    else
      leave(fmt::format("{} ends in {} in the same record: write an entry with 'when', over arm or seed",
                        result.case_id, list_of(verdicts)));
  }

  void fails_at(const Result& result) {
    Failing& failing = failing_.emplace(result.case_id, Failing{&result, {}, {}}).first->second;
    const std::vector<const Entry*> each = book_.find_each(result, comparison_.facts);
    for (std::size_t i = 0; i < result.violated.size(); ++i)
      if (each[i] == nullptr || each[i]->expectation.verdict != result.verdict) failing.open.insert(result.violated[i]);
    failing.results.push_back(&result);
  }

  // A case that fails and has no entry for all of it.
  struct Failing {
    const Result* first = nullptr;
    std::set<std::string> open;  // requirements that its failures name, and that no entry covers yet; may be empty
    std::vector<const Result*> results;

    [[nodiscard]] bool named_by(const std::string& id) const {
      return suite::names_case(id, first->check, first->case_id,
                               open.empty() ? first->requirements : std::vector(open.begin(), open.end()));
    }
    // What the entry covers is open no more. Whether nothing is left.
    bool cover(const std::string& id) {
      if (!named_by(id)) return false;
      std::erase_if(open,
                    [&](const std::string& one) { return suite::names_case(id, first->check, first->case_id, {one}); });
      return open.empty();
    }
  };

  // Whether all cases of the suite that `id` names failed as `verdict` says, in what it names, and none is another
  // entry's.
  bool all_fail_alike(const std::string& id, Verdict verdict) const {
    return std::ranges::all_of(comparison_.cases, [&](const Result& one) {
      if (!suite::names_case(id, one.check, one.case_id, one.requirements)) return true;
      const Entry* entry = comparison_.expected.at(one.case_id);
      // Then it must be more specific than the entry that there is.
      if (entry != nullptr && (entry->expectation.verdict != verdict || !entry->expectation.run)) return false;
      const auto found = comparison_.by_case.find(one.case_id);
      if (found == comparison_.by_case.end()) return false;
      const std::set<Verdict> verdicts = verdicts_of(found->second);
      if (verdicts.empty()) return found->second.front()->verdict == Verdict::skip;
      const auto failing = failing_.find(one.case_id);
      return verdicts == std::set{verdict} && failing != failing_.end() &&
             std::ranges::all_of(failing->second.results, [&](const Result* result) {
               return suite::names_case(id, result->check, result->case_id, run::at_stake(*result));
             });
    });
  }

  // All names by which an entry might call the case and others like it: "toys.drop[height=low,*",
  // "toys.drop[*world=2]".
  // Of a blank result, for a record keeps no order of the parameters. Where failures name requirements each of those,
  // alone and with such a name: an entry for the whole check would hide what else is violated one day.
  std::vector<std::string> ids_around(const Failing& failing) const {
    const Result& blank = *comparison_.blank(failing.first->case_id);
    std::vector<std::string> places{blank.check};
    const auto last = blank.parameters.size();
    for (std::size_t i = 0; i < last && last > 1; ++i)
      places.push_back(fmt::format("{}[{}{}={}{}", blank.check, i == 0 ? "" : "*", blank.parameters[i].first,
                                   blank.parameters[i].second, i + 1 == last ? "]" : ",*"));
    std::vector<std::string> ids = failing.open.empty() ? blank.requirements : std::vector<std::string>{};
    if (failing.open.empty()) ids.insert(ids.end(), places.begin(), places.end());
    for (const std::string& requirement : failing.open) {
      ids.push_back(requirement);
      for (const std::string& place : places) ids.push_back(requirement + "/" + place);
    }
    return ids;
  }

  // The entry that does for the most failures: a requirement's, a check's, a parameter's, or else that of one case.
  void add_largest() {
    std::map<std::string, int> counts;
    for (const auto& [case_id, failing] : failing_)
      for (const std::string& id : ids_around(failing)) ++counts[id];
    const auto& [first_case, first] = *failing_.begin();
    std::string best = first.open.empty() ? first_case : *first.open.begin() + "/" + first_case;
    int most = 1;
    for (const auto& [id, count] : counts) {
      const bool better = count > most || (count == most && id.size() < best.size());
      if (better && all_fail_alike(id, first_named(id).verdict)) best = id, most = count;
    }
    add(best, most);
  }

  const Result& first_named(const std::string& id) const {
    return *std::ranges::find_if(failing_, [&](const auto& one) { return one.second.named_by(id); })->second.first;
  }

  // That of all cases that the entry names, where they have one; else no case's words stand for those of others.
  std::string reason_of(const std::string& id) const {
    std::set<std::string> reasons;
    std::size_t cases = 0;
    for (const auto& [case_id, failing] : failing_) {
      if (!failing.named_by(id)) continue;
      ++cases;
      for (const Result* result : failing.results) reasons.insert(short_reason(*result));
    }
    if (reasons.size() == 1) return *reasons.begin();
    return fmt::format("{} case{} with {} different messages", cases, cases == 1 ? "" : "s", reasons.size());
  }

  void add(const std::string& id, int cases) {
    const Result& first = first_named(id);
    if (!is_blank(lines_.back())) write("");
    write("[[expect]]");
    write("id = " + quoted(id));
    write(fmt::format("verdict = \"{}\"", name_of(first.verdict)));
    write(fmt::format("reason = {}  # of the run of {}", quoted(reason_of(id)), started_));
    edit_.changes.push_back(
        fmt::format("'{}' {} was added ({} case{})", id, name_of(first.verdict), cases, cases == 1 ? "" : "s"));
    for (auto one = failing_.begin(); one != failing_.end();)
      one = one->second.cover(id) ? failing_.erase(one) : std::next(one);
  }

  void write(const std::string& line) { lines_.push_back(line + ending_); }

  Expectations book_;
  Comparison comparison_;
  std::vector<std::string> lines_;
  std::string ending_;  // of a line, before its "\n"
  std::string started_;
  std::map<std::string, Failing> failing_;  // by case
  Edit edit_;
};

}  // namespace

Edit update(const std::string& text, const fs::path& file, const record::Run& run, const suite::Suite& suite,
            std::chrono::sys_days today) {
  Edit edit = Updater(text.empty() ? "schema = 1\n" : text, file, run, suite, today).edit();
  // What was written must hold: a contradiction is said here and not by the next run.
  const Comparison check(Expectations::of_text(edit.text, file, suite, today), run, suite);
  return edit;
}

Edit prune(const std::string& text, const fs::path& file, const record::Run& run, const suite::Suite& suite,
           std::chrono::sys_days today) {
  const Expectations book = Expectations::of_text(text, file, suite, today);
  const Comparison comparison(book, run, suite);
  Edit edit;
  std::vector<const Entry*> passing;
  for (const Entry& entry : book.entries()) {
    const auto found = comparison.by_entry.find(&entry);
    if (found == comparison.by_entry.end() || !verdicts_of(found->second).contains(Verdict::pass)) continue;
    const std::string place = fmt::format("{}: '{}'", entry.expectation.origin, entry.id);
    if (const auto verdicts = verdicts_of(found->second); verdicts.size() > 1) {
      if (entry.expectation.verdict != Verdict::flake)
        edit.left.push_back(
            fmt::format("{} got {}: narrow it with a longer id, or with 'when'", place, list_of(verdicts)));
    } else if (entry.expectation.verdict == Verdict::flake)
      edit.left.push_back(fmt::format("{} passes, but is a flake: see plumbline expectations check --records", place));
    else if (entry.included)
      edit.left.push_back(fmt::format("{} passes; it is in a file that is included", place));
    else if (const auto lacking = comparison.lacking.find(&entry); lacking != comparison.lacking.end())
      edit.left.push_back(fmt::format("{} passes, but {} of its cases are not in the record", place, lacking->second));
    else
      passing.push_back(&entry);
  }
  std::vector<std::string> lines = whole_lines_of(text);
  std::ranges::sort(passing, std::greater(), &Entry::line);
  for (const Entry* entry : passing) {
    take_out(lines, *entry, book);
    edit.changes.insert(edit.changes.begin(), fmt::format("{}: '{}' {} was taken out", entry->expectation.origin,
                                                          entry->id, name_of(*entry->expectation.verdict)));
  }
  edit.text = joined(lines);
  // Of a text that is edited line by line nothing else may be lost.
  const std::size_t left = Expectations::of_text(edit.text, file, suite, today).entries().size();
  if (left + passing.size() != book.entries().size())
    throw RuntimeFailure(fmt::format("{}: nothing was written, for {} entries would be left of {} without {}",
                                     file.string(), left, book.entries().size(), passing.size()));
  return edit;
}

std::vector<FlakeRate> flake_rates(const Expectations& book, std::vector<record::Run> runs) {
  std::ranges::sort(runs, std::greater(), [](const record::Run& run) { return run.header.started; });
  std::map<const Entry*, FlakeRate> rates;
  for (const Entry& entry : book.entries())
    if (entry.expectation.verdict == Verdict::flake) rates[&entry].entry = &entry;
  for (const record::Run& run : runs) {
    const Facts facts = facts_of(run);
    std::map<const Entry*, std::pair<int, int>> here;  // tries, failures
    for (const Result& result : run.results) {
      const Entry* entry = tells(result.verdict) ? book.find(result, facts) : nullptr;
      if (entry == nullptr || entry->expectation.verdict != Verdict::flake) continue;
      const std::vector<Verdict> tries = result.tries.empty() ? std::vector{result.verdict} : result.tries;
      here[entry].first += static_cast<int>(tries.size());
      here[entry].second += static_cast<int>(std::ranges::count_if(tries, fails));
    }
    for (const auto& [entry, count] : here)
      if (FlakeRate& rate = rates[entry]; rate.records < kFlakeRecords) {
        ++rate.records;
        rate.tries += count.first;
        rate.failures += count.second;
      }
  }
  std::vector<FlakeRate> list;
  for (const Entry& entry : book.entries())
    if (rates.contains(&entry)) list.push_back(rates.at(&entry));
  return list;
}

}  // namespace plumbline::expectations
