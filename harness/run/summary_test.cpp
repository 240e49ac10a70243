// What the results of a run come to as a whole.
#include "harness/run/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/counted.hpp"

namespace plumbline::run {
namespace {

using record::Header;
using record::Result;
using record::Verdict;

Result result_to_sum(const std::string& case_id, Verdict verdict) {
  return {.check = case_id.substr(0, case_id.find('[')),
          .case_id = case_id,
          .requirements = {"COLL-001"},
          .seed = 1,
          .verdict = verdict,
          .reason = verdict == Verdict::pass ? "" : "because"};
}

Header header(const std::vector<std::string>& cases) {
  Header header{.command = "check", .subject = "backend local", .suite_version = "0.1", .seed = 1};
  for (const std::string& one : cases) header.plan.push_back({.case_id = one, .requirements = {"COLL-001"}, .seed = 1});
  return header;
}

// HARNESS-005@43eb
TEST(Summary, GivesEachLostCaseAsMissingWithItsRequirements) {
  record::Run run{.header = header({"a", "b"})};
  run.results = {result_to_sum("a", Verdict::pass)};
  const auto results = with_missing(run);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].verdict, Verdict::missing);
  EXPECT_EQ(results[1].key(), run.header.plan[1].key());
  EXPECT_EQ(requirement_verdicts(results).at("COLL-001").judgement, Judgement::missing)
      << "half of its cases prove nothing";
  EXPECT_EQ(exit_status(run), 1);
}

// HARNESS-015@fd30
TEST(Summary, HasTheExitStatusOfTheWorst) {
  const auto status = [](const std::vector<Verdict>& verdicts) {
    record::Run run;
    for (const Verdict verdict : verdicts) {
      const std::string name = "a" + std::to_string(run.results.size());
      run.header.plan.push_back({.case_id = name, .seed = 1});
      run.results.push_back(result_to_sum(name, verdict));
    }
    return exit_status(run);
  };
  EXPECT_EQ(status({Verdict::pass, Verdict::skip, Verdict::warn}), 0);
  for (const Verdict bad : {Verdict::fail, Verdict::refuse, Verdict::hang, Verdict::crash, Verdict::missing})
    EXPECT_EQ(status({Verdict::pass, bad, Verdict::error}), 1) << name_of(bad);
  EXPECT_EQ(status({Verdict::pass, Verdict::error}), 3);
  EXPECT_EQ(status({Verdict::skip}), 3) << "a run in which nothing ran";
  EXPECT_EQ(status({}), 3);
}

// HARNESS-005@43eb
TEST(Summary, IsNotRunWhatARunThatWasStoppedHasLeft) {
  record::Run run{.header = header({"a", "b"})};
  run.results = {result_to_sum("a", Verdict::pass)};
  run.stopped = "the budget of 5 s is spent";
  EXPECT_EQ(with_missing(run).at(1).verdict, Verdict::not_run);
  EXPECT_EQ(exit_status(run), 3) << "half a run proves nothing of the whole";
  run.results[0].verdict = Verdict::fail;
  EXPECT_EQ(exit_status(run), 1);
}

TEST(Summary, NamesTheSubjectWithoutItsCommandLine) {
  const auto name = [](const std::string& subject, const std::string& chosen = "") {
    return name_of_subject({.header = {.subject = subject, .subject_name = chosen}});
  };
  EXPECT_EQ(name("backend mpi segment_elements=7, mutant col.x"), "mpi");
  EXPECT_EQ(name("backend local, mutant col.x"), "local");
  EXPECT_EQ(name("adapter python3 /secret/path.py --token x"), "adapter");
  EXPECT_EQ(name("job 'python3 train.py' (starts its ranks)"), "job");
  EXPECT_EQ(name("adapter python3 x.py", "acme"), "acme");
}

TEST(Summary, OfARequirementSaysByHowManyOfItsCases) {
  struct Row {
    const char* rule;
    std::vector<Verdict> cases;
    std::string words;
    bool by_few;
  };
  using enum Verdict;
  const std::vector<Row> rows{
      {"all ran", {pass, pass}, "pass", false},
      {"half of them ran", {pass, skip}, "pass (1 of 2 cases)", false},
      {"most were skipped", {skip, pass, skip}, "pass (1 of 3 cases)", true},
      {"none ran", {skip, skip}, "skip", false},
      {"the worst case decides", {pass, skip, warn, fail}, "fail (3 of 4 cases)", false},
      {"a lost case is worse than a pass, and ran as far as anybody knows", {pass, missing}, "missing", false},
  };
  for (const Row& row : rows) {
    std::vector<Result> results;
    for (const Verdict verdict : row.cases) results.push_back(result_to_sum("a", verdict));
    const RequirementVerdict verdict = requirement_verdicts(results).at("COLL-001");
    EXPECT_EQ(verdict.words(), row.words) << row.rule;
    EXPECT_EQ(verdict.passes_by_few(), row.by_few) << row.rule;
    const auto tally = tallies_of(requirement_verdicts(results)).at("COLL-001");
    EXPECT_EQ(tally.verdict, row.words.substr(0, row.words.find(' ')));
    EXPECT_EQ(tally.cases, static_cast<int>(row.cases.size()));
  }
}

TEST(Summary, CountsInWords) {
  EXPECT_EQ(counted(0, "case"), "0 cases");
  EXPECT_EQ(counted(1, "case"), "1 case");
  EXPECT_EQ(counted(std::size_t{2}, "planned case"), "2 planned cases");
}

TEST(Summary, ARunThatDidNotComeToItsEndIsNoPass) {
  record::Run run{.header = header({"a"}), .results = {result_to_sum("a", Verdict::pass)}};
  EXPECT_EQ(exit_status(run), 0);
  EXPECT_EQ(exit_status(run, true), 3) << "a signal";
  run.stopped = "the budget is spent: 1 of 2 measurements were made";
  EXPECT_EQ(exit_status(run), 3) << "also where no plan says what lacks";
  run.results[0].verdict = Verdict::fail;
  EXPECT_EQ(exit_status(run), 1);
  EXPECT_EQ(exit_status(run, true), 3) << "a failure may be the signal's";
}

}  // namespace
}  // namespace plumbline::run
