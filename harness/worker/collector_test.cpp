#include "harness/worker/collector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/suite/finding.hpp"

namespace plumbline::worker {
namespace {

using testing::HasSubstr;

// More than a rank tells of: those dropped are counted, and how the body ended stays.
TEST(RankCollector, KeepsTheExceptionBehindManyFailures) {
  RankCollector collector;
  for (int i = 0; i < 30; ++i) collector.add(failure("checks.cpp:1", "TOY-002: it differs"));
  collector.add(uncaught("no such field"));
  const auto& failures = collector.failures();
  EXPECT_TRUE(failures.back().uncaught);
  EXPECT_THAT(failures.back().message, HasSubstr("no such field"));
  const auto& counted = failures[failures.size() - 2];
  EXPECT_EQ(counted.message, "and 11 more failures");
  EXPECT_FALSE(counted.uncaught);
}

TEST(RankCollector, LetsTheLineOfManyNameWhatItReplaced) {
  RankCollector collector;
  for (int i = 0; i < 30; ++i) {
    record::Failure one = failure("checks.cpp:1", "TOY-002: it differs");
    one.requirement = "TOY-002";
    collector.add(one);
  }
  for (const record::Failure& one : collector.failures()) EXPECT_EQ(one.requirement, "TOY-002") << one.message;
  EXPECT_THAT(collector.violated(), testing::ElementsAre("TOY-002"));
}

// What is asked later is not what an earlier failure is of.
TEST(RankCollector, IsToldOfAFailureAsItIsFound) {
  std::string asked = "x.first";
  RankCollector collector([&](record::Failure& found) { found.message += "; asked last: " + asked; });
  collector.add(failure("checks.cpp:1", "it differs"));
  asked = "x.second";
  collector.add(failure("checks.cpp:2", "it differs"));
  EXPECT_EQ(collector.failures()[0].message, "it differs; asked last: x.first");
  EXPECT_EQ(collector.failures()[1].message, "it differs; asked last: x.second");
}

// What becomes of an assertion that failed with these words.
record::Failure failure_with(const char* words) {
  return failure_of({testing::TestPartResult::kNonFatalFailure, "conformance/a_checks.cpp", 7, words});
}

TEST(FailureOf, HasTheFieldsOfTheFindingThatIsReported) {
  const suite::Finding finding{.text = "TOY-002: rank 1: it differs: expected 0.25, got nan",
                               .requirement = "TOY-002",
                               .expected = "0.25",
                               .got = "nan",
                               .bound = "1e-08",
                               .rank = 1};
  const suite::Reporting reporting(finding);
  const record::Failure found = failure_with(finding.text.c_str());
  EXPECT_EQ(found.where, "a_checks.cpp:7");
  EXPECT_EQ(found.message, finding.text);
  EXPECT_EQ(found.requirement, "TOY-002");
  EXPECT_EQ(found.expected, "0.25");
  EXPECT_EQ(found.got, "nan");
  EXPECT_EQ(found.bound, "1e-08");
  EXPECT_EQ(found.rank, 1);
}

TEST(FailureOf, TakesFromAFindingAndNotFromItsWords) {
  const suite::Finding finding{.text = "TOY-002: it differs", .requirement = "TOY-003"};
  {
    const suite::Reporting outer(finding);
    {
      const suite::Finding other;
      const suite::Reporting inner(other);
    }
    EXPECT_EQ(failure_with("TOY-002: it differs").requirement, "TOY-003");
  }
  EXPECT_EQ(suite::Reporting::current(), nullptr) << "the finding is reported";
  const record::Failure plain = failure_with("Failed\nTOY-002: it differs");
  EXPECT_EQ(plain.requirement, "TOY-002") << "of a plain assertion, its words";
  EXPECT_FALSE(plain.rank);
}

TEST(FailureOf, CutsValuesThatSubjectsWrote) {
  const suite::Finding finding{.text = "it differs", .got = std::string(5000, 'x')};
  const suite::Reporting reporting(finding);
  EXPECT_LE(failure_with("it differs").got.size(), 1010u);
}

}  // namespace
}  // namespace plumbline::worker
