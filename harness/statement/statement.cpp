#include "harness/statement/statement.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

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

record::Run whole_of(const std::vector<run::NamedRun>& shards) {
  if (shards.size() == 1 && !shards.front().run.header.shard) return shards.front().run;
  return run::merge(shards);
}

bool conforms(Judgement judgement) {
  return judgement == Judgement::pass || judgement == Judgement::warn || judgement == Judgement::skip ||
         judgement == Judgement::waived;
}

// The first result that is judged so and is about the requirement.
std::string why(const record::Run& run, const std::string& requirement, Judgement judgement) {
  if (judgement == Judgement::pass) return {};
  for (const Result& result : run::with_missing(run))
    if (std::ranges::count(result.requirements, requirement) > 0 && run::is_about(result, requirement) &&
        run::judge(result) == judgement)
      return run::words_of(result);
  return {};
}

std::vector<Line> lines_of(const suite::Suite& suite, const record::Run& whole) {
  const auto verdicts = run::requirement_verdicts(run::with_missing(whole));
  const suite::Profile& profile = suite.profile(whole.header.profile);
  std::vector<Line> lines;
  for (const auto& [id, verdict] : verdicts) {
    const suite::Requirement* requirement = suite.requirements.find(id);
    if (requirement != nullptr && suite.belongs(*requirement, profile))
      lines.push_back({requirement, verdict, why(whole, id, verdict.judgement)});
  }
  return lines;
}

// Where nothing is wrong with the records: whether the subject conforms.
std::vector<std::string> problems_of_whole(const suite::Suite& suite, const record::Run& whole,
                                           std::chrono::sys_days today) {
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
  if (problems.empty() && run::exit_status(whole) != 0) problems.emplace_back("the run did not end well");
  if (const auto made = day_of(whole.header); made > today + std::chrono::days(1))
    problems.push_back(fmt::format("the run is of {}, a day that is yet to come", suite::text_of(made)));
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
  try {
    return problems_of_whole(suite, whole_of(shards), today);
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
  statement.calls_itself = expectations::identity_of(whole.subject, expectations::facts_of(whole)).describe();
  statement.lines = lines_of(suite, whole);
  std::set<int> worlds;
  std::set<std::string> arms;
  for (const Result& result : whole.results) {
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

std::string Statement::claim() const {
  return fmt::format("{} {} of {} conforms to profile {} {} of Plumbline {}", subject.product, subject.version,
                     subject.vendor, profile->name, profile->version, whole.header.suite_version);
}

}  // namespace plumbline::statement
