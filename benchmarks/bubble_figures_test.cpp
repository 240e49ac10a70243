#include "benchmarks/bubble_figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::bench {
namespace {

using schedules::Period;
using schedules::RankTimes;
using schedules::Schedule;
using schedules::ScheduleKind;
using testing::ElementsAre;

// A forward of 1 and a backward of 2 on each of two ranks; by a clock that began long ago.
TEST(BubbleFigures, AreOfBothDefinitions) {
  const Schedule schedule = schedules::lower(schedules::generate(ScheduleKind::gpipe, {2, 1, 1}));
  const schedules::Timeline timeline =
      measured_timeline(schedule, {{{1000, 1001}, {1003.5, 1005.5}}, {{1001.25, 1002.25}, {1002.25, 1003.25}}});
  const BubbleFigures figures = figures_of(schedule, {}, timeline);
  EXPECT_EQ(figures.makespan, 5.5);
  EXPECT_EQ(figures.ranks[0].work, 3);
  EXPECT_EQ(figures.ranks[0].barrier_bubble, 2.5);
  EXPECT_EQ(figures.ranks[0].span_bubble, 2.5);
  EXPECT_EQ(figures.ranks[1].work, 2);
  EXPECT_EQ(figures.ranks[1].barrier_bubble, 3.5);
  EXPECT_EQ(figures.ranks[1].span_bubble, 0);
  EXPECT_EQ(figures.idle[0].transfer, 0.5);
  EXPECT_EQ(figures.idle[1].fill, 1);
  EXPECT_EQ(figures.idle[1].drain, 2);
  const nlohmann::json json = to_json_value(figures);
  EXPECT_EQ(json.at("makespan"), 5.5);
  EXPECT_EQ(json.at("ranks").at(1).at("idle").at("drain"), 2);
}

TEST(BubbleFigures, RefuseAnotherNumberOfComputations) {
  const Schedule schedule = schedules::lower(schedules::generate(ScheduleKind::gpipe, {2, 1, 1}));
  EXPECT_THROW((void)measured_timeline(schedule, {{{0, 1}, {3, 5}}}), InvalidArgument);
  EXPECT_THROW((void)measured_timeline(schedule, {{{0, 1}, {3, 5}}, {{1, 2}}}), InvalidArgument);
}

TEST(BubbleFigures, AverageTheTimesOfEachStageAndKind) {
  const Schedule whole = schedules::lower(schedules::generate(ScheduleKind::gpipe, {2, 2, 1}));
  const auto times = mean_times(whole, {{{0, 1}, {1, 4}, {6, 8}, {10, 12}}, {{1, 2}, {4, 5}, {5, 7}, {7, 11}}});
  EXPECT_EQ(times[0].forward, 2);
  EXPECT_EQ(times[0].backward, 2);
  EXPECT_EQ(times[1].forward, 1);
  EXPECT_EQ(times[1].backward, 3);
  const Schedule split = schedules::lower(schedules::generate(ScheduleKind::zb_h1, {1, 1, 1}));
  const auto halves = mean_times(split, {{{0, 1}, {1, 3}, {3, 7}}});
  EXPECT_EQ(halves[0].input_gradient, 2);
  EXPECT_EQ(halves[0].weight_gradient, 4);
  EXPECT_FALSE(halves[0].backward);
}

// What every schedule says when it is run: its idle times sum to its bubbles, and no device is faster than it says.
TEST(BubbleFigures, OfSchedulesThatWereRunAddUp) {
  for (const ScheduleKind schedule_kind : schedules::schedule_kinds()) {
    if (schedule_kind == ScheduleKind::forward_only) continue;
    const bool there_and_back = schedule_kind == ScheduleKind::zbv || schedule_kind == ScheduleKind::v_half ||
                                schedule_kind == ScheduleKind::v_min || schedule_kind == ScheduleKind::dualpipev;
    const Schedule schedule = schedules::lower(schedules::generate(schedule_kind, {2, 4, there_and_back ? 2 : 1}));
    const schedules::SimulationOptions options{.stages = {{0.001, 0.001, 0.001, {}}}, .message_bytes = {64}};
    Computations computations(2);
    comm::run_ranks(2, [&](comm::Communicator& world) {
      ComputationClock clock;
      schedules::EmulatedDevice device(schedule, world.rank(), options);
      (void)schedules::run_rank(world, schedule, device.callbacks(), {.around = clock.around()});
      computations[static_cast<std::size_t>(world.rank())] = clock.periods();
    });
    const BubbleFigures figures = figures_of(schedule, options, measured_timeline(schedule, computations));
    SCOPED_TRACE(name_of(schedule_kind));
    EXPECT_GE(figures.makespan, simulate(schedule, options).makespan * 0.999);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      EXPECT_NEAR(figures.idle[rank].sum(), figures.ranks[rank].barrier_bubble, 1e-6);
      EXPECT_LE(figures.ranks[rank].span_bubble, figures.ranks[rank].barrier_bubble);
    }
  }
}

}  // namespace
}  // namespace plumbline::bench
