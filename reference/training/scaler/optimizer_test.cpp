// Loss scales and master weights of LibTorch's leaves: against torch.optim's rule in float32, skipped steps, states.
#include "reference/training/scaler/optimizer.hpp"

#include <cmath>
#include <limits>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local.hpp"
#include "reference/training/pipeline/toy_stage_test.hpp"

namespace plumbline::training {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();
const job::Optimizer kMomentum = job::Sgd{.lr = 0.125, .momentum = 0.5, .nesterov = true, .weight_decay = 0.25};
const job::Optimizer kAdam = job::Adam{.lr = 0.01};

// Two leaves, one of which lies channels last, and gradients that f16 has exactly.
struct Leaves {
  std::vector<at::Tensor> given;
  std::vector<ScaledLeaf> leaves;
  explicit Leaves(at::ScalarType type) {
    RandomTensors random(3);
    given = {random.normal({3, 5}), random.normal({2, 3, 2, 2}).contiguous(at::MemoryFormat::ChannelsLast)};
    for (std::size_t i = 0; i < given.size(); ++i)
      leaves.push_back({.name = "leaf" + std::to_string(i), .leaf = given[i].to(type, false, true).requires_grad_()});
  }
  // Row-major, also where the leaf is not.
  [[nodiscard]] std::vector<at::Tensor> gradients(int step, double scale, at::ScalarType type) const {
    RandomTensors random(100 + static_cast<std::uint64_t>(step));
    std::vector<at::Tensor> all;
    for (const at::Tensor& one : given)
      all.push_back(random.normal(one.sizes().vec()).mul(16).round().div(64).mul(scale).to(type));
    return all;
  }
};

std::unique_ptr<ScaledOptimizer> made(const std::string& way, const Leaves& leaves, const job::Optimizer& rule,
                                      const Scaling& scaling) {
  if (way == "autocast") return autocast_optimizer(leaves.leaves, rule, scaling);
  return rounded_optimizer(leaves.leaves, leaves.given, rule, scaling);
}
at::ScalarType type_of(const std::string& way) {
  return way == "autocast" ? at::kFloat : way == "bf16" ? at::kBFloat16 : at::kHalf;
}
Scaling torch_scaling(double scale = 256, std::int64_t interval = 2) {
  return {.options = {.scale = scaler::TorchScale{.rule = {.init_scale = scale, .growth_interval = interval},
                                                  .scale = static_cast<float>(scale)}}};
}

class Ways : public testing::TestWithParam<std::string> {};

// Gradients divided by a power of two are those of an unscaled run, and the rule's operations are the same.
TEST_P(Ways, StepsAreTheOptimizersBitForBit) {
  for (const job::Optimizer& rule : {kMomentum, kAdam}) {
    const Leaves leaves(type_of(GetParam()));
    const auto scaled = made(GetParam(), leaves, rule, torch_scaling());
    std::vector<at::Tensor> values;
    for (const at::Tensor& one : leaves.given) values.push_back(one.clone());
    OptimizerState plain(rule, values.size());
    for (int step = 0; step < 4; ++step) {
      const double scale = scaled->scale();
      EXPECT_EQ(scale, step < 2 ? 256 : 512);
      EXPECT_TRUE(scaled->step(leaves.gradients(step, scale, type_of(GetParam()))).stepped);
      plain.step(values, leaves.gradients(step, 1, at::kFloat));
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(at::equal(scaled->values()[i], values[i])) << "step " << step << ", leaf " << i;
        EXPECT_TRUE(at::equal(leaves.leaves[i].leaf, values[i].to(type_of(GetParam())))) << "step " << step;
        EXPECT_TRUE(at::equal(scaled->gradients()[i], leaves.gradients(step, 1, at::kFloat)[i]));
      }
    }
  }
}

// Of three steps the middle one is skipped: the run is that of the other two.
TEST_P(Ways, ASkippedStepLeavesAllButTheScale) {
  for (const job::Optimizer& rule : {kMomentum, kAdam}) {
    const Leaves leaves(type_of(GetParam()));
    const auto scaled = made(GetParam(), leaves, rule, torch_scaling());
    std::vector<at::Tensor> values;
    for (const at::Tensor& one : leaves.given) values.push_back(one.clone());
    OptimizerState plain(rule, values.size());
    for (int step = 0; step < 3; ++step) {
      std::vector<at::Tensor> gradients = leaves.gradients(step, scaled->scale(), type_of(GetParam()));
      if (step == 1) gradients[1].view({-1}).select(0, 23).fill_(kInfinite);
      const scaler::StepOutcome outcome = scaled->step(gradients);
      EXPECT_EQ(outcome.stepped, step != 1);
      EXPECT_EQ(outcome.found_inf, step == 1);
      if (step != 1) plain.step(values, leaves.gradients(step, 1, at::kFloat));
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(at::equal(scaled->values()[i], values[i])) << step;
    }
    EXPECT_EQ(scaled->scale(), 128);
  }
}

