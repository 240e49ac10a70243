#include "harness/run/findings.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace plumbline::run {

using record::Failure;
using record::RankResult;
using record::Result;
using record::Verdict;

namespace {

constexpr std::size_t kLongestMessage = 4000;
constexpr std::size_t kLongestValue = 1000;
constexpr std::size_t kMostKept = 4;  // findings of a requirement: the rest says the same

std::string cut(const std::string& text, std::size_t most) {
  return text.size() > most ? text.substr(0, most) + " …" : text;
}

}  // namespace

Failure failure_of(const suite::Finding& finding, std::string where) {
  Failure failure{.where = std::move(where),
                  .message = cut(finding.text, kLongestMessage),
                  .requirement = finding.requirement,
                  .expected = cut(finding.expected, kLongestValue),
                  .got = cut(finding.got, kLongestValue),
                  .bound = cut(finding.bound, kLongestValue)};
  if (finding.rank >= 0) failure.rank = finding.rank;
  return failure;
}

std::vector<std::string> violated_by(Verdict verdict, std::span<const RankResult> ranks,
                                     const std::vector<std::string>& requirements) {
  std::vector<std::string> violated;
  if (verdict != Verdict::fail) return violated;
  for (const RankResult& rank : ranks) {
    if (rank.verdict != Verdict::fail) continue;
    if (rank.violated.empty()) return {};
    for (const std::string& id : rank.violated)
      if (std::ranges::count(requirements, id) > 0 && std::ranges::count(violated, id) == 0) violated.push_back(id);
  }
  std::ranges::sort(violated);
  return violated;
}

const std::vector<std::string>& at_stake(const Result& result) {
  return result.violated.empty() ? result.requirements : result.violated;
}

bool is_about(const Result& result, const std::string& requirement) {
  return std::ranges::count(at_stake(result), requirement) > 0;
}

std::vector<Result> results_of_judging(const std::string& check, std::set<std::string> judged,
                                       const std::vector<Failure>& findings) {
  for (const Failure& finding : findings) judged.insert(finding.requirement);
  std::vector<Result> results;
  for (const std::string& id : judged) {
    Result result{
        .check = check, .case_id = fmt::format("{}[{}]", check, id), .requirements = {id}, .verdict = Verdict::pass};
    std::map<int, RankResult> ranks;  // that the findings are about
    std::size_t number = 0;
    for (const Failure& finding : findings) {
      if (finding.requirement != id || ++number > kMostKept) continue;
      if (number == 1) result.reason = finding.message;
      const int about = finding.rank.value_or(0);
      RankResult& rank = ranks[about];
      rank.rank = about;
      rank.verdict = Verdict::fail;
      rank.violated = {id};
      rank.failures.push_back(finding);
    }
    if (number > 0) result.verdict = Verdict::fail;
    if (number > 1) result.reason += fmt::format("; and {} more", number - 1);
    for (auto& [rank, failed] : ranks) result.ranks.push_back(std::move(failed));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace plumbline::run
