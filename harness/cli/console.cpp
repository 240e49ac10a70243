#include "harness/cli/console.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <functional>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/cases.hpp"
#include "harness/cli/outputs.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/findings.hpp"
#include "harness/run/summary.hpp"
#include "harness/suite/eligibility.hpp"

namespace plumbline::cli {
namespace {

using run::Judgement;
using Clock = std::chrono::steady_clock;

constexpr int kRed = 31, kGreen = 32, kYellow = 33;
constexpr int kMostShownAgain = 3;              // failures of one requirement after the first
constexpr std::size_t kMostSentencesShown = 3;  // of one failure
constexpr std::size_t kMostIdsShown = 8;        // of a verdict
constexpr std::size_t kMostReasonsShown = 6;    // why nothing was judged
constexpr std::size_t kMostSkippedShown = 3;    // of requirements whose cases were skipped, and of the reasons

std::string upper_case(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string indented(const std::string& text, std::size_t most_lines) {
  std::istringstream stream(text);
  std::string out;
  std::size_t count = 0;
  for (std::string line; std::getline(stream, line);) {
    if (++count > most_lines) return out + "        …\n";
    out += "        " + printable(line) + "\n";
  }
  return out;
}

// "COLL-001, COLL-004, …"
std::string first_of(std::vector<std::string> ids, std::size_t most) {
  const bool are_more = ids.size() > most;
  if (are_more) ids.resize(most);
  return fmt::format("{}{}", fmt::join(ids, ", "), are_more ? ", …" : "");
}

// "2 fail: COLL-001, COLL-004; 1 skip: DEVICE-001": the first ids of each judgement but pass.
std::string others_in_words(const std::map<std::string, run::RequirementVerdict>& requirements) {
  std::map<Judgement, std::vector<std::string>> others;
  std::vector<std::string> by_few;
  for (const auto& [id, verdict] : requirements) {
    if (verdict.judgement != Judgement::pass && verdict.judgement != Judgement::not_run)
      others[verdict.judgement].push_back(id);
    if (verdict.passes_by_few()) by_few.push_back(fmt::format("{} {}", id, verdict.words()));
  }
  std::string words;
  if (!by_few.empty())
    words = fmt::format(", {} of them with most of their cases skipped: {}", by_few.size(),
                        first_of(by_few, kMostSkippedShown));
  for (const auto& [judgement, ids] : others)
    words += fmt::format("; {} {}: {}", ids.size(), name_of(judgement),
                         first_of(ids, judgement == Judgement::skip ? kMostSkippedShown : kMostIdsShown));
  return words;
}

// Where a profile has no case for what an adapter claims: which ones have.
std::string other_profiles(const suite::Suite& suite, const record::Run& run) {
  if (!run.subject.contains("operations")) return {};
  const auto others = suite::profiles_for_adapter(suite, run.subject);
  std::vector<std::string> names;
  for (const suite::ProfileCases& other : others) {
    if (other.profile->name == run.header.profile) return {};
    names.push_back(fmt::format("{} ({})", other.profile->name, run::counted(other.cases, "case")));
  }
  return fmt::format("\nnothing in profile {} is for this subject; profiles that are: {}", run.header.profile,
                     names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

// What the cases that were not judged lacked, the most frequent first.
std::string reasons_in_words(const std::vector<record::Result>& results, std::size_t most) {
  std::map<std::string, int> counts;
  for (const record::Result& one : results)
    ++counts[one.reason.empty() ? "without a reason" : printable(one.reason.substr(0, one.reason.find('\n')))];
  std::vector<std::pair<std::string, int>> rows(counts.begin(), counts.end());
  std::ranges::stable_sort(rows, std::greater(), &std::pair<std::string, int>::second);
  std::string text;
  for (std::size_t i = 0; i < std::min(rows.size(), most); ++i)
    text += fmt::format("\n  {}: {}", run::counted(rows[i].second, "case"), rows[i].first);
  if (rows.size() > most)
    text += fmt::format("\n  … and {}, which the record has", run::counted(rows.size() - most, "more reason"));
  return text;
}

// What lets such a case run, by the kind of the subject.
const char* what_would_run(const record::Header& header) {
  if (header.facts.contains("adapter"))
    return "a case runs where the adapter's greeting claims the operation, convention and option that it needs "
           "(plumbline adapter --describe has them), or choose others: --profile, --filter";
  if (header.facts.contains("job"))
    return "a case runs where the program does not declare it unsupported (by a file 'unsupported' or exit status 77); "
           "or choose others: --profile, --filter, --world-size";
  return "a case runs over a backend, and with a --device, that has what it needs (plumbline doctor lists those here); "
         "or choose others: --profile, --filter";
}

// The closing words of a run of which no case came to a verdict.
std::string nothing_was_judged(const record::Header& header, const std::vector<record::Result>& results) {
  const auto skipped = std::ranges::count(results, record::Verdict::skip, &record::Result::verdict);
  const auto errors = std::ssize(results) - skipped;
  std::string text = "\nnothing was judged";
  if (skipped > 0) text += fmt::format(": {} skipped", run::counted(skipped, "case"));
  if (errors > 0)
    text += fmt::format("{} {} ended by a fault of the harness or the machine", skipped > 0 ? "," : ":",
                        run::counted(errors, "case"));
  text += reasons_in_words(results, kMostReasonsShown);
  return skipped > 0 ? fmt::format("{}\n{}", text, what_would_run(header)) : text;
}

// Why cases of a run that judged others were skipped.
std::string skipped_in_words(std::vector<record::Result> results) {
  std::erase_if(results, [](const record::Result& one) { return run::judge(one) != Judgement::skip; });
  return results.empty() ? "" : "\nskipped:" + reasons_in_words(results, kMostSkippedShown);
}

}  // namespace

Console::Console(const suite::Suite& suite, std::size_t planned, bool terminal, int groups)
    : suite_(suite), terminal_(terminal), groups_(groups), planned_(planned) {}

std::string Console::coloured(const std::string& text, int colour) const {
  return terminal_ ? fmt::format("\033[{}m{}\033[0m", colour, text) : text;
}

void Console::erase_progress() {
  if (terminal_) fmt::print("\r\033[K");
}

void Console::line(const std::string& text) {
  erase_progress();
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

void Console::end_shape() {
  if (shape_done_ == 0 || shape_.empty() || terminal_ || groups_ > 1) return;
  line(fmt::format("{}: {} in {:.1f} s ({} of {})", shape_, run::counted(shape_done_, "case"),
                   std::chrono::duration<double>(Clock::now() - shape_begun_).count(), done_, planned_));
}

void Console::begin(const std::string& shape, const std::string& name) {
  if (shape != shape_) {
    end_shape();
    shape_ = shape;
    shape_done_ = 0;
    shape_begun_ = Clock::now();
  }
  if (!terminal_ && groups_ > 1 && done_ > 0 && Clock::now() - std::max(drawn_, begun_) > std::chrono::seconds(5)) {
    drawn_ = Clock::now();
    line(fmt::format("{} of {} cases in {:.0f} s", done_, planned_,
                     std::chrono::duration<double>(drawn_ - begun_).count()));
  }
  if (!terminal_ || Clock::now() - drawn_ < std::chrono::milliseconds(50)) return;
  drawn_ = Clock::now();
  fmt::print("\r\033[K[{}/{}] {}", done_, planned_, name.substr(0, 90));
  std::fflush(stdout);
}

void Console::still(const std::string& name, std::chrono::duration<double> since) {
  if (!terminal_)
    line(fmt::format("{} has been running for {:.0f} s ({} of {} done)", name, since.count(), done_, planned_));
}

void Console::failure(const record::Result& result) {
  const auto& requirements = run::at_stake(result);
  bool is_first = requirements.empty();  // of one of its requirements
  // A crash or a fault of the machine says nothing of a wrong value, nor that of it.
  for (const std::string& id : requirements) is_first |= shown_.emplace(run::judge(result), id).second;
  const int colour = run::judge(result) == Judgement::warn ? kYellow : kRed;
  const std::string title =
      coloured(printable(fmt::format("{:<5} {}", upper_case(name_of(run::judge(result))), title_of(result))), colour);
  if (is_first) line(title + "\n" + details(result));
  // One line for a few more of the requirement, and none for the rest.
  else if (const int again = ++again_[requirements.front()]; again <= kMostShownAgain)
    line(fmt::format("{}: {} again{}", title, first_of(requirements, kMostSentencesShown),
                     again < kMostShownAgain ? "" : "; the record has those that follow"));
}

// What a reader needs of the first failure of a requirement: what was found, what is required, how to see it again.
std::string Console::details(const record::Result& result) const {
  const auto& requirements = run::at_stake(result);
  std::string text = indented(run::words_of(result), 12);
  if (requirements.size() > kMostSentencesShown)
    text += fmt::format("      of {} requirements: {} (plumbline explain ID prints one)\n", requirements.size(),
                        fmt::join(requirements, ", "));
  else
    for (const std::string& id : requirements)
      if (const suite::Requirement* requirement = suite_.requirements.find(id))
        text += fmt::format("      {} ({}) {}\n", id, suite::name_of(requirement->level),
                            suite::with_items_after("\n        ", requirement->text));
  return text + fmt::format("      repeat: {}", printable(as_started(result.repeat)));
}

void Console::result(const record::Result& result) {
  ++done_;
  ++shape_done_;
  switch (run::judge(result)) {
    case Judgement::pass:
    case Judgement::skip:
    case Judgement::expected_fail:
    case Judgement::waived:
      return;  // all as it was known: the summary counts them
    case Judgement::flake:
      if (run::is_bad(result, false)) failure(result);
      return;
    default:
      failure(result);
  }
}

void Console::summary(const record::Run& run, const std::string& folder) {
  end_shape();
  erase_progress();
  const auto results = run::with_missing(run);
  std::string counts;
  for (const auto& [judgement, count] : run::count_judgements(results))
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, name_of(judgement));
  const auto requirements = run::requirement_verdicts(results);
  std::size_t passed = 0, not_run = 0;
  for (const auto& [id, verdict] : requirements) {
    passed += verdict.judgement == Judgement::pass;
    not_run += verdict.judgement == Judgement::not_run;
  }
  const bool good = run::exit_status(run) == 0;
  fmt::print("{}: {}, profile {}, seed {}: {} in {:.1f} s: {}\n",
             coloured(good ? "OK" : "NOT OK", good ? kGreen : kRed), printable(run.header.subject), run.header.profile,
             run.header.seed, run::counted(results.size(), "case"), run.seconds, counts);
  fmt::print("requirements: {} of {} pass{}", passed, requirements.size(), others_in_words(requirements));
  if (not_run > 0) fmt::print("; {} not run to their end", not_run);
  if (!run.stopped.empty())
    fmt::print("\nstopped: {}; --resume --out {} runs the rest", printable(run.stopped), folder);
  const bool nothing_ran = std::ranges::all_of(results, [](const record::Result& one) {
    return one.verdict == record::Verdict::skip || one.verdict == record::Verdict::error;
  });
  if (nothing_ran && run::exit_status(run) == 3)
    fmt::print("{}{}", nothing_was_judged(run.header, results), other_profiles(suite_, run));
  else
    fmt::print("{}", skipped_in_words(results));
  fmt::print("\nrecord: {}/run.jsonl ({} beside it)\n", folder, names_of_outputs(folder));
  std::fflush(stdout);
}

}  // namespace plumbline::cli
