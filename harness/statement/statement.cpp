#include "harness/statement/statement.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/expectations/facts.hpp"
#include "harness/run/counted.hpp"
#include "harness/run/findings.hpp"
#include "harness/run/judgement.hpp"
#include "harness/statement/evidence.hpp"
#include "harness/suite/toml_row.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::statement {

using record::Result;
using run::Judgement;

namespace {

// It was made on the day of its earliest part: who repeats one does not prolong it.
record::Run whole_of(const std::vector<run::NamedRun>& shards) {
  if (shards.size() == 1 && !shards.front().run.header.shard) return shards.front().run;
  record::Run whole = run::merge(shards);
  for (const run::NamedRun& shard : shards)
    whole.header.started = std::min(whole.header.started, shard.run.header.started);
  return whole;
}

bool conforms(Judgement judgement) {
  return judgement == Judgement::pass || judgement == Judgement::warn || judgement == Judgement::skip ||
         judgement == Judgement::waived;
}

// The first result that is judged so and is about the requirement.
std::string why(const std::vector<Result>& results, const std::string& requirement, Judgement judgement) {
  if (judgement == Judgement::pass) return {};
  for (const Result& result : results)
    if (std::ranges::count(result.requirements, requirement) > 0 && run::is_about(result, requirement) &&
        run::judge(result) == judgement)
      return run::words_of(result);
  return {};
}

std::vector<Line> lines_of(const suite::Suite& suite, const record::Run& whole) {
  const std::vector<Result> results = run::with_missing(whole);
  const auto verdicts = run::requirement_verdicts(results);
  const suite::Profile& profile = suite.profile(whole.header.profile);
  std::vector<Line> lines;
  for (const auto& [id, requirement] : suite.requirements.rows()) {
    if (!suite.belongs(requirement, profile)) continue;
    const auto verdict = verdicts.find(id);
    if (verdict == verdicts.end())
      lines.push_back({&requirement, {}, "no case of this profile is for such a subject, or for every machine"});
    else
      lines.push_back({&requirement, verdict->second, why(results, id, verdict->second.judgement)});
  }
  return lines;
}

// Where nothing is wrong with the records: whether the subject conforms.
std::vector<std::string> problems_of_whole(const suite::Suite& suite, const record::Run& whole) {
  std::vector<std::string> problems;
  const std::vector<Line> lines = lines_of(suite, whole);
  for (const Line& line : lines)
    if (!conforms(line.verdict.judgement))
      problems.push_back(fmt::format("{} ({}): {}: {}", line.requirement->id, suite::name_of(line.requirement->level),
                                     name_of(line.verdict.judgement), line.why));
  if (problems.empty() && std::ranges::none_of(lines, [](const Line& line) {
        return line.requirement->level == suite::Level::must && line.verdict.judgement == Judgement::pass;
      }))
    problems.emplace_back("no requirement that must hold has passed: there is nothing to state");
  const auto results = run::with_missing(whole);
  const auto odd = std::ranges::find_if(results, [](const Result& one) { return !conforms(run::judge(one)); });
  if (problems.empty() && odd != results.end())
    problems.push_back(fmt::format("{}: {}", odd->case_id, name_of(run::judge(*odd))));
  if (problems.empty() && run::exit_status(whole) != 0) problems.emplace_back("the run did not end well");
  return problems;
}

std::vector<const suite::Waiver*> waivers_of(const suite::Suite& suite, const record::Run& whole) {
  std::set<std::string> used;
  for (const Result& result : whole.results)
    if (run::judge(result) == Judgement::waived) used.insert(result.expectation->origin);
  std::vector<const suite::Waiver*> waivers;
  for (const suite::Waiver& waiver : suite.waivers)
    if (used.contains(waiver.origin)) waivers.push_back(&waiver);
  return waivers;
}

std::chrono::sys_days end_of(std::chrono::sys_days made, const std::vector<const suite::Waiver*>& waivers) {
  std::chrono::year_month_day end = std::chrono::year_month_day(made) + kValidFor;
  if (!end.ok()) end = end.year() / end.month() / std::chrono::last;  // of 29 February
  std::chrono::sys_days until = end;
  for (const suite::Waiver* waiver : waivers) until = std::min(until, waiver->until);
  return until;
}

}  // namespace

