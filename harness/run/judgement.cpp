#include "harness/run/judgement.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace plumbline::run {

using record::Expectation;
using record::Header;
using record::is_failure;
using record::Result;
using record::Verdict;

namespace {

std::string where_it_stands(const Expectation& expectation) {
  return expectation.link.empty() ? expectation.origin : expectation.origin + ", " + expectation.link;
}

}  // namespace

std::string_view name_of(Judgement judgement) {
  switch (judgement) {
    case Judgement::expected_fail:
      return "expected-fail";
    case Judgement::unexpected_pass:
      return "unexpected-pass";
    case Judgement::waived:
      return "waived";
    default:
      return name_of(static_cast<Verdict>(judgement));
  }
}

Judgement judge(Verdict verdict, const std::optional<Expectation>& expectation) {
  const auto as_it_is = static_cast<Judgement>(verdict);
  if (!expectation) return as_it_is;
  if (!expectation->run) {
    const bool owners = expectation->kind == Expectation::Kind::expectation && verdict == Verdict::skip;
    return owners ? Judgement::expected_fail : as_it_is;
  }
  if (expectation->kind == Expectation::Kind::waiver)
    return is_failure(verdict) || verdict == Verdict::flake ? Judgement::waived : as_it_is;
  if (expectation->verdict == Verdict::flake) return as_it_is;
  if (verdict == expectation->verdict) return Judgement::expected_fail;
  return verdict == Verdict::pass ? Judgement::unexpected_pass : as_it_is;
}

Result judged(Result result) {
  result.judgement = result.expectation ? name_of(judge(result)) : "";
  return result;
}

bool is_bad(const Result& result, bool allow_unexpected_pass, bool warnings_fail) {
  const Judgement judgement = judge(result);
  if (judgement == Judgement::unexpected_pass) return !allow_unexpected_pass;
  if (judgement == Judgement::warn) return warnings_fail;
  if (judgement == Judgement::flake) return !(result.expectation && result.expectation->verdict == Verdict::flake);
  return judgement == Judgement::missing || (judgement < Judgement::expected_fail && is_failure(result.verdict));
}

std::string words_of(const Result& result) {
  if (!result.expectation || !result.expectation->run) return result.reason;
  const Expectation& expectation = *result.expectation;
  const std::string where = where_it_stands(expectation);
  switch (judge(result)) {
    case Judgement::expected_fail:
      return fmt::format("{}, as expected: {} ({})", name_of(result.verdict), expectation.reason, where);
    case Judgement::unexpected_pass:
      return fmt::format("it passes, but {} expects {}: take the entry out (plumbline expectations prune)",
                         expectation.origin, name_of(*expectation.verdict));
    case Judgement::waived:
      return fmt::format("{}, waived: {} ({})", name_of(result.verdict), expectation.reason, where);
    case Judgement::flake:
      return fmt::format("{} of {} tries failed, as expected: {} ({})", std::ranges::count_if(result.tries, is_failure),
                         result.tries.size(), expectation.reason, where);
    default:
      if (result.verdict == Verdict::pass || !expectation.verdict) return result.reason;
      return fmt::format("{} ({} expects {})", result.reason, expectation.origin, name_of(*expectation.verdict));
  }
}

std::string why_not_run(const Expectation& expectation) {
  const std::string where = where_it_stands(expectation);
  if (expectation.kind == Expectation::Kind::suite_issue)
    return fmt::format("suite issue: {} ({})", expectation.reason, where);
  return fmt::format("not executed, it would {}: {} ({})", name_of(expectation.verdict.value_or(Verdict::hang)),
                     expectation.reason, where);
}

}  // namespace plumbline::run
