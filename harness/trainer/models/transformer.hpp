// harness/trainer/models/transformer.hpp: a small causal transformer over tokens, with tied embeddings.
//
// Model   Embeddings of tokens and places; blocks of attention and of a perceptron with gelu, each after a layer
//         normalisation and added to what came in; a last normalisation, then the product with the token embeddings.
//         Where the first and the last block lie on different ranks, both have the leaf "token.weight": the gradient of
//         the model is the sum of the two.
// Shapes  In: tokens [rows, length], whole numbers. Out: [rows, tokens, length], classes second, as a cross-entropy
//         takes them beside labels [rows, length].
// Source  Radford et al., Language Models are Unsupervised Multitask Learners, 2019 (GPT-2), with its first values:
//         normal with deviation 0.02, that of the products that are added divided by the root of their number.
#pragma once

#include <cstdint>

#include "harness/trainer/models/blocks.hpp"
#include "harness/trainer/models/tensor_parallel.hpp"

namespace plumbline::training {

struct Transformer {
  std::int64_t tokens = 256;  // different ones
  std::int64_t length = 64;   // the longest row
  std::int64_t width = 64;
  std::int64_t heads = 4;
  int layers = 2;
};

/// The name under which first and last block share the token embeddings.
inline constexpr const char* kSharedEmbedding = "token.weight";

/// One block, [rows, length, width] to the same, its heads and hidden values cut over the products' group.
[[nodiscard]] Layer transformer_block(Products& products, const std::string& name, const Transformer& settings);

/// layers + 2 blocks. Throws InvalidArgument for a size below 1, and for heads that do not divide the width.
[[nodiscard]] Blocks transformer(const Transformer& settings);

}  // namespace plumbline::training
