// A mixture of experts on one rank and spread over several, beside numbers that a second program computed.
#include "reference/training/detail/mixture.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "reference/comm/local.hpp"

namespace plumbline::training {
namespace {

using Numbers = std::vector<double>;

at::Tensor matrix(const Numbers& numbers, std::int64_t rows) {
  return at::tensor(at::ArrayRef<double>(numbers), at::kDouble).view({rows, -1});
}

// Four tokens of two features, and four experts with three hidden ones. Experts 1 and 2 have equal probabilities for
// every token, and for the last one so has expert 0: it goes through experts 0 and 1.
constexpr std::size_t kExperts = 4;
const at::Tensor& tokens() {
  static const at::Tensor x = matrix({1, -0.5, 0.25, 2, -1.5, 0.75, 0.5, 0.5}, 4);
  return x;
}
MixtureWeights weights() {
  MixtureWeights all{matrix({0.5, 0.25, -0.25, 1, -0.25, 1, 0.75, -0.5}, 4), {}, {}};
  for (std::size_t expert = 0; expert < kExperts; ++expert) {
    const auto e = static_cast<double>(expert);
    Numbers up, down;
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 2; ++j) up.push_back((e + 1) * 0.25 - 0.5 * i + 0.125 * j);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 3; ++j) down.push_back(0.5 - 0.25 * e + 0.375 * i * (j - 1));
    all.up.push_back(matrix(up, 3));
    all.down.push_back(matrix(down, 2));
  }
  return all;
}
// What outputs are multiplied by before they are added up: the sum has the gradients below.
const at::Tensor& factors() {
  static const at::Tensor all = matrix({1, 2, -1, 0.5, 0.25, -2, 3, 1}, 4);
  return all;
}

struct Expected {
  Numbers output, x, router;
  std::array<Numbers, kExperts> up, down;
};
// From the layer's formulas by numpy in float64: outputs token by token, gradients as central differences with a step
// of 1e-5, the choice of experts held.
const Expected kNormalized{
    {-0.0937988824, -0.195771436, 0.155182516, -0.487949713, 0.0324778978, 0.173102898, 0.0225801113, -0.14795351},
    {-1.084042, -1.14431275, -0.170271146, -0.20769681, 0.383851806, 0.284149563, 0.0568159066, 0.38850403},
    {-0.0186714453, -0.0524201956, 0.1109213, -0.018499792, -0.0697506876, 0.0596704042, -0.0224991669, 0.0112495834},
    {Numbers{0.444957533, 0.22931066, 0.360223774, 0.0839901269, 0.152555078, -0.0501470069},
     Numbers{0.0313165137, -0.178346061, 0.315120554, -0.0437384595, 0.814029225, -0.321328136},
     Numbers{-0.111135915, -0.161971429, 0, 0, 0.410269041, -0.15361616},
     Numbers{-0.808722363, 0.404361182, -0.316492017, 0.158246009, 0, 0}},
    {Numbers{0.303314555, -0.147533775, -0.304036734, 0.120168392, -0.0955514663, -0.185460601},
     Numbers{-0.0413574626, -0.0193302343, -0.0938012541, 0.624722553, 0.00344662334, -0.433039588},
     Numbers{-0.961959044, -0.32706919, 0.0804292082, 0.621439363, 0.204197533, -0.201249742},
     Numbers{0.190679222, 0.0701467284, -0.0193404492, 0.381358445, 0.140293457, -0.0386808984}}};
const Expected kNotNormalized{
    {-0.076484541, -0.159633975, 0.133028358, -0.418289064, 0.0287743363, 0.153363405, 0.0119509403, -0.0783071236},
    {-0.950623295, -0.842607936, -0.106982012, -0.221714391, 0.368100467, 0.218920557, 0.0313263676, 0.199992562},
    {-0.0608585328, 0.0741307589, 0.13471215, -0.11532245, -0.000225761221, -0.0221080503, -0.0736278563, 0.0632997411},
    {Numbers{0.276638993, 0.100798389, 0.243349682, 0.0181060204, 0.11941024, -0.0458750542},
     Numbers{-0.0214097258, -0.198298267, 0.230470027, -0.0852821132, 0.700090942, -0.305723635},
     Numbers{-0.0977274722, -0.137619304, 0, 0, 0.363310589, -0.137491795},
     Numbers{-0.659440253, 0.329720126, -0.258070736, 0.129035368, 0, 0}},
    {Numbers{0.163807744, -0.0860466079, -0.175358328, 0.0701471819, -0.0664956491, -0.127041002},
     Numbers{-0.233181886, -0.0325294305, -0.00805060039, 0.472902621, -0.00387257149, -0.356642297},
     Numbers{-0.82516593, -0.280531916, 0.0695638212, 0.537025709, 0.176291968, -0.177453682},
     Numbers{0.155481733, 0.0571983396, -0.0157703945, 0.310963466, 0.114396679, -0.031540789}}};

