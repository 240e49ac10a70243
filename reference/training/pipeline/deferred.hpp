// reference/training/pipeline/deferred.hpp: layers whose weight gradients can wait.
//
// Model   Where Pass::deferred is null these are the plain functions. Else their backward pass computes the gradient of
//         the input alone, and leaves in Pass::deferred what computes those of weight and bias and adds them to the
//         leaves' grad, as a backward pass adds its own. The matrix products of the two are those of one backward pass,
//         and so are the bits.
// Memory  A deferred computation keeps the layer's input and the gradient of its output, and gives them up when it is
//         computed.
// Source  Qi et al., arXiv:2401.10241, section 2.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

/// x [..., in], weight [out, in], bias [out] or undefined: [..., out].
[[nodiscard]] at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                const Pass& pass);

/// x [rows, in, height, width], weight [out, in / groups, kernel, kernel], bias [out] or undefined. Stride, padding and
/// dilation are the same in both directions.
[[nodiscard]] at::Tensor conv2d(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                                std::int64_t stride, std::int64_t padding, std::int64_t dilation, std::int64_t groups,
                                const Pass& pass);

/// The rows of weight [rows, features] that `indices` name.
[[nodiscard]] at::Tensor embedding(const at::Tensor& indices, const at::Tensor& weight, const Pass& pass);

}  // namespace plumbline::training
