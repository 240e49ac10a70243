#include "harness/trainer/models/transformer.hpp"

#include <cmath>
#include <string>

#include <ATen/ops/arange.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/attention.hpp"
#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {
namespace {

constexpr double kDeviation = 0.02;

void check_transformer(const Transformer& settings) {
  for (const auto& [name, value] :
       {std::pair{"tokens", settings.tokens}, std::pair{"length", settings.length}, std::pair{"width", settings.width},
        std::pair{"heads", settings.heads}, std::pair{"layers", std::int64_t{settings.layers}}})
    if (value < 1) throw InvalidArgument(fmt::format("{} = {}; it must be at least 1", name, value));
  if (settings.width % settings.heads != 0)
    throw InvalidArgument(fmt::format("heads = {}; it must divide the width, {}", settings.heads, settings.width));
}

at::Tensor token_weight(StageTensors& tensors, const Transformer& settings) {
  return tensors.parameter(kSharedEmbedding, {settings.tokens, settings.width}, normal(kDeviation));
}

Layer embeddings(StageTensors& tensors, const Transformer& settings) {
  const at::Tensor token = token_weight(tensors, settings);
  const at::Tensor place = tensors.parameter("place.weight", {settings.length, settings.width}, normal(kDeviation));
  return [=](const at::Tensor& x, const Pass& pass) {
    if (x.dim() != 2 || x.size(1) > settings.length)
      throw InvalidArgument(
          fmt::format("tokens of {} dimensions, {} a row; the model takes [rows, length] with at most {}", x.dim(),
                      x.dim() == 0 ? 0 : x.size(-1), settings.length));
    const at::Tensor places = at::arange(x.size(1), at::TensorOptions(at::kLong).device(x.device()));
    return embedding(x, token, pass).add(embedding(places, place, pass));
  };
}

// Of the products that are added to what came in.
double deviation_of_output(const Transformer& settings) { return kDeviation / std::sqrt(2.0 * settings.layers); }

Layer attention(Products& products, const std::string& name, const Transformer& settings) {
  const std::int64_t width = settings.width, per_head = width / settings.heads;
  const Layer inputs = products.column(name + ".qkv", width, 3 * width, kDeviation, 3, per_head);
  const Layer output = products.row(name + ".out", width, width, deviation_of_output(settings), per_head);
  const std::int64_t heads = products.share_of(settings.heads);
  return [=](const at::Tensor& x, const Pass& pass) {
    const std::int64_t rows = x.size(0), length = x.size(1);
    // [3, rows, heads, length, width / heads]
    const at::Tensor all = inputs(x, pass).view({rows, length, 3, heads, per_head}).permute({2, 0, 3, 1, 4});
    const at::Tensor seen = causal_attention(all[0], all[1], all[2]);
    return output(seen.transpose(1, 2).reshape({rows, length, heads * per_head}), pass);
  };
}

Layer head(StageTensors& tensors, const Transformer& settings) {
  const Layer norm = layer_norm_layer(tensors, "norm", settings.width);
  const at::Tensor token = token_weight(tensors, settings);
  return [=](const at::Tensor& x, const Pass& pass) { return linear(norm(x, pass), token, {}, pass).transpose(1, 2); };
}

}  // namespace

Layer transformer_block(Products& products, const std::string& name, const Transformer& settings) {
  const std::int64_t width = settings.width;
  const Layer norm1 = layer_norm_layer(products.tensors(), name + ".norm1", width);
  const Layer attend = attention(products, name + ".attention", settings);
  const Layer norm2 = layer_norm_layer(products.tensors(), name + ".norm2", width);
  const Layer perceive = perceptron_of(products, name, width, 4 * width, kDeviation, deviation_of_output(settings));
  return [=](const at::Tensor& x, const Pass& pass) {
    const at::Tensor attended = x.add(attend(norm1(x, pass), pass));
    return attended.add(perceive(norm2(attended, pass), pass));
  };
}

Blocks transformer(const Transformer& settings) {
  check_transformer(settings);
  Blocks blocks{{"embeddings", [=](StageTensors& tensors) { return embeddings(tensors, settings); }}};
  for (int i = 0; i < settings.layers; ++i)
    blocks.push_back({fmt::format("transformer block {}", i), [=](StageTensors& tensors) {
                        Products whole(tensors, nullptr);
                        return transformer_block(whole, fmt::format("block{}", i), settings);
                      }});
  blocks.push_back({"tied head", [=](StageTensors& tensors) { return head(tensors, settings); }});
  return blocks;
}

}  // namespace plumbline::training
