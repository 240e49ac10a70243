#include "conformance/training/carried_optimizer.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace plumbline::conformance {
namespace {

// After the second step, worked out by hand; before = 1 and the gradients 0.5, then -0.25, in both steps.
double second_after(const job::Optimizer& optimizer) {
  CarriedOptimizer carried(optimizer, 1);
  (void)carried.step(std::vector<float>{1}, std::vector<float>{0.5f});
  return carried.step(std::vector<float>{1}, std::vector<float>{-0.25f}).after[0];
}

TEST(CarriedOptimizer, FollowsSgd) {
  EXPECT_DOUBLE_EQ(second_after(job::Sgd{.lr = 0.1}), 1 + 0.1 * 0.25);
  EXPECT_DOUBLE_EQ(second_after(job::Sgd{.lr = 0.1, .momentum = 0.5}), 1 - 0.1 * (0.5 * 0.5 - 0.25));
  EXPECT_DOUBLE_EQ(second_after(job::Sgd{.lr = 0.1, .momentum = 0.5, .nesterov = true}),
                   1 - 0.1 * (-0.25 + 0.5 * (0.5 * 0.5 - 0.25)));
  EXPECT_DOUBLE_EQ(second_after(job::Sgd{.lr = 0.1, .momentum = 0.5, .weight_decay = 0.25}),
                   1 - 0.1 * (0.5 * (0.5 + 0.25) + (-0.25 + 0.25)));
}

TEST(CarriedOptimizer, FollowsAdam) {
  const double first = 0.8 * (0.2 * 0.5) + 0.2 * -0.25;
  const double second = 0.9 * (0.1 * 0.25) + 0.1 * 0.0625;
  const double root = std::sqrt(second / (1 - 0.81));
  EXPECT_DOUBLE_EQ(second_after(job::Adam{.lr = 0.1, .betas = {0.8, 0.9}, .eps = 0.5}),
                   1 - 0.1 / (1 - 0.64) * first / (root + 0.5));
}

TEST(CarriedOptimizer, HasTheMeanOfRanksMoments) {
  const job::Sgd rule{.lr = 1, .momentum = 0.5};
  std::vector<CarriedOptimizer> ranks(2, CarriedOptimizer(rule, 1));
  (void)ranks[0].step(std::vector<float>{0}, std::vector<float>{1});
  (void)ranks[1].step(std::vector<float>{0}, std::vector<float>{3});
  EXPECT_DOUBLE_EQ(CarriedOptimizer::mean_of(ranks).step(std::vector<float>{0}, std::vector<float>{0}).after[0],
                   -0.5 * (1 + 3) / 2);
}

TEST(CarriedOptimizer, BoundsGrowWithTheStepAndKeepLargeTermsThatCancelled) {
  CarriedOptimizer carried(job::Sgd{.lr = 1, .momentum = 1}, 1);
  const double u = 0x1p-24;
  EXPECT_NEAR(carried.step(std::vector<float>{0}, std::vector<float>{8}).bound[0], 16 * u * 8, 1e-12 * u);
  EXPECT_NEAR(carried.step(std::vector<float>{2}, std::vector<float>{-8}).bound[0], 32 * u * (2 + 8), 1e-12 * u);
}

TEST(CarriedOptimizer, HasRoomForSubnormalResults) {
  CarriedOptimizer carried(job::Sgd{.lr = 0.3}, 1);
  const auto expected = carried.step(std::vector<float>{0}, std::vector<float>{0x1p-148f});
  const float after = -0.3f * 0x1p-148f;
  EXPECT_LE(std::fabs(static_cast<double>(after) - expected.after[0]), expected.bound[0]);
}

}  // namespace
}  // namespace plumbline::conformance
