#include "harness/worker/collector.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace plumbline::worker
