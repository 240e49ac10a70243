// The rules by which a run is judged, each beside a faulty variant of itself (har.…), which the same examples must
// find: so it is known that the test can fail.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/judgement.hpp"
#include "harness/run/summary.hpp"
#include "harness/run/tries.hpp"

namespace plumbline::run {
namespace {

using record::Header;
using record::Result;
using record::Run;
using record::Verdict;
using testing::IsEmpty;
using testing::Not;

using Wrong = std::vector<std::string>;  // the examples in which a rule does not hold

Result result_of_case(int number, Verdict verdict) {
  const std::string id = "a.case" + std::to_string(number);
  return {.check = id, .case_id = id, .requirements = {"TOY-001"}, .verdict = verdict};
}

Header header_of(int results) {
  Header header{.command = "check", .subject = "toy"};
  for (int number = 0; number < results; ++number)
    header.plan.push_back({.case_id = result_of_case(number, Verdict::pass).case_id, .requirements = {"TOY-001"}});
  return header;
}

// ---- the exit status ----

using Status = std::function<int(const Run&)>;

int status_of(const Run& run) { return exit_status(run); }

Run run_of(int planned, const std::vector<Verdict>& verdicts) {
  Run run{.header = header_of(planned)};
  for (std::size_t number = 0; number < verdicts.size(); ++number)
    run.results.push_back(result_of_case(static_cast<int>(number), verdicts[number]));
  return run;
}

Wrong silent_losses(const Status& status) {
  Wrong wrong;
  for (std::size_t lost = 1; lost <= 3; ++lost)
    if (status(run_of(3, std::vector<Verdict>(3 - lost, Verdict::pass))) != 1) wrong.push_back(std::to_string(lost));
  return wrong;
}

// har.silent_loss: the status of the results that there are.
int status_without_plan(Run run) {
  run.header.plan.clear();
  return exit_status(run);
}

// HARNESS-005@43eb
TEST(Rules, APlannedCaseWithoutAResultIsNoSilence) {
  EXPECT_THAT(silent_losses(status_of), IsEmpty());
  EXPECT_THAT(silent_losses(status_without_plan), Not(IsEmpty())) << "har.silent_loss is found";
}

Wrong empty_passes(const Status& status) {
  Wrong wrong;
  if (status(run_of(0, {})) != 3) wrong.emplace_back("no case at all");
  if (status(run_of(2, {Verdict::skip, Verdict::skip})) != 3) wrong.emplace_back("skips alone");
  return wrong;
}

// har.empty_pass: what did not fail has passed.
int status_of_failures(const Run& run) {
  return std::ranges::any_of(run.results, [](const Result& one) { return is_bad(one, false); }) ? 1 : 0;
}

// HARNESS-015@fd30
TEST(Rules, ARunInWhichNothingRanIsNoPass) {
  EXPECT_THAT(empty_passes(status_of), IsEmpty());
  EXPECT_THAT(empty_passes(status_of_failures), Not(IsEmpty())) << "har.empty_pass is found";
}

// ---- a second try does not wash a crash away ----

using OfTries = std::function<Verdict(const std::vector<Verdict>&)>;

Wrong washed_away(const OfTries& verdict) {
  Wrong wrong;
  for (const Verdict first : {Verdict::crash, Verdict::hang, Verdict::fail}) {
    if (verdict({first, Verdict::pass}) != Verdict::flake) wrong.push_back("pass after " + std::string(name_of(first)));
    if (verdict({first, first}) != first) wrong.push_back("twice " + std::string(name_of(first)));
  }
  return wrong;
}

// HARNESS-006@5e37
TEST(Rules, ASecondTryThatPassesMakesAFlake) {
  EXPECT_THAT(washed_away([](const auto& tries) { return verdict_of(tries); }), IsEmpty());
  EXPECT_THAT(washed_away([](const auto& tries) { return tries.back(); }), Not(IsEmpty()))
      << "har.last_try_wins is found";
}

}  // namespace
}  // namespace plumbline::run
