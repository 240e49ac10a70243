// Whatever the times and the memory: valid, within the limits, no longer than the families, no shorter than the bound.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/schedule_samples_test.hpp"

namespace plumbline::schedules {
namespace {

using testing::HasSubstr;

// A problem at random, times exact in binary.
struct Drawn {
  Shape shape;
  AutomaticOptions options;
};
Drawn draw(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](int low, int high) { return std::uniform_int_distribution(low, high)(random); };
  Drawn drawn{.shape = {.ranks = between(1, 6), .micro_batches = between(1, 12), .stages_per_rank = between(1, 2)}};
  const int v = drawn.shape.stages_per_rank, stages = drawn.shape.ranks * v;
  SimulationOptions& costs = drawn.options.costs;
  const bool alike = between(0, 1) == 0;
  costs.stages.clear();
  for (int stage = 0; stage < stages; ++stage) {
    StageTimes times{
        .forward = between(1, 8) / 4.0, .input_gradient = between(1, 8) / 4.0, .weight_gradient = between(0, 8) / 4.0};
    if (between(0, 3) == 0) times.backward = 0.75 * (times.input_gradient + times.weight_gradient);
    costs.stages.push_back(alike && stage > 0 ? costs.stages.front() : times);
  }
  costs.links = {.latency = between(0, 2) / 4.0, .bandwidth = 4};
  costs.message_bytes = {double(between(0, 2))};
  if (between(0, 3) == 0) {
    costs.rank_slowdown.assign(static_cast<std::size_t>(drawn.shape.ranks), 1);
    costs.rank_slowdown.back() = 1.5;
  }
  if (between(0, 3) > 0) drawn.options.activation_limits = {between(v, 2 * v * drawn.shape.ranks)};
  if (between(0, 3) == 0) {
    drawn.options.activation_limits.clear();
    for (int rank = 0; rank < drawn.shape.ranks; ++rank)
      drawn.options.activation_limits.push_back(between(v, 2 * v * drawn.shape.ranks));
  }
  return drawn;
}
int limit_of(const Drawn& drawn, std::size_t rank) {
  const std::vector<int>& limits = drawn.options.activation_limits;
  if (limits.empty()) return drawn.shape.stages_per_rank * drawn.shape.micro_batches;
  return limits[limits.size() == 1 ? 0 : rank];
}

TEST(Automatic, IsValidWithinTheLimitsAndNoLongerThanTheFamilies) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    const Drawn drawn = draw(seed);
    SCOPED_TRACE(testing::Message() << seed << ": p " << drawn.shape.ranks << " m " << drawn.shape.micro_batches
                                    << " v " << drawn.shape.stages_per_rank);
    const AutomaticSchedule found = automatic(drawn.shape, drawn.options);
    const CheckReport report = check(found.schedule);
    EXPECT_TRUE(report.valid()) << (report.problems.empty() ? "" : to_string(report.problems.front()));
    EXPECT_EQ(found.schedule.stage_to_rank,
              stage_to_rank(drawn.shape.ranks, drawn.shape.ranks * drawn.shape.stages_per_rank,
                            drawn.shape.stages_per_rank == 1 ? Placement::loop : Placement::v));
    for (std::size_t rank = 0; rank < report.peak_activations.size(); ++rank)
      EXPECT_LE(report.peak_activations[rank], limit_of(drawn, rank)) << rank;
    EXPECT_EQ(found.makespan, simulate(found.schedule, drawn.options.costs).makespan);
    EXPECT_GE(found.makespan, found.lower_bound - 1e-9);
    for (const ScheduleKind schedule_kind : schedule_kinds()) {
      if (schedule_kind == ScheduleKind::forward_only || schedule_kind == ScheduleKind::automatic) continue;
      Schedule fixed;
      try {
        fixed = generate(schedule_kind, drawn.shape);
      } catch (const InvalidArgument&) {
        continue;
      }
      if (fixed.stage_to_rank != found.schedule.stage_to_rank) continue;
      const Timeline timeline = simulate(fixed, drawn.options.costs);
      bool fits = true;
      for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank)
        fits = fits && timeline.ranks[rank].peak_activations <= limit_of(drawn, rank);
      if (fits) {
        EXPECT_LE(found.makespan, timeline.makespan) << name_of(schedule_kind);
      }
    }
  }
}

// Of any order at all, on any ranks.
TEST(Automatic, NothingIsShorterThanTheLowerBound) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    const int ranks = 1 + static_cast<int>(seed % 4), stages = 1 + static_cast<int>(seed % 6);
    const Schedule schedule = samples::RandomRun(ranks, stages, 1 + static_cast<int>(seed % 5), false, seed).write();
    SimulationOptions costs{.stages = {}, .links = {.latency = 0.25 * static_cast<double>(seed % 3)}};
    for (int stage = 0; stage < stages; ++stage)
      costs.stages.push_back(
          {1.0 + stage % 3, 1.5, 0.75 * (stage % 2), seed % 5 == 0 ? std::optional(1.0) : std::nullopt});
    const Timeline timeline = simulate(schedule, costs);
    std::vector<int> peaks;
    for (const RankTimes& times : timeline.ranks) peaks.push_back(times.peak_activations);
    const double bound = makespan_lower_bound(schedule.stage_to_rank, schedule.micro_batches, costs, peaks);
    EXPECT_LE(bound, timeline.makespan + 1e-9);
    EXPECT_GT(bound, 0);
  }
}

