// What an optimizer takes as a state, and clipping by a norm in one process: what ranks do together, the checks try.
#include "reference/scaler/fp16_optimizer.hpp"

#include <array>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::scaler {
namespace {

using testing::ElementsAre;

// An optimizer of one parameter.
struct One {
  std::array<float, 2> values{1, 2};
  Fp16Optimizer optimizer;
  explicit One(LossScale scale)
      : optimizer({{.name = "weight", .values = {values.data(), 2, comm::DType::f32}}}, sgd({}),
                  {.scale = std::move(scale)}) {}
};

void expect_refused(const LossScale& first, const LossScale& scale, const char* what) {
  One one(first);
  Fp16State state = one.optimizer.state();
  state.scale = scale;
  state.master_weights[0] = {7, 8};
  EXPECT_THROW(one.optimizer.load(state), InvalidArgument) << what;
  EXPECT_EQ(one.optimizer.loss_scale(), first) << what;
  EXPECT_THAT(one.values, ElementsAre(1, 2)) << what;
}

TEST(Fp16Optimizer, LoadsNoStateThatItWouldNotBeMadeWith) {
  expect_refused(ConstantScale{2}, ConstantScale{0}, "a constant of 0");
  expect_refused(HysteresisScale{}, HysteresisScale{.rule = {.growth_factor = 1}, .scale = 2}, "a growth of 1");
  expect_refused(HysteresisScale{}, HysteresisScale{.scale = NAN}, "a scale that is no number");
  expect_refused(HysteresisScale{}, HysteresisScale{.growth_tracker = -1}, "a count below 0");
  expect_refused(TorchScale{}, TorchScale{.rule = {.backoff_factor = 1}}, "a backoff of 1");
  expect_refused(TorchScale{}, TorchScale{.scale = INFINITY}, "an infinite scale");
  expect_refused(DeepSpeedScale{}, DeepSpeedScale{.rule = {.scale_window = 0}}, "a window of 0");
  expect_refused(DeepSpeedScale{}, DeepSpeedScale{.cur_hysteresis = 0}, "no chances");
}

TEST(Fp16Optimizer, LoadsWhatARunCanReach) {
  for (const LossScale& scale :
       {LossScale(TorchScale{.scale = 0}), LossScale(HysteresisScale{.scale = 1, .hysteresis_tracker = -3}),
        LossScale(DeepSpeedScale{.cur_iter = 9, .last_overflow_iter = 8})}) {
    One one(scale);
    Fp16State state = one.optimizer.state();
    state.scale = scale;
    one.optimizer.load(state);
    EXPECT_EQ(one.optimizer.loss_scale(), scale);
  }
}

TEST(ClipOverGroup, IsThatOfOneProcessWithoutAGroup) {
  std::array<float, 2> counted{3, 0}, alike{4, 4};
  GroupGradients gradients{.all = {counted, alike}, .counted = {counted}};
  EXPECT_EQ(clip_over_group(nullptr, gradients, 1, 2), 3);
  EXPECT_NEAR(counted[0], 1, 1e-6);
  EXPECT_NEAR(alike[0], 4.0 / 3, 1e-6) << "clipped, though somebody else counts it";
  EXPECT_EQ(clip_over_group(nullptr, {}, 1, INFINITY), 0) << "of nothing";
  EXPECT_THROW(clip_over_group(nullptr, gradients, -1, 2), InvalidArgument);
  EXPECT_THROW(clip_over_group(nullptr, gradients, 1, 0), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::scaler
