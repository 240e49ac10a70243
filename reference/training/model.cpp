#include "reference/training/detail/model.hpp"

#include <algorithm>

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/attention.hpp"
#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {

// What each kind of layer does, with torch.nn's default settings.
struct Model::Step {
  const Model& model;
  LinearForm form;
  const Parameters& own;
  const at::Tensor& x;
  const Pass& pass;
  const Outputs& outputs;  // of earlier layers that are added

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
  at::Tensor operator()(const job::TiedLinear& layer) const { return linear(x, model.shared_weight(layer), {}, pass); }
  at::Tensor operator()(const job::Attention& layer) const {
    if (form == LinearForm::whole) return attention_of_heads(x, layer.heads);
    return attention_of_heads(x, extent_of(layer.heads, model.group_->size(), model.group_->rank()).size);
  }
  at::Tensor operator()(const job::Add& layer) const { return x.add(outputs.at(layer.with)); }
  at::Tensor operator()(const job::Moe& layer) const {
    return mixture_of(layer, own.mixture, x, model.expert_group_, pass);
  }
};

Model::Model(const job::RunSpec& spec, std::span<const at::Tensor> parameters, std::optional<TensorGroup> group,
             std::optional<TensorGroup> expert_group)
    : spec_(spec),
      group_(group),
      expert_group_(expert_group),
      forms_(group ? linear_forms(spec) : std::vector(spec.layers.size(), LinearForm::whole)),
      tensors_(spec.layers.size()) {
  const std::vector<job::Parameter> list = job::parameters_of(spec);
  for (std::size_t i = 0; i < list.size(); ++i) {
    Parameters& layer = tensors_[static_cast<std::size_t>(list[i].layer)];
    if (list[i].expert < 0) {
      (list[i].name.ends_with(".bias") ? layer.bias : layer.weight) = parameters[i];
      continue;
    }
    layer.mixture.router = layer.weight;  // which comes before the experts'
    const bool is_up = list[i].name.find(".up.") != std::string::npos;
    (is_up ? layer.mixture.up : layer.mixture.down).push_back(parameters[i]);
  }
  for (const job::Layer& layer : spec.layers)
    if (const auto* add = std::get_if<job::Add>(&layer)) added_.insert(add->with);
}

const at::Tensor& Model::shared_weight(const job::TiedLinear& layer) const {
  return tensors_[static_cast<std::size_t>(layer.with)].weight;
}

at::Tensor Model::forward(const at::Tensor& x) const { return forward(x, 0, static_cast<int>(tensors_.size()), {}); }

at::Tensor Model::forward(const at::Tensor& x, int first, int end, const Pass& pass, Outputs outputs) const {
  at::Tensor value = x;
  if (added_.contains(first - 1)) outputs[first - 1] = x;
  for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
    value = std::visit(Step{*this, forms_[i], tensors_[i], value, pass, outputs}, spec_.layers[i]);
    if (added_.contains(static_cast<int>(i))) outputs[static_cast<int>(i)] = value;
    if (observer_) observer_(static_cast<int>(i), value);
  }
  return value;
}

at::Tensor Model::loss(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w) const {
  return loss_of(spec_, forward(x), y, w);
}

namespace {

// Classes are the last dimension, and may be of each token of a row.
at::Tensor cross_entropy(const at::Tensor& output, const at::Tensor& y, at::Reduction::Reduction reduction) {
  const bool has_tokens = output.dim() > 2;
  return at::cross_entropy_loss(has_tokens ? output.flatten(0, 1) : output, has_tokens ? y.flatten() : y, {},
                                reduction);
}

at::Tensor losses_of_rows(const job::RunSpec& spec, const at::Tensor& output, const at::Tensor& y) {
  if (spec.loss == job::Loss::mse) return at::mse_loss(output, y, at::Reduction::None).flatten(1).mean(1);
  return cross_entropy(output, y, at::Reduction::None).view({output.size(0), -1}).mean(1);
}

}  // namespace

at::Tensor loss_of(const job::RunSpec& spec, const at::Tensor& output, const at::Tensor& y, const at::Tensor& w) {
  const bool is_narrow = output.scalar_type() == at::kHalf || output.scalar_type() == at::kBFloat16;
  const at::Tensor wide = is_narrow ? output.to(at::kFloat) : output;
  if (!w.defined())
    return spec.loss == job::Loss::mse ? at::mse_loss(wide, y) : cross_entropy(wide, y, at::Reduction::Mean);
  const at::Tensor losses = losses_of_rows(spec, wide, y);
  return losses.mul(w.to(losses.options())).sum();
}

at::Tensor tensor_of(const job::RunSpec& spec, const LabelledRows& rows) {
  const std::int64_t a_row = job::elements_of(rows.row);
  const auto values = static_cast<std::int64_t>(rows.x.size()), labels = static_cast<std::int64_t>(rows.labels.size());
  const job::Shape output = job::output_shape(spec, rows.row);
  if (output.empty() || output.size() > 2)
    throw InvalidArgument(
        fmt::format("the model makes {} of a row; accuracy needs one number a class, of the row or of "
                    "each of its tokens",
                    job::text_of(output)));
  const std::int64_t labels_of_a_row = output.size() == 2 ? output[0] : 1;
  if (labels == 0 || labels % labels_of_a_row != 0 || values * labels_of_a_row != labels * a_row)
    throw InvalidArgument(
        fmt::format("{} values and {} labels for rows of shape {}", values, labels, job::text_of(rows.row)));
  job::Shape shape{labels / labels_of_a_row};
  shape.insert(shape.end(), rows.row.begin(), rows.row.end());
  const at::Tensor tensor = at::empty(shape, at::kFloat);
  std::copy(rows.x.begin(), rows.x.end(), tensor.data_ptr<float>());
  return std::holds_alternative<job::Embedding>(spec.layers.front()) ? tensor.to(at::kLong) : tensor;
}

double share_of_right(const at::Tensor& outputs, const LabelledRows& rows) {
  const at::Tensor found = outputs.argmax(-1).flatten().cpu();
  const std::span seen(found.const_data_ptr<std::int64_t>(), rows.labels.size());
  std::int64_t right = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) right += seen[i] == rows.labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(seen.size());
}

double micro_batches_of_a_step(const job::RunSpec& spec) {
  return static_cast<double>(spec.run.micro_batches) * spec.run.accumulation;
}

}  // namespace plumbline::training
