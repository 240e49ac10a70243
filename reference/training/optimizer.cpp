#include "reference/training/detail/optimizer.hpp"

#include <cmath>

#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {

OptimizerState::OptimizerState(const job::Optimizer& optimizer, std::size_t parameters)
    : optimizer_(optimizer), decays_(parameters, true), moments_(parameters) {}

void OptimizerState::step(std::span<at::Tensor> values, std::span<const at::Tensor> gradients) {
  ++steps_;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (gradients[i].defined())
      std::visit([&](const auto& rule) { step_one(rule, decays_[i], values[i], gradients[i], moments_[i]); },
                 optimizer_);
}

void OptimizerState::set_learning_rate(double rate) {
  std::visit([&](auto& rule) { rule.lr = rate; }, optimizer_);
}

void OptimizerState::restore(int steps, std::vector<Moments> moments) {
  if (moments.size() != moments_.size())
    throw InvalidArgument(
        fmt::format("moments of {} parameters; the optimizer has {}", moments.size(), moments_.size()));
  steps_ = steps;
  moments_ = std::move(moments);
}

void OptimizerState::step_one(const job::Sgd& sgd, bool decays, at::Tensor& value, at::Tensor gradient,
                              Moments& moments) const {
  if (decays && sgd.weight_decay != 0) gradient = gradient.add(value, sgd.weight_decay);
  if (sgd.momentum != 0) {
    if (moments.first.defined())
      moments.first.mul_(sgd.momentum).add_(gradient);
    else
      moments.first = gradient.clone();
    gradient = sgd.nesterov ? gradient.add(moments.first, sgd.momentum) : moments.first;
  }
  value.add_(gradient, -sgd.lr);
}

void OptimizerState::step_one(const job::Adam& adam, bool /*decays*/, at::Tensor& value, const at::Tensor& gradient,
                              Moments& moments) const {
  if (!moments.first.defined()) {
    moments.first = at::zeros_like(value);
    moments.second = at::zeros_like(value);
  }
  const auto [beta1, beta2] = adam.betas;
  moments.first.lerp_(gradient, 1 - beta1);
  moments.second.mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
  const double correction1 = 1 - std::pow(beta1, steps_);
  const double correction2 = 1 - std::pow(beta2, steps_);
  const at::Tensor denominator = moments.second.sqrt().div(std::sqrt(correction2)).add_(adam.eps);
  value.addcdiv_(moments.first, denominator, -(adam.lr / correction1));
}

}  // namespace plumbline::training
