// The matrix says of each mutant what its results say, and nothing better.
#include "harness/run/kill_matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::run {
namespace {

using mutants::Mutant;
using record::Result;
using record::Verdict;

const Mutant kBrittle{.name = "toy.brittle",
                      .violates = "TOY-001",
                      .what = "it breaks",
                      .source = "experience",
                      .shows = "toys.drop[height=high]",
                      .hides = "toys.drop[height=low]",
                      .why_hides = "it falls softly"};

Result of(const std::string& mutant, const std::string& id, Verdict verdict,
          const std::string& requirement = "TOY-001") {
  Result result{.check = "toys", .case_id = id, .requirements = {requirement}, .mutant = mutant, .verdict = verdict};
  result.seconds = 2;
  return result;
}

// The row of kBrittle, of what it does in both places and what happens without it.
KillRow row(Verdict shows, Verdict hides, Verdict usual = Verdict::pass, std::vector<Result> more = {}) {
  std::vector<Result> results{of("", kBrittle.shows, usual), of("", kBrittle.hides, usual),
                              of(kBrittle.name, kBrittle.shows, shows), of(kBrittle.name, kBrittle.hides, hides)};
  results.insert(results.end(), more.begin(), more.end());
  return kill_matrix({&kBrittle}, results).at(0);
}

TEST(KillMatrix, AMutantIsGoodWhereItFailsAndHidesAsItSays) {
  for (const Verdict verdict : {Verdict::fail, Verdict::hang, Verdict::crash, Verdict::refuse, Verdict::warn}) {
    const KillRow good = row(verdict, Verdict::pass);
    EXPECT_TRUE(good.good() && good.killed);
    EXPECT_EQ(good.how, name_of(verdict));
    EXPECT_EQ(good.seconds, 2);
  }
}

TEST(KillMatrix, ASurvivorIsNotKilled) {
  const KillRow survivor = row(Verdict::pass, Verdict::pass);
  EXPECT_FALSE(survivor.killed || survivor.inconclusive || survivor.good());
  EXPECT_THAT(to_markdown({survivor}), testing::HasSubstr("| toy.brittle | TOY-001 | survived: pass |"));
}

TEST(KillMatrix, ACheckThatFallsOverAnAnswerHasNotFoundItWrong) {
  Mutant answers = kBrittle;
  answers.change = mutants::RewriteAnswer{};
  std::vector<Result> results{of("", answers.shows, Verdict::pass), of("", answers.hides, Verdict::pass),
                              of(answers.name, answers.shows, Verdict::fail),
                              of(answers.name, answers.hides, Verdict::pass)};
  results[2].requirements = {"TOY-001", "TOY-002"};
  const auto row_of = [&](std::vector<record::Failure> failures) {
    results[2].ranks = {{.rank = 0, .verdict = Verdict::fail, .failures = std::move(failures)}};
    return kill_matrix({&answers}, results).at(0);
  };
  const record::Failure judged{"toys.cpp:3", "GPU count is 3"};
  const record::Failure judged_by_it{"toys.cpp:4", "TOY-001: GPU count is 3", "TOY-001"};
  const record::Failure judged_by_another{"toys.cpp:5", "TOY-002: it is red", "TOY-002"};
  for (const char* what :
       {"uncaught exception: type must be number, but is null", "uncaught exception of an unknown type"}) {
    const record::Failure fell{"", what, "", true};
    EXPECT_EQ(row_of({fell}).how, "fail, falling over the answer");
    EXPECT_FALSE(row_of({fell}).killed);
    EXPECT_THAT(row_of({fell}).others, testing::IsEmpty());
    EXPECT_TRUE(row_of({judged, fell}).good()) << "an assertion has judged it before";
    EXPECT_TRUE(row_of({judged_by_it, fell}).good());
    EXPECT_EQ(row_of({judged_by_another, fell}).how, "fail of TOY-002");
    EXPECT_FALSE(row_of({judged_by_another, fell}).killed);
  }
  EXPECT_TRUE(row_of({judged}).good());
  EXPECT_TRUE(row_of({{"toys.cpp:6", "the answer says 'uncaught exception: none'"}}).good());
}

TEST(KillMatrix, AnExceptionFromABackendIsAFailureOfIts) {
  Result thrown = of(kBrittle.name, kBrittle.shows, Verdict::fail);
  thrown.ranks = {{.rank = 0, .verdict = Verdict::fail, .failures = {{"", "uncaught exception: no room", "", true}}}};
  const std::vector<Result> results{of("", kBrittle.shows, Verdict::pass), of("", kBrittle.hides, Verdict::pass),
                                    thrown, of(kBrittle.name, kBrittle.hides, Verdict::pass)};
  EXPECT_TRUE(kill_matrix({&kBrittle}, results).at(0).good());
}

TEST(KillMatrix, AMutantThatShowsWhereItShouldHideIsNotUnderstood) {
  const KillRow loud = row(Verdict::fail, Verdict::fail);
  EXPECT_TRUE(loud.killed && loud.showed_in_hiding);
  EXPECT_FALSE(loud.good());
}

TEST(KillMatrix, WhatFailsWithoutTheMutantProvesNothing) {
  const KillRow unsure = row(Verdict::fail, Verdict::pass, Verdict::fail);
  EXPECT_TRUE(unsure.inconclusive);
  EXPECT_FALSE(unsure.killed || unsure.good());
  EXPECT_TRUE(row(Verdict::error, Verdict::pass).inconclusive);
  EXPECT_TRUE(kill_matrix({&kBrittle}, {}).at(0).inconclusive);
}

TEST(KillMatrix, AHidingPlaceThatWasNotLookedAtHidesNothing) {
  const Result killed = of(kBrittle.name, kBrittle.shows, Verdict::fail);
  const Result usual = of("", kBrittle.shows, Verdict::pass);
  const Result hides = of(kBrittle.name, kBrittle.hides, Verdict::pass);
  const auto inconclusive = [](const std::vector<Result>& results) {
    const KillRow row = kill_matrix({&kBrittle}, results).at(0);
    EXPECT_FALSE(row.showed_in_hiding);
    EXPECT_FALSE(row.inconclusive && row.good());
    return row.inconclusive;
  };
  EXPECT_FALSE(inconclusive({usual, killed, of("", kBrittle.hides, Verdict::pass), hides}));
  EXPECT_TRUE(inconclusive({usual, killed})) << "not run";
  EXPECT_TRUE(inconclusive({usual, killed, of("", kBrittle.hides, Verdict::skip), hides}));
  for (const Verdict verdict : {Verdict::error, Verdict::skip})
    EXPECT_TRUE(inconclusive(
        {usual, killed, of("", kBrittle.hides, Verdict::pass), of(kBrittle.name, kBrittle.hides, verdict)}));
}

TEST(KillMatrix, NamesOtherRequirementsWhoseChecksFail) {
  const KillRow loud =
      row(Verdict::fail, Verdict::pass, Verdict::pass,
          {of("", "toys.look", Verdict::pass, "TOY-002"), of(kBrittle.name, "toys.look", Verdict::fail, "TOY-002"),
           of("", "toys.sell", Verdict::fail, "TOY-003"), of(kBrittle.name, "toys.sell", Verdict::fail, "TOY-003")});
  EXPECT_THAT(loud.others, testing::ElementsAre("TOY-002"));
}

TEST(KillMatrix, AFailureThatNamesOtherRequirementsDoesNotKill) {
  Result other = of(kBrittle.name, kBrittle.shows, Verdict::fail);
  other.requirements = {"TOY-001", "TOY-002"};
  other.violated = {"TOY-002"};
  const std::vector<Result> results{of("", kBrittle.shows, Verdict::pass), other};
  const KillRow survivor = kill_matrix({&kBrittle}, results).at(0);
  EXPECT_FALSE(survivor.killed);
  EXPECT_THAT(survivor.how, testing::StartsWith("fail of TOY-002"));
  EXPECT_THAT(survivor.others, testing::ElementsAre("TOY-002"));
}

TEST(KillMatrix, AnotherArmIsAnotherPlace) {
  Mutant mutant = kBrittle;
  mutant.shows_arm = "rendezvous";
  const std::vector<Result> plain{of("", mutant.shows, Verdict::pass), of(mutant.name, mutant.shows, Verdict::fail)};
  EXPECT_TRUE(kill_matrix({&mutant}, plain).at(0).inconclusive);
}

// A crash, a hang and a failure of an assertion say something; a pass says something where the subject did anything
// else than the right one; what fails without it, and what no assertion judged, says nothing.
TEST(HollowMatrix, HasWhatFailsWhatPassesAndWhatIsNotMet) {
  suite::RequirementTable requirements;
  requirements.add_toml(R"(
component = "toys"
[[requirement]]
id = "TOY-001"
text = "A toy MUST float."
level = "must"
since = "0.1"
source = ["experience"]
checks = ["toys"]
mutants = ["toy.brittle"]
)",
                        "toys.toml");
  const Mutant subject{.name = "hollow.toy"};
  const auto rows_of = [&](std::vector<Result> results, const std::set<std::string>& deviating) {
    results.push_back(of("", "toys.drop", Verdict::pass));
    return hollow_matrix({&subject}, results, deviating, requirements, {}).rows();
  };
  const Result passed = of("hollow.toy", "toys.drop", Verdict::pass);
  EXPECT_THAT(rows_of({passed}, {}).at(0).unmet, testing::ElementsAre("TOY-001"));
  EXPECT_THAT(rows_of({passed}, {passed.key()}).at(0).unexplained, testing::ElementsAre("TOY-001"));
  EXPECT_FALSE(rows_of({passed}, {passed.key()}).at(0).good());
  for (const Verdict verdict : {Verdict::fail, Verdict::crash, Verdict::hang})
    EXPECT_THAT(rows_of({of("hollow.toy", "toys.drop", verdict)}, {}).at(0).failed, testing::ElementsAre("TOY-001"));
  Result fell = of("hollow.toy", "toys.drop", Verdict::fail);
  fell.ranks = {{.verdict = Verdict::fail, .failures = {{.where = "", .message = "no such field", .uncaught = true}}}};
  EXPECT_THAT(rows_of({fell}, {}).at(0).unexplained, testing::ElementsAre("TOY-001"));
  const Result elsewhere = of("hollow.toy", "toys.elsewhere", Verdict::fail);
  EXPECT_THAT(rows_of({elsewhere}, {}).at(0).undecided, testing::ElementsAre("TOY-001")) << "not run without it";
  for (const Verdict verdict : {Verdict::error, Verdict::skip})
    EXPECT_THAT(rows_of({of("hollow.toy", "toys.drop", verdict)}, {}).at(0).undecided, testing::ElementsAre("TOY-001"));
  EXPECT_THAT(rows_of({passed, of("hollow.toy", "toys.drop", Verdict::error)}, {}).at(0).undecided, testing::IsEmpty());
}

}  // namespace
}  // namespace plumbline::run
