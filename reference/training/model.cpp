#include "reference/training/model.hpp"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

namespace plumbline::training {

// What each kind of layer does, with torch.nn's default settings.
struct Model::Step {
  const Model& model;
  const Tensors& own;
  const at::Tensor& x;

  static constexpr double kEps = 1e-5;

  at::Tensor operator()(const job::Linear&) const { return at::linear(x, own.weight, own.bias); }
  at::Tensor operator()(const job::Relu&) const { return at::relu(x); }
  at::Tensor operator()(const job::Gelu&) const { return at::gelu(x); }
  at::Tensor operator()(const job::Tanh&) const { return at::tanh(x); }
  at::Tensor operator()(const job::Flatten&) const { return at::flatten(x, 1); }
  at::Tensor operator()(const job::Conv2d& layer) const {
    return at::conv2d(x, own.weight, own.bias, layer.stride, layer.padding);
  }
  at::Tensor operator()(const job::BatchNorm2d&) const {
    constexpr double momentum = 0.1;  // of the running statistics, which nobody keeps
    return at::batch_norm(x, own.weight, own.bias, {}, {}, true, momentum, kEps, true);
  }
  at::Tensor operator()(const job::LayerNorm& layer) const {
    return at::layer_norm(x, layer.features, own.weight, own.bias, kEps);
  }
  at::Tensor operator()(const job::Embedding&) const { return at::embedding(own.weight, x); }
  at::Tensor operator()(const job::TiedLinear& layer) const {
    return at::linear(x, model.tensors_[static_cast<std::size_t>(layer.with)].weight);
  }
};

Model::Model(const job::RunSpec& spec, std::span<const at::Tensor> parameters)
    : spec_(spec), tensors_(spec.layers.size()) {
  const std::vector<job::Parameter> list = job::parameters_of(spec);
  for (std::size_t i = 0; i < list.size(); ++i) {
    Tensors& layer = tensors_[static_cast<std::size_t>(list[i].layer)];
    (list[i].name.ends_with(".bias") ? layer.bias : layer.weight) = parameters[i];
  }
}

at::Tensor Model::forward(const at::Tensor& x) const {
  at::Tensor value = x;
  for (std::size_t i = 0; i < spec_.layers.size(); ++i)
    value = std::visit(Step{*this, tensors_[i], value}, spec_.layers[i]);
  return value;
}

at::Tensor Model::loss(const at::Tensor& x, const at::Tensor& y) const {
  const at::Tensor output = forward(x);
  return spec_.loss == job::Loss::mse ? at::mse_loss(output, y) : at::cross_entropy_loss(output, y);
}

}  // namespace plumbline::training
