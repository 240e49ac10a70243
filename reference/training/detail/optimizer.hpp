// reference/training/detail/optimizer.hpp: SGD and Adam as torch.optim defines them.
//
// Source  torch.optim.SGD (momentum buffer starts as the first gradient, dampening 0, weight decay coupled)
//         and torch.optim.Adam (bias corrections on step size and denominator, eps outside the root). The
//         operations are the same in the same order, so the bits are, too.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/record/run_spec.hpp"

namespace plumbline::training {

class OptimizerState {
 public:
  /// Of one parameter; undefined before the first step, and where the rule has none.
  struct Moments {
    at::Tensor first;   // SGD: the momentum buffer
    at::Tensor second;  // Adam: of the squares
  };

  OptimizerState(const job::Optimizer& optimizer, std::size_t parameters);

  /// Weight decay leaves out the i-th parameter from now on.
  void exempt_from_decay(std::size_t i) { decays_[i] = false; }

  /// Changes `values` by one step, those without a gradient aside; the gradients stay as they are.
  void step(std::span<at::Tensor> values, std::span<const at::Tensor> gradients);

  /// The rate of the steps from now on.
  void set_learning_rate(double rate);

  // What a run that is continued needs.
  [[nodiscard]] int steps() const { return steps_; }
  [[nodiscard]] const std::vector<Moments>& moments() const { return moments_; }
  /// Throws InvalidArgument for moments of another number of parameters.
  void restore(int steps, std::vector<Moments> moments);

 private:
  void step_one(const job::Sgd& sgd, bool decays, at::Tensor& value, at::Tensor gradient, Moments& moments) const;
  void step_one(const job::Adam& adam, bool decays, at::Tensor& value, const at::Tensor& gradient,
                Moments& moments) const;

  job::Optimizer optimizer_;
  std::vector<bool> decays_;
  std::vector<Moments> moments_;
  int steps_ = 0;
};

}  // namespace plumbline::training
