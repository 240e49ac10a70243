// reference/slowmo/outer_rule.hpp: outer optimizers as points of one rule.
//
// Model   Workers go from a common x for some steps and come to a mean x'. With s the fast learning rate, or 1:
//           d = gradient (x - x') / s
//           m = momentum m + d
//           x = x - learning_rate s m,  or with Nesterov  x - learning_rate s (d + momentum m)
//         SlowMo      momentum beta, learning rate alpha, by the fast rate
//         BMUF        momentum eta, gradient zeta: block momentum of the differences themselves
//         Lookahead   learning rate alpha; its paper has one worker
//         LocalSGD    x = x'
//         DiLoCo      Nesterov, momentum 0.9, learning rate 0.7
//         With a fast rate that stays the same SlowMo is BMUF with eta = beta, zeta = alpha; where it changes they differ.
// Sources Wang et al., SlowMo (ICLR 2020); Chen and Huo, BMUF (ICASSP 2016); Zhang et al., Lookahead (NeurIPS 2019); Douillard
//         et al., DiLoCo (2023).
#pragma once

namespace plumbline::slowmo {

struct OuterRule {
  double momentum = 0;
  double learning_rate = 1;
  double gradient = 1;
  bool nesterov = false;
  bool by_fast_rate = false;
  /// Whether x becomes the mean, whatever came before.
  [[nodiscard]] bool is_mean() const { return momentum == 0 && learning_rate * gradient == 1; }
  friend bool operator==(const OuterRule&, const OuterRule&) = default;
};

[[nodiscard]] inline OuterRule slowmo_rule(double beta, double alpha) {
  return {.momentum = beta, .learning_rate = alpha, .by_fast_rate = true};
}
[[nodiscard]] inline OuterRule bmuf_rule(double block_momentum, double block_learning_rate) {
  return {.momentum = block_momentum, .gradient = block_learning_rate};
}
[[nodiscard]] inline OuterRule lookahead_rule(double alpha) { return {.learning_rate = alpha}; }
[[nodiscard]] inline OuterRule local_sgd_rule() { return {}; }
[[nodiscard]] inline OuterRule diloco_rule(double learning_rate = 0.7, double momentum = 0.9) {
  return {.momentum = momentum, .learning_rate = learning_rate, .nesterov = true};
}

}  // namespace plumbline::slowmo
