// Small stages, and the same on one device.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

class RandomTensors {
 public:
  explicit RandomTensors(std::uint64_t seed) : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}
  at::Tensor normal(const std::vector<std::int64_t>& shape) {
    return at::randn(shape, generator_, at::TensorOptions(at::kFloat));
  }
  at::Tensor below(std::int64_t bound, const std::vector<std::int64_t>& shape) {
    return at::randint(bound, shape, generator_, at::TensorOptions(at::kLong));
  }

 private:
  at::Generator generator_;
};

/// A function of inputs and its parameters.
class ToyStage final : public Stage {
 public:
  using Function = std::function<Tensors(const Tensors& inputs, const Tensors& parameters, const Pass& pass)>;
  ToyStage(int number, Tensors parameters, Function function)
      : number_(number), parameters_(std::move(parameters)), function_(std::move(function)) {
    for (at::Tensor& parameter : parameters_) parameter = parameter.detach().clone().requires_grad_();
  }
  Tensors forward(const Tensors& inputs, const Pass& pass) override { return function_(inputs, parameters_, pass); }
  std::vector<NamedTensor> parameters() const override {
    std::vector<NamedTensor> named;
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      named.push_back({std::to_string(number_) + "." + std::to_string(i), parameters_[i]});
    return named;
  }

 private:
  int number_;
  Tensors parameters_;
  Function function_;
};

}  // namespace plumbline::training
