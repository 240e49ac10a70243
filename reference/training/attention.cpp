#include "reference/training/detail/attention.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

namespace plumbline::training {

at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const std::int64_t length = query.size(-2);
  const at::Tensor hidden =
      at::full({length, length}, -std::numeric_limits<double>::infinity(), query.options()).triu(1);
  const double scale = 1 / std::sqrt(static_cast<double>(query.size(-1)));
  const at::Tensor scores = at::matmul(query, key.transpose(-2, -1)).mul(scale).add(hidden);
  return at::matmul(at::softmax(scores, -1), value);
}

at::Tensor attention_of_heads(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t rows = x.size(0), tokens = x.size(1), per_head = x.size(2) / heads / 3;
  const at::Tensor all = x.reshape({rows, tokens, heads, 3, per_head}).permute({3, 0, 2, 1, 4});
  return causal_attention(all[0], all[1], all[2]).transpose(1, 2).reshape({rows, tokens, heads * per_head});
}

}  // namespace plumbline::training
