// Whose fault a failure is, once the reference has run in the subject's place.
#include "harness/run/control.hpp"

#include <gtest/gtest.h>

namespace plumbline::run {
namespace {

using record::Header;
using record::Result;
using record::Verdict;
using enum record::Verdict;

Result result_of_try(Verdict verdict) {
  return {.check = "a.b",
          .case_id = "a.b",
          .verdict = verdict,
          .reason = "why",
          .ranks = {{.rank = 0, .verdict = verdict}}};
}

TEST(Control, RunsWhatIsBadAndWasExecuted) {
  for (const Verdict bad : {fail, refuse, hang, crash, flake})
    EXPECT_TRUE(wants_control(result_of_try(bad), {})) << name_of(bad);
  for (const Verdict other : {pass, skip, error, inconclusive, warn})
    EXPECT_FALSE(wants_control(result_of_try(other), {})) << name_of(other);
  EXPECT_TRUE(wants_control(result_of_try(warn), Header{.warnings_fail = true}));
  Result claim = result_of_try(fail);
  claim.ranks.clear();
  EXPECT_FALSE(wants_control(claim, {})) << "it was decided by what the subject claims";
  Result expected = result_of_try(fail);
  expected.expectation = record::Expectation{.verdict = fail};
  EXPECT_FALSE(wants_control(expected, {}));
}

TEST(Control, AFailureOfTheReferenceMakesItInconclusive) {
  for (const Verdict wrong : {fail, refuse, hang, crash, error}) {
    const auto after = after_control(result_of_try(fail), result_of_try(wrong));
    ASSERT_TRUE(after) << name_of(wrong);
    EXPECT_EQ(after->verdict, inconclusive);
    EXPECT_EQ(after->reason, "the reference fails here as well (" + std::string(name_of(wrong)) +
                                 ": why), so the machine or the check is at fault; the subject: fail: why");
    EXPECT_EQ(after->ranks.size(), 1u) << "what the subject did is kept";
  }
  for (const Verdict right : {pass, warn, skip, missing, aborted})
    EXPECT_FALSE(after_control(result_of_try(fail), result_of_try(right))) << name_of(right);
}

}  // namespace
}  // namespace plumbline::run
