#include "harness/run/kill_matrix.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/run/findings.hpp"

namespace plumbline::run {

using mutants::Mutant;
using record::Result;
using record::Verdict;

namespace {

bool kills(Verdict verdict) { return record::is_failure(verdict) || verdict == Verdict::warn; }

// Cases without a mutant that did not pass: what a mutant does in them says nothing. By case and arm.
std::map<std::pair<std::string, std::string>, Verdict> without_mutant(const std::vector<Result>& results) {
  std::map<std::pair<std::string, std::string>, Verdict> verdicts;
  for (const Result& result : results)
    if (result.mutant.empty()) verdicts[{result.case_id, result.mode}] = result.verdict;
  return verdicts;
}

// What the assertions of a case found violated, where a rank let an exception through; nothing where none did.
std::optional<std::set<std::string>> judged_before_falling(const Result& result) {
  std::set<std::string> judged;
  bool fell = false;
  for (const record::RankResult& rank : result.ranks) {
    if (rank.verdict != Verdict::fail) continue;
    for (const record::Failure& failure : rank.failures) {
      fell = fell || failure.uncaught;
      if (failure.uncaught) continue;
      if (failure.requirement.empty()) judged.insert(result.requirements.begin(), result.requirements.end());
      if (std::ranges::count(result.requirements, failure.requirement) > 0) judged.insert(failure.requirement);
    }
  }
  if (!fell) return std::nullopt;
  return judged;
}

// What a result says is violated. A check that falls over an adapter's answer has not judged it by that.
std::set<std::string> violated_by(const Mutant& mutant, const Result& result) {
  const bool is_edit = std::holds_alternative<suite::Edits>(mutant.change) && door_of(mutant) == suite::Door::adapter;
  if (is_edit || std::holds_alternative<mutants::RewriteAnswer>(mutant.change))
    if (const auto judged = judged_before_falling(result)) return *judged;
  const auto& violated = at_stake(result);
  return {violated.begin(), violated.end()};
}

std::string kind_of(const std::string& mode) { return mode.substr(0, mode.find(':')); }

bool is_at(const Result& result, const std::string& case_id, const std::string& mode) {
  return result.case_id == case_id && kind_of(result.mode) == kind_of(mode);
}

}  // namespace

std::optional<record::Expectation> expected_of(const Mutant& mutant, const Result& result) {
  if (is_at(result, mutant.hides, mutant.hides_arm)) return std::nullopt;
  if (!is_at(result, mutant.shows, mutant.shows_arm) && result.verdict == Verdict::pass) return std::nullopt;
  return record::Expectation{.verdict = kills(result.verdict) ? result.verdict : Verdict::fail,
                             .reason = mutant.what,
                             .origin = "mutant " + mutant.name};
}

int exit_status(const std::vector<KillRow>& rows) {
  if (std::ranges::any_of(rows, [](const KillRow& row) { return !row.inconclusive && !row.good(); })) return 1;
  return std::ranges::any_of(rows, &KillRow::inconclusive) ? 3 : 0;
}

std::vector<KillRow> kill_matrix(const std::vector<const Mutant*>& mutants, const std::vector<Result>& results) {
  const auto usual = without_mutant(results);
  std::map<std::string, std::vector<const Result*>> of_mutant;
  for (const Result& result : results) of_mutant[result.mutant].push_back(&result);
  std::vector<KillRow> rows;
  for (const Mutant* mutant : mutants) {
    KillRow row{.mutant = mutant, .how = "not run"};
    bool shown = false, hidden = mutant->hides.empty();  // whether that was looked at
    for (const Result* result : of_mutant[mutant->name]) {
      const bool shows = is_at(*result, mutant->shows, mutant->shows_arm);
      const auto baseline = usual.find({result->case_id, result->mode});
      if (baseline == usual.end() || baseline->second != Verdict::pass) {
        if (shows) row.how = "its case does not pass without it";
        continue;
      }
      if (result->verdict == Verdict::error || result->verdict == Verdict::skip) continue;
      const std::set<std::string> violated = violated_by(*mutant, *result);
      const bool by_the_one_meant = violated.contains(mutant->violates);
      const bool killed = kills(result->verdict);
      if (shows) {
        shown = true;
        row.killed = killed && by_the_one_meant;
        row.how = name_of(result->verdict);
        if (killed && violated.empty()) row.how += ", falling over the answer";
        if (killed && !by_the_one_meant && !violated.empty())
          row.how += fmt::format(" of {}", fmt::join(violated, ", "));
        row.seconds = result->seconds;
      }
      if (is_at(*result, mutant->hides, mutant->hides_arm)) {
        hidden = true;
        row.showed_in_hiding = result->verdict != Verdict::pass;
      }
      if (killed)
        for (const std::string& id : violated)
          if (id != mutant->violates) row.others.insert(id);
    }
    row.inconclusive = !shown || !hidden;
    if (shown && !hidden) row.how += ", but its hiding place was not run, or does not pass without it";
    rows.push_back(std::move(row));
  }
  return rows;
}

mutants::HollowMatrix hollow_matrix(const std::vector<const Mutant*>& subjects, const std::vector<Result>& results,
                                    const std::set<std::string>& deviating, const suite::RequirementTable& requirements,
                                    const suite::HollowTruths& truths) {
  const auto usual = without_mutant(results);
  std::set<std::string> names;
  for (const Mutant* subject : subjects) names.insert(subject->name);
  mutants::HollowMatrix matrix(truths);
  for (const Result& result : results) {
    if (!names.contains(result.mutant)) continue;
    const auto baseline = usual.find({result.case_id, result.mode});
    if (baseline != usual.end() && baseline->second == Verdict::skip) continue;  // not for this machine
    const auto each_requirement = [&](const auto& take) {
      for (const std::string& id : result.requirements)
        if (const suite::Requirement* row = requirements.find(id)) take(*row);
    };
    if (baseline == usual.end() || baseline->second != Verdict::pass || result.verdict == Verdict::error ||
        result.verdict == Verdict::skip) {
      each_requirement([&](const auto& row) { matrix.add_undecided(result.mutant, row.component, row.id); });
      continue;
    }
    std::set<std::string> violated;
    if (kills(result.verdict)) {
      const auto& found = at_stake(result);
      violated = judged_before_falling(result).value_or(std::set<std::string>(found.begin(), found.end()));
    }
    const bool deviates = kills(result.verdict) || deviating.contains(result.key());
    each_requirement([&](const auto& row) {
      matrix.add(result.mutant, row.component, row.id, deviates, violated.contains(row.id));
    });
  }
  return matrix;
}

std::string to_markdown(const std::vector<KillRow>& rows) {
  std::string text =
      "| mutant | violates | killed by it | time to kill | by others | hiding place |\n| --- | --- | --- | --- | --- | "
      "--- |\n";
  for (const KillRow& row : rows) {
    const std::string verdict = row.inconclusive ? "inconclusive: " + row.how
                                : row.killed     ? "yes: " + row.how
                                                 : "survived: " + row.how;
    const char* const hiding = row.mutant->hides.empty() ? "none"
                               : row.inconclusive        ? "not known"
                               : row.showed_in_hiding    ? "shows there"
                                                         : "survives there";
    text += fmt::format("| {} | {} | {} | {:.2f} s | {} | {} |\n", row.mutant->name, row.mutant->violates, verdict,
                        row.seconds, row.others.empty() ? "" : fmt::format("{}", fmt::join(row.others, ", ")), hiding);
  }
  return text;
}

}  // namespace plumbline::run
