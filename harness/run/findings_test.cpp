// What checks found wrong, on its way to the record, and which requirements it is about.
#include "harness/run/findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::run {
namespace {

using record::Failure;
using record::RankResult;
using record::Result;
using record::Verdict;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Findings, KeepTheirFields) {
  const Failure all = failure_of(
      {.text = "TOY-001: off", .requirement = "TOY-001", .expected = "1", .got = "nan", .bound = "0", .rank = 2},
      "a.cpp:3");
  EXPECT_EQ(all.where, "a.cpp:3");
  EXPECT_EQ(all.message, "TOY-001: off");
  EXPECT_EQ(all.requirement, "TOY-001");
  EXPECT_EQ(all.expected, "1");
  EXPECT_EQ(all.got, "nan");
  EXPECT_EQ(all.bound, "0");
  EXPECT_EQ(all.rank, 2);
  EXPECT_FALSE(all.uncaught);
  EXPECT_FALSE(failure_of({.text = "off"}).rank);
}

TEST(Findings, AreCutWhereASubjectWroteMuch) {
  const std::string much(10000, 'x');
  const Failure cut = failure_of({.text = much, .expected = much, .got = much});
  EXPECT_EQ(cut.message, std::string(4000, 'x') + " …");
  EXPECT_EQ(cut.got, std::string(1000, 'x') + " …");
  EXPECT_EQ(failure_of({.text = std::string(4000, 'x')}).message.size(), 4000u);
}

RankResult rank(int number, Verdict verdict, std::vector<std::string> violated) {
  return {.rank = number, .verdict = verdict, .violated = std::move(violated)};
}

TEST(Violated, AreTheRequirementsThatEveryFailingRankNames) {
  struct Row {
    const char* rule;
    Verdict verdict;
    std::vector<RankResult> ranks;
    std::vector<std::string> violated;
  };
  using enum Verdict;
  const std::vector<Row> rows{
      {"of all ranks, sorted, each once", fail, {rank(0, fail, {"B", "A"}), rank(1, fail, {"B"})}, {"A", "B"}},
      {"one rank names none: it may be about any", fail, {rank(0, fail, {"A"}), rank(1, fail, {})}, {}},
      {"a rank that only suffered has no say", fail, {rank(0, fail, {"A"}), rank(1, aborted, {})}, {"A"}},
      {"what the check does not verify does not count", fail, {rank(0, fail, {"A", "Z"})}, {"A"}},
      {"a crash is about all", crash, {rank(0, fail, {"A"})}, {}},
      {"nothing failed", pass, {rank(0, pass, {})}, {}},
  };
  for (const Row& row : rows) EXPECT_EQ(violated_by(row.verdict, row.ranks, {"A", "B", "C"}), row.violated) << row.rule;
}

TEST(AtStake, IsWhatAFailureNamesOrElseAll) {
  Result result{.requirements = {"A", "B"}};
  EXPECT_THAT(at_stake(result), ElementsAre("A", "B"));
  EXPECT_TRUE(is_about(result, "A"));
  result.violated = {"B"};
  EXPECT_THAT(at_stake(result), ElementsAre("B"));
  EXPECT_FALSE(is_about(result, "A"));
}

TEST(Judging, GivesEachRequirementAResult) {
  const std::vector<Failure> findings{{"", "B: first", "B"}, {"", "B: second", "B"}, {"", "C: not judged", "C"}};
  const auto results = results_of_judging("train.judge", {"A", "B"}, findings);
  ASSERT_EQ(results.size(), 3u);
  EXPECT_EQ(results[0].case_id, "train.judge[A]");
  EXPECT_EQ(results[0].verdict, Verdict::pass);
  EXPECT_THAT(results[0].ranks, IsEmpty());
  EXPECT_EQ(results[1].reason, "B: first; and 1 more");
  EXPECT_EQ(results[1].ranks.at(0).failures.at(1).message, "B: second");
  EXPECT_THAT(results[1].ranks.at(0).violated, ElementsAre("B"));
  EXPECT_EQ(results[2].verdict, Verdict::fail) << "what could not be judged is found, too";
  EXPECT_EQ(results[2].reason, "C: not judged");
  EXPECT_THAT(results[2].requirements, ElementsAre("C"));
  const auto many = results_of_judging("train.judge", {}, std::vector<Failure>(9, {"", "B: off", "B"}));
  EXPECT_EQ(many.at(0).reason, "B: off; and 8 more");
  EXPECT_EQ(many.at(0).ranks.at(0).failures.size(), 4u);
  Failure of_rank_2{"", "B: off", "B"};
  of_rank_2.rank = 2;
  EXPECT_EQ(results_of_judging("train.judge", {}, {of_rank_2}).at(0).ranks.at(0).rank, 2) << "that it is about";
}

}  // namespace
}  // namespace plumbline::run
