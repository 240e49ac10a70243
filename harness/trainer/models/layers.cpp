#include "harness/trainer/models/layers.hpp"

#include <cmath>

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/relu.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {
namespace {

constexpr double kEps = 1e-5;

}  // namespace

Layer linear_layer(StageTensors& tensors, const std::string& name, std::int64_t in, std::int64_t out) {
  const Initial initial = uniform(1 / std::sqrt(static_cast<double>(in)));
  const at::Tensor weight = tensors.parameter(name + ".weight", {out, in}, initial);
  const at::Tensor bias = tensors.parameter(name + ".bias", {out}, initial);
  return [=](const at::Tensor& x, const Pass& pass) { return linear(x, weight, bias, pass); };
}

Layer convolution_layer(StageTensors& tensors, const std::string& name, const Convolution& settings) {
  const auto fan_out = static_cast<double>(settings.out * settings.kernel * settings.kernel);
  const at::Tensor weight = tensors.parameter(
      name + ".weight", {settings.out, settings.in / settings.groups, settings.kernel, settings.kernel},
      normal(std::sqrt(2 / fan_out)));
  return [=](const at::Tensor& x, const Pass& pass) {
    return conv2d(x, weight, {}, settings.stride, settings.padding, settings.dilation, settings.groups, pass);
  };
}

Layer batch_norm_layer(StageTensors& tensors, const std::string& name, std::int64_t channels, float scale) {
  constexpr double momentum = 0.1;
  const at::Tensor weight = tensors.parameter(name + ".weight", {channels}, constant(scale));
  const at::Tensor bias = tensors.parameter(name + ".bias", {channels}, constant(0));
  const at::Tensor mean = tensors.buffer(name + ".running_mean", {channels}, 0);
  const at::Tensor variance = tensors.buffer(name + ".running_var", {channels}, 1);
  return [=](const at::Tensor& x, const Pass& pass) {
    // The running variance is that of a sample, which one value does not have.
    if (pass.training && x.numel() == channels)
      throw InvalidArgument(
          fmt::format("'{}': one value a channel, of shape [{}]; a batch normalisation needs two, so "
                      "more rows in a micro-batch",
                      name, fmt::join(x.sizes(), ", ")));
    return at::batch_norm(x, weight, bias, mean, variance, pass.training, momentum, kEps, true);
  };
}

NormLayer group_norm(std::int64_t groups) {
  return [groups](StageTensors& tensors, const std::string& name, std::int64_t channels, float scale) -> Layer {
    if (groups < 1 || channels % groups != 0)
      throw InvalidArgument(
          fmt::format("'{}': {} groups of {} channels; the groups must divide them", name, groups, channels));
    const at::Tensor weight = tensors.parameter(name + ".weight", {channels}, constant(scale));
    const at::Tensor bias = tensors.parameter(name + ".bias", {channels}, constant(0));
    return [=](const at::Tensor& x, const Pass&) { return at::group_norm(x, groups, weight, bias, kEps); };
  };
}

Layer layer_norm_layer(StageTensors& tensors, const std::string& name, std::int64_t features) {
  const at::Tensor weight = tensors.parameter(name + ".weight", {features}, constant(1));
  const at::Tensor bias = tensors.parameter(name + ".bias", {features}, constant(0));
  return [=](const at::Tensor& x, const Pass&) { return at::layer_norm(x, features, weight, bias, kEps); };
}

at::Tensor relu(const at::Tensor& x, const Pass&) { return at::relu(x); }

Layer sequence(std::vector<Layer> layers) {
  return [layers = std::move(layers)](const at::Tensor& x, const Pass& pass) {
    at::Tensor value = x;
    for (const Layer& layer : layers) value = layer(value, pass);
    return value;
  };
}

}  // namespace plumbline::training
