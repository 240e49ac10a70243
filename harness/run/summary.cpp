#include "harness/run/summary.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include <fmt/format.h>

#include "harness/run/counted.hpp"
#include "harness/run/findings.hpp"

namespace plumbline::run {

using record::Planned;
using record::Result;
using record::Run;
using record::Verdict;

namespace {

// From good to bad, for a requirement.
int badness(Judgement judgement) {
  constexpr std::array order{
      Judgement::skip,          Judgement::pass,         Judgement::warn,    Judgement::waived,
      Judgement::expected_fail, Judgement::inconclusive, Judgement::not_run, Judgement::error,
      Judgement::missing,       Judgement::aborted,      Judgement::flake,   Judgement::refuse,
      Judgement::hang,          Judgement::crash,        Judgement::fail,    Judgement::unexpected_pass};
  return static_cast<int>(std::ranges::find(order, judgement) - order.begin());
}

}  // namespace

std::string name_of_subject(const Run& run) {
  if (!run.header.subject_name.empty()) return run.header.subject_name;
  if (const auto name = run.subject.value("name", ""); !name.empty()) return name;
  // "backend mpi segment_elements=7", "adapter python3 my_adapter.py", "job 'python3 train.py'", "mutants of backend
  // local"
  std::istringstream words(run.header.subject);
  std::string kind, name;
  words >> kind;
  if (kind != "backend") return kind == "adapter" || kind == "job" ? kind : run.header.subject;
  words >> name;
  return name.substr(0, name.find(','));
}

std::vector<Result> with_missing(const Run& run) {
  std::map<std::string, const Result*> by_key;
  for (const Result& result : run.results) by_key[result.key()] = &result;
  std::vector<Result> results;
  for (const Planned& planned : run.header.plan) {
    if (const auto found = by_key.find(planned.key()); found != by_key.end()) {
      results.push_back(*found->second);
      by_key.erase(found);
      continue;
    }
    results.push_back({.check = planned.case_id.substr(0, planned.case_id.find('[')),
                       .case_id = planned.case_id,
                       .requirements = planned.requirements,
                       .mode = planned.mode,
                       .seed = planned.seed,
                       .repetition = planned.repetition,
                       .mutant = planned.mutant,
                       .verdict = run.stopped.empty() ? Verdict::missing : Verdict::not_run,
                       .reason = run.stopped.empty() ? "planned, but the run ended before it"
                                                     : "planned, and not run: " + run.stopped});
  }
  for (const Result& result : run.results)
    if (by_key.contains(result.key())) results.push_back(result);
  return results;
}

std::string RequirementVerdict::words() const {
  const std::string name(name_of(judgement));
  const bool all = ran == cases || judgement == Judgement::skip;
  return all ? name : fmt::format("{} ({} of {})", name, ran, counted(cases, "case"));
}

std::map<std::string, RequirementVerdict> requirement_verdicts(const std::vector<Result>& results) {
  std::map<std::string, RequirementVerdict> verdicts;
  for (const Result& result : results)
    for (const std::string& id : result.requirements) {
      const Judgement judgement = is_about(result, id) ? judge(result) : Judgement::pass;
      RequirementVerdict& verdict = verdicts[id];
      ++verdict.cases;
      verdict.ran += judgement != Judgement::skip;
      if (badness(judgement) > badness(verdict.judgement)) verdict.judgement = judgement;
    }
  return verdicts;
}

std::map<std::string, record::RequirementTally> tallies_of(const std::map<std::string, RequirementVerdict>& verdicts) {
  std::map<std::string, record::RequirementTally> tallies;
  for (const auto& [id, verdict] : verdicts)
    tallies[id] = {std::string(name_of(verdict.judgement)), verdict.cases, verdict.ran};
  return tallies;
}

std::map<Judgement, int> count_judgements(const std::vector<Result>& results) {
  std::map<Judgement, int> counts;
  for (const Result& result : results) ++counts[judge(result)];
  return counts;
}

int exit_status(const Run& run, bool interrupted) {
  if (interrupted) return 3;
  const std::vector<Result> results = with_missing(run);
  if (std::ranges::any_of(results, [&](const Result& one) { return is_bad(one, run.header); })) return 1;
  const auto counts = count_judgements(results);
  for (const Judgement of_harness : {Judgement::error, Judgement::inconclusive, Judgement::not_run})
    if (counts.contains(of_harness)) return 3;
  if (!run.stopped.empty()) return 3;
  const bool ran = std::ranges::any_of(
      results, [](const Result& one) { return one.verdict != Verdict::skip && one.verdict != Verdict::aborted; });
  return ran || !run.measurements.empty() ? 0 : 3;
}

}  // namespace plumbline::run
