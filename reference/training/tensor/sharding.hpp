// reference/training/tensor/sharding.hpp: which part of which parameter a tensor rank holds. Free of LibTorch.
//
// Model   Two linear layers of one stage with nothing but activations between them are cut as a pair: the first by its
//         outputs (column), the second by its inputs (row), so that what lies between stays in parts. Attention may
//         lie between, too, if it has a head for each rank: the pair is cut by heads, and a rank computes its own. Of
//         any other linear layer the outputs are cut and gathered again. Layers whose weight others use, too, those
//         with fewer outputs than there are ranks, and all that is not linear are whole on every rank.
// Parts   Equal, of features or heads, the remainder to the first ranks.
// Source  Shoeybi et al., Megatron-LM, arXiv:1909.08053, section 3.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/record/layout.hpp"

namespace plumbline::training {

enum class LinearForm {
  whole,
  column,    // outputs are cut and stay so
  row,       // inputs come cut; the products are added, then the bias
  gathered,  // outputs are cut, and gathered
};

/// By layer; column for attention of which a rank has its own heads, whole for all else that is not linear, and for all
/// with one tensor rank.
[[nodiscard]] std::vector<LinearForm> linear_forms(const job::RunSpec& spec);

/// By layer: whether a rank has its part of what the layer puts out, of the last dimension; else all of it.
[[nodiscard]] std::vector<bool> puts_out_parts(const job::RunSpec& spec);

/// A part of `count` things.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};
[[nodiscard]] Extent extent_of(std::int64_t count, int parts, int index);

/// A rank's part of a parameter along a dimension; -1: it has all of it. kFlatShard: of its elements, row-major.
inline constexpr int kFlatShard = -2;
struct Shard {
  int dim = -1;
  Extent part{};
};
[[nodiscard]] Shard shard_of(const job::RunSpec& spec, const std::vector<LinearForm>& forms,
                             const job::Parameter& parameter, int tensor_rank);

/// The parameter as that rank's record has it: "0.weight@1" in the shape of the part.
[[nodiscard]] job::Parameter recorded(const job::Parameter& parameter, const Shard& shard);

}  // namespace plumbline::training
