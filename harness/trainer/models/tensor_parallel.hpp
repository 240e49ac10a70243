// harness/trainer/models/tensor_parallel.hpp: the products of a model, cut over the ranks of a tensor group.
//
// Model   A part of a parameter starts with the values that the whole one would have there, so that a model is the same
//         however it is part. A rank keeps its part alone.
// Source  Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3: a perceptron is a column-parallel product, an
//         activation, a row-parallel product; attention the same, its heads dealt out.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/trainer/models/layers.hpp"
#include "reference/training/tensor/layers.hpp"

namespace plumbline::training {

/// Some of the middle dimension of a row-major tensor [outer, count, inner].
struct ParameterPart {
  std::int64_t outer = 1, count = 0, inner = 1;
  Extent own{};
};
/// Copies from or to the places of a whole tensor that a part has.
void take_part(std::span<const float> whole, const ParameterPart& place, std::span<float> part);
void put_part(std::span<const float> part, const ParameterPart& place, std::span<float> whole);

/// Which part of which parameter a rank has; whole ones are not in it.
using ParameterParts = std::map<std::string, ParameterPart>;

/// Makes the products of a part of a model: cut over a group, or whole where there is none.
class Products {
 public:
  Products(StageTensors& tensors, const TensorGroup* group, Initial bias = constant(0))
      : tensors_(tensors), group_(group), bias_(std::move(bias)) {}

  /// [..., in] to [..., out], the outputs part. `units` of them stay together: the outputs are `blocks` rows of out /
  /// blocks, of each of which a rank has its extent of units. Weights are normal.
  Layer column(const std::string& name, std::int64_t in, std::int64_t out, double deviation, std::int64_t blocks = 1,
               std::int64_t unit = 1);
  /// [..., in], cut, to whole [..., out].
  Layer row(const std::string& name, std::int64_t in, std::int64_t out, double deviation, std::int64_t unit = 1);

  [[nodiscard]] StageTensors& tensors() const { return tensors_; }
  /// How many of `count` things this rank has.
  [[nodiscard]] std::int64_t share_of(std::int64_t count) const { return extent(count).size; }
  [[nodiscard]] const ParameterParts& parts() const { return parts_; }

 private:
  [[nodiscard]] Extent extent(std::int64_t count) const;
  at::Tensor part(const std::string& name, const ParameterPart& place, const std::vector<std::int64_t>& shape,
                  const Initial& initial);

  StageTensors& tensors_;
  const TensorGroup* group_;
  Initial bias_;
  ParameterParts parts_;
};

/// x to narrow(gelu(widen(x))): [..., width] to [..., width].
[[nodiscard]] Layer perceptron_of(Products& products, const std::string& name, std::int64_t width, std::int64_t hidden,
                                  double deviation, double deviation_of_output);

}  // namespace plumbline::training
