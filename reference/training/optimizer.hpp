// reference/training/optimizer.hpp: SGD and Adam as torch.optim defines them.
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
  OptimizerState(const job::Optimizer& optimizer, std::size_t parameters);

  /// Changes `values` by one step; the gradients stay as they are.
  void step(std::span<at::Tensor> values, std::span<const at::Tensor> gradients);

 private:
  struct Moments {
    at::Tensor first;   // SGD: the momentum buffer
    at::Tensor second;  // Adam: of the squares
  };
  void step_one(const job::Sgd& sgd, at::Tensor& value, at::Tensor gradient, Moments& moments) const;
  void step_one(const job::Adam& adam, at::Tensor& value, const at::Tensor& gradient, Moments& moments) const;

  job::Optimizer optimizer_;
  std::vector<Moments> moments_;
  int steps_ = 0;
};

}  // namespace plumbline::training