TEST_P(Ways, ASavedStateGoesOnBitForBit) {
  const auto run = [&](int saved_at) {
    auto leaves = std::make_unique<Leaves>(type_of(GetParam()));
    auto scaled = made(GetParam(), *leaves, kAdam, torch_scaling());
    for (int step = 0; step < 6; ++step) {
      if (step == saved_at) {
        const scaler::Fp16State state = scaled->state();
        leaves = std::make_unique<Leaves>(type_of(GetParam()));
        scaled = made(GetParam(), *leaves, kAdam, torch_scaling());
        scaled->load(state);
      }
      std::vector<at::Tensor> gradients = leaves->gradients(step, scaled->scale(), type_of(GetParam()));
      if (step == 2) gradients[0].view({-1}).select(0, 0).fill_(kInfinite);
      (void)scaled->step(gradients);
    }
    return scaled->state();
  };
  const scaler::Fp16State whole = run(-1);
  for (int saved_at = 1; saved_at < 6; ++saved_at) {
    const scaler::Fp16State resumed = run(saved_at);
    EXPECT_EQ(resumed.scale, whole.scale);
    EXPECT_EQ(resumed.master_weights, whole.master_weights);
    EXPECT_EQ(resumed.inner, whole.inner);
  }
}

TEST_P(Ways, StatesOfOthersAreRefused) {
  const Leaves leaves(type_of(GetParam()));
  const auto scaled = made(GetParam(), leaves, kAdam, torch_scaling());
  (void)scaled->step(leaves.gradients(0, 256, type_of(GetParam())));
  const scaler::Fp16State good = scaled->state();
  scaler::Fp16State state = good;
  state.scale = scaler::ConstantScale{8};
  EXPECT_THROW(scaled->load(state), InvalidArgument);
  state = good;
  state.master_weights.pop_back();
  EXPECT_THROW(scaled->load(state), InvalidArgument);
  state = good;
  state.master_weights[0].pop_back();
  EXPECT_THROW(scaled->load(state), InvalidArgument);
  state = good;
  state.inner.pop_back();
  EXPECT_THROW(scaled->load(state), InvalidArgument);
  state = good;
  state.inner[1].pop_back();
  EXPECT_THROW(scaled->load(state), InvalidArgument);
  EXPECT_EQ(scaled->state().master_weights, good.master_weights);
  EXPECT_EQ(scaled->state().inner, good.inner);
}

// By the norm that they have unscaled; with an infinity the step is skipped and nothing is clipped.
TEST_P(Ways, GradientsAreClippedByTheUnscaledNorm) {
  constexpr double most = 0.5;
  const Leaves leaves(type_of(GetParam()));
  Scaling scaling = torch_scaling();
  scaling.options.clip_norm = most;
  const auto scaled = made(GetParam(), leaves, kMomentum, scaling);
  for (int step = 0; step < 3; ++step) {
    std::vector<at::Tensor> gradients = leaves.gradients(step, scaled->scale(), type_of(GetParam()));
    if (step == 1) gradients[0].view({-1}).select(0, 2).fill_(kInfinite);
    const scaler::StepOutcome outcome = scaled->step(gradients);
    EXPECT_EQ(outcome.stepped, step != 1);
    EXPECT_EQ(outcome.norm.has_value(), step != 1);
    if (step == 1) continue;
    double squares = 0;
    const std::vector<at::Tensor> whole = leaves.gradients(step, 1, at::kFloat);
    for (const at::Tensor& one : whole) squares += one.to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(*outcome.norm, std::sqrt(squares), 1e-6 * std::sqrt(squares));
    const double by = most / (std::sqrt(squares) + 1e-6);
    ASSERT_LT(by, 1);
    for (std::size_t i = 0; i < whole.size(); ++i)
      EXPECT_LT(whole[i].mul(by).sub(scaled->gradients()[i]).abs().max().item<double>(), 1e-6) << "step " << step;
  }
}

