// reference/training/models/functions.hpp: the functions whose weight gradients can wait, or the plain ones where there are
// none.
#pragma once

#if __has_include("reference/training/pipeline/deferred.hpp")
#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {
/// Whether Pass::deferred is heeded.
inline constexpr bool kDefersWeights = true;
}  // namespace plumbline::training
#else
#include <ATen/ops/conv2d.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>

#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

inline constexpr bool kDefersWeights = false;

inline at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const Pass&) {
  return at::linear(x, weight, bias);
}
inline at::Tensor conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, std::int64_t stride,
                         std::int64_t padding, std::int64_t dilation, std::int64_t groups, const Pass&) {
  return at::conv2d(x, weight, bias, stride, padding, dilation, groups);
}
inline at::Tensor embedding(const at::Tensor& indices, const at::Tensor& weight, const Pass&) {
  return at::embedding(weight, indices);
}

}  // namespace plumbline::training
#endif
