#include "harness/run/tries.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "harness/run/judgement.hpp"

namespace plumbline::run {

using record::Result;
using record::Verdict;

namespace {

bool passes(Verdict verdict) { return verdict == Verdict::pass || verdict == Verdict::warn; }

// From good to bad.
int badness_of(Verdict verdict) {
  constexpr std::array order{Verdict::skip,   Verdict::pass,    Verdict::warn,    Verdict::flake,
                             Verdict::refuse, Verdict::fail,    Verdict::hang,    Verdict::crash,
                             Verdict::error,  Verdict::missing, Verdict::aborted, Verdict::not_run};
  return static_cast<int>(std::ranges::find(order, verdict) - order.begin());
}

void copy_evidence(const Result& from, Result& to) {
  to.ranks = from.ranks;
  to.output = from.output;
}

}  // namespace

bool died(Verdict verdict) { return verdict == Verdict::crash || verdict == Verdict::hang; }

std::vector<Verdict> tries_of(const Result& result) {
  return result.tries.empty() ? std::vector{result.verdict} : result.tries;
}

bool wants_another_try(const Result& result, const record::Header& header) {
  if (result.verdict == Verdict::skip) return false;
  const std::vector<Verdict> tries = tries_of(result);
  const bool is_expected_flake = result.expectation && result.expectation->verdict == Verdict::flake;
  if (is_expected_flake && record::is_failure(tries.back()) && tries.size() < kMostTries) return true;
  return died(result.verdict) && tries.size() == 1 && is_bad(result, header);
}

Verdict verdict_of(std::span<const Verdict> tries) {
  if (tries.empty()) return Verdict::missing;
  const bool some_passed = std::ranges::any_of(tries, passes);
  const bool some_failed = std::ranges::any_of(tries, record::is_failure);
  return some_passed && some_failed ? Verdict::flake : std::ranges::max(tries, {}, badness_of);
}

Result after_another_try(const Result& before, Result latest) {
  const Verdict last = latest.verdict;
  latest.tries = tries_of(before);
  const Verdict first = latest.tries.front();
  latest.tries.push_back(last);
  latest.verdict = verdict_of(latest.tries);
  if (latest.verdict == Verdict::flake) {
    copy_evidence(before, latest);
    latest.reason = fmt::format("{}, then {}: {}", name_of(first), name_of(last),
                                before.reason.empty() ? latest.reason : before.reason);
  } else if (latest.verdict == before.verdict && last != before.verdict) {
    copy_evidence(before, latest);
    latest.reason = before.reason;
    latest.violated = before.violated;
  }
  return latest;
}

SecondTries choose_second_tries(const std::vector<const Result*>& owed) {
  SecondTries chosen{.again = owed};
  const auto only_first = [&](std::size_t most, const char* which, const auto& counts) {
    std::size_t number = 0;
    std::erase_if(chosen.again, [&](const Result* result) {
      if (!counts(*result) || ++number <= most) return false;
      chosen.given_up.push_back(result);
      return true;
    });
    if (number > most)
      chosen.notes.push_back(fmt::format("{} cases{} are to be tried again; the first {} are", number, which, most));
  };
  only_first(kMostHangsRunAgain, " that hung", [](const Result& one) { return one.verdict == Verdict::hang; });
  only_first(kMostRunAgain, "", [](const Result&) { return true; });
  return chosen;
}

}  // namespace plumbline::run
