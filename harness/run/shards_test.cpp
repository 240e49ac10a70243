// Shards are put together when they are parts of one run, and refused otherwise.
#include "harness/run/shards.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/run/summary.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::run {
namespace {

using record::Header;
using record::Planned;
using record::Result;
using record::ShardOf;
using record::Verdict;

Planned planned(const std::string& id) { return {.case_id = id, .requirements = {"TOY-001"}}; }

Result result_in_shard(const std::string& id, Verdict verdict = Verdict::pass) {
  return {.check = id, .case_id = id, .requirements = {"TOY-001"}, .verdict = verdict};
}

NamedRun shard(int index, int count, const std::vector<std::string>& cases) {
  NamedRun one{.name = "part" + std::to_string(index)};
  one.run.header.subject = "backend toy";
  one.run.header.environment = {{"cpu", "abacus"}, {"host", one.name}, {"load_before", one.name}};
  one.run.header.shard = ShardOf{.index = index, .count = count, .whole_plan = "feed"};
  one.run.subject = {{"capabilities", {{"claims", {"groups"}}}}};
  one.run.complete = true;
  one.run.seconds = 2;
  for (const std::string& id : cases) {
    one.run.header.plan.push_back(planned(id));
    one.run.results.push_back(result_in_shard(id));
  }
  return one;
}

std::vector<NamedRun> two_shards() { return {shard(2, 2, {"canary", "b"}), shard(1, 2, {"canary", "a"})}; }

// HARNESS-018@289c
TEST(Merge, HasEveryCaseOnce) {
  const auto whole = merge(two_shards());
  std::vector<std::string> ids;
  for (const Result& one : with_missing(whole)) ids.push_back(one.case_id);
  EXPECT_THAT(ids, testing::ElementsAre("canary", "a", "b"));
  EXPECT_EQ(exit_status(whole), 0);
  EXPECT_EQ(whole.header.plan_hash, "feed");
  EXPECT_FALSE(whole.header.shard);
  EXPECT_EQ(whole.seconds, 4);
}

// HARNESS-005@43eb
TEST(Merge, KeepsWhatIsMissingMissing) {
  auto shards = two_shards();
  shards[0].run.results.pop_back();
  EXPECT_EQ(exit_status(merge(shards)), 1);
}

TEST(Merge, KeepsWhatReportsSayOfEveryShard) {
  auto shards = two_shards();
  shards[0].run.header.labels = {{"night", "1"}, {"host", "a"}};
  shards[1].run.header.labels = {{"night", "1"}, {"host", "b"}};
  shards[0].run.header.requirements["TOY-001"] = {"must", "One."};
  shards[1].run.header.requirements["TOY-002"] = {"must", "Two."};
  shards[0].run.header.checks["b"] = {"conformance/b.cpp", 2};
  const Header whole = merge(shards).header;
  EXPECT_EQ(whole.labels, (std::map<std::string, std::string>{{"night", "1"}}));
  EXPECT_EQ(whole.requirements.size(), 2u);
  EXPECT_EQ(whole.checks.at("b").line, 2);
}

// What is said of two shards after `change`.
std::string refusal(const std::function<void(std::vector<NamedRun>&)>& change) {
  auto shards = two_shards();
  change(shards);
  try {
    (void)merge(shards);
    return "";
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(Merge, RefusesWhatIsNoWhole) {
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_EQ(refusal([](auto& shards) { shards.clear(); }), "merge: no records were given");
  EXPECT_EQ(refusal([](auto& shards) { shards.pop_back(); }), "part2: shard 1 of 2 is missing");
  EXPECT_EQ(refusal([](auto& shards) { shards.push_back(shards[0]); }), "part2: is shard 2 as well as part2");
  EXPECT_EQ(refusal([](auto& shards) { shards[0].run.header.shard.reset(); }),
            "part2: is no shard; plumbline check --shard I/N makes one");
  EXPECT_EQ(refusal([](auto& shards) { shards[1].run.complete = false; }),
            "part1: is not complete; plumbline check --resume runs the rest");
}

// HARNESS-018@289c
TEST(Merge, RefusesAnotherPlanSubjectOrEnvironmentWithBothValues) {
  EXPECT_EQ(refusal([](auto& shards) { shards[0].run.header.shard->whole_plan = "f00d"; }),
            "part2: the whole plan is 'f00d', and in part1 it is 'feed'; shards of one run must agree");
  EXPECT_EQ(refusal([](auto& shards) { shards[0].run.header.subject = "backend other"; }),
            "part2: the subject is 'backend other', and in part1 it is 'backend toy'; shards of one run must agree");
  EXPECT_EQ(refusal([](auto& shards) { shards[0].run.header.environment["cpu"] = "slide rule"; }),
            "part2: cpu is '\"slide rule\"', and in part1 it is '\"abacus\"'; shards of one run must agree");
  EXPECT_THAT(refusal([](auto& shards) { shards[0].run.header.environment["governor"] = "powersave"; }),
              testing::HasSubstr("governor"));
  EXPECT_THAT(refusal([](auto& shards) { shards[0].run.subject["capabilities"]["claims"] = {"none"}; }),
              testing::HasSubstr("capabilities"));
}

// HARNESS-018@289c
TEST(Merge, RefusesShardsThatWereJudgedByOtherRules) {
  EXPECT_EQ(refusal([](auto& shards) { shards[0].run.header.allow_unexpected_pass = true; }),
            "part2: --allow-unexpected-pass is 'on', and in part1 it is 'off'; shards of one run must agree");
  EXPECT_EQ(refusal([](auto& shards) { shards[0].run.header.expectations = {"e.toml"}; }),
            "part2: the list of expectations is '[\"e.toml\"]', and in part1 it is '[]'; shards of one run must agree");
}

TEST(Merge, WhatALauncherTellsItsRanksIsNoSetting) {
  const auto with = [](const char* name) {
    return refusal([name](auto& shards) { shards[0].run.header.environment["variables"] = {{name, "x"}}; });
  };
  for (const char* name : {"PMIX_RANK", "OMPI_ARGV", "OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_SIZE"})
    EXPECT_EQ(with(name), "") << name;
  for (const char* name : {"OMPI_MCA_coll", "NCCL_ALGO"})
    EXPECT_THAT(with(name), testing::HasSubstr("variables")) << name;
}

TEST(Merge, RefusesACanaryThatEndsInTwoWays) {
  EXPECT_EQ(refusal([](auto& shards) { shards[0].run.results[0].verdict = Verdict::fail; }),
            "part2: canary ends with fail, and in part1 with pass: the machines differ, or the case is a flake");
}

}  // namespace
}  // namespace plumbline::run
