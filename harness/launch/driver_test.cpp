// Which of several failed ranks is the cause.
#include "harness/launch/driver.hpp"

#include <functional>

#include <gtest/gtest.h>

namespace plumbline::launch {
namespace {

using record::RankResult;
using record::Verdict;

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
}  // namespace plumbline::launch
