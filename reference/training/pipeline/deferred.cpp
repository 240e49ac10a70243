#include "reference/training/pipeline/deferred.hpp"

#include <optional>
#include <unordered_map>
#include <utility>

#include <ATen/core/ivalue.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_backward.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace plumbline::training {
namespace {

struct WeightGradients {
  at::Tensor weight;
  at::Tensor bias;  // undefined for a layer without one
};

// A layer as the functions that a backward pass in two halves needs.
class SplitLayer : public torch::CustomClassHolder {
 public:
  explicit SplitLayer(DeferredGradients& deferred) : deferred_(deferred) {}
  [[nodiscard]] DeferredGradients& deferred() const { return deferred_; }

  [[nodiscard]] virtual at::Tensor forward(const at::Tensor& x, const at::Tensor& weight,
                                           const at::Tensor& bias) const = 0;
  [[nodiscard]] virtual at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                                                  const at::Tensor& weight) const = 0;
  [[nodiscard]] virtual WeightGradients weight_gradients(const at::Tensor& gradient, const at::Tensor& x,
                                                         const at::Tensor& weight, bool has_bias) const = 0;

 private:
  DeferredGradients& deferred_;
};
using SplitLayerPointer = c10::intrusive_ptr<SplitLayer>;

class SplitLinear final : public SplitLayer {
 public:
  using SplitLayer::SplitLayer;
  at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const override {
    return at::linear(x, weight, bias);
  }
  at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight) const override {
    return rows_of(gradient).mm(weight).view(x.sizes());
  }
  WeightGradients weight_gradients(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor&,
                                   bool has_bias) const override {
    const at::Tensor rows = rows_of(gradient);
    return {rows.t().mm(rows_of(x)), has_bias ? rows.sum(0) : at::Tensor()};
  }

 private:
  static at::Tensor rows_of(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }
};

class SplitConvolution final : public SplitLayer {
 public:
  SplitConvolution(DeferredGradients& deferred, std::int64_t stride, std::int64_t padding, std::int64_t dilation,
                   std::int64_t groups)
      : SplitLayer(deferred), stride_(stride), padding_(padding), dilation_(dilation), groups_(groups) {}
  at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const override {
    return at::conv2d(x, weight, bias, stride_, padding_, dilation_, groups_);
  }
  at::Tensor input_gradient(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight) const override {
    return std::get<0>(backward(gradient, x, weight, {true, false, false}));
  }
  WeightGradients weight_gradients(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight,
                                   bool has_bias) const override {
    const auto gradients = backward(gradient, x, weight, {false, true, has_bias});
    return {std::get<1>(gradients), std::get<2>(gradients)};
  }

 private:
  [[nodiscard]] std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& x,
                                                                        const at::Tensor& weight,
                                                                        std::array<bool, 3> wanted) const {
    return at::convolution_backward(gradient, x, weight, at::IntArrayRef{weight.size(0)}, {stride_, stride_},
                                    {padding_, padding_}, {dilation_, dilation_}, false, {0, 0}, groups_, wanted);
  }
  std::int64_t stride_, padding_, dilation_, groups_;
};

// Its input is indices, which have no gradient.
class SplitEmbedding final : public SplitLayer {
 public:
  using SplitLayer::SplitLayer;
  at::Tensor forward(const at::Tensor& x, const at::Tensor& weight, const at::Tensor&) const override {
    return at::embedding(weight, x);
  }
  at::Tensor input_gradient(const at::Tensor&, const at::Tensor&, const at::Tensor&) const override { return {}; }
  WeightGradients weight_gradients(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weight,
                                   bool) const override {
    constexpr std::int64_t no_padding = -1;
    return {at::embedding_backward(gradient, x, weight.size(0), no_padding, false, false), {}};
  }
};

bool wants_gradient(const at::Tensor& leaf) { return leaf.defined() && leaf.requires_grad(); }

// As a backward pass adds to a leaf: the first gradient is the sum so far, and lies in memory as the leaf does.
void add_to_grad(const at::Tensor& leaf, const at::Tensor& gradient) {
  at::Tensor& sum = leaf.mutable_grad();
  if (sum.defined())
    sum.add_(gradient);
  else
    sum = gradient.strides() == leaf.strides() ? gradient : at::empty_like(leaf).copy_(gradient).detach();
}

struct Split : torch::autograd::Function<Split> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const SplitLayerPointer& layer) {
    const at::Tensor shift = bias.value_or(at::Tensor());
    context->save_for_backward({x, weight, shift});
    context->saved_data["layer"] = c10::IValue::make_capsule(layer);
    return layer->forward(x, weight, shift);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto layer = c10::static_intrusive_pointer_cast<SplitLayer>(context->saved_data["layer"].toCapsule());
    const at::Tensor x = saved[0].detach(), gradient = gradients[0].detach();
    layer->deferred().add({saved[1], saved[2]},
                          [layer, gradient, x, weight = saved[1].detach(), has_bias = saved[2].defined()]() -> Tensors {
                            const WeightGradients found = layer->weight_gradients(gradient, x, weight, has_bias);
                            return {found.weight, found.bias};
                          });
    const bool goes_on = saved[0].requires_grad();
    return {goes_on ? layer->input_gradient(gradient, x, saved[1].detach()) : at::Tensor(), {}, {}, {}};
  }
};

template <class Layer, class... Settings>
at::Tensor split(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const Pass& pass,
                 Settings... settings) {
  const SplitLayerPointer layer = c10::make_intrusive<Layer>(*pass.deferred, settings...);
  return Split::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, layer);
}

}  // namespace

void DeferredGradients::compute() const {
  const c10::AutoGradMode without_gradients(false);
  struct Sum {
    int to_come = 0;
    at::Tensor sum;
  };
  std::unordered_map<const void*, Sum> sums;
  for (const Work& one : work_)
    for (const at::Tensor& leaf : one.leaves)
      if (wants_gradient(leaf)) ++sums[leaf.unsafeGetTensorImpl()].to_come;
  for (const Work& one : work_) {
    const Tensors gradients = one.compute();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!wants_gradient(one.leaves[i])) continue;
      Sum& sum = sums[one.leaves[i].unsafeGetTensorImpl()];
      sum.sum = sum.sum.defined() ? sum.sum.add(gradients[i]) : gradients[i];
      if (--sum.to_come == 0) add_to_grad(one.leaves[i], std::exchange(sum.sum, at::Tensor()));
    }
  }
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const Pass& pass) {
  return pass.deferred == nullptr ? at::linear(x, weight, bias) : split<SplitLinear>(x, weight, bias, pass);
}

at::Tensor conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t stride,
                  std::int64_t padding, std::int64_t dilation, std::int64_t groups, const Pass& pass) {
  if (pass.deferred == nullptr) return at::conv2d(x, weight, bias, stride, padding, dilation, groups);
  return split<SplitConvolution>(x, weight, bias, pass, stride, padding, dilation, groups);
}

at::Tensor embedding(const at::Tensor& indices, const at::Tensor& weight, const Pass& pass) {
  return pass.deferred == nullptr ? at::embedding(weight, indices)
                                  : split<SplitEmbedding>(indices, weight, at::Tensor(), pass);
}

}  // namespace plumbline::training
