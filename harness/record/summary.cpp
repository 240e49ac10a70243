#include "harness/record/summary.hpp"

#include <algorithm>
#include <array>

namespace plumbline::record {
namespace {

// From good to bad, for the verdict of a requirement.
int badness(Verdict verdict) {
  constexpr std::array order{Verdict::skip,  Verdict::pass,    Verdict::warn,    Verdict::inconclusive,
                             Verdict::error, Verdict::missing, Verdict::aborted, Verdict::refuse,
                             Verdict::hang,  Verdict::crash,   Verdict::fail};
  return static_cast<int>(std::ranges::find(order, verdict) - order.begin());
}

}  // namespace

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
                       .arm = planned.arm,
                       .seed = planned.seed,
                       .repetition = planned.repetition,
                       .verdict = Verdict::missing,
                       .reason = "planned, but the run ended before it"});
  }
  for (const Result& result : run.results)
    if (by_key.contains(result.key())) results.push_back(result);
  return results;
}

std::map<std::string, Verdict> requirement_verdicts(const std::vector<Result>& results) {
  std::map<std::string, Verdict> verdicts;
  for (const Result& result : results)
    for (const std::string& id : result.requirements) {
      const auto [entry, fresh] = verdicts.emplace(id, result.verdict);
      if (!fresh && badness(result.verdict) > badness(entry->second)) entry->second = result.verdict;
    }
  return verdicts;
}

std::map<Verdict, int> count_verdicts(const std::vector<Result>& results) {
  std::map<Verdict, int> counts;
  for (const Result& result : results) ++counts[result.verdict];
  return counts;
}

int exit_status(const Run& run) {
  const auto counts = count_verdicts(with_missing(run));
  const auto count = [&](Verdict verdict) {
    const auto found = counts.find(verdict);
    return found == counts.end() ? 0 : found->second;
  };
  for (const Verdict verdict : {Verdict::fail, Verdict::refuse, Verdict::hang, Verdict::crash, Verdict::missing})
    if (count(verdict) > 0) return 1;
  if (count(Verdict::error) + count(Verdict::inconclusive) > 0) return 3;
  const bool ran = count(Verdict::pass) + count(Verdict::warn) > 0 || !run.measurements.empty();
  return ran ? 0 : 3;
}

}  // namespace plumbline::record
