// The calls in and out of order; who skips; what a checkpoint holds.
#include "reference/scaler/grad_scaler.hpp"

#include <array>
#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/scaler/detail/gradient_norm.hpp"

namespace plumbline::scaler {
namespace {

using testing::ElementsAre;

comm::Buffer buffer_of(std::vector<float>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), comm::DType::f32};
}

// Sets what a backward pass would, and steps.
struct Optimizer {
  int index;
  std::vector<float> gradient{8, 16};
  int steps = 0;

  bool step(GradScaler& scaler) {
    const std::array gradients{buffer_of(gradient)};
    return scaler.step(index, gradients, [this] { ++steps; });
  }
};

GradScaler small() {
  GradScaler scaler({.rule = {.init_scale = 8, .growth_interval = 2}});
  (void)scaler.scaled(1);
  return scaler;
}

TEST(GradScaler, UnscalesOnceAndStepsUnlessSomethingWasFound) {
  GradScaler scaler = small();
  Optimizer fine{.index = 0}, bad{.index = 1, .gradient = {INFINITY, 8}};
  EXPECT_TRUE(fine.step(scaler));
  EXPECT_FALSE(bad.step(scaler));
  EXPECT_THAT(fine.gradient, ElementsAre(1, 2));
  EXPECT_THAT(bad.gradient, ElementsAre(INFINITY, 1)) << "all are unscaled";
  EXPECT_EQ(fine.steps, 1);
  EXPECT_EQ(bad.steps, 0);
  scaler.update();
  EXPECT_EQ(scaler.scale(), 4) << "one of them is enough";
}

TEST(GradScaler, RefusesCallsOutOfOrder) {
  GradScaler fresh;
  Optimizer optimizer{.index = 0};
  EXPECT_THROW((void)optimizer.step(fresh), StateError) << "there is no scale";
  EXPECT_THROW(fresh.update(), StateError);
  GradScaler scaler = small();
  EXPECT_THROW(scaler.update(), StateError) << "nothing was unscaled";
  const std::array gradients{buffer_of(optimizer.gradient)};
  scaler.unscale(0, gradients);
  EXPECT_THROW(scaler.unscale(0, gradients), StateError);
  EXPECT_TRUE(optimizer.step(scaler));
  EXPECT_THROW(scaler.unscale(0, gradients), StateError);
  EXPECT_THROW((void)optimizer.step(scaler), StateError);
  EXPECT_THAT(optimizer.gradient, ElementsAre(1, 2)) << "unscaled once";
  scaler.update();
  EXPECT_THROW((void)scaler.step(0, {}, [] {}), StateError) << "no gradients";
}

TEST(GradScaler, AsksItsGroupAlsoWithoutGradients) {
  int asked = 0;
  GradScaler scaler({.rule = {.init_scale = 8}, .agree = [&](std::span<float> flags) {
                       ++asked;
                       flags.front() = 1;  // another rank's
                     }});
  (void)scaler.scaled(1);
  Optimizer optimizer{.index = 0};
  EXPECT_FALSE(optimizer.step(scaler));
  EXPECT_FALSE(scaler.step(1, {}, [] { FAIL() << "another rank skips"; }));
  EXPECT_EQ(asked, 2);
}

TEST(GradScaler, GoesOnFromItsState) {
  GradScaler scaler = small();
  Optimizer optimizer{.index = 0};
  (void)optimizer.step(scaler);
  scaler.update();
  GradScaler other;
  other.load(scaler.state());
  EXPECT_EQ(other.state(), scaler.state());
  GradScalerState wrong = scaler.state();
  wrong.growth_factor = 0.5;
  EXPECT_THROW(other.load(wrong), InvalidArgument);
  wrong = scaler.state();
  wrong.scale = 0;
  EXPECT_NO_THROW(other.load(wrong)) << "where many overflows lead";
}

TEST(GradScaler, DoesNothingWhenDisabled) {
  GradScaler scaler({.rule = {.growth_factor = 0}, .enabled = false});
  EXPECT_EQ(scaler.scaled(3), 3);
  Optimizer optimizer{.index = 0, .gradient = {INFINITY}};
  EXPECT_TRUE(optimizer.step(scaler));
  scaler.update();
  EXPECT_EQ(scaler.scale(), 1);
  EXPECT_THROW((void)scaler.state(), StateError);
}

TEST(GradScaler, LeavesHalfGradientsAlone) {
  GradScaler scaler = small();
  std::uint16_t half = 0x3c00;
  const std::array gradients{comm::Buffer{&half, 1, comm::DType::f16}};
  EXPECT_THROW(scaler.unscale(0, gradients), InvalidArgument);
  EXPECT_EQ(scaler.stage(0), GradScaler::Stage::ready);
}

TEST(ClipGradNorm, MultipliesAllByOneNumber) {
  std::vector<float> a{3}, b{4};
  EXPECT_EQ(clip_grad_norm(std::array{buffer_of(a), buffer_of(b)}, {.max_norm = 1}), 5);
  EXPECT_FLOAT_EQ(a[0], 0.6F);
  EXPECT_FLOAT_EQ(b[0], 0.8F);
  EXPECT_EQ(clip_grad_norm({}, {}), 0);
  for (const float value : {2e-30F, -2e30F}) {  // whose squares no float holds
    std::vector<float> alone{value};
    EXPECT_EQ(clip_grad_norm(std::array{buffer_of(alone)}, {.max_norm = 1}), std::abs(value));
  }
  std::vector<float> infinite{INFINITY};
  EXPECT_THROW((void)clip_grad_norm(std::array{buffer_of(infinite)}, {.error_if_nonfinite = true}), NonFiniteNorm);
}

}  // namespace
}  // namespace plumbline::scaler