void expect_near(const at::Tensor& got, const Numbers& expected, const char* what) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(got.numel(), static_cast<std::int64_t>(expected.size())) << what;
  EXPECT_LT(got.flatten().sub(matrix(expected, 1).flatten()).abs().max().item<double>(), 1e-8) << what << "\n" << got;
}

job::Moe layer_of(bool normalizes) {
  return {.features = 2, .hidden = 3, .experts = kExperts, .top_k = 2, .normalize_gates = normalizes};
}

// Back-propagates the tokens begin .. begin+count-1, and returns their outputs; weights and tokens have gradients then.
at::Tensor back_propagated(const job::Moe& layer, MixtureWeights& all, const at::Tensor& x, std::int64_t begin,
                           const std::optional<TensorGroup>& group) {
  all.router.requires_grad_();
  for (std::vector<at::Tensor>* const list : {&all.up, &all.down})
    for (at::Tensor& one : *list)
      if (one.defined()) one.requires_grad_();
  const at::Tensor output = mixture_of(layer, all, x.unsqueeze(0), group, {}).squeeze(0);
  output.mul(factors().narrow(0, begin, x.size(0))).sum().backward();
  return output;
}

TEST(Mixture, IsWhatASecondProgramComputes) {
  for (const bool normalizes : {true, false}) {
    const Expected& expected = normalizes ? kNormalized : kNotNormalized;
    MixtureWeights all = weights();
    const at::Tensor x = tokens().clone().requires_grad_();
    expect_near(back_propagated(layer_of(normalizes), all, x, 0, {}), expected.output, "output");
    expect_near(x.grad(), expected.x, "gradient of the tokens");
    expect_near(all.router.grad(), expected.router, "gradient of the router");
    for (std::size_t expert = 0; expert < kExperts; ++expert) {
      expect_near(all.up[expert].grad(), expected.up[expert], "up");
      expect_near(all.down[expert].grad(), expected.down[expert], "down");
    }
  }
}

TEST(Mixture, LeavesUnchosenExpertsOutOfTheGraph) {
  MixtureWeights all = weights();
  (void)back_propagated(layer_of(true), all, tokens().narrow(0, 1, 2).clone().requires_grad_(), 1, {});
  EXPECT_FALSE(all.up[0].grad().defined());
  EXPECT_TRUE(all.up[1].grad().defined());
  EXPECT_FALSE(all.down[3].grad().defined());
}

class SpreadMixture : public testing::TestWithParam<int> {};

// Each rank has equally many tokens and experts. Its gradients of experts are those of all tokens.
TEST_P(SpreadMixture, IsTheOneOfOneRank) {
  const Expected& expected = kNormalized;
  const int ranks = GetParam();
  const std::int64_t own = 4 / ranks;
  std::vector<at::Tensor> routers(static_cast<std::size_t>(ranks));
  comm::run_ranks(ranks, [&](comm::Communicator& world) {
    const std::int64_t first = world.rank() * own;
    MixtureWeights all = weights();
    for (std::int64_t expert = 0; expert < 4; ++expert)
      if (expert / own != world.rank())
        all.up[static_cast<std::size_t>(expert)] = all.down[static_cast<std::size_t>(expert)] = at::Tensor();
    const at::Tensor x = tokens().narrow(0, first, own).clone().requires_grad_();
    const at::Tensor output = back_propagated(layer_of(true), all, x, first, TensorGroup{&world});
    const auto part = [&](const Numbers& of_all) {
      return Numbers(of_all.begin() + 2 * first, of_all.begin() + 2 * (first + own));
    };
    expect_near(output, part(expected.output), "output");
    expect_near(x.grad(), part(expected.x), "gradient of the tokens");
    for (std::int64_t expert = first; expert < first + own; ++expert) {
      expect_near(all.up[static_cast<std::size_t>(expert)].grad(), expected.up[static_cast<std::size_t>(expert)], "up");
      expect_near(all.down[static_cast<std::size_t>(expert)].grad(), expected.down[static_cast<std::size_t>(expert)],
                  "down");
    }
    routers[static_cast<std::size_t>(world.rank())] = all.router.grad();
  });
  at::Tensor sum = at::zeros({4, 2}, at::kDouble);
  for (const at::Tensor& one : routers) sum = sum.add(one);
  expect_near(sum, expected.router, "gradient of the router, over all ranks");
}

INSTANTIATE_TEST_SUITE_P(Ranks, SpreadMixture, testing::Values(1, 2, 4));

}  // namespace
}  // namespace plumbline::training
