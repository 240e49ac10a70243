// What becomes of the ranks of a case, rule by rule: how they ended, the verdict that follows, and why.
#include "harness/run/ranks.hpp"

#include <functional>

#include <gtest/gtest.h>

namespace plumbline::run {
namespace {

using record::RankResult;
using record::Verdict;

// ---- one rank ----

TEST(RankResults, OfARankThatDidNotReportTheEndDecides) {
  const RankEnd silent{}, lost{.lost = true}, lost_by_signal{.lost = true, .signalled = true};
  const RankEnd reported{.reported = RankResult{.rank = 0, .verdict = Verdict::warn}, .lost = true};
  struct Row {
    const char* rule;
    std::vector<RankEnd> ends;
    bool late;
    std::vector<Verdict> expected;
  };
  using enum Verdict;
  const std::vector<Row> rows{
      {"nobody knows more: it was ended because of another", {silent}, false, {aborted}},
      {"the time was up", {silent}, true, {hang}},
      {"its process went first", {lost, silent}, false, {crash, aborted}},
      {"of threads of one process, who received the signal", {lost, lost_by_signal}, false, {aborted, crash}},
      {"without a signal, all that went together", {lost, lost}, false, {crash, crash}},
      {"what it reported stands, whatever became of its process", {reported, silent}, true, {warn, hang}},
  };
  for (const Row& row : rows) {
    std::vector<Verdict> got;
    for (const RankResult& rank : rank_results(row.ends, row.late, 2.5)) got.push_back(rank.verdict);
    EXPECT_EQ(got, row.expected) << row.rule;
  }
  EXPECT_EQ(rank_results({silent, silent}, false, 2.5).at(1).rank, 1);
  EXPECT_EQ(rank_results({silent}, false, 2.5).at(0).seconds, 2.5);
}

TEST(RankResults, OneThatReportsTwiceHasFailed) {
  const RankResult both = contradicted({.rank = 1, .verdict = Verdict::pass}, {.rank = 1, .verdict = Verdict::skip});
  EXPECT_EQ(both.verdict, Verdict::fail);
  EXPECT_EQ(both.failures.at(0).message, "it reported twice: pass, then skip");
}

// ---- all ranks ----

RankResult ended(int rank, Verdict verdict, const std::string& message = "", const std::string& last_event = "") {
  RankResult result{.rank = rank, .verdict = verdict, .last_event = last_event};
  if (!message.empty()) result.failures.push_back({.where = "a.cpp:3", .message = message});
  return result;
}

TEST(WordOfCase, IsThatOfTheFirstRuleThatHolds) {
  struct Row {
    const char* rule;
    CaseEnd end;
    Verdict verdict;
    std::string reason;
  };
  using enum Verdict;
  const RankResult fine = ended(1, pass);
  const std::vector<Row> rows{
      {"all passed", {.ranks = {ended(0, pass), fine}}, pass, ""},
      {"an error of the machine outweighs a failure",
       {.ranks = {ended(0, fail, "wrong"), ended(1, error, "no disk")}, .reported = {0, 1}},
       error,
       "rank 1: a.cpp:3: no disk"},
      {"one failure fails the case, whoever crashed after it",
       {.ranks = {ended(0, crash), ended(1, fail, "Failed\nwrong\n\nmore")}, .reported = {1}, .death = true},
       fail,
       "rank 1: a.cpp:3: wrong"},
      {"a failure without words", {.ranks = {ended(0, fail)}, .reported = {0}}, fail, "rank 0: no message"},
      {"a refusal outweighs a skip",
       {.ranks = {ended(0, skip, "not claimed"), ended(1, refuse, "no f16")}},
       refuse,
       "rank 1: a.cpp:3: no f16"},
      {"what was not asked is missing", {.ranks = {ended(0, missing, "never asked")}}, missing, "a.cpp:3: never asked"},
      {"one skip skips the case", {.ranks = {ended(0, pass), ended(1, skip, "one host")}}, skip, "a.cpp:3: one host"},
      {"a crash beside a skip is a crash",
       {.ranks = {ended(0, skip, "one host"), ended(1, crash)}, .death = true, .lost = {1}},
       crash,
       "the process of rank 1 ended before it reported"},
      {"a skip of a case in which a process ended is none",
       {.ranks = {ended(0, skip, "one host"), fine}, .death = true, .lost = {1}, .ends = {{1, "exited with status 3"}}},
       crash,
       "the process of rank 1 exited with status 3 after its report"},
      {"a hang beside a skip is a hang",
       {.ranks = {ended(0, skip, "one host"), ended(1, hang, "", "entered barrier")}, .seconds = 2},
       hang,
       "no end within 2.0 s; rank 0 is through; rank 1 entered barrier; --time-limit SECONDS gives it another limit"},
      {"who lived to report a crash says more than who is gone",
       {.ranks = {ended(0, crash), ended(1, hang, "rank 2 of the job waits")}},
       hang,
       "rank 1: a.cpp:3: rank 2 of the job waits"},
      {"a job's one rank is not named",
       {.ranks = {ended(0, crash, "exit 1")}, .is_job = true},
       crash,
       "a.cpp:3: exit 1"},
      {"ranks that ended in one way are named together",
       {.ranks = {ended(0, crash, "", "entered send"), ended(1, crash), ended(2, aborted)},
        .death = true,
        .lost = {0, 1},
        .ends = {{0, "was killed by signal 9 (Killed)"}, {1, "was killed by signal 9 (Killed)"}}},
       crash,
       "the process of rank 0, 1 was killed by signal 9 (Killed) before it reported; it entered send"},
      {"a process without a rank in the case",
       {.ranks = {ended(0, pass)}, .death = true},
       crash,
       "a process of the job that has no rank in this case ended"},
      {"a failure on a thread that is no rank's",
       {.ranks = {fine}, .strays = {{"b.cpp:9", "late"}}},
       fail,
       "on a thread that is no rank: b.cpp:9: late"},
      {"a worker that does not come back",
       {.ranks = {fine}, .all_back = false},
       hang,
       "all ranks reported, but a worker did not come back"},
  };
  for (const Row& row : rows) {
    const Word word = word_of_case(row.end).word;
    EXPECT_EQ(name_of(word.verdict), name_of(row.verdict)) << row.rule;
    EXPECT_EQ(word.reason, row.reason) << row.rule;
  }
}

TEST(WordOfCase, OfRanksThatGaveUpAPeerWhichDidNotFailTheyFail) {
  const CaseWord found = word_of_case({.ranks = {ended(0, Verdict::pass), ended(1, Verdict::aborted, "rank 0 left")}});
  EXPECT_EQ(found.word.verdict, Verdict::fail);
  EXPECT_EQ(found.word.reason, "rank 1: a.cpp:3: rank 0 left");
  EXPECT_EQ(found.ranks.at(1).verdict, Verdict::fail);
  EXPECT_EQ(found.ranks.at(0).verdict, Verdict::pass);
  const CaseWord beside = word_of_case(
      {.ranks = {ended(0, Verdict::fail, "wrong"), ended(1, Verdict::aborted, "rank 0 left")}, .reported = {0}});
  EXPECT_EQ(beside.ranks.at(1).verdict, Verdict::aborted) << "it suffered";
}

TEST(WordOfCase, OnlyAPassIsJudgedByTheOrderOfCalls) {
  struct Row {
    Verdict before;
    std::string different, crossed;
    Verdict verdict;
    std::string reason;
  };
  using enum Verdict;
  const std::vector<Row> rows{
      {pass, "", "", pass, ""},
      {pass, "rank 1 has broadcast", "", fail,
       "it got through, but its ranks called differently: rank 1 has broadcast"},
      {pass, "", "two groups cross", fail, "it got through, but two groups cross"},
      {pass, "rank 1 has broadcast", "two groups cross", fail,
       "it got through, but its ranks called differently: rank 1 has broadcast"},
      {hang, "", "two groups cross", hang, "why"},
      {skip, "rank 1 has broadcast", "", skip, "why"},
  };
  for (const Row& row : rows) {
    const Word word = judged_by_calls({row.before, row.before == pass ? "" : "why"}, row.different, row.crossed);
    EXPECT_EQ(name_of(word.verdict), name_of(row.verdict));
    EXPECT_EQ(word.reason, row.reason);
  }
}

// ---- which failure is the cause ----

RankResult passed(int rank) { return {.rank = rank, .verdict = Verdict::pass}; }
RankResult failed(int rank, bool uncaught) {
  return {.rank = rank, .verdict = Verdict::fail, .failures = {{.where = "", .message = "no", .uncaught = uncaught}}};
}

using Rule = std::function<std::optional<std::size_t>(const std::vector<RankResult>&, const std::vector<int>&)>;

// har.lowest_rank: the rank with the lowest number is the cause, whatever ended it.
std::optional<std::size_t> lowest_rank(const std::vector<RankResult>& ranks, const std::vector<int>&) {
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].verdict == Verdict::fail) return i;
  return std::nullopt;
}

bool names_the_assertion(const Rule& cause) {
  return cause({failed(0, true), passed(1), failed(2, false)}, {0, 1, 2}) == 2u &&
         cause({failed(0, false), failed(1, true)}, {1, 0}) == 0u;
}

// HARNESS-032@f359
TEST(FailureCause, IsAFailedAssertionBeforeAnException) {
  EXPECT_TRUE(names_the_assertion(failure_cause));
  EXPECT_FALSE(names_the_assertion(lowest_rank)) << "har.lowest_rank is found";
}

TEST(FailureCause, IsTheFirstToReportOfItsKind) {
  EXPECT_EQ(failure_cause({failed(0, false), failed(1, false)}, {1, 0}), 1u);
  EXPECT_EQ(failure_cause({failed(0, true), failed(1, true)}, {1, 0}), 1u);
  EXPECT_EQ(failure_cause({passed(0), failed(1, true)}, {0, 1}), 1u);
  EXPECT_EQ(failure_cause({passed(0), passed(1)}, {0, 1}), std::nullopt);
}

}  // namespace
}  // namespace plumbline::run
