// harness/run/judgement.hpp: what a result counts as, once what was known of its case before is taken into account.
//
// Model   The verdict is the subject's own word and never changes. The judgement is a pure function of verdict and
//         expectation: an expected failure, a pass that nobody expected, a waived failure, or the verdict as it is.
#pragma once

#include <string>
#include <string_view>

#include "harness/record/result.hpp"

namespace plumbline::run {

/// The verdicts in their order, then the words that there are only with an expectation.
enum class Judgement {
  pass,
  warn,
  skip,
  fail,
  refuse,
  hang,
  crash,
  error,
  inconclusive,
  missing,
  aborted,
  flake,
  not_run,          // "not-run": the run was stopped on purpose before it
  expected_fail,    // "expected-fail": it ends as its owner said
  unexpected_pass,  // "unexpected-pass": it passes, though its owner said otherwise
  waived,           // it fails, and the suite's maintainers waived it
};
[[nodiscard]] std::string_view name_of(Judgement judgement);

/// An expectation of another end than the one that came changes nothing: a crash in the place of a failure is a crash.
/// Of what the owner did not want executed the skip is an expected failure, so that no requirement passes by it. Of an
/// expected flake a pass is a pass, and a flake is a flake (is_bad() tells it from one that nobody expected).
[[nodiscard]] Judgement judge(record::Verdict verdict, const std::optional<record::Expectation>& expectation);
[[nodiscard]] inline Judgement judge(const record::Result& result) { return judge(result.verdict, result.expectation); }
/// As a record has it: with the word of its judgement, where there is an expectation.
[[nodiscard]] record::Result judged(record::Result result);

/// Whether the result makes the exit status 1: fail, refuse, hang, crash, missing, a flake that nobody expected, an
/// unexpected pass unless those are allowed, and a warning where warnings fail.
[[nodiscard]] bool is_bad(const record::Result& result, bool allow_unexpected_pass, bool warnings_fail = false);
/// By the options of the result's run.
[[nodiscard]] inline bool is_bad(const record::Result& result, const record::Header& header) {
  return is_bad(result, header.allow_unexpected_pass, header.warnings_fail);
}

/// Why it is judged so, in one line: the result's reason, with that of the expectation and where it stands.
[[nodiscard]] std::string words_of(const record::Result& result);
/// Why a case is not executed: "suite issue: … (conformance/suite-issues.toml:3)".
[[nodiscard]] std::string why_not_run(const record::Expectation& expectation);

}  // namespace plumbline::run
