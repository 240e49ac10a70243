// The matrix says of each mutant what its results say, and nothing better.
#include "harness/cli/kill_matrix.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::cli {
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
  results[2].reason = "rank 0: GPU count is 3";
  EXPECT_TRUE(kill_matrix({&answers}, results).at(0).good());
  results[2].reason = "rank 0: uncaught exception: type must be number, but is null";
  const KillRow fallen = kill_matrix({&answers}, results).at(0);
  EXPECT_FALSE(fallen.killed);
  EXPECT_EQ(fallen.how, "fail, falling over the answer");
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

}  // namespace
}  // namespace plumbline::cli
