// A backward pass in two halves: the bits and the matrix products of a whole one.
#include "reference/training/pipeline/deferred.hpp"

#include <functional>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "reference/training/pipeline/counting.hpp"

namespace plumbline::training {
namespace {

using Shape = std::vector<std::int64_t>;

class Random {
 public:
  explicit Random(std::uint64_t seed) : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}
  at::Tensor normal(const Shape& shape) { return at::randn(shape, generator_, at::TensorOptions(at::kFloat)); }
  at::Tensor leaf(const Shape& shape) { return normal(shape).requires_grad_(); }
  at::Tensor below(std::int64_t bound, const Shape& shape) {
    return at::randint(bound, shape, generator_, at::TensorOptions(at::kLong));
  }

 private:
  at::Generator generator_;
};

// A function of inputs and leaves, and what its backward pass shall leave.
using Layers = std::function<Tensors(const Tensors& inputs, const Tensors& leaves, const Pass& pass)>;

Tensors copies_of(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    // Channels last stays so.
    copies.push_back(tensor.detach().clone());
    copies.back().requires_grad_(tensor.requires_grad());
  }
  return copies;
}
Tensors grads_of(const Tensors& tensors) {
  Tensors grads;
  for (const at::Tensor& tensor : tensors) grads.push_back(tensor.grad());
  return grads;
}
void expect_equal(const Tensors& got, const Tensors& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << what << " " << i;
    if (got[i].defined()) {
      EXPECT_TRUE(at::equal(got[i], expected[i])) << what << " " << i;
      EXPECT_EQ(got[i].strides(), expected[i].strides()) << what << " " << i;
    }
  }
}

struct Micro {
  Tensors inputs;
  Tensors outputs;
  Tensors gradients;  // of the outputs
  DeferredGradients deferred;
};

// Runs micro-batches whole, and in halves with all forwards first and the weights' halves last of all.
void expect_halves_are_whole(const Layers& layers, const std::vector<Tensors>& inputs, const Tensors& leaves,
                             int products_of_one = -1) {
  at::set_num_threads(1);
  const Tensors whole_leaves = copies_of(leaves), half_leaves = copies_of(leaves);
  std::vector<Micro> micro(inputs.size());
  Random random(99);
  std::vector<Tensors> whole_inputs;
  OperationCounter counter;
  int whole_products = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    whole_inputs.push_back(copies_of(inputs[i]));
    const Tensors outputs = layers(whole_inputs.back(), whole_leaves, {});
    for (const at::Tensor& output : outputs) micro[i].gradients.push_back(random.normal(output.sizes().vec()));
    const int before = counter.products();
    torch::autograd::backward(outputs, micro[i].gradients);
    whole_products += counter.products() - before;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    micro[i].inputs = copies_of(inputs[i]);
    micro[i].outputs = layers(micro[i].inputs, half_leaves, {.deferred = &micro[i].deferred});
  }
  const int before = counter.products();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    torch::autograd::backward(micro[i].outputs, micro[i].gradients);
    micro[i].outputs.clear();
    expect_equal(grads_of(micro[i].inputs), grads_of(whole_inputs[i]), "input gradients of " + std::to_string(i));
  }
  const int of_inputs = counter.products() - before;
  for (const at::Tensor& leaf : half_leaves) EXPECT_FALSE(leaf.grad().defined()) << "a weight gradient came early";
  for (Micro& one : micro) {
    EXPECT_FALSE(one.deferred.empty());
    one.deferred.compute();
  }
  expect_equal(grads_of(half_leaves), grads_of(whole_leaves), "weight gradients");
  EXPECT_EQ(counter.products() - before, whole_products) << "matrix products";
  EXPECT_LE(of_inputs, whole_products);
  if (products_of_one >= 0) {
    EXPECT_EQ(whole_products, products_of_one * static_cast<int>(inputs.size()));
  }
}

TEST(Deferred, LinearLayersOfThreeMicroBatches) {
  Random random(1);
  const Layers layers = [](const Tensors& inputs, const Tensors& leaves, const Pass& pass) -> Tensors {
    const at::Tensor hidden = at::tanh(linear(inputs[0], leaves[0], leaves[1], pass));
    return {linear(hidden, leaves[2], {}, pass)};
  };
  const Tensors leaves{random.leaf({33, 17}), random.leaf({33}), random.leaf({5, 33})};
  std::vector<Tensors> inputs;
  for (const std::int64_t rows : {4, 7, 1}) inputs.push_back({random.leaf({rows, 17})});
  expect_halves_are_whole(layers, inputs, leaves, 4);
}

