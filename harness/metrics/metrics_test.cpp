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

// A line of NCCL Inspector of the same call has these: inspector_prom.cc, inspectorFormatHumanReadableSize.
TEST(Metrics, HaveInspectorsLabelsWhereItHasTheMeasure) {
  const auto labels_of = [](const std::string& benchmark, const std::string& bytes) {
    record::Run run = run_of("backend nccl");
    run.measurements = {{.benchmark = benchmark,
                         .labels = {{"world", "4"}, {"bytes", bytes}},
                         .samples = {1},
                         .unit = "seconds",
                         .derived = {{"busbw_bytes_per_second", 1}}}};
    const std::string text = to_prometheus(run);
    std::smatch found;
    const std::regex line(
        "plumbline_benchmark_busbw_bytes_per_second[{][^\n]*?(collective=\"\\w+\"),[^\n]*"
        "(message_size=\"[^\"]+\",nranks=\"4\")");
    return std::regex_search(text, found, line) ? found.str(1) + "," + found.str(2) : "";
  };
  EXPECT_EQ(labels_of("collectives.all_reduce", "512"), R"(collective="AllReduce",message_size="512B",nranks="4")");
  EXPECT_EQ(labels_of("collectives.all_reduce_in_place", "1536"),
            R"(collective="AllReduce",message_size="1.50KB",nranks="4")");
  EXPECT_EQ(labels_of("collectives.broadcast", "67108864"),
            R"(collective="Broadcast",message_size="64.00MB",nranks="4")");
  EXPECT_EQ(labels_of("collectives.reduce", "1024"), R"(collective="Reduce",message_size="1.00KB",nranks="4")");
  EXPECT_EQ(labels_of("collectives.all_gather", "65536"), R"(collective="AllGather",message_size="16.00KB",nranks="4")")
      << "of a rank's own block";
  EXPECT_EQ(labels_of("collectives.reduce_scatter", "65536"),
            R"(collective="ReduceScatter",message_size="16.00KB",nranks="4")");
  EXPECT_EQ(labels_of("collectives.all_to_all", "65536"), "") << "Inspector has no such collective";
  EXPECT_EQ(labels_of("collectives.send_recv", "65536"), "") << "ours is there and back";
}

TEST(Metrics, SayHowFarAMedianCanBeBelieved) {
  record::Run run = run_of("backend local");
  record::Measurement measurement{.benchmark = "collectives.barrier", .unit = "seconds"};
  for (const double seconds : {5, 1, 4, 2, 6, 3}) {
    measurement.launches.push_back({.samples = {seconds},
                                    .host = {{"load", seconds},
                                             {"steal", seconds / 100},
                                             {"clock_hertz", seconds * 1e9},
                                             {"pinned", seconds > 1 ? 1 : 0}}});
    measurement.samples.push_back(seconds);
  }
  run.measurements = {measurement};
  const auto has = [text = to_prometheus(run)](const std::string& name, const std::string& value) {
    return std::regex_search(text, std::regex("plumbline_benchmark_" + name + "[{][^\n]*[}] " + value + "\n"));
  };
  EXPECT_TRUE(has("seconds", "3.5"));
  EXPECT_TRUE(has("interval_low_seconds", "1"));
  EXPECT_TRUE(has("interval_high_seconds", "6"));
  EXPECT_TRUE(has("minimum_seconds", "1"));
  EXPECT_TRUE(has("host_load", "6"));
  EXPECT_TRUE(has("host_steal_ratio", "0.06"));
  EXPECT_TRUE(has("host_clock_hertz", "1000000000"));
  EXPECT_TRUE(has("host_pinned", "0"));
  EXPECT_FALSE(has("host_waited_ratio", ".*")) << "no launch has it";
  run.measurements[0].launches.pop_back();
  EXPECT_THAT(to_prometheus(run), Not(HasSubstr("interval_low"))) << "five launches have no interval";
}

TEST(Metrics, OfAMeasurementWithoutSamplesAreNoStatistics) {
  record::Run run = run_of("backend local");
  run.measurements = {{.benchmark = "collectives.barrier", .unit = "seconds", .launches = {{}}}};
  const std::string text = to_prometheus(run);
  EXPECT_THAT(text, testing::ContainsRegex("plumbline_benchmark_seconds[{][^\n]*[}] 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("plumbline_benchmark_minimum_seconds{")));
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
