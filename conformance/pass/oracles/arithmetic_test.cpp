// Ops of known arithmetic compute it; derivatives are the slopes of what they belong to, and linear in gradients.
#include "conformance/pass/oracles/arithmetic.hpp"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::program {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

Array array(std::vector<std::int64_t> shape, double first = 0.1) {
  Array one{.shape = std::move(shape), .elements = {}};
  one.elements.resize(elements_of(one.shape));
  for (std::size_t i = 0; i < one.elements.size(); ++i)
    one.elements[i] = first + 0.37 * std::sin(1.7 * static_cast<double>(i) + first);
  return one;
}
Array zeros(std::vector<std::int64_t> shape) {
  Array one{.shape = std::move(shape), .elements = {}};
  one.elements.resize(elements_of(one.shape));
  return one;
}

Operands run(Operands operands) {
  compute(operands);
  return operands;
}

TEST(Arithmetic, MultipliesMatricesTransposedWhereItFitsInNoOtherWay) {
  const Array x{.shape = {2, 3}, .elements = {1, 2, 3, 4, 5, 6}};
  const Operands plain = run({.type = "matmul_v2",
                              .inputs = {{"X", {x}}, {"Y", {{.shape = {3, 1}, .elements = {1, 0, -1}}}}},
                              .outputs = {{"Out", {zeros({2, 1})}}},
                              .numbers = {}});
  EXPECT_THAT(plain.outputs.at("Out")[0].elements, ElementsAre(-2, -2));
  const Operands turned = run({.type = "matmul_v2",
                               .inputs = {{"X", {x}}, {"Y", {{.shape = {1, 3}, .elements = {1, 0, -1}}}}},
                               .outputs = {{"Out", {zeros({2, 1})}}},
                               .numbers = {}});
  EXPECT_THAT(turned.outputs.at("Out")[0].elements, ElementsAre(-2, -2));
}

// A forward op with its arrays; the gradient of each differentiated input is held against the slope of sum(weights *
// out).
struct Differentiated {
  std::string type;
  ArraySlots inputs;
  std::string out;
  std::vector<std::int64_t> shape;
  std::vector<std::string> by;
  ArraySlots others{};  // further outputs, that the derivative reads
};

double weighted(const Differentiated& one, const Array& weights) {
  Operands operands{.type = one.type, .inputs = one.inputs, .outputs = one.others, .numbers = {}};
  operands.outputs[one.out] = {zeros(one.shape)};
  compute(operands);
  double sum = 0;
  for (std::size_t i = 0; i < weights.elements.size(); ++i)
    sum += weights.elements[i] * operands.outputs.at(one.out)[0].elements[i];
  return sum;
}

void expect_slopes(Differentiated one) {
  const Array weights = array(one.shape, 0.3);
  Operands forward{.type = one.type, .inputs = one.inputs, .outputs = one.others, .numbers = {}};
  forward.outputs[one.out] = {zeros(one.shape)};
  compute(forward);
  Operands backward{.type = one.type + "_grad", .inputs = one.inputs, .outputs = {}, .numbers = {}};
  for (const auto& [slot, arrays] : forward.outputs) backward.inputs[slot] = arrays;
  backward.inputs[one.out + "@GRAD"] = {weights};
  for (const std::string& slot : one.by) backward.outputs[slot + "@GRAD"] = {zeros(one.inputs.at(slot)[0].shape)};
  ASSERT_TRUE(is_computed(backward.type));
  compute(backward);
  constexpr double kStep = 1e-6;
  for (const std::string& slot : one.by)
    for (std::size_t i = 0; i < one.inputs.at(slot)[0].elements.size(); ++i) {
      Differentiated above = one, below = one;
      above.inputs.at(slot)[0].elements[i] += kStep;
      below.inputs.at(slot)[0].elements[i] -= kStep;
      const double slope = (weighted(above, weights) - weighted(below, weights)) / (2 * kStep);
      EXPECT_THAT(backward.outputs.at(slot + "@GRAD")[0].elements[i], DoubleNear(slope, 1e-6))
          << one.type << ", " << slot << "[" << i << "]";
    }
}

