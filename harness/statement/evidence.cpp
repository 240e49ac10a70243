#include "harness/statement/evidence.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "harness/expectations/known.hpp"
#include "harness/run/case_rules.hpp"
#include "harness/run/judgement.hpp"
#include "harness/run/summary.hpp"
#include "harness/statement/statement.hpp"
#include "harness/suite/toml_row.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::statement {

using record::Header;
using record::Result;
using record::Verdict;

namespace {

// Lines that begin with a record's name; more than a few of one kind say the same.
class Problems {
 public:
  explicit Problems(std::string name) : name_(std::move(name)) {}
  void add(const std::string& why) { lines_.push_back(fmt::format("{}: {}", name_, why)); }
  void add_of_results(const std::string& why) {
    constexpr int kMost = 10;
    if (++of_results_ <= kMost) add(why);
  }
  [[nodiscard]] std::vector<std::string> lines() && {
    constexpr int kMost = 10;
    if (of_results_ > kMost) add(fmt::format("so it is with {} more results", of_results_ - kMost));
    return std::move(lines_);
  }

 private:
  std::string name_;
  int of_results_ = 0;
  std::vector<std::string> lines_;
};

// A run of another version or kind has another plan: nothing else is asked of it.
std::string why_no_statement(const suite::Suite& suite, std::string_view suite_version, const Header& header) {
  if (header.suite_version != suite_version)
    return fmt::format("it is a run of suite {}, and this is {}; take plumbline {}", header.suite_version,
                       suite_version, header.suite_version);
  if (header.command != "check" || header.statement_seeds.empty())
    return "it is no run for a statement; plumbline check --statement makes one";
  const auto& profiles = suite.profiles();
  if (std::ranges::count(profiles, header.profile, &suite::Profile::name) == 0)
    return fmt::format("profile '{}' is not one of this suite", header.profile);
  const auto& seeds = header.statement_seeds;
  if (seeds.size() != 3 || seeds_of_statement(suite_version, seeds.back()) != seeds || seeds.back() != header.seed ||
      std::set(seeds.begin(), seeds.end()).size() != seeds.size())
    return "its seeds are not those of a statement";
  return {};
}

void ask_header(const record::Run& run, Problems& problems) {
  const Header& header = run.header;
  if (!run.complete) problems.add("it is not complete; plumbline check --statement --resume runs the rest");
  if (!header.expectations.empty() || header.allow_unexpected_pass)
    problems.add("it has expectations, which do not count in a statement");
  if (header.facts.contains("mutant")) problems.add("its subject was broken on purpose (--mutant)");
  if (header.facts.contains("filter")) problems.add("it has a filter");
}

// The same cases as this suite plans for a statement.
void ask_plan(const suite::Suite& suite, const Header& header, Problems& problems) {
  const suite::Shard shard =
      header.shard ? suite::Shard{.index = header.shard->index, .count = header.shard->count} : suite::Shard{};
  const auto plan =
      suite::make_plan(suite, selection_of_statement(door_of(header), header.profile, header.statement_seeds, shard));
  std::map<std::string, int> here;
  for (const record::Planned& planned : header.plan) ++here[planned.key()];
  int absent = 0;
  for (const suite::PlannedCase& planned : plan) {
    const record::Planned due{planned.one->id(), {}, planned.mode.name(), planned.seed, planned.repetition};
    if (--here[due.key()] < 0 && ++absent == 1) problems.add(fmt::format("{} is not in its plan", due.case_id));
  }
  if (absent > 1) problems.add(fmt::format("nor are {} more cases of the profile", absent - 1));
  const auto extra = std::ranges::count_if(here, [](const auto& entry) { return entry.second > 0; });
  if (extra > 0) problems.add(fmt::format("its plan has {} cases that the profile does not have", extra));
}

// A pass is one of all its ranks and tries; a warning is of what only should hold.
std::string contradiction(const suite::Suite& suite, const Result& result, const suite::Case& one) {
  const auto said = [&](const std::string& but) {
    return fmt::format("{} is said to be a {}, and {}", result.case_id, name_of(result.verdict), but);
  };
  for (const std::string& id : result.violated)
    if (std::ranges::count(result.requirements, id) == 0)
      return fmt::format("{} violates {}, which is none of its requirements", result.case_id, id);
  if (result.verdict == Verdict::warn &&
      run::verdict_at_level(Verdict::fail, suite.verified_by(*one.check)) != Verdict::warn)
    return said("a requirement of it must hold");
  if (result.verdict != Verdict::pass) return {};
  if (std::ssize(result.ranks) != one.ranks())
    return said(fmt::format("{} of {} ranks have reported", result.ranks.size(), one.ranks()));
  for (const record::RankResult& rank : result.ranks)
    if (rank.verdict != Verdict::pass) return said(fmt::format("its rank {} a {}", rank.rank, name_of(rank.verdict)));
  for (const Verdict earlier : result.tries)
    if (earlier != Verdict::pass) return said(fmt::format("a try of it a {}", name_of(earlier)));
  return {};
}

// A record has parameters by name, a case in the order of its axes.
std::vector<std::pair<std::string, std::string>> sorted(std::vector<std::pair<std::string, std::string>> parameters) {
  std::ranges::sort(parameters);
  return parameters;
}

// Whether a case may be skipped without a run: by what the subject said of itself, on that device.
bool may_be_unasked(const suite::Suite& suite, const suite::Profile& profile, const Result& result,
                    const suite::Case& one, const nlohmann::json& description, const std::string& device) {
  const suite::PlannedCase planned{.one = &one, .seed = result.seed, .mode = suite::ExecutionMode::parse(result.mode)};
  const auto word = run::word_without_run(suite, profile, planned, description, device, 0);
  return word && word->verdict == Verdict::skip;
}

void ask_results(const suite::Suite& suite, const record::Run& run, Problems& problems) {
  const Header& header = run.header;
  const expectations::Facts facts = expectations::facts_of(run);
  const expectations::Known known(suite, nullptr, expectations::identity_of(run.subject, facts), facts, day_of(header));
  const suite::Profile& profile = suite.profile(header.profile);
  const std::string device = header.facts.contains("device") ? header.facts.at("device") : "cpu";
  std::map<std::string, const suite::Case*> cases;
  for (const suite::Case& one : suite.cases()) cases.emplace(one.id(), &one);
  std::set<std::string> planned;
  for (const record::Planned& one : header.plan) planned.insert(one.key());
  for (const Result& result : run.results) {
    const auto one = cases.find(result.case_id);
    if (one == cases.end() || !planned.contains(result.key())) {
      problems.add_of_results(fmt::format("{} has a result and is not planned", result.case_id));
      continue;
    }
    if (const Result blank = expectations::blank_result(suite, *one->second);
        blank.requirements != result.requirements || blank.check != result.check ||
        sorted(blank.parameters) != sorted(result.parameters))
      problems.add_of_results(
          fmt::format("{} has another check, other requirements or parameters than in this suite", result.case_id));
    if (const std::string why = contradiction(suite, result, *one->second); !why.empty()) problems.add_of_results(why);
    if (known.of(result) != result.expectation)
      problems.add_of_results(
          fmt::format("{} is waived, or taken out, otherwise than this suite says", result.case_id));
    const bool is_unasked = result.verdict == Verdict::skip && result.ranks.empty() && !result.expectation;
    if (is_unasked && !may_be_unasked(suite, profile, result, *one->second, run.subject, device))
      problems.add_of_results(fmt::format("{} is skipped, and the subject claims all that it needs", result.case_id));
  }
}

void ask_totals(const record::Run& run, Problems& problems) {
  const auto due = run::tallies_of(run::requirement_verdicts(run::with_missing(run)));
  const auto same = [](const auto& left, const auto& right) {
    return left.first == right.first && left.second.verdict == right.second.verdict &&
           left.second.cases == right.second.cases && left.second.ran == right.second.ran;
  };
  if (run.complete && !std::ranges::equal(due, run.requirements, same))
    problems.add("the totals at its end are not those of its results: it was changed after the run");
}

}  // namespace

suite::Door door_of(const Header& header) {
  if (header.facts.contains("adapter")) return suite::Door::adapter;
  return header.facts.contains("job") ? suite::Door::job : suite::Door::backend;
}

std::chrono::sys_days day_of(const Header& header) {
  const auto day = suite::parse_day(header.started.substr(0, 10));
  if (!day) throw InvalidArgument(fmt::format("'{}' is no time of a run: 2026-11-21T10:02:33Z", header.started));
  return *day;
}

std::vector<std::string> problems_of_record(const suite::Suite& suite, std::string_view suite_version,
                                            const run::NamedRun& shard) {
  Problems problems(shard.name);
  try {
    const std::string why = why_no_statement(suite, suite_version, shard.run.header);
    if (!why.empty()) {
      problems.add(why);
      return std::move(problems).lines();
    }
    ask_header(shard.run, problems);
    ask_plan(suite, shard.run.header, problems);
    ask_results(suite, shard.run, problems);
    ask_totals(shard.run, problems);
  } catch (const std::exception& error) {  // a value that no run writes
    problems.add(error.what());
  }
  return std::move(problems).lines();
}

}  // namespace plumbline::statement
