#include "reference/training/detail/model.hpp"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {

// What each kind of layer does, with torch.nn's default settings.
struct Model::Step {
  const Model& model;
  LinearForm form;
  const Parameters& own;
  const at::Tensor& x;
  const Pass& pass;

  static constexpr double kEps = 1e-5;

  at::Tensor operator()(const job::Linear& layer) const {
    switch (form) {
      case LinearForm::whole:
        break;
      case LinearForm::column:
        return column_linear(*model.group_, x, own.weight, own.bias, pass);
      case LinearForm::row:
        return row_linear(*model.group_, x, own.weight, own.bias, pass);
      case LinearForm::gathered:
        return gathered_from(*model.group_, column_linear(*model.group_, x, own.weight, own.bias, pass), layer.out);
    }
    return linear(x, own.weight, own.bias, pass);
  }
  at::Tensor operator()(const job::Relu&) const { return at::relu(x); }
  at::Tensor operator()(const job::Gelu&) const { return at::gelu(x); }
  at::Tensor operator()(const job::Tanh&) const { return at::tanh(x); }
  at::Tensor operator()(const job::Flatten&) const { return at::flatten(x, 1); }
  at::Tensor operator()(const job::Conv2d& layer) const {
    return conv2d(x, own.weight, own.bias, layer.stride, layer.padding, 1, 1, pass);
  }
  at::Tensor operator()(const job::BatchNorm2d&) const {
    constexpr double momentum = 0.1;  // of the running statistics, which nobody keeps
    return at::batch_norm(x, own.weight, own.bias, {}, {}, true, momentum, kEps, true);
  }
  at::Tensor operator()(const job::LayerNorm& layer) const {
    return at::layer_norm(x, layer.features, own.weight, own.bias, kEps);
  }
  at::Tensor operator()(const job::Embedding&) const { return embedding(x, own.weight, pass); }
  at::Tensor operator()(const job::TiedLinear& layer) const {
    return linear(x, model.tensors_[static_cast<std::size_t>(layer.with)].weight, {}, pass);
  }
};

Model::Model(const job::RunSpec& spec, std::span<const at::Tensor> parameters, std::optional<TensorGroup> group)
    : spec_(spec),
      group_(group),
      forms_(group ? linear_forms(spec) : std::vector(spec.layers.size(), LinearForm::whole)),
      tensors_(spec.layers.size()) {
  const std::vector<job::Parameter> list = job::parameters_of(spec);
  for (std::size_t i = 0; i < list.size(); ++i) {
    Parameters& layer = tensors_[static_cast<std::size_t>(list[i].layer)];
    (list[i].name.ends_with(".bias") ? layer.bias : layer.weight) = parameters[i];
  }
}

at::Tensor Model::forward(const at::Tensor& x) const { return forward(x, 0, static_cast<int>(tensors_.size()), {}); }

at::Tensor Model::forward(const at::Tensor& x, int first, int end, const Pass& pass) const {
  at::Tensor value = x;
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
    value = std::visit(Step{*this, forms_[i], tensors_[i], value, pass}, spec_.layers[i]);
    if (observer_) observer_(static_cast<int>(i), value);
  }
  return value;
}

at::Tensor Model::loss(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w) const {
  return loss_of(spec_, forward(x), y, w);
}

at::Tensor loss_of(const job::RunSpec& spec, const at::Tensor& output, const at::Tensor& y, const at::Tensor& w) {
  const bool is_narrow = output.scalar_type() == at::kHalf || output.scalar_type() == at::kBFloat16;
  const at::Tensor wide = is_narrow ? output.to(at::kFloat) : output;
  if (!w.defined()) return spec.loss == job::Loss::mse ? at::mse_loss(wide, y) : at::cross_entropy_loss(wide, y);
  const at::Tensor losses = spec.loss == job::Loss::mse ? at::mse_loss(wide, y, at::Reduction::None).flatten(1).mean(1)
                                                        : at::cross_entropy_loss(wide, y, {}, at::Reduction::None);
  return losses.mul(w.to(losses.options())).sum();
}

double micro_batches_of_a_step(const job::RunSpec& spec) {
  return static_cast<double>(spec.run.micro_batches) * spec.run.accumulation;
}

}  // namespace plumbline::training