TEST(Arithmetic, DerivativesAreSlopes) {
  expect_slopes({"matmul_v2", {{"X", {array({2, 2, 3})}}, {"Y", {array({3, 4}, 0.2)}}}, "Out", {2, 2, 4}, {"X", "Y"}});
  expect_slopes({"matmul_v2", {{"X", {array({2, 3})}}, {"Y", {array({4, 3}, 0.2)}}}, "Out", {2, 4}, {"X", "Y"}});
  expect_slopes({"elementwise_add", {{"X", {array({2, 3})}}, {"Y", {array({3}, 0.2)}}}, "Out", {2, 3}, {"X", "Y"}});
  expect_slopes({"elementwise_sub", {{"X", {array({2, 3})}}, {"Y", {array({2, 3}, 0.2)}}}, "Out", {2, 3}, {"X", "Y"}});
  expect_slopes({"elementwise_mul", {{"X", {array({2, 3})}}, {"Y", {array({1}, 0.2)}}}, "Out", {2, 3}, {"X", "Y"}});
  for (const char* type : {"relu", "tanh", "square", "gelu", "softmax"})
    expect_slopes({type, {{"X", {array({2, 5})}}}, "Out", {2, 5}, {"X"}});
  expect_slopes({"reduce_mean", {{"X", {array({2, 5})}}}, "Out", {}, {"X"}});
  expect_slopes({"layer_norm",
                 {{"X", {array({2, 5})}}, {"Scale", {array({5}, 0.9)}}, {"Bias", {array({5})}}},
                 "Y",
                 {2, 5},
                 {"X", "Scale", "Bias"},
                 {{"Mean", {zeros({2})}}, {"Variance", {zeros({2})}}}});
  expect_slopes({"softmax_with_cross_entropy",
                 {{"Logits", {array({2, 5})}}, {"Label", {{.shape = {2, 1}, .elements = {3, 6}}}}},
                 "Loss",
                 {2, 1},
                 {"Logits"},
                 {{"Softmax", {zeros({2, 5})}}}});
  expect_slopes({"lookup_table_v2",
                 {{"W", {array({4, 3})}}, {"Ids", {{.shape = {2}, .elements = {1, 7}}}}},
                 "Out",
                 {2, 3},
                 {"W"}});
}

TEST(Arithmetic, MovesData) {
  const Array x = array({2, 3, 2, 4});
  const Operands turned =
      run({.type = "transpose2", .inputs = {{"X", {x}}}, .outputs = {{"Out", {zeros({2, 2, 3, 4})}}}, .numbers = {}});
  EXPECT_EQ(turned.outputs.at("Out")[0].elements[4], x.elements[8]);  // [0,0,1,0] of [0,1,0,0]
  const Operands parts = run({.type = "split",
                              .inputs = {{"X", {array({2, 4})}}},
                              .outputs = {{"Out", {zeros({2, 1}), zeros({2, 3})}}},
                              .numbers = {}});
  const Operands whole = run({.type = "concat",
                              .inputs = {{"X", parts.outputs.at("Out")}},
                              .outputs = {{"Out", {zeros({2, 4})}}},
                              .numbers = {}});
  EXPECT_EQ(whole.outputs.at("Out")[0].elements, array({2, 4}).elements);
  EXPECT_EQ(parts.outputs.at("Out")[1].elements[3], array({2, 4}).elements[5]);
}

TEST(Arithmetic, MomentumRescalesItsGradient) {
  const Array one{.shape = {1}, .elements = {1}};
  const Operands momentum =
      run({.type = "momentum",
           .inputs = {{"Param", {one}}, {"Grad", {one}}, {"Velocity", {one}}, {"LearningRate", {one}}},
           .outputs = {{"ParamOut", {zeros({1})}}, {"VelocityOut", {zeros({1})}}},
           .numbers = {{"rescale_grad", 0.25}}});
  EXPECT_THAT(momentum.outputs.at("VelocityOut")[0].elements, ElementsAre(0.9 + 0.25));
  EXPECT_THAT(momentum.outputs.at("ParamOut")[0].elements, ElementsAre(1 - (0.9 + 0.25)));
}

TEST(GeneralModel, DependsOnEveryInputSlotAndNumber) {
  const auto made = [](double first, double second, double number, bool swapped) {
    Operands operands{.type = "conv2d",
                      .inputs = {{"Input", {array({2, 2}, first)}}, {"Filter", {array({3}, second)}}},
                      .outputs = {{"Output", {zeros({4})}}},
                      .numbers = {{"stride", number}}};
    if (swapped) std::swap(operands.inputs["Input"], operands.inputs["Filter"]);
    compute(operands);
    return operands.outputs.at("Output")[0].elements;
  };
  const auto base = made(0.1, 0.2, 1, false);
  EXPECT_EQ(made(0.1, 0.2, 1, false), base);
  EXPECT_NE(made(0.15, 0.2, 1, false), base);
  EXPECT_NE(made(0.1, 0.25, 1, false), base);
  EXPECT_NE(made(0.1, 0.2, 2, false), base);
  EXPECT_NE(made(0.1, 0.2, 1, true), base);
}

// Also of what is not computed: to scale the gradient of a loss is to scale all that follows from it.
TEST(GeneralModel, IsLinearInGradients) {
  for (const char* type : {"conv2d_grad", "batch_norm_grad", "matmul_v2_grad_grad", "pool2d_grad"}) {
    const auto made = [&](double factor) {
      Array gradient = array({3}, 0.4);
      for (double& value : gradient.elements) value *= factor;
      Operands operands{.type = type,
                        .inputs = {{"X", {array({4})}}, {"grad_out", {array({4}, 0.7)}}, {"Y@GRAD", {gradient}}},
                        .outputs = {{"X@GRAD", {zeros({4})}}},
                        .numbers = {}};
      compute(operands);
      return operands.outputs.at("X@GRAD")[0].elements;
    };
    const auto whole = made(1);
    auto quarter = made(0.25);
    for (double& value : quarter) value *= 4;
    EXPECT_EQ(quarter, whole) << type;
  }
}

}  // namespace
}  // namespace plumbline::program
