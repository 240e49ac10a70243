#include "harness/run/control.hpp"

#include <fmt/format.h>

#include "harness/run/judgement.hpp"

namespace plumbline::run {

using record::Result;
using record::Verdict;

bool wants_control(const Result& result, const record::Header& header) {
  return is_bad(result, header) && !result.ranks.empty();
}

std::optional<Result> after_control(const Result& subject, const Result& control) {
  if (!record::is_failure(control.verdict) && control.verdict != Verdict::error) return std::nullopt;
  Result result = subject;
  result.verdict = Verdict::inconclusive;
  result.reason = fmt::format(
      "the reference fails here as well ({}: {}), so the machine or the check is at fault; the subject: {}: {}",
      name_of(control.verdict), control.reason, name_of(subject.verdict), subject.reason);
  return result;
}

}  // namespace plumbline::run