// Where the bound is known: m times the work after the way to the last rank, whose gradients have to come back.
TEST(Automatic, TheLowerBoundIsReachedWhereMemoryIsEnough) {
  for (const int p : {1, 2, 3, 4, 8}) {
    const int m = 3 * p;
    const AutomaticSchedule one = automatic({.ranks = p, .micro_batches = m});
    EXPECT_EQ(one.lower_bound, 3 * m + p - 1);
    EXPECT_EQ(one.makespan, one.lower_bound) << p;
    const AutomaticSchedule two = automatic({.ranks = p, .micro_batches = m, .stages_per_rank = 2});
    EXPECT_EQ(two.lower_bound, 6 * m + p - 1);
    EXPECT_EQ(two.makespan, two.lower_bound) << p;
  }
}

// With one activation a rank, a micro-batch is through before the rank begins the next one.
TEST(Automatic, OneActivationIsOneMicroBatchAfterTheOther) {
  const AutomaticSchedule found = automatic({.ranks = 3, .micro_batches = 4}, {.costs = {}, .activation_limits = {1}});
  EXPECT_EQ(found.lower_bound, 4 * 7);  // F of three, I of three, W of stage 0
  EXPECT_EQ(found.makespan, found.lower_bound);
}

TEST(Automatic, MoreMemoryIsNoLonger) {
  for (const int v : {1, 2}) {
    double before = std::numeric_limits<double>::infinity();
    for (int limit = v; limit <= 8 * v; ++limit) {
      const AutomaticSchedule found = automatic({.ranks = 4, .micro_batches = 8, .stages_per_rank = v},
                                                {.costs = {}, .activation_limits = {limit}});
      EXPECT_LE(found.makespan, before) << v << " " << limit;
      before = found.makespan;
    }
  }
}

// Messages that take twice as long as a computation: the fixed orders wait for them, the one that is made runs ahead.
TEST(Automatic, IsShorterThanTheFamiliesWhereMessagesTakeTime) {
  const Shape shape{.ranks = 4, .micro_batches = 16};
  const AutomaticOptions options{.costs = {.links = {.latency = 2}}, .activation_limits = {16}};
  const double fixed = std::min(simulate(generate(ScheduleKind::zb_h2, shape), options.costs).makespan,
                                simulate(generate(ScheduleKind::zb_h1, shape), options.costs).makespan);
  const AutomaticSchedule found = automatic(shape, options);
  EXPECT_LT(found.makespan, fixed);
  EXPECT_EQ(found.makespan, found.lower_bound);
}

std::string automatic_refusal(const Shape& shape, const AutomaticOptions& options = {}) {
  try {
    (void)automatic(shape, options);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}
TEST(Automatic, RefusesWithTheRule) {
  const auto limited = [](std::vector<int> limits) {
    return AutomaticOptions{.costs = {}, .activation_limits = std::move(limits)};
  };
  EXPECT_EQ(automatic_refusal({4, 8, 1}, limited({0})),
            "auto: a rank with 1 stage needs a memory limit of at least 1 activation, got 0");
  EXPECT_EQ(automatic_refusal({4, 8, 2}, limited({8, 8, 1, 8})),
            "auto: a rank with 2 stages needs a memory limit of at least 2 activations, got 1 on rank 2");
  EXPECT_EQ(automatic_refusal({4, 8, 2}, limited({2})), "");
  EXPECT_EQ(automatic_refusal({4, 8, 1}, limited({8, 8})),
            "auto: there is a memory limit for all ranks or one for each of 4, got 2");
  EXPECT_EQ(automatic_refusal({4, 8, 3}), "auto: a rank has 1 or 2 stages, got 3");
  EXPECT_THAT(automatic_refusal({64, 4096, 1}), HasSubstr("more than 131072 computations"));
  EXPECT_THAT(automatic_refusal({4, 8, 1}, {.costs = {.stages = {{-1, 1, 1, {}}}}, .activation_limits = {}}),
              HasSubstr("the time of F must be a number from 0 on, got -1"));
}

TEST(Automatic, IsTheSameEachTime) {
  const Drawn drawn = draw(7);
  EXPECT_EQ(automatic(drawn.shape, drawn.options).schedule, automatic(drawn.shape, drawn.options).schedule);
}

TEST(Automatic, AWholeBackwardIsTakenWhereItIsFaster) {
  AutomaticOptions options;
  options.costs.stages = {{.forward = 1, .input_gradient = 1, .weight_gradient = 1, .backward = 1}};
  const AutomaticSchedule found = automatic({.ranks = 1, .micro_batches = 4}, options);
  EXPECT_EQ(found.makespan, 8);
}

}  // namespace
}  // namespace plumbline::schedules
