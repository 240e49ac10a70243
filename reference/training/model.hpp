// reference/training/model.hpp: the layers and losses of a specification as functions of explicit parameters.
#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "reference/record/layout.hpp"

namespace plumbline::training {

/// The layers of a specification over given parameters, which it shares with the caller.
class Model {
 public:
  /// `parameters`: in the order of job::parameters_of(spec), all of one type and device.
  Model(const job::RunSpec& spec, std::span<const at::Tensor> parameters);

  /// [rows, …] to [rows, …]. Batch normalisation uses the statistics of these rows.
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const;
  /// The mean loss over the rows, a scalar.
  [[nodiscard]] at::Tensor loss(const at::Tensor& x, const at::Tensor& y) const;

 private:
  struct Step;
  struct Tensors {
    at::Tensor weight;
    at::Tensor bias;  // undefined where the layer has none
  };
  const job::RunSpec& spec_;
  std::vector<Tensors> tensors_;  // by layer
};

}  // namespace plumbline::training
