// harness/trainer/models/layers.hpp: the layers of which the models are made, as functions of explicit parameters.
//
// Model   A layer takes its parameters from a stage's tensors under a name and returns a function of its input, which
//         keeps them. Linear and convolution layers and embeddings leave their weight gradients behind where the pass
//         defers them (pipeline/deferred.hpp); normalisations have few and compute them at once.
// Names   Those that torch.nn would give: "<name>.weight", "<name>.bias", "<name>.running_mean".
// Source  torch.nn, at its default settings unless said otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/trainer/models/tensor_store.hpp"
#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

using Layer = std::function<at::Tensor(const at::Tensor& x, const Pass& pass)>;

/// Weights uniform within 1/sqrt(in), the bias too.
[[nodiscard]] Layer linear_layer(StageTensors& tensors, const std::string& name, std::int64_t in, std::int64_t out);

struct Convolution {
  std::int64_t in = 0, out = 0, kernel = 1;
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};
/// Without bias. Weights normal with variance 2 / (out x kernel x kernel): He et al., arXiv:1502.01852, in its form
/// that keeps the variance of gradients.
[[nodiscard]] Layer convolution_layer(StageTensors& tensors, const std::string& name, const Convolution& settings);

/// A normalisation of so many channels whose scale starts at `scale`, its shift at 0.
using NormLayer =
    std::function<Layer(StageTensors& tensors, const std::string& name, std::int64_t channels, float scale)>;
/// Statistics of the rows that are given, while training; they are averaged into running ones with momentum 0.1, which
/// an evaluation uses. The layer throws InvalidArgument, while training, for one value a channel.
[[nodiscard]] Layer batch_norm_layer(StageTensors& tensors, const std::string& name, std::int64_t channels,
                                     float scale);
/// Statistics of so many groups of channels of each row. Throws InvalidArgument, when a layer is made, where the groups
/// do not divide its channels.
[[nodiscard]] NormLayer group_norm(std::int64_t groups);
/// Over the last dimension.
[[nodiscard]] Layer layer_norm_layer(StageTensors& tensors, const std::string& name, std::int64_t features);

[[nodiscard]] at::Tensor relu(const at::Tensor& x, const Pass& pass);
/// One after the other.
[[nodiscard]] Layer sequence(std::vector<Layer> layers);

}  // namespace plumbline::training
