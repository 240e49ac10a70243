// Cut layers beside whole ones: outputs, gradients of inputs, gradients of weights put together again.
#include "reference/training/tensor/layers.hpp"

#include <mutex>

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tanh.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/local.hpp"
#include "reference/training/pipeline/toy_stage_test.hpp"

namespace plumbline::training {
namespace {

// What a function makes of leaves, and the gradients of its outputs' product with `weights`.
struct Outcome {
  at::Tensor output;
  Tensors gradients;
};
template <class Function>
Outcome outcome_of(const Function& function, Tensors leaves, const at::Tensor& weights) {
  for (at::Tensor& leaf : leaves) leaf = leaf.detach().clone().requires_grad_();
  const at::Tensor output = function(leaves);
  output.mul(weights).sum().backward();
  Outcome outcome{.output = output.detach(), .gradients = {}};
  for (const at::Tensor& leaf : leaves) outcome.gradients.push_back(leaf.grad());
  return outcome;
}

double distance(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item<double>(); }

constexpr std::int64_t kRows = 5, kIn = 6, kHidden = 7, kOut = 4;

struct Whole {
  at::Tensor x, first, first_bias, second, second_bias, weights;
  Whole() {
    RandomTensors random(11);
    const auto exact = [&](const std::vector<std::int64_t>& shape) { return random.normal(shape).to(at::kDouble); };
    x = exact({kRows, kIn});
    first = exact({kHidden, kIn});
    first_bias = exact({kHidden});
    second = exact({kOut, kHidden});
    second_bias = exact({kOut});
    weights = exact({kRows, kOut});
  }
};

class CutLayers : public testing::TestWithParam<int> {};

// Column, tanh, row; 7 hidden values are not divided by any number of ranks.
TEST_P(CutLayers, PerceptronIsTheWholeOnes) {
  const Whole whole;
  const Outcome expected =
      outcome_of([](const Tensors& in) { return at::linear(at::tanh(at::linear(in[0], in[1], in[2])), in[3], in[4]); },
                 {whole.x, whole.first, whole.first_bias, whole.second, whole.second_bias}, whole.weights);
  comm::run_ranks(GetParam(), [&](comm::Communicator& world) {
    const TensorGroup group{&world};
    const Extent own = extent_of(kHidden, world.size(), world.rank());
    const Outcome got = outcome_of(
        [&](const Tensors& in) {
          return row_linear(group, at::tanh(column_linear(group, in[0], in[1], in[2], {})), in[3], in[4], {});
        },
        {whole.x, narrowed(whole.first, {0, own}), narrowed(whole.first_bias, {0, own}),
         narrowed(whole.second, {1, own}), whole.second_bias},
        whole.weights);
    const auto part = [&](std::size_t i, int dim) { return narrowed(expected.gradients[i], {dim, own}); };
    EXPECT_LT(distance(got.output, expected.output), 1e-13);
    EXPECT_LT(distance(got.gradients[0], expected.gradients[0]), 1e-13);
    EXPECT_LT(distance(got.gradients[1], part(1, 0)), 1e-13);
    EXPECT_LT(distance(got.gradients[2], part(2, 0)), 1e-13);
    EXPECT_LT(distance(got.gradients[3], part(3, 1)), 1e-13);
    EXPECT_LT(distance(got.gradients[4], expected.gradients[4]), 1e-13);
  });
}

TEST_P(CutLayers, GatheredAndScatteredAreTheWholeOnes) {
  const Whole whole;
  const Outcome expected =
      outcome_of([](const Tensors& in) { return at::linear(at::tanh(at::linear(in[0], in[1])), in[2], in[3]); },
                 {whole.x, whole.first, whole.second, whole.second_bias}, whole.weights);
  comm::run_ranks(GetParam(), [&](comm::Communicator& world) {
    const TensorGroup group{&world};
    const Extent own = extent_of(kHidden, world.size(), world.rank());
    const Outcome got = outcome_of(
        [&](const Tensors& in) {
          const at::Tensor hidden = gathered_from(group, column_linear(group, in[0], in[1], {}, {}), kHidden);
          return row_linear(group, scattered_to(group, at::tanh(hidden)), in[2], in[3], {});
        },
        {whole.x, narrowed(whole.first, {0, own}), narrowed(whole.second, {1, own}), whole.second_bias}, whole.weights);
    EXPECT_LT(distance(got.output, expected.output), 1e-13);
    EXPECT_LT(distance(got.gradients[0], expected.gradients[0]), 1e-13);
    EXPECT_LT(distance(got.gradients[1], narrowed(expected.gradients[1], {0, own})), 1e-13);
    EXPECT_LT(distance(got.gradients[2], narrowed(expected.gradients[2], {1, own})), 1e-13);
    EXPECT_LT(distance(got.gradients[3], expected.gradients[3]), 1e-13);
  });
}

// The weight half of a split backward pass talks to nobody.
TEST_P(CutLayers, DeferredWeightGradientsAreTheSameBits) {
  const Whole whole;
  comm::run_ranks(GetParam(), [&](comm::Communicator& world) {
    const TensorGroup group{&world};
    const Extent own = extent_of(kHidden, world.size(), world.rank());
    const auto run = [&](DeferredGradients* deferred) {
      const Outcome outcome = outcome_of(
          [&](const Tensors& in) {
            const Pass pass{.deferred = deferred};
            return row_linear(group, at::tanh(column_linear(group, in[0], in[1], {}, pass)), in[2], in[3], pass);
          },
          {whole.x, narrowed(whole.first, {0, own}), narrowed(whole.second, {1, own}), whole.second_bias},
          whole.weights);
      return outcome;
    };
    DeferredGradients deferred;
    const Outcome split = run(&deferred), once = run(nullptr);
    EXPECT_FALSE(split.gradients[1].defined());
    EXPECT_FALSE(deferred.empty());
    EXPECT_TRUE(at::equal(split.gradients[0], once.gradients[0]));
    EXPECT_TRUE(at::equal(split.gradients[3], once.gradients[3]));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, CutLayers, testing::Values(1, 2, 3));

job::RunSpec spec_with(std::vector<job::Layer> layers, std::vector<int> stages, int tensor) {
  job::RunSpec spec;
  spec.layers = std::move(layers);
  spec.stages = std::move(stages);
  spec.parallel.tensor = tensor;
  return spec;
}

TEST(LinearForms, PairLayersOfOneStage) {
  using enum LinearForm;
  const std::vector<job::Layer> layers{job::Linear{8, 6}, job::Gelu{},      job::Linear{6, 6}, job::LayerNorm{6},
                                       job::Linear{6, 6}, job::Relu{},      job::Linear{6, 6}, job::TiedLinear{6},
                                       job::Linear{6, 4}, job::Linear{4, 1}};
  EXPECT_THAT(linear_forms(spec_with(layers, {0}, 2)),
              testing::ElementsAre(column, whole, row, whole, gathered, whole, whole, whole, gathered, whole));
  EXPECT_THAT(linear_forms(spec_with(layers, {0, 2}, 2)),
              testing::ElementsAre(gathered, whole, gathered, whole, gathered, whole, whole, whole, gathered, whole));
  EXPECT_THAT(linear_forms(spec_with(layers, {0}, 1)), testing::Each(whole));
}

TEST(LinearForms, PairLayersAroundAttentionByHeads) {
  using enum LinearForm;
  std::vector<job::Layer> layers{job::Embedding{9, 6}, job::Linear{6, 18}, job::Attention{3}, job::Linear{6, 6},
                                 job::Add{0},          job::Linear{6, 5},  job::Gelu{},       job::Linear{5, 6},
                                 job::Add{4},          job::TiedLinear{0}};
  const job::RunSpec spec = spec_with(layers, {0}, 2);
  const std::vector<LinearForm> forms = linear_forms(spec);
  EXPECT_THAT(forms, testing::ElementsAre(whole, column, column, row, whole, column, whole, row, whole, whole));
  EXPECT_THAT(puts_out_parts(spec),
              testing::ElementsAre(false, true, true, false, false, true, true, false, false, false));
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;  // of the second rank: a head of three, and two of five
  for (const job::Parameter& parameter : job::parameters_of(spec))
    if (const Shard shard = shard_of(spec, forms, parameter, 1); shard.dim >= 0 && parameter.shape.size() == 2)
      parts.emplace_back(shard.part.begin, shard.part.size);
  EXPECT_THAT(parts, testing::ElementsAre(std::pair(12, 6), std::pair(4, 2), std::pair(3, 2), std::pair(3, 2)));
  EXPECT_THAT(linear_forms(spec_with(layers, {0}, 4)),
              testing::ElementsAre(whole, gathered, whole, gathered, whole, column, whole, row, whole, whole))
      << "fewer heads than ranks";
  layers[8] = job::Add{6};
  layers[7] = job::Linear{5, 5};
  EXPECT_EQ(linear_forms(spec_with(layers, {0}, 2))[5], gathered) << "a later layer adds what lies between";
}

// Heads of both would have to lie on the ranks' cuts.
TEST(LinearForms, PairNoLayersAroundTwoAttentions) {
  using enum LinearForm;
  const std::vector<job::Layer> layers{job::Linear{4, 108}, job::Attention{2}, job::Tanh{}, job::Attention{3},
                                       job::Linear{12, 4}};
  EXPECT_THAT(linear_forms(spec_with(layers, {0}, 2)), testing::ElementsAre(gathered, whole, whole, whole, gathered));
}

TEST(LinearForms, CutFewerFeaturesThanHeads) {
  const job::RunSpec spec = spec_with({job::Linear{4, 3}, job::Attention{4}, job::Linear{3, 4}}, {0}, 2);
  const std::vector<LinearForm> forms = linear_forms(spec);
  for (const job::Parameter& parameter : job::parameters_of(spec))
    if (const Shard shard = shard_of(spec, forms, parameter, 1); shard.dim >= 0) {
      EXPECT_EQ(shard.part.begin, 2) << parameter.name;
      EXPECT_EQ(shard.part.size, 1) << parameter.name;
    }
}

TEST(Extents, GiveTheRemainderToTheFirst) {
  const auto sizes = [](std::int64_t count, int parts) {
    std::vector<std::pair<std::int64_t, std::int64_t>> list;
    for (int i = 0; i < parts; ++i)
      list.emplace_back(extent_of(count, parts, i).begin, extent_of(count, parts, i).size);
    return list;
  };
  EXPECT_THAT(sizes(7, 3), testing::ElementsAre(std::pair(0, 3), std::pair(3, 2), std::pair(5, 2)));
  EXPECT_THAT(sizes(4, 2), testing::ElementsAre(std::pair(0, 2), std::pair(2, 2)));
}

}  // namespace
}  // namespace plumbline::training
