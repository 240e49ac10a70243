// What a monitoring system reads of a run.
#include "harness/metrics/metrics.hpp"

#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

record::Run run_of(const std::string& subject) {
  record::Run run{.header = {.command = "check",
                             .subject = subject,
                             .suite_version = "0.1",
                             .profile = "full",
                             .profile_version = "0.3",
                             .seed = 7,
                             .started = "2026-11-21T10:02:33Z"},
                  .complete = true,
                  .seconds = 1.5};
  run.header.facts = {{"device", "cpu"}};
  for (const char* const world : {"2", "3"})
    run.results.push_back({.check = "toys.drop",
                           .case_id = "toys.drop",
                           .parameters = {{"world", world}},
                           .requirements = {"TOY-001"},
                           .mode = "chaos:7",
                           .verdict = record::Verdict::pass});
  return run;
}

std::set<std::string> series(const std::string& text) {
  std::set<std::string> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with('#')) {
      EXPECT_TRUE(all.insert(line.substr(0, line.rfind(' '))).second) << line;
    }
  return all;
}

TEST(Metrics, KeepRunsApart) {
  record::Run run = run_of("backend mpi");
  std::set<std::string> all = series(to_prometheus(run));
  std::size_t count = all.size();
  const auto add = [&](const auto& change) {
    record::Run other = run_of("backend mpi");
    change(other);
    const std::set<std::string> theirs = series(to_prometheus(other));
    count += theirs.size();
    all.insert(theirs.begin(), theirs.end());
    EXPECT_EQ(all.size(), count) << "two runs have a series in common";
  };
  add([](record::Run& other) { other.header.subject = "backend local"; });
  add([](record::Run& other) { other.header.subject_name = "acme"; });
  add([](record::Run& other) { other.header.facts["device"] = "cuda"; });
  add([](record::Run& other) { other.header.facts["filter"] = "TOY-001"; });
  add([](record::Run& other) { other.header.facts["mutant"] = "toy.broken"; });
  add([](record::Run& other) { other.header.shard = record::ShardOf{.index = 1, .count = 2, .whole_plan = ""}; });
  add([](record::Run& other) { other.header.labels = {{"cluster", "a"}}; });
  add([](record::Run& other) { other.header.profile = "gossip"; });
}

TEST(Metrics, SayWhenARunBeganAndWhetherItIsWhole) {
  record::Run run = run_of("backend mpi");
  EXPECT_THAT(to_prometheus(run), HasSubstr("plumbline_run_start_time_seconds{"));
  EXPECT_THAT(to_prometheus(run), testing::ContainsRegex("run_start_time_seconds[{][^\n]*[}] 1795255353"));
  EXPECT_THAT(to_prometheus(run), testing::ContainsRegex("run_complete[{][^\n]*[}] 1\n"));
  EXPECT_THAT(to_prometheus(run),
              testing::ContainsRegex("build_info[{][^\n]*profile_version=\"0.3\"[^\n]*,version=\"0.1\"[^\n]*[}] 1\n"));
  run.complete = false;
  EXPECT_THAT(to_prometheus(run), testing::ContainsRegex("run_complete[{][^\n]*[}] 0\n"));
}

TEST(Metrics, HaveNoCommandLineAndNoSeedAsALabel) {
  const std::string text = to_prometheus(run_of("adapter python3 /path/my_adapter.py --token x"));
  EXPECT_THAT(text, HasSubstr("subject=\"adapter\""));
  EXPECT_THAT(text, Not(HasSubstr("my_adapter")));
  EXPECT_THAT(text, HasSubstr("arm=\"chaos\""));
  EXPECT_THAT(text, Not(HasSubstr("chaos:7")));
}

TEST(Metrics, HaveASeriesForEachRankOnlyOnDemand) {
  record::Run run = run_of("backend mpi");
  run.measurements = {
      {.benchmark = "pipeline_bubble.rank", .labels = {{"rank", "0"}}, .samples = {1}, .unit = "seconds"}};
  EXPECT_THAT(to_prometheus(run), Not(HasSubstr("pipeline_bubble.rank")));
  run.header.facts["metrics_of_ranks"] = "on";
  EXPECT_THAT(to_prometheus(run), HasSubstr("pipeline_bubble.rank"));
}

TEST(Metrics, HaveRanksAndPhasesOfTrainingAsLabels) {
  record::Run run = run_of("backend local");
  run.steps = {{.step = 3, .loss = 0.5, .values = {{"peak_bytes_rank1", 64}, {"seconds_train_epoch", 2}}}};
  const std::string text = to_prometheus(run);
  EXPECT_THAT(text, testing::ContainsRegex("plumbline_train_peak_bytes[{][^\n]*rank=\"1\"[^\n]*[}] 64\n"));
  EXPECT_THAT(text, testing::ContainsRegex("plumbline_train_phase_seconds[{][^\n]*phase=\"train_epoch\"[^\n]*[}] 2\n"));
}

TEST(Metrics, TellLaunchesOfProcessesFromThoseOfReductions) {
  record::Run run = run_of("backend local");
  run.measurements = {{.benchmark = "allreduce_fusion.resnet50.copy",
                       .samples = {1, 1},
                       .unit = "seconds",
                       .derived = {{"launches", 161}},
                       .launches = {{.samples = {1}}, {.samples = {1}}}}};
  const std::string text = to_prometheus(run);
  EXPECT_THAT(text, testing::ContainsRegex("plumbline_benchmark_launches[{][^\n]*[}] 2\n"));
  EXPECT_THAT(text, testing::ContainsRegex("plumbline_benchmark_reductions[{][^\n]*[}] 161\n"));
}

TEST(Metrics, AreThoseOfTheTable) {
  record::Run run = run_of("backend local");
  run.steps = {{.step = 3, .loss = 0.5, .values = {{"of_no_row", 1}}}};
  const std::string text = to_prometheus(run);
  EXPECT_THAT(text, HasSubstr("# HELP plumbline_train_loss Loss of the last step.\n"));
  EXPECT_THAT(text, Not(HasSubstr("of_no_row")));
}

TEST(ToPrometheus, SaysOfARunUnderWayThatNothingIsMissingYet) {
  record::Run run = run_of("acme");
  run.complete = false;
  run.header.plan = {{.case_id = "toys.drop", .requirements = {"TOY-001"}, .mode = "chaos:7"},
                     {.case_id = "toys.lift", .requirements = {"TOY-002"}, .mode = "chaos:7"}};
  const std::string text = to_prometheus(run);
  EXPECT_THAT(text, HasSubstr("verdict=\"not-run\""));
  EXPECT_THAT(text, Not(HasSubstr("verdict=\"missing\"")));
  run.complete = true;
  EXPECT_THAT(to_prometheus(run), HasSubstr("verdict=\"missing\""));
}

}  // namespace
}  // namespace plumbline::metrics