TEST_P(Ways, ZeroGradClearsTheLeavesAndTheirCopies) {
  const Leaves leaves(type_of(GetParam()));
  const auto scaled = made(GetParam(), leaves, kAdam, torch_scaling());
  std::vector<at::Tensor> gradients = leaves.gradients(0, 256, type_of(GetParam()));
  leaves.leaves[0].leaf.mutable_grad() = gradients[0];
  (void)scaled->step(gradients);
  scaled->zero_grad();
  EXPECT_EQ(leaves.leaves[0].leaf.grad().abs().max().item<float>(), 0);
  for (const at::Tensor& one : scaled->gradients()) EXPECT_EQ(one.abs().max().item<float>(), 0);
}

// What one rank finds, its group skips; a leaf without gradient stays, and so do its moments.
TEST_P(Ways, AGroupSkipsTogether) {
  comm::run_ranks(3, [&](comm::Communicator& world) {
    const Leaves leaves(type_of(GetParam()));
    Scaling scaling = torch_scaling();
    scaling.groups.model = &world;
    const auto scaled = made(GetParam(), leaves, kAdam, scaling);
    for (int step = 0; step < 3; ++step) {
      std::vector<at::Tensor> gradients = leaves.gradients(step, scaled->scale(), type_of(GetParam()));
      if (step == 1 && world.rank() == 2) gradients[0].view({-1}).select(0, 14).fill_(std::nanf(""));
      gradients[1] = at::Tensor();
      EXPECT_EQ(scaled->step(gradients).stepped, step != 1);
      EXPECT_EQ(scaled->scale(), step == 0 ? 256 : 128);
    }
    EXPECT_TRUE(at::equal(scaled->values()[1], leaves.given[1]));
    EXPECT_FALSE(at::equal(scaled->values()[0], leaves.given[0]) && GetParam() != "autocast");
  });
}

INSTANTIATE_TEST_SUITE_P(All, Ways, testing::Values("fp16", "bf16", "autocast"),
                         [](const auto& info) { return info.param; });

// bf16 has float32's range: nothing is looked for, and what is not finite goes where it goes.
TEST(WithoutScale, NothingIsSkipped) {
  for (const std::string way : {"bf16", "autocast"}) {
    const Leaves leaves(type_of(way));
    const auto scaled =
        made(way, leaves, kMomentum, {.options = {.scale = scaler::ConstantScale(), .skips_overflows = false}});
    EXPECT_EQ(scaled->scale(), 1);
    std::vector<at::Tensor> gradients = leaves.gradients(0, 1, type_of(way));
    gradients[0].view({-1}).select(0, 3).fill_(kInfinite);
    EXPECT_TRUE(scaled->step(gradients).stepped);
    EXPECT_EQ(scaled->values()[0].view({-1})[3].item<float>(), -kInfinite);
  }
}

TEST(Rounded, MastersStartAsTheyAreGiven) {
  const Leaves leaves(at::kHalf);
  const auto given = rounded_optimizer(leaves.leaves, leaves.given, kMomentum, torch_scaling());
  EXPECT_TRUE(at::equal(given->values()[1], leaves.given[1]));
  const auto rounded = rounded_optimizer(leaves.leaves, {}, kMomentum, torch_scaling());
  EXPECT_TRUE(at::equal(rounded->values()[1], leaves.given[1].to(at::kHalf).to(at::kFloat)));
}

TEST(ScaledLeaves, OfOtherTypesAreRefused) {
  Leaves leaves(at::kDouble);
  EXPECT_THROW(autocast_optimizer(leaves.leaves, kAdam, torch_scaling()), InvalidArgument);
  Scaling scaling = torch_scaling();
  scaling.options.clip_norm = -1;
  EXPECT_THROW(autocast_optimizer(Leaves(at::kFloat).leaves, kAdam, scaling), InvalidArgument);
  scaling = torch_scaling();
  scaling.options.scale = scaler::HysteresisScale();
  EXPECT_THROW(autocast_optimizer(Leaves(at::kFloat).leaves, kAdam, scaling), Unsupported);
  EXPECT_THROW(rounded_optimizer(leaves.leaves, {}, kAdam, torch_scaling()), InvalidArgument);
  leaves.leaves[0].leaf = leaves.given[0].t().narrow(0, 0, 2);
  EXPECT_THROW(rounded_optimizer(leaves.leaves, {}, kAdam, torch_scaling()), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::training
