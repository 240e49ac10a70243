// What a result counts as with an expectation, and what every reader of the record makes of it.
#include "harness/run/judgement.hpp"

#include <gtest/gtest.h>

#include "harness/run/summary.hpp"

namespace plumbline::run {
namespace {

using record::Expectation;
using record::Header;
using record::Result;
using record::Verdict;
using enum record::Verdict;

Expectation expects(Verdict verdict) {
  return {.verdict = verdict, .reason = "odd counts", .link = "https://x/1", .origin = "e.toml:4"};
}
const Expectation kWaiver{.kind = Expectation::Kind::waiver, .reason = "granted", .origin = "w.toml:2"};

Result result_to_judge(Verdict verdict, std::optional<Expectation> expectation = {}, std::vector<Verdict> tries = {}) {
  return {.check = "a.b",
          .case_id = "a.b",
          .requirements = {"COLL-001"},
          .seed = 1,
          .verdict = verdict,
          .reason = verdict == pass ? "" : "because",
          .expectation = std::move(expectation),
          .tries = std::move(tries)};
}

record::Run run_with(const Result& one) {
  return {.header = {.plan = {{.case_id = one.case_id, .requirements = one.requirements, .seed = 1}}},
          .results = {one}};
}

TEST(Judge, IsTheVerdictWithoutAnExpectation) {
  for (const Verdict verdict : {pass, warn, skip, fail, refuse, hang, crash, error, inconclusive, missing, flake})
    EXPECT_EQ(name_of(judge(verdict, {})), name_of(verdict));
}

TEST(Judge, TakesOnlyTheEndThatWasExpected) {
  EXPECT_EQ(judge(fail, expects(fail)), Judgement::expected_fail);
  EXPECT_EQ(judge(warn, expects(warn)), Judgement::expected_fail);
  EXPECT_EQ(judge(pass, expects(hang)), Judgement::unexpected_pass);
  EXPECT_EQ(judge(crash, expects(fail)), Judgement::crash) << "worse than what was said";
  EXPECT_EQ(judge(flake, expects(fail)), Judgement::flake);
  for (const Verdict other : {skip, error, inconclusive, missing})
    EXPECT_EQ(name_of(judge(other, expects(fail))), name_of(other));
  EXPECT_EQ(judge(pass, expects(flake)), Judgement::pass);
  EXPECT_EQ(judge(fail, expects(flake)), Judgement::fail) << "it never passed";
}

TEST(Judge, WaivesFailuresAndNothingElse) {
  for (const Verdict bad : {fail, refuse, hang, crash, flake}) EXPECT_EQ(judge(bad, kWaiver), Judgement::waived);
  EXPECT_EQ(judge(pass, kWaiver), Judgement::pass);
  EXPECT_EQ(judge(missing, kWaiver), Judgement::missing);
  EXPECT_EQ(judge(error, kWaiver), Judgement::error);
}

TEST(Judge, LetsNoRequirementPassByWhatIsNotExecuted) {
  Expectation unrun = expects(hang);
  unrun.run = false;
  EXPECT_EQ(judge(skip, unrun), Judgement::expected_fail);
  EXPECT_EQ(requirement_verdicts({result_to_judge(pass), result_to_judge(skip, unrun)}).at("COLL-001").judgement,
            Judgement::expected_fail);
  EXPECT_EQ(exit_status(run_with(result_to_judge(skip, unrun))), 3) << "nothing ran";
  EXPECT_EQ(why_not_run(unrun), "not executed, it would hang: odd counts (e.toml:4, https://x/1)");
  const Expectation issue{
      .kind = Expectation::Kind::suite_issue, .run = false, .reason = "wrong bound", .origin = "s.toml:1"};
  EXPECT_EQ(judge(skip, issue), Judgement::skip) << "the check is void for everybody";
  EXPECT_EQ(why_not_run(issue), "suite issue: wrong bound (s.toml:1)");
}

TEST(Judge, DecidesTheExitStatus) {
  const auto status = [](const Result& one) { return exit_status(run_with(one)); };
  EXPECT_EQ(status(result_to_judge(fail, expects(fail))), 0);
  EXPECT_EQ(status(result_to_judge(fail, expects(hang))), 1);
  EXPECT_EQ(status(result_to_judge(hang, kWaiver)), 0);
  EXPECT_EQ(status(result_to_judge(pass, expects(fail))), 1);
  EXPECT_EQ(status(result_to_judge(flake, {}, {fail, pass})), 1);
  EXPECT_EQ(status(result_to_judge(flake, expects(flake), {fail, pass})), 0);
  record::Run allowed = run_with(result_to_judge(pass, expects(fail)));
  allowed.header.allow_unexpected_pass = true;
  EXPECT_EQ(exit_status(allowed), 0);
}

TEST(Judge, DecidesTheWordOfARequirement) {
  const std::vector<Result> results{result_to_judge(pass), result_to_judge(fail, expects(fail))};
  EXPECT_EQ(requirement_verdicts(results).at("COLL-001").judgement, Judgement::expected_fail);
  EXPECT_EQ(count_judgements(results).at(Judgement::expected_fail), 1);
}

TEST(Judge, IsInTheRecordAndReadBack) {
  const Result written = result_to_judge(flake, expects(flake), {fail, pass});
  const nlohmann::json json = judged(written);
  EXPECT_EQ(json.at("judgement"), "flake");
  EXPECT_EQ(nlohmann::json(judged(result_to_judge(fail, expects(fail)))).at("judgement"), "expected-fail");
  EXPECT_EQ(judged(judged(result_to_judge(fail, expects(fail)))).judgement, "expected-fail");
  const auto back = json.get<Result>();
  EXPECT_EQ(back.expectation, written.expectation);
  EXPECT_EQ(back.tries, written.tries);
  EXPECT_EQ(nlohmann::json(result_to_judge(skip, kWaiver)).get<Result>().expectation, kWaiver);
  // Records from before there were expectations.
  nlohmann::json old = judged(result_to_judge(pass));
  EXPECT_FALSE(old.contains("expectation") || old.contains("judgement") || old.contains("tries"));
  EXPECT_FALSE(old.get<Result>().expectation);
  const nlohmann::json header = Header{.command = "check"};
  EXPECT_FALSE(header.contains("expectations") || header.contains("facts") || header.contains("allow_unexpected_pass"));
  EXPECT_TRUE(header.get<Header>().expectations.empty());
  const nlohmann::json full =
      Header{.expectations = {"e.toml"}, .facts = {{"os", "linux"}}, .allow_unexpected_pass = true};
  EXPECT_EQ(full.get<Header>().facts.at("os"), "linux");
  EXPECT_TRUE(full.get<Header>().allow_unexpected_pass);
}

TEST(Judgement, ARequirementThatAFailureDoesNotNamePasses) {
  Result result{
      .check = "toys.all", .case_id = "toys.all", .requirements = {"TOY-001", "TOY-002"}, .verdict = Verdict::fail};
  EXPECT_EQ(requirement_verdicts({result}).at("TOY-001").judgement, Judgement::fail)
      << "it names none: it is about all";
  result.violated = {"TOY-002"};
  EXPECT_EQ(requirement_verdicts({result}).at("TOY-001").judgement, Judgement::pass);
  EXPECT_EQ(requirement_verdicts({result}).at("TOY-002").judgement, Judgement::fail);
}

}  // namespace
}  // namespace plumbline::run
