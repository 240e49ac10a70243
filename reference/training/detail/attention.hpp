// reference/training/detail/attention.hpp: attention in which a token sees itself and those before it.
#pragma once

#include <ATen/core/Tensor.h>

namespace plumbline::training {

/// softmax(query key^T / sqrt(features)) value of [..., tokens, features], over the tokens up to each one's own.
[[nodiscard]] at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

/// The same of the heads in x [rows, tokens, heads x 3 x features of one]: [rows, tokens, heads x features of one].
[[nodiscard]] at::Tensor attention_of_heads(const at::Tensor& x, std::int64_t heads);

}  // namespace plumbline::training
