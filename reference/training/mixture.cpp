#include "reference/training/detail/mixture.hpp"

#include <cstdint>
#include <span>
#include <tuple>

#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros_like.h>

#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {
namespace {

// The tokens that chose an expert, ascending, and by what its outputs are multiplied.
struct Chosen {
  at::Tensor tokens;  // [count]
  at::Tensor gates;   // [count, 1]
};

// By expert.
std::vector<Chosen> routed(const job::Moe& layer, const at::Tensor& router, const at::Tensor& tokens,
                           const Pass& pass) {
  const at::Tensor probabilities = at::softmax(linear(tokens, router, {}, pass), -1);
  // Stable: of equal probabilities the first expert's comes first.
  const at::Tensor order = std::get<1>(at::sort(probabilities.detach(), true, -1, true));
  const at::Tensor chosen = order.narrow(-1, 0, layer.top_k);
  at::Tensor gates = probabilities.gather(-1, chosen);
  if (layer.normalize_gates) gates = gates.div(gates.sum(-1, true));
  std::vector<Chosen> list;
  for (std::int64_t expert = 0; expert < layer.experts; ++expert) {
    const at::Tensor places = at::nonzero(chosen.eq(expert));  // [count, 2]: token, which of its choices
    const at::Tensor of_token = places.select(1, 0), choice = places.select(1, 1);
    list.push_back({of_token, gates.index_select(0, of_token).gather(1, choice.unsqueeze(1))});
  }
  return list;
}

at::Tensor through_expert(const MixtureWeights& weights, std::size_t expert, const at::Tensor& tokens,
                          const Pass& pass) {
  return linear(at::gelu(linear(tokens, weights.up[expert], {}, pass)), weights.down[expert], {}, pass);
}

at::Tensor on_this_rank(const MixtureWeights& weights, const std::vector<Chosen>& chosen, const at::Tensor& tokens,
                        const Pass& pass) {
  at::Tensor sum = at::zeros_like(tokens);
  for (std::size_t expert = 0; expert < chosen.size(); ++expert) {
    if (chosen[expert].tokens.numel() == 0) continue;
    const at::Tensor made = through_expert(weights, expert, tokens.index_select(0, chosen[expert].tokens), pass);
    sum = sum.index_add(0, chosen[expert].tokens, made.mul(chosen[expert].gates));
  }
  return sum;
}

using Counts = std::vector<std::int64_t>;  // of tokens

Counts sums_of_parts(std::span<const std::int64_t> counts, std::size_t parts) {
  Counts sums(parts);
  for (std::size_t i = 0; i < counts.size(); ++i) sums[i / (counts.size() / parts)] += counts[i];
  return sums;
}

// Rows in blocks of these sizes, the blocks' order changed from [outer][inner] to [inner][outer].
at::Tensor with_blocks_turned(const at::Tensor& rows, const Counts& sizes, std::size_t outer, std::size_t inner) {
  std::vector<at::Tensor> blocks(outer * inner);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < outer; ++i)
    for (std::size_t j = 0; j < inner; ++j) {
      blocks[j * outer + i] = rows.narrow(0, begin, sizes[i * inner + j]);
      begin += sizes[i * inner + j];
    }
  return at::cat(blocks, 0);
}

// What this rank's experts make of the tokens that came from all ranks: sizes[rank][own expert], in that order.
at::Tensor through_own_experts(const MixtureWeights& weights, const TensorGroup& group, const at::Tensor& arrived,
                               const Counts& sizes, const Pass& pass) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::size_t own = sizes.size() / ranks;
  const at::Tensor by_expert = with_blocks_turned(arrived, sizes, ranks, own);
  std::vector<at::Tensor> made;
  Counts turned;
  std::int64_t begin = 0;
  for (std::size_t expert = 0; expert < own; ++expert) {
    std::int64_t count = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      turned.push_back(sizes[rank * own + expert]);
      count += turned.back();
    }
    const std::size_t number = static_cast<std::size_t>(group.rank()) * own + expert;
    made.push_back(through_expert(weights, number, by_expert.narrow(0, begin, count), pass));
    begin += count;
  }
  return with_blocks_turned(at::cat(made, 0), turned, own, ranks);
}

at::Tensor over_ranks(const MixtureWeights& weights, const TensorGroup& group, const std::vector<Chosen>& chosen,
                      const at::Tensor& tokens, const Pass& pass) {
  std::vector<at::Tensor> sent;
  Counts counts;
  for (const Chosen& one : chosen) {
    sent.push_back(tokens.index_select(0, one.tokens));
    counts.push_back(one.tokens.numel());
  }
  const auto ranks = static_cast<std::size_t>(group.size());
  const Counts sizes = counts_from_all(group, counts);
  const Counts to = sums_of_parts(counts, ranks), from = sums_of_parts(sizes, ranks);
  const at::Tensor arrived = exchanged_rows(group, at::cat(sent, 0), to, from);
  const at::Tensor made = through_own_experts(weights, group, arrived, sizes, pass);
  const at::Tensor returned = exchanged_rows(group, made, from, to);
  at::Tensor sum = at::zeros_like(tokens);
  std::int64_t begin = 0;
  for (const Chosen& one : chosen) {
    const std::int64_t count = one.tokens.numel();
    sum = sum.index_add(0, one.tokens, returned.narrow(0, begin, count).mul(one.gates));
    begin += count;
  }
  return sum;
}

}  // namespace

at::Tensor mixture_of(const job::Moe& layer, const MixtureWeights& weights, const at::Tensor& x,
                      const std::optional<TensorGroup>& group, const Pass& pass) {
  const at::Tensor tokens = x.reshape({-1, layer.features});
  const std::vector<Chosen> chosen = routed(layer, weights.router, tokens, pass);
  const at::Tensor sum =
      group ? over_ranks(weights, *group, chosen, tokens, pass) : on_this_rank(weights, chosen, tokens, pass);
  return sum.view(x.sizes());
}

}  // namespace plumbline::training
