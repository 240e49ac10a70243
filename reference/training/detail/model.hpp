// reference/training/detail/model.hpp: the layers and losses of a specification as functions of explicit parameters.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/record/layout.hpp"
#include "reference/training/detail/activations.hpp"
#include "reference/training/detail/mixture.hpp"
#include "reference/training/pipeline/stage.hpp"
#include "reference/training/tensor/layers.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

/// The layers of a specification over given parameters, which it shares with the caller.
class Model {
 public:
  /// `parameters`: in the order of job::parameters_of(spec), all of one type and device. Those of layers that are not
  /// run may be undefined. With a tensor group, this rank's parts of them, as shard_of() cuts them; with an expert
  /// group, experts of other ranks are undefined.
  Model(const job::RunSpec& spec, std::span<const at::Tensor> parameters, std::optional<TensorGroup> group = {},
        std::optional<TensorGroup> expert_group = {});

  /// [rows, …] to [rows, …]. Batch normalisation uses the statistics of these rows.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const;
  /// By layer: those that later layers add.
  using Outputs = std::map<int, at::Tensor>;
  /// The same of layers first .. end-1 alone, given the output of the one before them, and others that they add.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x, int first, int end, const Pass& pass,
                                   Outputs outputs = {}) const;
  /// From now on `observer` is told of each layer's output; an empty one is not.
  void observe(LayerObserver observer) { observer_ = std::move(observer); }
  /// The mean loss over the rows, a scalar; with weights, as loss_of().
  [[nodiscard]] at::Tensor loss(const at::Tensor& x, const at::Tensor& y, const at::Tensor& w = {}) const;

 private:
  struct Step;
  struct Parameters {
    at::Tensor weight;
    at::Tensor bias;         // undefined where the layer has none
    MixtureWeights mixture;  // of a layer of experts
  };
  [[nodiscard]] const at::Tensor& shared_weight(const job::TiedLinear& layer) const;

  const job::RunSpec& spec_;
  std::optional<TensorGroup> group_, expert_group_;
  std::vector<LinearForm> forms_;  // by layer, and
  std::vector<Parameters> tensors_;
  std::set<int> added_;  // layers whose outputs later ones add
  LayerObserver observer_;
};

/// The specification's mean loss of outputs over their rows, a scalar; of outputs in 16 bits in float32. With weights
/// of the rows `w`, the sum of their products with the losses of the rows.
[[nodiscard]] at::Tensor loss_of(const job::RunSpec& spec, const at::Tensor& output, const at::Tensor& y,
                                 const at::Tensor& w = {});
/// The rows of a data set as the model takes them: whole numbers before an embedding. Throws InvalidArgument where the
/// numbers of rows, values and labels do not fit each other.
[[nodiscard]] at::Tensor tensor_of(const job::RunSpec& spec, const LabelledRows& rows);
/// The share of the labels of the rows at which the largest of the outputs is.
[[nodiscard]] double share_of_right(const at::Tensor& outputs, const LabelledRows& rows);
/// The divisor of a micro-batch's loss: a step's gradient is the mean of its micro-batches'.
[[nodiscard]] double micro_batches_of_a_step(const job::RunSpec& spec);

}  // namespace plumbline::training
