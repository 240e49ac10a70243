// conformance/training/attention_faults.hpp: what faults that programs have had make of an attention layer's output.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reference/record/layout.hpp"

namespace plumbline::conformance {

/// How attention is computed, where it is not as it must be.
struct Attending {
  bool is_causal = true;       // a token sees itself and those before it
  double scale = 0;            // of query times key; 0: 1 / sqrt(features of a head)
  bool is_split = true;        // into heads, each with a softmax of its own
  bool is_interleaved = true;  // query, key and value of a head lie one after the other; else those of all heads do
  bool is_transposed = true;   // outputs are put back token by token; else they stay head by head
};

/// The output [rows, tokens, features] of causal self-attention for an input [rows, tokens, 3 x features], row-major.
[[nodiscard]] std::vector<double> attention_of(const std::vector<double>& input, const job::Shape& shape,
                                               std::int64_t heads, const Attending& way = {});

/// Such outputs by common faults, each with words for it. Nothing where the input has another number of dimensions.
[[nodiscard]] std::vector<std::pair<std::string, std::vector<double>>> wrong_attentions(
    const std::vector<double>& input, const job::Shape& shape, std::int64_t heads);

}  // namespace plumbline::conformance
