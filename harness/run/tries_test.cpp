// Which cases run once more, and what several tries of one come to.
#include "harness/run/tries.hpp"

#include <gtest/gtest.h>

namespace plumbline::run {
namespace {

using record::Expectation;
using record::Header;
using record::Result;
using record::Verdict;
using enum record::Verdict;

Result tried(Verdict verdict, std::vector<Verdict> tries = {}) {
  return {.check = "a.b",
          .case_id = "a.b",
          .verdict = verdict,
          .reason = verdict == pass ? "" : std::string(name_of(verdict)) + " it was",
          .tries = std::move(tries),
          .output = std::string(name_of(verdict)) + " output"};
}

Result expected(Verdict verdict, Result of) {
  of.expectation = Expectation{.verdict = verdict, .reason = "known", .origin = "e.toml:1"};
  return of;
}

TEST(Tries, ACaseIsOwedAnother) {
  struct Row {
    const char* rule;
    Result result;
    bool again;
  };
  const std::vector<Row> rows{
      {"a first crash", tried(crash), true},
      {"a first hang", tried(hang), true},
      {"a second one is no accident", tried(crash, {crash, crash}), false},
      {"a failure is the subject's word", tried(fail), false},
      {"so is a refusal", tried(refuse), false},
      {"a pass", tried(pass), false},
      {"a crash that is expected is not bad", expected(crash, tried(crash)), false},
      {"a crash where a failure was expected is", expected(fail, tried(crash)), true},
      {"an expected flake that failed", expected(flake, tried(fail)), true},
      {"and failed again", expected(flake, tried(crash, {fail, crash})), true},
      {"but not more than three times", expected(flake, tried(crash, {fail, hang, crash})), false},
      {"an expected flake that passed", expected(flake, tried(flake, {fail, pass})), false},
      {"what was not executed", expected(flake, tried(skip)), false},
  };
  for (const Row& row : rows) EXPECT_EQ(wants_another_try(row.result, Header{}), row.again) << row.rule;
}

TEST(Tries, ComeToOneVerdict) {
  struct Row {
    const char* rule;
    std::vector<Verdict> tries;
    Verdict verdict;
  };
  const std::vector<Row> rows{
      {"one", {pass}, pass},
      {"alike", {hang, hang}, hang},
      {"some passed and some failed", {crash, pass}, flake},
      {"the order does not matter", {pass, crash}, flake},
      {"of those that never passed the worst", {fail, crash, fail}, crash},
      {"what only should be is no failure", {warn, pass}, warn},
      {"none", {}, missing},
  };
  for (const Row& row : rows) EXPECT_EQ(name_of(verdict_of(row.tries)), name_of(row.verdict)) << row.rule;
}

TEST(Tries, TheVerdictThatHoldsComesWithItsOwnEvidence) {
  struct Row {
    const char* rule;
    Verdict first, second, verdict;
    std::string reason, output;
  };
  const std::vector<Row> rows{
      {"of a flake the try that failed", crash, pass, flake, "crash, then pass: crash it was", "crash output"},
      {"alike: the latest", crash, crash, crash, "crash it was", "crash output"},
      {"the first was worse", crash, hang, crash, "crash it was", "crash output"},
      {"the second is worse", hang, crash, crash, "crash it was", "crash output"},
  };
  for (const Row& row : rows) {
    const Result after = after_another_try(tried(row.first), tried(row.second));
    EXPECT_EQ(name_of(after.verdict), name_of(row.verdict)) << row.rule;
    EXPECT_EQ(after.reason, row.reason) << row.rule;
    EXPECT_EQ(after.output, row.output) << row.rule;
    EXPECT_EQ(after.tries, (std::vector{row.first, row.second})) << row.rule;
  }
  const Result third = after_another_try(tried(fail, {hang, fail}), tried(pass));
  EXPECT_EQ(third.tries, (std::vector{hang, fail, pass}));
  EXPECT_EQ(third.reason, "hang, then pass: fail it was");
}

TEST(Tries, OfManyTheFirstFiftyAndOfHangsTheFirstFive) {
  std::vector<Result> results;
  for (int i = 0; i < 7; ++i) results.push_back(tried(hang));
  for (int i = 0; i < 60; ++i) results.push_back(tried(crash));
  std::vector<const Result*> owed;
  for (const Result& one : results) owed.push_back(&one);
  const SecondTries chosen = choose_second_tries(owed);
  EXPECT_EQ(chosen.again.size(), 50u);
  EXPECT_EQ(std::ranges::count(chosen.again, hang, [](const Result* one) { return one->verdict; }), 5);
  EXPECT_EQ(chosen.again.front(), &results.front());
  EXPECT_EQ(chosen.given_up.size(), 17u);
  EXPECT_EQ(chosen.notes, (std::vector<std::string>{"7 cases that hung are to be tried again; the first 5 are",
                                                    "65 cases are to be tried again; the first 50 are"}));
  EXPECT_TRUE(choose_second_tries({}).again.empty());
  EXPECT_TRUE(choose_second_tries({owed.begin(), owed.begin() + 5}).given_up.empty());
}

}  // namespace
}  // namespace plumbline::run
