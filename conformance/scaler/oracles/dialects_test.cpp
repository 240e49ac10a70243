// Where the rules of several systems part, step by step.
#include "conformance/scaler/oracles/dialects.hpp"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::scaler {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<bool> steps_of(const std::string& pattern) {
  std::vector<bool> found;
  for (const char step : pattern) found.push_back(step == '!');
  return found;
}

std::vector<DialectRun> runs_of(const DialectSettings& settings, const std::vector<bool>& found) {
  std::vector<DialectRun> runs;
  for (const Dialect& one : dialects(settings)) runs.push_back(run_through(one, found));
  return runs;
}

const DialectRun& run_of(const std::vector<DialectRun>& runs, const std::string& name) {
  return *std::ranges::find(runs, name, &DialectRun::name);
}

TEST(Dialects, GrowOnCleanStep1000Or1001) {
  const std::vector<bool> clean(1001);
  const auto runs = runs_of({}, clean);
  for (const char* name : {"torch", "colossalai", "megatron"}) {
    EXPECT_EQ(run_of(runs, name).scales[998], 65536) << name;
    EXPECT_EQ(run_of(runs, name).scales[999], 131072) << name;
  }
  EXPECT_EQ(run_of(runs, "deepspeed").scales[999], 65536);
  EXPECT_EQ(run_of(runs, "deepspeed").scales[1000], 131072);
  EXPECT_EQ(run_of(runs, "colossalai-constant").scales[1000], 65536);
  const auto parts = partings(runs, clean);
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_EQ(parts[0].step, 1000);
  EXPECT_EQ(parts[1].clean_steps, 1001);
}

TEST(Dialects, SpendAndRefillTheirChancesEachInItsWay) {
  const auto runs = runs_of({.scale = 16, .growth_interval = 3, .hysteresis = 2}, steps_of("!.!!...!"));
  using enum Transition;
  EXPECT_THAT(run_of(runs, "torch").deeds,
              ElementsAre(backs_off, counts, backs_off, backs_off, counts, counts, grows, backs_off));
  EXPECT_THAT(run_of(runs, "megatron").deeds,
              ElementsAre(spends, counts, backs_off, backs_off, counts, counts, grows, spends));
  EXPECT_THAT(run_of(runs, "deepspeed").deeds,
              ElementsAre(spends, counts, backs_off, backs_off, counts, counts, counts, backs_off));
  EXPECT_THAT(run_of(runs, "deepspeed-consecutive").deeds,
              ElementsAre(spends, refills, spends, backs_off, refills, counts, counts, spends));
}

TEST(Dialects, MeetTheirBounds) {
  const auto falling = runs_of({.scale = 2, .hysteresis = 1}, steps_of("!!!"));
  using enum Transition;
  EXPECT_THAT(run_of(falling, "torch").scales, ElementsAre(1, 0.5, 0.25));
  EXPECT_THAT(run_of(falling, "colossalai").deeds, ElementsAre(backs_off, holds, holds));
  EXPECT_THAT(run_of(falling, "deepspeed").deeds, ElementsAre(backs_off, gives_up)) << "nothing follows";
  const auto held = runs_of({.scale = 2, .hysteresis = 1, .raise_at_minimum = false}, steps_of("!!"));
  EXPECT_THAT(run_of(held, "deepspeed").deeds, ElementsAre(backs_off, holds));
  const auto rising = runs_of({.scale = 2, .growth_interval = 1, .max_scale = 3}, steps_of("..."));
  EXPECT_THAT(run_of(rising, "colossalai").deeds, ElementsAre(grows, stays, stays));
  EXPECT_THAT(run_of(rising, "megatron").deeds, ElementsAre(grows, grows, grows));
}

TEST(Dialects, AgreeOnNothingButNothing) {
  EXPECT_THAT(partings(runs_of({}, {}), {}), IsEmpty());
  EXPECT_THROW((void)dialects({.growth_interval = 0}), InvalidArgument);
  EXPECT_THROW((void)dialects({.scale = 2, .min_scale = 4}), InvalidArgument);
  EXPECT_THAT(dialects_as_published(), SizeIs(6));
}

}  // namespace
}  // namespace plumbline::scaler
