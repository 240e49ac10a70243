// The transitions of each rule at its corners, and the rules that make no sense.
#include "reference/scaler/loss_scale.hpp"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::scaler {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The scales before and after each step, '!' being an overflow.
template <class Scale>
std::vector<double> scales(Scale scale, const std::string& steps) {
  std::vector<double> all{static_cast<double>(scale.scale)};
  for (const char step : steps) {
    update(scale, step == '!');
    all.push_back(static_cast<double>(scale.scale));
  }
  return all;
}

TEST(TorchScale, GrowsOnTheLastCleanStepOfAnInterval) {
  const TorchScale scale{.rule = {.init_scale = 8, .growth_interval = 2}};
  EXPECT_THAT(scales(scale, "....!..."), ElementsAre(8, 8, 16, 16, 32, 16, 16, 32, 32));
}

TEST(TorchScale, DoesNotGrowToInfinityAndFallsToZero) {
  EXPECT_THAT(scales(TorchScale{.rule = {.init_scale = 0x1p127, .growth_interval = 1}}, ".."),
              ElementsAre(0x1p127, 0x1p127, 0x1p127));
  EXPECT_THAT(scales(TorchScale{.rule = {.init_scale = 0x1p-148}}, "!!!"), ElementsAre(0x1p-148, 0x1p-149, 0, 0));
}

TEST(HysteresisScale, SpendsItsChancesAndGetsThemBackWhenItGrows) {
  const HysteresisScale scale{.rule = {.initial_scale = 16, .growth_interval = 3, .hysteresis = 2}};
  EXPECT_THAT(scales(scale, "!.!"), ElementsAre(16, 16, 16, 8)) << "a clean step gives none back";
  EXPECT_THAT(scales(scale, "!!!"), ElementsAre(16, 16, 8, 4)) << "once spent, every overflow backs off";
  EXPECT_THAT(scales(scale, "!...!!"), ElementsAre(16, 16, 16, 16, 32, 32, 16));
}

TEST(HysteresisScale, KeepsItsMinimumAndMayPassItsMaximumOnce) {
  EXPECT_THAT(scales(HysteresisScale{.rule = {.initial_scale = 4, .min_scale = 3, .hysteresis = 1}}, "!!"),
              ElementsAre(4, 3, 3));
  EXPECT_THAT(scales(HysteresisScale{.rule = {.initial_scale = 16, .growth_interval = 1, .max_scale = 40}}, "..."),
              ElementsAre(16, 32, 64, 64));
}

TEST(DeepSpeedScale, GrowsAStepLaterAndKeepsItsLastChance) {
  EXPECT_THAT(scales(DeepSpeedScale{.rule = {.init_scale = 16, .scale_window = 2}}, "....."),
              ElementsAre(16, 16, 16, 32, 32, 64));
  DeepSpeedRule rule{.init_scale = 16, .scale_window = 100, .delayed_shift = 2};
  EXPECT_THAT(scales(DeepSpeedScale{.rule = rule}, "!.!.!"), ElementsAre(16, 16, 16, 8, 8, 4));
  rule.consecutive_hysteresis = true;
  EXPECT_THAT(scales(DeepSpeedScale{.rule = rule}, "!.!.!!"), ElementsAre(16, 16, 16, 16, 16, 16, 8));
}

TEST(DeepSpeedScale, ThrowsAtItsMinimumUnlessToldToHold) {
  DeepSpeedScale scale{.rule = {.init_scale = 2}};
  update(scale, true);
  const DeepSpeedScale before = scale;
  EXPECT_THROW(update(scale, true), ScaleAtMinimum);
  EXPECT_EQ(scale, before);
  scale.rule.raise_error_at_min_scale = false;
  update(scale, true);
  EXPECT_EQ(scale.scale, 1);
}

TEST(LossScale, IsAValueOfAnyKind) {
  LossScale scale = ConstantScale{8};
  update(scale, true);
  EXPECT_EQ(value_of(scale), 8);
  EXPECT_EQ(kind_of(scale), "constant");
  EXPECT_EQ(kind_of(LossScale(DeepSpeedScale())), "deepspeed");
  EXPECT_EQ(inverse_of(3), 1.0F / 3);
  EXPECT_TRUE(std::isinf(inverse_of(0x1p-140)));
}

template <class Rule>
std::string refusal(Rule rule) {
  try {
    check(rule);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Rules, AreRefusedWithFieldAndValue) {
  const double infinite = HUGE_VAL, none = std::nan("");
  EXPECT_EQ(refusal(TorchRule()), "accepted");
  EXPECT_EQ(refusal(HysteresisRule()), "accepted");
  EXPECT_EQ(refusal(DeepSpeedRule()), "accepted");
  EXPECT_EQ(refusal(TorchRule{.growth_factor = 1}), "growth_factor is 1; it must be finite and above 1 as it is kept");
  EXPECT_EQ(refusal(TorchRule{.backoff_factor = 1}),
            "backoff_factor is 1; it must be above 0 and below 1 as it is kept");
  for (const double scale : {0.0, -1.0, infinite, none, 1e39, 1e-60})
    EXPECT_THAT(refusal(TorchRule{.init_scale = scale}), HasSubstr("init_scale")) << scale;
  EXPECT_EQ(refusal(TorchRule{.growth_interval = 0}), "growth_interval is 0; it must be at least 1");
  EXPECT_THAT(refusal(TorchRule{.backoff_factor = none}), HasSubstr("backoff_factor is nan"));
  EXPECT_THAT(refusal(HysteresisRule{.initial_scale = 2, .min_scale = 3}), HasSubstr("at most initial_scale, 2"));
  EXPECT_THAT(refusal(HysteresisRule{.min_scale = 0}), HasSubstr("min_scale is 0"));
  EXPECT_THAT(refusal(HysteresisRule{.hysteresis = 0}), HasSubstr("hysteresis is 0"));
  EXPECT_THAT(refusal(HysteresisRule{.initial_scale = 16, .max_scale = 8}), HasSubstr("at least initial_scale, 16"));
  EXPECT_THAT(refusal(HysteresisRule{.initial_scale = 1, .max_scale = 1}), HasSubstr("max_scale is 1"));
  for (const double most : {infinite, -infinite, none, 1e39})
    EXPECT_THAT(refusal(HysteresisRule{.max_scale = most}), HasSubstr("max_scale")) << most;
  for (const double least : {infinite, none, -1.0, 1e-60})
    EXPECT_THAT(refusal(HysteresisRule{.min_scale = least}), HasSubstr("min_scale")) << least;
  for (const double growth : {infinite, none, 1e39, 1 + 0x1p-40})
    EXPECT_THAT(refusal(HysteresisRule{.growth_factor = growth}), HasSubstr("growth_factor")) << growth;
  for (const double backoff : {none, 1e-60, 1 - 0x1p-40})
    EXPECT_THAT(refusal(HysteresisRule{.backoff_factor = backoff}), HasSubstr("backoff_factor")) << backoff;
  for (const double least : {infinite, none, 0.0})
    EXPECT_THAT(refusal(DeepSpeedRule{.min_scale = least}), HasSubstr("min_scale")) << least;
  EXPECT_THAT(refusal(DeepSpeedRule{.scale_window = 0}), HasSubstr("scale_window is 0"));
  EXPECT_THAT(refusal(DeepSpeedRule{.delayed_shift = 0}), HasSubstr("delayed_shift is 0"));
  EXPECT_THAT(refusal(ConstantScale{none}), HasSubstr("initial_scale is nan"));
}

}  // namespace
}  // namespace plumbline::scaler
