#include "harness/run/ranks.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace plumbline::run {

using record::Failure;
using record::RankResult;
using record::Verdict;

namespace {

// Of the first failure, in one line.
std::string first_words(const RankResult& rank) {
  if (rank.failures.empty()) return "no message";
  const Failure& failure = rank.failures.front();
  // GoogleTest's own first line, before the words of the check.
  constexpr std::string_view failed = "Failed\n";
  const std::string message = failure.message.substr(failure.message.starts_with(failed) ? failed.size() : 0);
  const std::string line = message.substr(0, message.find("\n\n"));
  return failure.where.empty() ? line : failure.where + ": " + line;
}

// "the process of rank 2 ended before it reported".
std::string who_ended(const CaseEnd& end) {
  // Ranks that ended in the same way together.
  const auto words_of = [&](const auto& ranks, const char* when) {
    std::map<std::string, std::vector<int>> by_end;
    for (const int rank : ranks) {
      const auto known = end.ends.find(rank);
      by_end[known == end.ends.end() ? "ended" : known->second].push_back(rank);
    }
    std::vector<std::string> words;
    for (const auto& [how, some] : by_end)
      words.push_back(fmt::format("the process of rank {} {} {}", fmt::join(some, ", "), how, when));
    return fmt::format("{}", fmt::join(words, "; "));
  };
  std::vector<int> crashed;
  for (const RankResult& rank : end.ranks)
    if (rank.verdict == Verdict::crash) crashed.push_back(rank.rank);
  if (!crashed.empty()) return words_of(crashed, "before it reported");
  if (!end.lost.empty()) return words_of(end.lost, "after its report");
  return "a process of the job that has no rank in this case ended";
}

std::string words_of_hang(const CaseEnd& end) {
  std::string words = fmt::format("no end within {:.1f} s", end.seconds);
  for (const RankResult& rank : end.ranks)
    words += fmt::format("; rank {} {}", rank.rank, rank.verdict == Verdict::hang ? rank.last_event : "is through");
  return words + "; --time-limit SECONDS gives it another limit";
}

}  // namespace

std::vector<RankResult> rank_results(const std::vector<RankEnd>& ends, bool late, double seconds) {
  const bool signal_noted = std::ranges::any_of(ends, [](const RankEnd& one) { return one.lost && one.signalled; });
  std::vector<RankResult> results;
  for (const RankEnd& one : ends) {
    RankResult result{.rank = static_cast<int>(results.size()), .verdict = Verdict::aborted, .seconds = seconds};
    if (one.lost && (one.signalled || !signal_noted)) result.verdict = Verdict::crash;
    if (late) result.verdict = Verdict::hang;
    results.push_back(one.reported.value_or(result));
  }
  return results;
}

RankResult contradicted(const RankResult& first, RankResult second) {
  second.failures.insert(second.failures.begin(), {"", fmt::format("it reported twice: {}, then {}",
                                                                   name_of(first.verdict), name_of(second.verdict))});
  second.verdict = Verdict::fail;
  return second;
}

CaseWord word_of_case(const CaseEnd& end) {
  const std::vector<RankResult>& ranks = end.ranks;
  const auto first = [&](Verdict verdict) {
    const auto found = std::ranges::find(ranks, verdict, &RankResult::verdict);
    return found == ranks.end() ? nullptr : &*found;
  };
  const auto who = [&](const RankResult& rank) { return end.is_job ? "" : fmt::format("rank {}: ", rank.rank); };
  const auto word = [&](Verdict verdict, std::string reason) { return CaseWord{{verdict, std::move(reason)}, ranks}; };
  const RankResult* const crashed = first(Verdict::crash);
  const RankResult* const hung = first(Verdict::hang);
  if (const RankResult* broken = first(Verdict::error))
    return word(Verdict::error, fmt::format("rank {}: {}", broken->rank, first_words(*broken)));
  if (const auto cause = failure_cause(ranks, end.reported))
    return word(Verdict::fail, who(ranks[*cause]) + first_words(ranks[*cause]));
  if (const RankResult* refused = first(Verdict::refuse))
    return word(Verdict::refuse, who(*refused) + first_words(*refused));
  if (const RankResult* unasked = first(Verdict::missing)) return word(Verdict::missing, first_words(*unasked));
  if (const RankResult* skipped = first(Verdict::skip);
      skipped != nullptr && !end.death && crashed == nullptr && hung == nullptr)
    return word(Verdict::skip, first_words(*skipped));
  // Ranks that a worker has under it crash and hang, too, and it lives to tell.
  const auto told = std::ranges::find_if(ranks, [](const RankResult& rank) {
    return (rank.verdict == Verdict::crash || rank.verdict == Verdict::hang) && !rank.failures.empty();
  });
  if (told != ranks.end()) return word(told->verdict, who(*told) + first_words(*told));
  if (crashed != nullptr || end.death) {
    const bool says_where = crashed != nullptr && !crashed->last_event.empty();
    return word(Verdict::crash, who_ended(end) + (says_where ? "; it " + crashed->last_event : ""));
  }
  if (hung != nullptr) return word(Verdict::hang, words_of_hang(end));
  if (!end.strays.empty())
    return word(Verdict::fail, fmt::format("on a thread that is no rank: {}: {}", end.strays.front().where,
                                           end.strays.front().message));
  if (const RankResult* suffered = first(Verdict::aborted)) {
    CaseWord found = word(Verdict::fail, fmt::format("rank {}: {}", suffered->rank, first_words(*suffered)));
    for (RankResult& rank : found.ranks)
      if (rank.verdict == Verdict::aborted) rank.verdict = Verdict::fail;
    return found;
  }
  if (!end.all_back) return word(Verdict::hang, "all ranks reported, but a worker did not come back");
  return word(Verdict::pass, "");
}

std::optional<std::size_t> failure_cause(const std::vector<RankResult>& ranks, const std::vector<int>& reported) {
  const auto place = [&](const RankResult& rank) {
    const bool by_exception = !rank.failures.empty() && rank.failures.front().uncaught;
    return std::pair(by_exception, std::ranges::find(reported, rank.rank) - reported.begin());
  };
  std::optional<std::size_t> cause;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].verdict == Verdict::fail && (!cause || place(ranks[i]) < place(ranks[*cause]))) cause = i;
  return cause;
}

Word judged_by_calls(Word word, const std::string& different, const std::string& crossed) {
  if (word.verdict != Verdict::pass || (different.empty() && crossed.empty())) return word;
  return {Verdict::fail, different.empty() ? "it got through, but " + crossed
                                           : "it got through, but its ranks called differently: " + different};
}

}  // namespace plumbline::run