TEST(Deferred, TheFirstStageHasNoInputGradientToCompute) {
  Random random(2);
  const Layers layers = [](const Tensors& inputs, const Tensors& leaves, const Pass& pass) -> Tensors {
    return {linear(inputs[0], leaves[0], leaves[1], pass)};
  };
  expect_halves_are_whole(layers, {{random.normal({6, 8})}, {random.normal({6, 8})}},
                          {random.leaf({3, 8}), random.leaf({3})}, 1);
}

TEST(Deferred, LinearLayersOfSequences) {
  Random random(3);
  const Layers layers = [](const Tensors& inputs, const Tensors& leaves, const Pass& pass) -> Tensors {
    return {linear(linear(inputs[0], leaves[0], leaves[1], pass), leaves[2], {}, pass)};
  };
  const Tensors leaves{random.leaf({12, 6}), random.leaf({12}), random.leaf({4, 12})};
  expect_halves_are_whole(layers, {{random.leaf({2, 5, 6})}, {random.leaf({2, 5, 6})}}, leaves);
}

// The second micro-batch begins before the first is over, and both outputs have one shape.
TEST(Deferred, AStageWithTwoOutputsOfOneShape) {
  Random random(4);
  const Layers layers = [](const Tensors& inputs, const Tensors& leaves, const Pass& pass) -> Tensors {
    const at::Tensor both = linear(inputs[0], leaves[0], leaves[1], pass);
    const Tensors halves = both.split(4, 1);
    return {linear(halves[0], leaves[2], {}, pass), linear(halves[1], leaves[2], {}, pass)};
  };
  const Tensors leaves{random.leaf({8, 5}), random.leaf({8}), random.leaf({4, 4})};
  expect_halves_are_whole(layers, {{random.leaf({3, 5})}, {random.leaf({3, 5})}}, leaves);
}

TEST(Deferred, ConvolutionsInBothOrdersInMemory) {
  Random random(5);
  const Layers layers = [](const Tensors& inputs, const Tensors& leaves, const Pass& pass) -> Tensors {
    const at::Tensor hidden = at::relu(conv2d(inputs[0], leaves[0], leaves[1], 1, 1, 1, 1, pass));
    const at::Tensor pooled = at::max_pool2d(hidden, {2, 2});
    return {conv2d(pooled, leaves[2], {}, 2, 2, 2, 2, pass)};
  };
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto placed = [&](const at::Tensor& leaf) {
      return leaf.detach().contiguous(format).requires_grad_(leaf.requires_grad());
    };
    const Tensors leaves{placed(random.leaf({8, 3, 3, 3})), random.leaf({8}), placed(random.leaf({4, 4, 3, 3}))};
    expect_halves_are_whole(layers, {{placed(random.leaf({2, 3, 8, 8}))}, {placed(random.normal({5, 3, 8, 8}))}},
                            leaves);
  }
}

TEST(Deferred, AnEmbeddingAndALayerOnTopOfIt) {
  Random random(6);
  const Layers layers = [](const Tensors& inputs, const Tensors& leaves, const Pass& pass) -> Tensors {
    return {linear(embedding(inputs[0], leaves[0], pass), leaves[1], {}, pass)};
  };
  expect_halves_are_whole(layers, {{random.below(7, {4, 3})}, {random.below(7, {4, 3})}},
                          {random.leaf({7, 6}), random.leaf({9, 6})});
}

// Tied: both uses are one addition to the leaf.
TEST(Deferred, AnEmbeddingThatIsTheOutputLayerToo) {
  Random random(8);
  const Layers layers = [](const Tensors& inputs, const Tensors& leaves, const Pass& pass) -> Tensors {
    return {linear(at::tanh(embedding(inputs[0], leaves[0], pass)), leaves[0], {}, pass)};
  };
  expect_halves_are_whole(layers, {{random.below(7, {4})}, {random.below(7, {4})}, {random.below(7, {2})}},
                          {random.leaf({7, 6})});
}

TEST(Deferred, AFrozenWeightHasNoGradient) {
  Random random(7);
  const at::Tensor x = random.leaf({3, 4}), weight = random.normal({2, 4}), bias = random.leaf({2});
  DeferredGradients deferred;
  torch::autograd::backward({linear(x, weight, bias, {.deferred = &deferred})}, {random.normal({3, 2})});
  deferred.compute();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_TRUE(bias.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}

}  // namespace
}  // namespace plumbline::training