std::vector<std::uint64_t> seeds_of_statement(std::string_view suite_version, std::uint64_t fresh) {
  const std::uint64_t of_release = comm::Fnv1a().add("plumbline ").add(suite_version).value() & 0xffffffffU;
  return {1, of_release, fresh};
}

suite::Selection selection_of_statement(suite::Door door, const std::string& profile,
                                        const std::vector<std::uint64_t>& seeds, const suite::Shard& shard) {
  return {.door = door, .profile = profile, .seeds = seeds, .every_arm = door == suite::Door::backend, .shard = shard};
}

std::vector<std::string> problems_of(const suite::Suite& suite, std::string_view suite_version,
                                     const std::vector<run::NamedRun>& shards, std::chrono::sys_days today) {
  std::vector<std::string> problems;
  for (const run::NamedRun& shard : shards)
    for (std::string& problem : problems_of_record(suite, suite_version, shard)) problems.push_back(std::move(problem));
  if (!problems.empty()) return problems;
  for (const run::NamedRun& shard : shards)
    if (const auto made = day_of(shard.run.header); made > today + std::chrono::days(1))
      return {fmt::format("{}: it is of {}, a day that is yet to come", shard.name, suite::text_of(made))};
  try {
    return problems_of_whole(suite, whole_of(shards));
  } catch (const InvalidArgument& error) {  // these are not the shards of one run
    return {error.what()};
  }
}

Statement make_statement(const suite::Suite& suite, SubjectFile subject, const std::vector<run::NamedRun>& shards) {
  Statement statement{.subject = std::move(subject), .whole = whole_of(shards)};
  const record::Run& whole = statement.whole;
  if (const std::string why = problem_of_type(statement.subject, door_of(whole.header)); !why.empty())
    throw InvalidArgument("SUBJECT.toml: " + why);
  statement.profile = &suite.profile(whole.header.profile);
  // Never a command line, which has paths of its machine.
  statement.calls_itself = run::name_of_subject(whole);
  if (const auto version = expectations::identity_of(whole.subject, expectations::facts_of(whole)).version;
      !version.empty())
    statement.calls_itself += " " + version;
  statement.lines = lines_of(suite, whole);
  std::set<int> worlds;
  std::set<std::string> arms;
  for (const Result& result : whole.results) {
    if (result.verdict == record::Verdict::skip) continue;
    arms.insert(result.mode.substr(0, result.mode.find(':')));
    for (const auto& [name, value] : result.parameters)
      if (name == "world") worlds.insert(std::stoi(value));
  }
  statement.worlds.assign(worlds.begin(), worlds.end());
  statement.arms.assign(arms.begin(), arms.end());
  statement.waivers = waivers_of(suite, whole);
  statement.made = day_of(whole.header);
  statement.valid_until = end_of(statement.made, statement.waivers);
  return statement;
}

int Statement::count(suite::Level level, Judgement judgement) const {
  return static_cast<int>(std::ranges::count_if(lines, [&](const Line& line) {
    return line.requirement->level == level && line.verdict.judgement == judgement;
  }));
}

std::string Statement::changes() const {
  const auto source = whole.header.environment.value("suite_source", std::vector<std::string>{"no git checkout"});
  if (source.size() < 2) return {};
  return fmt::format("the suite was built from commit {} with changes in {}", source.front(),
                     fmt::join(source.begin() + 1, source.end(), ", "));
}

std::string Statement::claim() const {
  const int pass = count(suite::Level::must, Judgement::pass) + count(suite::Level::must, Judgement::waived);
  const int open = count(suite::Level::must, Judgement::skip);
  return fmt::format("{} {} of {} conforms to profile {} {} of Plumbline {}: {} of {} MUST requirements pass{}",
                     subject.product, subject.version, subject.vendor, profile->name, profile->version,
                     whole.header.suite_version, pass, pass + open,
                     open == 0   ? ""
                     : open == 1 ? ", 1 is not claimed or was not run"
                                 : fmt::format(", {} are not claimed or were not run", open));
}

}  // namespace plumbline::statement
